//! Whose requests are forwarded: the decision.

use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature;
use http::StatusCode;
use sluice_shared::names;

use crate::signature::SignatureError;

/// A key as far as it may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    /// Public half.
    pub(crate) id: &'a str,
    /// Whether a session token goes with it.
    pub(crate) has_token: bool,
}

impl Key<'_> {
    fn is_session(self) -> bool {
        self.has_token && self.id.starts_with("ASIA")
    }
}

/// Whether these credentials were made for this process by a service that makes others for every
/// process that asks: a token service or a service on the node. Two containers of one pod then
/// hold different keys of one role. Keys that stand in the environment or in a file are the same
/// for both.
#[must_use]
pub fn is_of_a_role(credentials: &Credentials) -> bool {
    let is_made = |source: &AwsCredentialFeature| match source {
        // A profile that names a role: the library notes the profile alone, but what stands in a
        // file has no end.
        AwsCredentialFeature::CredentialsProfile => credentials.expiry().is_some(),
        _ => matches!(
            source,
            AwsCredentialFeature::CredentialsEnvVarsStsWebIdToken
                | AwsCredentialFeature::CredentialsProfileStsWebIdToken
                | AwsCredentialFeature::CredentialsStsAssumeRoleWebId
                | AwsCredentialFeature::CredentialsStsAssumeRole
                | AwsCredentialFeature::CredentialsHttp
                | AwsCredentialFeature::CredentialsImds
        ),
    };
    let sources = credentials.get_property::<Vec<AwsCredentialFeature>>();
    sources.is_some_and(|sources| sources.iter().any(is_made))
}

/// The account that a key id names, as a number: ids made since 2019 hold it in their base32 part
/// (what `sts:GetAccessKeyInfo` tells). `None` for older ids and for what is none.
pub(crate) fn account_of(key_id: &str) -> Option<u64> {
    let part = key_id.get(4..).filter(|part| part.len() == 16)?;
    let mut bits: u64 = 0;
    // The first 50 of 80 bits; the account is in the first 48.
    for c in part.bytes().take(10) {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'2'..=b'7' => c - b'2' + 26,
            _ => return None,
        };
        bits = bits << 5 | u64::from(digit);
    }
    let first = bits >> 2;
    let is_new = first >> 47 == 1;
    is_new.then_some((first & 0x7fff_ffff_ff80) >> 7)
}

/// The decision about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The signature is that of our own key.
    Verified,
    /// Another session key, where ours is that of a role: taken for one of the same role.
    SameSource,
    /// Not forwarded.
    Refused(Refusal),
}

/// Why a request is not forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No signature at all.
    Unsigned,
    /// A signature that cannot be read.
    Malformed(String),
    /// Our key id, another signature.
    WrongSignature(String),
    /// Another key id.
    OtherPrincipal {
        /// Key id of the caller.
        caller: String,
        /// Key id of the sidecar.
        own: String,
    },
    /// A session key of another account than ours.
    OtherAccount {
        /// Key id and account of the caller.
        caller: (String, u64),
        /// Key id and account of the sidecar.
        own: (String, u64),
    },
}

impl Refusal {
    /// Status, kind and message of the answer.
    #[must_use]
    pub(crate) fn answer(&self) -> (StatusCode, &'static str, String) {
        let (kind, message) = match self {
            Self::Unsigned => (
                "MissingAuthenticationTokenException",
                "Missing Authentication Token: the Sluice sidecar forwards signed requests only."
                    .to_owned(),
            ),
            Self::Malformed(what) => (
                "IncompleteSignatureException",
                format!("The Sluice sidecar cannot read the signature: {what}."),
            ),
            Self::WrongSignature(what) => (
                "InvalidSignatureException",
                format!(
                    "The request signature we calculated does not match the signature you \
                     provided. Check your AWS Secret Access Key and signing method. (Sluice \
                     sidecar: {what}.)"
                ),
            ),
            Self::OtherPrincipal { caller, own } => (
                "AccessDeniedException",
                format!(
                    "The program signs with the key {caller}, the Sluice sidecar holds the key \
                     {own}; it forwards only requests of its own principal. Give the qpu container \
                     its credentials by environment, so that both have the same, or set the \
                     annotation {}: announce (discovery: announce) and tell the sidecar the task id.",
                    names::DISCOVERY
                ),
            ),
            Self::OtherAccount { caller, own } => (
                "AccessDeniedException",
                format!(
                    "The program signs with the key {} of account {:012}, the Sluice sidecar holds \
                     the key {} of account {:012}: the program has taken on a role that the pod \
                     does not have by itself. Set the annotation {}: announce (discovery: \
                     announce) and tell the sidecar the task id.",
                    caller.0,
                    caller.1,
                    own.0,
                    own.1,
                    names::DISCOVERY
                ),
            ),
        };
        (StatusCode::FORBIDDEN, kind, message)
    }
}

impl From<SignatureError> for Refusal {
    fn from(error: SignatureError) -> Self {
        match error {
            SignatureError::Missing => Self::Unsigned,
            SignatureError::Malformed(what) => Self::Malformed(what),
            SignatureError::Body(what) => Self::WrongSignature(what),
        }
    }
}

/// Decides whose request it is. `verifies` is asked only where the key id is our own.
///
/// `of_a_role`: our own credentials are those of a role source ([`is_of_a_role`]), so that the
/// program has others of the same role and its signature cannot be checked.
pub(crate) fn judge(
    caller: Key<'_>,
    own: Key<'_>,
    of_a_role: bool,
    verifies: impl FnOnce() -> Result<bool, SignatureError>,
) -> Verdict {
    if caller.id == own.id {
        return match verifies() {
            Ok(true) => Verdict::Verified,
            Ok(false) => Verdict::Refused(Refusal::WrongSignature(format!(
                "the key id {} is right, the secret or the signed request is not",
                own.id
            ))),
            Err(error) => Verdict::Refused(error.into()),
        };
    }
    if of_a_role && caller.is_session() && own.is_session() {
        return match (account_of(caller.id), account_of(own.id)) {
            (Some(theirs), Some(ours)) if theirs != ours => {
                Verdict::Refused(Refusal::OtherAccount {
                    caller: (caller.id.to_owned(), theirs),
                    own: (own.id.to_owned(), ours),
                })
            }
            _ => Verdict::SameSource,
        };
    }
    Verdict::Refused(Refusal::OtherPrincipal {
        caller: caller.id.to_owned(),
        own: own.id.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, has_token: bool) -> Key<'_> {
        Key { id, has_token }
    }

    #[test]
    fn table() {
        let session = |id| key(id, true);
        let user = |id| key(id, false);
        // The published example of a key id, one of the same account and one of another.
        let (ours, same, foreign) =
            ("ASIAQNZGKIQY56JQ7WML", "ASIAQNZGKIQYXXXXXXXX", "ASIAQNZHKIQY56JQ7WML");
        for (name, caller, own, of_a_role, verifies, expected) in [
            ("own", user("AKIA1"), user("AKIA1"), false, true, "verified"),
            ("junk signature", user("AKIA1"), user("AKIA1"), false, false, "wrong"),
            ("junk, role", session("ASIA1"), session("ASIA1"), true, false, "wrong"),
            ("other", user("AKIA2"), user("AKIA1"), false, true, "other"),
            ("other user, role", user("AKIA2"), session("ASIA1"), true, true, "other"),
            ("other session, no role", session("ASIA2"), session("ASIA1"), false, true, "other"),
            ("other session, role", session("ASIA2"), session("ASIA1"), true, true, "same"),
            ("same account", session(same), session(ours), true, true, "same"),
            ("other account", session(foreign), session(ours), true, true, "account"),
            ("account unknown", session("ASIA2"), session(ours), true, true, "same"),
            ("no token", user("ASIA2"), session("ASIA1"), true, true, "other"),
            ("own has none", session("ASIA2"), user("AKIA1"), true, true, "other"),
            ("token, not a session", session("AKIA2"), session("ASIA1"), true, true, "other"),
        ] {
            let found = match judge(caller, own, of_a_role, || Ok(verifies)) {
                Verdict::Verified => "verified",
                Verdict::SameSource => "same",
                Verdict::Refused(Refusal::WrongSignature(_)) => "wrong",
                Verdict::Refused(Refusal::OtherPrincipal { .. }) => "other",
                Verdict::Refused(Refusal::OtherAccount { .. }) => "account",
                Verdict::Refused(_) => "else",
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn the_account_of_a_key_id() {
        for (id, expected) in [
            ("ASIAQNZGKIQY56JQ7WML", Some(29_608_264_753)),
            // Of before 2019: no account in it.
            ("AKIAIOSFODNN7EXAMPLE", None),
            ("AKIDEXAMPLE", None),
            ("ASIAqnzgkiqy56jq7wml", None),
            ("", None),
        ] {
            assert_eq!(account_of(id), expected, "{id}");
        }
    }

    #[test]
    fn only_what_each_process_gets_for_itself_is_of_a_role() {
        use AwsCredentialFeature::{
            CredentialsEnvVars, CredentialsHttp, CredentialsProfile, CredentialsStsAssumeRole,
        };
        let with = |sources: &[AwsCredentialFeature]| {
            let mut made = Credentials::new("ASIA1", "s", Some("t".into()), None, "test");
            made.set_property(sources.to_vec());
            made
        };
        assert!(is_of_a_role(&with(&[CredentialsHttp])));
        assert!(is_of_a_role(&with(&[CredentialsStsAssumeRole, CredentialsProfile])));
        assert!(!is_of_a_role(&with(&[CredentialsEnvVars])));
        let mut of_profile = with(&[CredentialsProfile]);
        assert!(!is_of_a_role(&of_profile));
        *of_profile.expiry_mut() = Some(std::time::SystemTime::UNIX_EPOCH);
        assert!(is_of_a_role(&of_profile), "a role of the profile");
        assert!(!is_of_a_role(&Credentials::new("ASIA1", "s", Some("t".into()), None, "test")));
    }

    #[test]
    fn the_refusal_names_both_keys_and_the_way_out() {
        let principal =
            Refusal::OtherPrincipal { caller: "AKIACALLER".into(), own: "AKIAOWN".into() };
        let account = Refusal::OtherAccount {
            caller: ("ASIACALLER".into(), 7),
            own: ("ASIAOWN".into(), 123_456_789_012),
        };
        for (refusal, parts) in [
            (principal, ["AKIACALLER", "AKIAOWN", "discovery: announce"]),
            (account, ["ASIACALLER of account 000000000007", "123456789012", "announce"]),
        ] {
            let (status, kind, message) = refusal.answer();
            assert_eq!((status.as_u16(), kind), (403, "AccessDeniedException"));
            for part in parts {
                assert!(message.contains(part), "{message}");
            }
        }
    }
}

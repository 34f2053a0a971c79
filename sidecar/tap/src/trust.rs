//! Whose requests are forwarded: the decision.

use http::StatusCode;
use sluice_shared::names;

use crate::signature::SignatureError;

/// Whose requests the tap signs again. The caller of the crate chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Only requests whose signature the tap can compute itself.
    #[default]
    VerifiedOnly,
    /// Also requests signed with other session keys, where both sides hold session keys that the
    /// pod got from the same role. The tap cannot check such a signature.
    SameRoleSource,
}

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

/// The decision about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The signature is that of our own key.
    Verified,
    /// Another session key of the same role source.
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
pub(crate) fn judge(
    caller: Key<'_>,
    own: Key<'_>,
    trust: Trust,
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
    if trust == Trust::SameRoleSource && caller.is_session() && own.is_session() {
        return Verdict::SameSource;
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
        use Trust::{SameRoleSource, VerifiedOnly};
        let session = |id| key(id, true);
        let user = |id| key(id, false);
        for (name, caller, own, trust, verifies, expected) in [
            ("own", user("AKIA1"), user("AKIA1"), VerifiedOnly, true, "verified"),
            ("junk signature", user("AKIA1"), user("AKIA1"), VerifiedOnly, false, "wrong"),
            ("junk, trusting", session("ASIA1"), session("ASIA1"), SameRoleSource, false, "wrong"),
            ("other", user("AKIA2"), user("AKIA1"), VerifiedOnly, true, "other"),
            ("other user, trusting", user("AKIA2"), user("AKIA1"), SameRoleSource, true, "other"),
            ("other session", session("ASIA2"), session("ASIA1"), VerifiedOnly, true, "other"),
            ("same source", session("ASIA2"), session("ASIA1"), SameRoleSource, true, "same"),
            ("no token", user("ASIA2"), session("ASIA1"), SameRoleSource, true, "other"),
            ("own has none", session("ASIA2"), user("AKIA1"), SameRoleSource, true, "other"),
            (
                "token, not a session",
                session("AKIA2"),
                session("ASIA1"),
                SameRoleSource,
                true,
                "other",
            ),
        ] {
            let found = match judge(caller, own, trust, || Ok(verifies)) {
                Verdict::Verified => "verified",
                Verdict::SameSource => "same",
                Verdict::Refused(Refusal::WrongSignature(_)) => "wrong",
                Verdict::Refused(Refusal::OtherPrincipal { .. }) => "other",
                Verdict::Refused(_) => "else",
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn the_refusal_names_both_keys_and_the_way_out() {
        let refusal =
            Refusal::OtherPrincipal { caller: "AKIACALLER".into(), own: "AKIAOWN".into() };
        let (status, kind, message) = refusal.answer();
        assert_eq!((status.as_u16(), kind), (403, "AccessDeniedException"));
        for part in ["AKIACALLER", "AKIAOWN", "discovery: announce"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

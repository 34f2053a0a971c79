//! Temporary credentials of roles: what token services and services on a node hand out. Everybody
//! who asks gets keys of their own.

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::identity::{Principal, Principals};

/// Digits of base32.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// One session of a role.
#[derive(Debug, Clone)]
pub struct Session {
    /// Public half of the key.
    pub key: String,
    /// Secret half.
    pub secret: SecretString,
    /// The token that goes with every request.
    pub token: SecretString,
    /// When it ends.
    pub end: Timestamp,
}

/// The role whose keys the container credentials service hands out, as the agents of EKS Pod
/// Identity and ECS do (`AWS_CONTAINER_CREDENTIALS_FULL_URI`).
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ContainerRole {
    /// What the caller has to send as `Authorization`.
    pub authorization: SecretString,
    /// Account of the role.
    pub account: String,
    /// Its name.
    pub role: String,
    /// How long keys last, seconds.
    pub seconds: i64,
}

impl Default for ContainerRole {
    fn default() -> Self {
        Self {
            authorization: SecretString::from("container-token"),
            account: "123456789012".to_owned(),
            role: "pod".to_owned(),
            seconds: 3_600,
        }
    }
}

/// Makes a session of a role and lets it in.
pub(crate) fn make(
    principals: &mut Principals,
    (account, role, name): (&str, &str, &str),
    seconds: i64,
    now: Timestamp,
) -> Session {
    let random = || SecretString::from(Uuid::new_v4().simple().to_string());
    let session = Session {
        key: key_id(account),
        secret: random(),
        token: random(),
        end: now + SignedDuration::from_secs(seconds),
    };
    let secret = session.secret.expose_secret();
    let mut principal = Principal::user(&session.key, secret, account, "")
        .with_session(session.token.expose_secret(), Some(session.end));
    principal.name = format!("assumed-role/{role}/{name}");
    principals.insert(principal);
    session
}

/// A new key id of a temporary key. As in the vendor's ids, the account stands in its first 48
/// bits: a one, 40 bits of account, and chance.
fn key_id(account: &str) -> String {
    let chance = Uuid::new_v4().as_u128();
    let account: u128 = account.parse().unwrap_or_default();
    let bits = 1 << 79 | account << 39 | chance & ((1 << 39) - 1);
    let digit = |place: u32| {
        let index = usize::try_from(bits >> (5 * place) & 31).unwrap_or_default();
        char::from(BASE32[index])
    };
    (0..16).rev().map(digit).fold("ASIA".to_owned(), |mut id, digit| {
        id.push(digit);
        id
    })
}

/// The answer of the container credentials service; `None` where the caller may not have it.
pub(crate) fn for_container(
    principals: &mut Principals,
    role: &ContainerRole,
    authorization: Option<&str>,
    now: Timestamp,
) -> Option<String> {
    if authorization != Some(role.authorization.expose_secret()) {
        return None;
    }
    let named = (role.account.as_str(), role.role.as_str(), "container");
    let made = make(principals, named, role.seconds, now);
    let answer = json!({
        "AccessKeyId": made.key,
        "SecretAccessKey": made.secret.expose_secret(),
        "Token": made.token.expose_secret(),
        "Expiration": format!("{:.0}", made.end),
        "RoleArn": format!("arn:aws:iam::{}:role/{}", role.account, role.role),
    });
    Some(answer.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_ids_hold_the_account_and_differ() {
        let ids: Vec<_> = (0..2).map(|_| key_id("029608264753")).collect();
        // The first 40 bits of the published example, ASIAQNZGKIQY56JQ7WML.
        assert!(ids.iter().all(|id| id.starts_with("ASIAQNZGKIQ") && id.len() == 20), "{ids:?}");
        assert_ne!(ids[0], ids[1]);
    }

    #[test]
    fn only_who_has_the_token_gets_keys_and_each_gets_others() {
        let mut principals = Principals::default();
        let role = ContainerRole::default();
        let mut ask = |token: Option<&str>| {
            for_container(&mut principals, &role, token, Timestamp::UNIX_EPOCH)
        };
        assert_eq!((ask(None), ask(Some("other"))), (None, None));
        let (first, second) = (ask(Some("container-token")), ask(Some("container-token")));
        assert!(first.is_some() && first != second);
        let read: serde_json::Value = serde_json::from_str(&first.unwrap()).unwrap();
        assert_eq!(read["Expiration"], "1970-01-01T01:00:00Z");
        let known = principals.get(read["AccessKeyId"].as_str().unwrap()).unwrap();
        assert_eq!(known.arn(), "arn:aws:sts::123456789012:assumed-role/pod/container");
    }
}

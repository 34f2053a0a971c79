//! Who may call: accounts, their access keys, and what a principal is denied.

use std::collections::BTreeMap;

use jiff::Timestamp;
use secrecy::SecretString;
use serde::Deserialize;

/// One set of credentials. An account may have several.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Principal {
    /// Public half of the key.
    pub access_key_id: String,
    /// Secret half of the key.
    pub secret_access_key: SecretString,
    /// Present on temporary credentials; then every request must carry it.
    #[serde(default)]
    pub session_token: Option<SecretString>,
    /// When temporary credentials end.
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// Twelve digits.
    pub account: String,
    /// What follows `arn:aws:iam::<account>:`, such as `user/alice`.
    pub name: String,
    /// Denied actions, such as `braket:CreateQuantumTask`, `braket:*` or `*`.
    #[serde(default)]
    pub deny: Vec<String>,
}

impl Principal {
    /// A user with a long-lived key and every right.
    #[must_use]
    pub fn user(access_key_id: &str, secret: &str, account: &str, name: &str) -> Self {
        Self {
            access_key_id: access_key_id.to_owned(),
            secret_access_key: SecretString::from(secret.to_owned()),
            session_token: None,
            expires: None,
            account: account.to_owned(),
            name: format!("user/{name}"),
            deny: Vec::new(),
        }
    }

    /// The same with a session token, and an end if one is given.
    #[must_use]
    pub fn with_session(mut self, token: &str, expires: Option<Timestamp>) -> Self {
        self.session_token = Some(SecretString::from(token.to_owned()));
        self.expires = expires;
        self
    }

    /// The same without the rights that match the patterns.
    #[must_use]
    pub fn denied(mut self, patterns: &[&str]) -> Self {
        self.deny.extend(patterns.iter().map(|pattern| (*pattern).to_owned()));
        self
    }

    /// The principal's ARN.
    #[must_use]
    pub fn arn(&self) -> String {
        let service = if self.name.starts_with("assumed-role/") { "sts" } else { "iam" };
        format!("arn:aws:{service}::{}:{}", self.account, self.name)
    }

    /// Whether an action such as `braket:GetDevice` is allowed.
    #[must_use]
    pub fn may(&self, action: &str) -> bool {
        !self.deny.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => action.starts_with(prefix),
            None => action == pattern,
        })
    }
}

/// All principals by access key id.
#[derive(Debug, Clone, Default)]
pub struct Principals(BTreeMap<String, Principal>);

impl Principals {
    /// Collects principals; of two with one key id the later one counts.
    #[must_use]
    pub fn new(principals: impl IntoIterator<Item = Principal>) -> Self {
        Self(
            principals
                .into_iter()
                .map(|principal| (principal.access_key_id.clone(), principal))
                .collect(),
        )
    }

    /// Adds or replaces one.
    pub fn insert(&mut self, principal: Principal) {
        self.0.insert(principal.access_key_id.clone(), principal);
    }

    /// Looks one up by access key id.
    #[must_use]
    pub fn get(&self, access_key_id: &str) -> Option<&Principal> {
        self.0.get(access_key_id)
    }

    /// Ends temporary credentials now.
    pub fn expire(&mut self, access_key_id: &str, now: Timestamp) -> bool {
        self.0.get_mut(access_key_id).is_some_and(|principal| {
            principal.expires = Some(now);
            true
        })
    }

    /// Whether any principal belongs to the account.
    #[must_use]
    pub fn knows_account(&self, account: &str) -> bool {
        self.0.values().any(|principal| principal.account == account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deny_patterns_match_whole_names_or_prefixes() {
        let user = Principal::user("K", "s", "1", "u").denied(&["braket:Create*", "s3:GetObject"]);
        let may = ["braket:CreateQuantumTask", "braket:GetDevice", "s3:GetObject", "s3:GetObjectX"]
            .map(|action| user.may(action));
        assert_eq!(may, [false, true, false, true]);
        assert!(!Principal::user("K", "s", "1", "u").denied(&["*"]).may("sts:Anything"));
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let user = Principal::user("K", "hush-key", "1", "u").with_session("hush-token", None);
        assert!(!format!("{user:?}").contains("hush"));
    }
}

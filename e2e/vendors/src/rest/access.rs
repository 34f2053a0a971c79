//! Who may call the vendors of QRMI: keys of accounts, and the access tokens that they buy.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// An account with its key. The key is the API token of IQM, the API key of IBM Cloud, the client
/// secret of Pasqal Cloud (with the account as client id), and the password of Felis.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: SecretString,
}

impl Account {
    /// An account.
    #[must_use]
    pub fn new(name: &str, key: &str) -> Self {
        Self { name: name.to_owned(), key: SecretString::from(key.to_owned()) }
    }
}

/// Accounts of the default configuration; of no use anywhere else.
#[must_use]
pub fn accounts() -> Vec<Account> {
    vec![Account::new("team", "team-key"), Account::new("other", "other-key")]
}

/// An access token that has just been made.
#[derive(Debug)]
pub(crate) struct Token {
    /// A JSON web token.
    pub(crate) text: String,
    /// When it ends.
    pub(crate) end: Timestamp,
    /// How long it lasts, seconds.
    pub(crate) seconds: i64,
}

/// All keys and tokens.
#[derive(Debug)]
pub(crate) struct Access {
    accounts: Vec<Account>,
    tokens: HashMap<String, (String, Timestamp)>,
    seconds: i64,
}

impl Access {
    /// Accounts without tokens; each token will last some seconds.
    pub(crate) fn new(accounts: Vec<Account>, seconds: i64) -> Self {
        Self { accounts, tokens: HashMap::new(), seconds }
    }

    /// The account of a key.
    pub(crate) fn of_key(&self, key: &str) -> Option<&str> {
        let fits = |account: &&Account| account.key.expose_secret() == key;
        self.accounts.iter().find(fits).map(|account| account.name.as_str())
    }

    /// The account of a name and its key.
    pub(crate) fn of_pair(&self, name: &str, key: &str) -> Option<&str> {
        self.of_key(key).filter(|account| *account == name)
    }

    /// The account of the value of `Authorization: Basic`.
    pub(crate) fn of_basic(&self, text: &str) -> Option<&str> {
        let fits = |account: &&Account| {
            base64(format!("{}:{}", account.name, account.key.expose_secret()).as_bytes()) == text
        };
        self.accounts.iter().find(fits).map(|account| account.name.as_str())
    }

    /// The account of an access token that has not ended.
    pub(crate) fn of_token(&self, token: &str, now: Timestamp) -> Option<&str> {
        let (account, end) = self.tokens.get(token)?;
        (*end > now).then_some(account.as_str())
    }

    /// Makes an access token of an account.
    pub(crate) fn issue(&mut self, account: &str, now: Timestamp) -> Token {
        let end = now + SignedDuration::from_secs(self.seconds);
        let head = json!({ "alg": "HS256", "typ": "JWT" });
        let claims = json!({
            "sub": account, "iat": now.as_second(), "exp": end.as_second(),
            "jti": Uuid::new_v4().to_string(),
        });
        let parts = [head.to_string(), claims.to_string(), Uuid::new_v4().to_string()];
        let text = parts.map(|part| base64url(part.as_bytes())).join(".");
        self.tokens.insert(text.clone(), (account.to_owned(), end));
        Token { text, end, seconds: self.seconds }
    }

    /// Ends every access token now, as a vendor does that loses its sessions.
    pub(crate) fn end_tokens(&mut self) {
        self.tokens.clear();
    }

    /// Gives an account its key, or another one.
    pub(crate) fn allow(&mut self, account: Account) {
        self.accounts.retain(|known| known.name != account.name);
        self.accounts.push(account);
    }

    /// Takes the key of an account away; what it bought ends too.
    pub(crate) fn revoke(&mut self, account: &str) -> bool {
        let before = self.accounts.len();
        self.accounts.retain(|known| known.name != account);
        self.tokens.retain(|_, (owner, _)| owner != account);
        self.accounts.len() < before
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 with the alphabet of URLs and without padding.
#[must_use]
pub(crate) fn base64url(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let index = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or_default();
            text.push(char::from(DIGITS[index]));
        }
    }
    text
}

/// Base64 with the ordinary alphabet and padding.
#[must_use]
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = base64url(bytes).replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_796_000_000 + seconds).unwrap()
    }

    #[test]
    fn base64_of_every_length() {
        let told = ["", "f", "fo", "foo", "foob"].map(|text| base64url(text.as_bytes()));
        assert_eq!(told, ["", "Zg", "Zm8", "Zm9v", "Zm9vYg"]);
        assert_eq!(base64url(&[0xff, 0xef, 0xbe]), "_---");
    }

    #[test]
    fn tokens_last_as_long_as_they_say_and_keys_can_be_taken_away() {
        let mut access = Access::new(accounts(), 60);
        assert_eq!((access.of_key("team-key"), access.of_key("x")), (Some("team"), None));
        assert_eq!(access.of_pair("other", "team-key"), None);
        assert_eq!(access.of_basic("dGVhbTp0ZWFtLWtleQ=="), Some("team"));
        let token = access.issue("team", at(0));
        assert_eq!(token.text.split('.').count(), 3);
        assert_eq!(access.of_token(&token.text, at(59)), Some("team"));
        assert_eq!(access.of_token(&token.text, at(60)), None);
        assert!(access.revoke("team") && !access.revoke("team"));
        assert_eq!((access.of_token(&token.text, at(0)), access.of_key("team-key")), (None, None));
        access.allow(Account::new("team", "team-key"));
        assert_eq!(access.of_key("team-key"), Some("team"));
    }
}

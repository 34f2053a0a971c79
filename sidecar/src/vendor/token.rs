//! The right with which the sidecar asks a resource: from the environment that it shares with the
//! program, else the one with which the program signed in last.

use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, USER_AGENT};
use secrecy::{ExposeSecret, SecretString};
use sluice_dialect::{Answer, Dialect, SignIn, TokenCall};
use sluice_shared::resource::Resource;
use sluice_tap::Rights;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::rest::{CALL, OURSELVES, broken, failure_of};
use super::{Failure, FailureKind};

/// A token is renewed when less than this part of its life is left, and never less than
/// [`LEAST_LEFT`] before its end, unless it lives for a moment only.
const LEFT: u32 = 5;
/// See [`LEFT`].
const LEAST_LEFT: Duration = Duration::from_mins(1);
/// Lifetime of a token whose vendor does not tell it.
const UNTOLD: Duration = Duration::from_mins(30);
/// A token that the vendor refuses is dropped at most so often: a right that is missing is not
/// cured by another token.
const DROPS: Duration = Duration::from_mins(1);

/// How the sidecar signs in at one resource.
pub(super) struct Access {
    resource: Resource,
    dialect: &'static dyn Dialect,
    sign_in: SignIn,
    rights: Rights,
    held: Mutex<Option<Held>>,
    /// When a token was last dropped because it was refused.
    dropped: std::sync::Mutex<Option<Instant>>,
}

struct Held {
    token: SecretString,
    bought: Instant,
    lifetime: Duration,
}

impl Held {
    /// Whether it is time for another one.
    fn is_old(&self, now: Instant) -> bool {
        let margin = (self.lifetime / LEFT).max(LEAST_LEFT).min(self.lifetime / 2);
        now >= self.bought + self.lifetime.saturating_sub(margin)
    }

    fn has_ended(&self, now: Instant) -> bool {
        now >= self.bought + self.lifetime
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({}, {:?})", self.resource, self.sign_in)
    }
}

impl Access {
    pub(super) fn new(
        resource: Resource,
        dialect: &'static dyn Dialect,
        sign_in: SignIn,
        rights: Rights,
    ) -> Self {
        Self {
            resource,
            dialect,
            sign_in,
            rights,
            held: Mutex::default(),
            dropped: std::sync::Mutex::default(),
        }
    }

    /// The headers of a call. A token is bought by one caller at a time; the others wait for it.
    pub(super) async fn headers(&self, http: &reqwest::Client) -> Result<HeaderMap, Failure> {
        match &self.sign_in {
            SignIn::Fixed(fixed) => Ok(headers_of(fixed)),
            SignIn::Nothing { wanted } => self.borrowed(wanted),
            SignIn::Token(call) => {
                let mut held = self.held.lock().await;
                let now = Instant::now();
                if held.as_ref().is_none_or(|held| held.is_old(now)) {
                    match self.buy(http, call).await {
                        Ok(new) => *held = Some(new),
                        // The old one does as long as it holds.
                        Err(_) if held.as_ref().is_some_and(|held| !held.has_ended(now)) => {}
                        Err(failure) => return Err(failure),
                    }
                }
                let mut headers = headers_of(&call.beside);
                if let Some(held) = held.as_ref() {
                    let text = format!("Bearer {}", held.token.expose_secret());
                    put(&mut headers, AUTHORIZATION, &text);
                }
                Ok(headers)
            }
        }
    }

    /// The vendor refused the token: whether another one is worth a try. The next call buys it.
    pub(super) async fn refused(&self) -> bool {
        if !matches!(self.sign_in, SignIn::Token(_)) {
            return false;
        }
        let now = Instant::now();
        {
            let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
            if dropped.is_some_and(|last| now < last + DROPS) {
                return false;
            }
            *dropped = Some(now);
        }
        *self.held.lock().await = None;
        true
    }

    /// Where the right comes from, for people.
    pub(super) fn source(&self) -> String {
        match &self.sign_in {
            SignIn::Nothing { wanted } => {
                format!("the program's own; or set {}", self.named(wanted))
            }
            SignIn::Fixed(_) | SignIn::Token(_) => {
                format!("the variables of resource {}", self.resource)
            }
        }
    }

    fn named(&self, wanted: &str) -> String {
        match self.resource.name.as_str() {
            "" => wanted.to_owned(),
            name => wanted.replace("QRMI_", &format!("{name}_QRMI_")),
        }
    }

    fn borrowed(&self, wanted: &str) -> Result<HeaderMap, Failure> {
        let seen = self.rights.of(&self.resource);
        if seen.is_empty() {
            return Err(Failure {
                kind: FailureKind::NoCredentials,
                message: format!(
                    "the environment has no credentials for {}: set {}",
                    self.resource,
                    self.named(wanted)
                ),
                retry_after: None,
            });
        }
        let mut headers = HeaderMap::new();
        for (name, value) in seen {
            put(&mut headers, name, value.expose_secret());
        }
        Ok(headers)
    }

    async fn buy(&self, http: &reqwest::Client, call: &TokenCall) -> Result<Held, Failure> {
        let fields: Vec<_> =
            call.fields.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
        let request = http.post(&call.url).header(USER_AGENT, OURSELVES);
        let request = if call.json {
            let fields: serde_json::Map<_, _> =
                fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            request.json(&fields)
        } else {
            request.form(&fields)
        };
        let bought = Instant::now();
        let answer = request.timeout(CALL).send().await.map_err(|error| broken(&error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer.bytes().await.map_err(|error| broken(&error))?;
        let said = Answer { status, body: &body };
        let Some(token) = self.dialect.token(said) else {
            let mut failure = failure_of(self.dialect, said, &headers);
            // A token service names a refused key with 400.
            if status.is_client_error() && failure.kind != FailureKind::Throttled {
                failure.kind = FailureKind::Denied;
            }
            failure.message = format!(
                "the token service of {} answers {}; check {}",
                self.resource,
                failure.message,
                self.source()
            );
            return Err(failure);
        };
        Ok(Held { token: token.text, bought, lifetime: token.lifetime.unwrap_or(UNTOLD) })
    }
}

fn headers_of(pairs: &[(&'static str, SecretString)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        put(&mut headers, HeaderName::from_static(name), value.expose_secret());
    }
    headers
}

/// A value that no header can have is left out: the vendor says then what is missing.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(mut value) = HeaderValue::from_str(value) {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_its_end_and_not_all_the_time() {
        let now = Instant::now();
        let held = |lifetime, age| {
            let held = Held {
                token: "t".into(),
                bought: now - Duration::from_secs(age),
                lifetime: Duration::from_secs(lifetime),
            };
            (held.is_old(now), held.has_ended(now))
        };
        for (lifetime, age, expected) in [
            (3_600, 0, (false, false)),
            (3_600, 2_879, (false, false)),
            (3_600, 2_880, (true, false)),
            (3_600, 3_600, (true, true)),
            // A minute before the end, where a fifth is less.
            (200, 139, (false, false)),
            (200, 140, (true, false)),
            // One that lives for a moment is used for half of it.
            (20, 9, (false, false)),
            (20, 10, (true, false)),
        ] {
            assert_eq!(held(lifetime, age), expected, "{lifetime} s, {age} s old");
        }
    }
}

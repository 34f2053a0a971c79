//! The sidecar's own credentials: kept while they are good, asked for again in time.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Temporary credentials are renewed that long before their end.
const MARGIN: Duration = Duration::from_mins(5);
/// Credentials without an end are read again after this time: their file may have changed.
const LASTING: Duration = Duration::from_mins(1);
/// The source is asked at most once in this time, whatever keys callers use.
const PAUSE: Duration = Duration::from_secs(5);

/// There is nothing to sign with.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the sidecar has no AWS credentials: {message}")]
pub(crate) struct NoCredentials {
    message: String,
    /// Whether waiting may help: the source exists and does not answer now.
    pub(crate) is_passing: bool,
}

/// Credentials with a memory of the ones before, because a program may go on with those.
#[derive(Debug)]
pub(crate) struct Keys {
    provider: SharedCredentialsProvider,
    limit: Duration,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    current: Option<Credentials>,
    previous: Option<Credentials>,
    asked: Option<Instant>,
    /// The vendor says that `current` are not good any more.
    refused: bool,
}

/// Codes by which the vendor says that the keys themselves are not good, whatever they may do.
const REFUSED: [&str; 4] =
    ["ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId", "InvalidToken"];

/// Whether an error code of the vendor says that the keys have ended. The region or version that
/// some services append does not matter.
pub(crate) fn says_ended(code: &str) -> bool {
    REFUSED.iter().any(|known| code.starts_with(known))
}

impl Keys {
    /// `limit`: time for one question to the source.
    pub(crate) fn new(provider: SharedCredentialsProvider, limit: Duration) -> Self {
        Self { provider, limit, held: Mutex::default() }
    }

    /// Credentials to sign with.
    pub(crate) async fn current(&self) -> Result<Credentials, NoCredentials> {
        self.held.lock().await.fresh(&self.provider, self.limit, None).await
    }

    /// The vendor does not take the credentials with this key id any more: the source is asked
    /// again, at most once in a few seconds.
    pub(crate) async fn refused(&self, key_id: &str) {
        let mut held = self.held.lock().await;
        if held.current.as_ref().is_some_and(|current| current.access_key_id() == key_id) {
            held.refused = true;
        }
    }

    /// Credentials to check a caller's signature with: those with the caller's key id if there
    /// are such, else the current ones.
    pub(crate) async fn like(&self, key_id: &str) -> Result<Credentials, NoCredentials> {
        let mut held = self.held.lock().await;
        let current = match held.fresh(&self.provider, self.limit, Some(key_id)).await {
            Ok(current) => current,
            // Nothing can be signed now, but whose request it is can still be told.
            Err(error) => {
                let ended = held.current.as_ref().filter(|c| c.access_key_id() == key_id);
                return ended.cloned().ok_or(error);
            }
        };
        let known = held.previous.as_ref().filter(|previous| {
            previous.access_key_id() == key_id
                && current.access_key_id() != key_id
                && !ends_within(previous.expiry(), SystemTime::now(), Duration::ZERO)
        });
        Ok(known.cloned().unwrap_or(current))
    }
}

impl Held {
    async fn fresh(
        &mut self,
        provider: &SharedCredentialsProvider,
        limit: Duration,
        wanted: Option<&str>,
    ) -> Result<Credentials, NoCredentials> {
        let age = self.asked.map(|asked| asked.elapsed());
        if let Some(current) = &self.current
            && !is_due(current.expiry(), SystemTime::now(), age, self.refused || self.lacks(wanted))
        {
            return Ok(current.clone());
        }
        self.asked = Some(Instant::now());
        let error = match timeout(limit, provider.provide_credentials()).await {
            Ok(Ok(new)) => {
                if self
                    .current
                    .as_ref()
                    .is_some_and(|old| old.access_key_id() != new.access_key_id())
                {
                    tracing::info!(key = new.access_key_id(), "the credentials have changed");
                    self.previous = self.current.take();
                    self.refused = false;
                }
                self.current = Some(new.clone());
                return Ok(new);
            }
            Ok(Err(error)) => NoCredentials {
                is_passing: !matches!(error, CredentialsError::CredentialsNotLoaded(_)),
                message: chain(&error),
            },
            Err(_) => NoCredentials {
                message: format!("their source did not answer within {} s", limit.as_secs_f32()),
                is_passing: true,
            },
        };
        let now = SystemTime::now();
        match &self.current {
            Some(old) if !ends_within(old.expiry(), now, Duration::ZERO) => {
                tracing::warn!(%error, "the credentials cannot be renewed; the old ones still hold");
                Ok(old.clone())
            }
            _ => Err(error),
        }
    }

    fn lacks(&self, wanted: Option<&str>) -> bool {
        let Some(wanted) = wanted else { return false };
        let known = [&self.current, &self.previous];
        !known.into_iter().flatten().any(|credentials| credentials.access_key_id() == wanted)
    }
}

/// Whether the source must be asked. `age`: since the last question; `lacks`: a caller uses a key
/// that is not known, or the vendor does not take ours.
fn is_due(expiry: Option<SystemTime>, now: SystemTime, age: Option<Duration>, lacks: bool) -> bool {
    let Some(age) = age else { return true };
    let old = match expiry {
        Some(_) => ends_within(expiry, now, MARGIN),
        None => age >= LASTING,
    };
    (old || lacks) && age >= PAUSE
}

fn ends_within(expiry: Option<SystemTime>, now: SystemTime, margin: Duration) -> bool {
    expiry.is_some_and(|end| end <= now + margin)
}

/// An error with its sources in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_credential_types::provider::future::ProvideCredentials as Answer;
    use std::collections::VecDeque;
    use std::sync::Mutex as Lock;

    type Script = VecDeque<Result<Credentials, CredentialsError>>;

    #[derive(Debug)]
    struct Source(Lock<Script>);

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> Answer<'a>
        where
            Self: 'a,
        {
            match self.0.lock().unwrap().pop_front() {
                Some(answer) => Answer::ready(answer),
                None => Answer::new(std::future::pending()),
            }
        }
    }

    fn keys(script: impl IntoIterator<Item = Result<Credentials, CredentialsError>>) -> Keys {
        let source = Source(Lock::new(script.into_iter().collect()));
        Keys::new(SharedCredentialsProvider::new(source), Duration::from_secs(10))
    }

    fn credentials(id: &str, minutes: Option<u64>) -> Credentials {
        let end = minutes.map(|minutes| SystemTime::now() + Duration::from_secs(60 * minutes));
        Credentials::new(id, "canary-secret", None, end, "test")
    }

    #[test]
    fn due() {
        let now = SystemTime::now();
        let at = |minutes: u64| Some(now + Duration::from_secs(60 * minutes));
        let age = |seconds| Some(Duration::from_secs(seconds));
        for (name, expiry, age, lacks, expected) in [
            ("never asked", None, None, false, true),
            ("lasting, young", None, age(59), false, false),
            ("lasting, old", None, age(60), false, true),
            ("an hour left", at(60), age(1000), false, false),
            ("near its end", at(4), age(1000), false, true),
            ("near its end, just asked", at(4), age(4), false, false),
            ("other key", at(60), age(5), true, true),
            ("other key, just asked", at(60), age(4), true, false),
        ] {
            assert_eq!(is_due(expiry, now, age, lacks), expected, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_key_is_taken_up_and_the_one_before_is_remembered() {
        let keys = keys([Ok(credentials("A", None)), Ok(credentials("B", None))]);
        assert_eq!(keys.like("A").await.unwrap().access_key_id(), "A");
        assert_eq!(keys.like("B").await.unwrap().access_key_id(), "A", "asked a moment ago");
        tokio::time::advance(PAUSE).await;
        assert_eq!(keys.like("B").await.unwrap().access_key_id(), "B");
        assert_eq!(keys.like("A").await.unwrap().access_key_id(), "A", "remembered");
        assert_eq!(keys.current().await.unwrap().access_key_id(), "B");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_source_is_survived_while_the_old_ones_hold() {
        let keys = keys([Ok(credentials("A", Some(4)))]);
        assert!(keys.current().await.is_ok());
        tokio::time::advance(PAUSE).await;
        assert_eq!(keys.current().await.unwrap().access_key_id(), "A");
        let none = super::tests::keys([Err(CredentialsError::not_loaded("no chain"))]);
        let error = none.current().await.unwrap_err();
        assert!(!error.is_passing && error.to_string().contains("no chain"), "{error}");
    }

    #[tokio::test]
    async fn debug_shows_no_secret() {
        let keys = keys([Ok(credentials("A", None))]);
        keys.current().await.unwrap();
        assert!(!format!("{keys:?}").contains("canary"));
    }
}

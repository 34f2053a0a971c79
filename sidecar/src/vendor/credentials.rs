//! Credentials for waits of days: renewed before they end, and read anew when the vendor refuses
//! them, so that a rotated file or Secret is picked up.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvideFuture;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use futures::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time for one run through the chain, network included.
const LOAD: Duration = Duration::from_secs(15);
/// Credentials are renewed this long before they end.
const MARGIN: Duration = Duration::from_mins(5);
/// Credentials without an end are read again after this time: a mounted file may have changed.
const REREAD: Duration = Duration::from_mins(5);
/// A failure is kept this long, so that a busy program does not hammer a token service.
const PAUSE: Duration = Duration::from_secs(3);

type Load =
    Box<dyn Fn() -> BoxFuture<'static, Result<Credentials, CredentialsError>> + Send + Sync>;

/// A credentials provider that keeps what it has read while that is good. Clones share it.
#[derive(Clone)]
pub struct Renewed(Arc<Inner>);

struct Inner {
    load: Load,
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    outcome: Result<Credentials, String>,
    read_at: Instant,
}

// Not derived: credentials must never be printed.
impl fmt::Debug for Renewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").finish_non_exhaustive()
    }
}

/// The message of a failure that is kept for [`PAUSE`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct KeptFailure(String);

impl Renewed {
    /// The default chain of the AWS SDKs: environment, profile, web identity, container, instance.
    ///
    /// `region` is where a token service is asked when the environment names none.
    #[must_use]
    pub fn from_environment(region: Option<String>) -> Self {
        Self::new(move || {
            let region = region.clone().unwrap_or_else(|| "us-east-1".to_owned());
            Box::pin(async move {
                // The chain is built anew each time: it keeps a profile file that it once read.
                let chain =
                    DefaultCredentialsChain::builder().region(Region::new(region)).build().await;
                chain.provide_credentials().await
            })
        })
    }

    /// Fixed credentials, for tests and tools.
    #[must_use]
    pub fn fixed(credentials: Credentials) -> Self {
        Self::new(move || {
            let credentials = credentials.clone();
            Box::pin(async move { Ok(credentials) })
        })
    }

    fn new<F>(load: F) -> Self
    where
        F: Fn() -> BoxFuture<'static, Result<Credentials, CredentialsError>>
            + Send
            + Sync
            + 'static,
    {
        Self(Arc::new(Inner { load: Box::new(load), kept: Mutex::new(None) }))
    }

    /// Drops what is kept: the vendor refuses it. It is read again at the next call, at most
    /// once in a few seconds.
    pub async fn forget(&self) {
        let mut kept = self.0.kept.lock().await;
        if kept.as_ref().is_some_and(|k| k.outcome.is_ok() && k.read_at.elapsed() >= PAUSE) {
            *kept = None;
        }
    }

    /// The provider as the AWS libraries take it.
    #[must_use]
    pub fn shared(&self) -> SharedCredentialsProvider {
        SharedCredentialsProvider::new(self.clone())
    }

    async fn get(&self) -> Result<Credentials, CredentialsError> {
        // Held while loading, so that waiting requests share one load.
        let mut kept = self.0.kept.lock().await;
        if let Some(kept) = &*kept
            && is_good(kept)
        {
            return kept
                .outcome
                .clone()
                .map_err(|text| CredentialsError::not_loaded(KeptFailure(text)));
        }
        let loaded = match tokio::time::timeout(LOAD, (self.0.load)()).await {
            Ok(loaded) => loaded,
            Err(_) => Err(CredentialsError::provider_timed_out(LOAD)),
        };
        match (loaded, kept.as_mut()) {
            (Ok(fresh), _) => {
                *kept = Some(Kept { outcome: Ok(fresh.clone()), read_at: Instant::now() });
                Ok(fresh)
            }
            // An outage of the token service is no reason to drop what still works.
            (Err(_), Some(Kept { outcome: Ok(old), read_at })) if left(old) > Duration::ZERO => {
                // Tried again after the pause, not at every request.
                *read_at = Instant::now();
                Ok(old.clone())
            }
            (Err(error), _) => {
                let text = innermost(&error);
                *kept = Some(Kept { outcome: Err(text), read_at: Instant::now() });
                Err(error)
            }
        }
    }
}

fn innermost(error: &CredentialsError) -> String {
    let mut last: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// Time until the credentials end; without an end, forever.
fn left(credentials: &Credentials) -> Duration {
    let now = SystemTime::now();
    credentials
        .expiry()
        .map_or(Duration::MAX, |end| end.duration_since(now).unwrap_or(Duration::ZERO))
}

fn is_good(kept: &Kept) -> bool {
    let age = kept.read_at.elapsed();
    match &kept.outcome {
        Err(_) => age < PAUSE,
        Ok(credentials) if credentials.expiry().is_some() => {
            left(credentials) > MARGIN || age < PAUSE
        }
        Ok(_) => age < REREAD,
    }
}

impl ProvideCredentials for Renewed {
    fn provide_credentials<'a>(&'a self) -> ProvideFuture<'a>
    where
        Self: 'a,
    {
        ProvideFuture::new(self.get())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn mk_counting(
        outcome: fn(u32) -> Result<Credentials, CredentialsError>,
    ) -> (Renewed, Arc<AtomicU32>) {
        let count = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&count);
        let renewed = Renewed::new(move || {
            let n = count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { outcome(n) })
        });
        (renewed, seen)
    }

    fn mk_keys(id: &str, lives: Option<Duration>) -> Credentials {
        let end = lives.map(|l| SystemTime::now() + l);
        Credentials::new(id, "s3cret-canary", None, end, "test")
    }

    #[tokio::test(start_paused = true)]
    async fn keys_without_an_end_are_read_again_after_a_while() {
        let (renewed, count) = mk_counting(|n| Ok(mk_keys(&format!("AKIA{n}"), None)));
        for _ in 0..3 {
            assert_eq!(renewed.get().await.unwrap().access_key_id(), "AKIA0");
        }
        tokio::time::advance(REREAD).await;
        assert_eq!(renewed.get().await.unwrap().access_key_id(), "AKIA1");
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_keys_are_read_again_but_not_at_every_call() {
        let (renewed, count) = mk_counting(|n| Ok(mk_keys(&format!("AKIA{n}"), None)));
        renewed.get().await.unwrap();
        renewed.forget().await;
        assert_eq!(renewed.get().await.unwrap().access_key_id(), "AKIA0");
        tokio::time::advance(PAUSE).await;
        renewed.forget().await;
        assert_eq!(renewed.get().await.unwrap().access_key_id(), "AKIA1");
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_keeps_what_still_works() {
        let (renewed, _) = mk_counting(|n| match n {
            0 => Ok(mk_keys("ASIA0", Some(MARGIN / 2))),
            _ => Err(CredentialsError::not_loaded("token service is away")),
        });
        renewed.get().await.unwrap();
        tokio::time::advance(PAUSE).await;
        assert_eq!(renewed.get().await.unwrap().access_key_id(), "ASIA0");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_heals_and_says_why() {
        let (renewed, _) = mk_counting(|n| match n {
            0 => Err(CredentialsError::not_loaded("no such profile")),
            _ => Ok(mk_keys("AKIA1", None)),
        });
        renewed.get().await.unwrap_err();
        let kept = renewed.get().await.unwrap_err();
        assert!(innermost(&kept).contains("no such profile"), "{kept:?}");
        tokio::time::advance(PAUSE).await;
        assert_eq!(renewed.get().await.unwrap().access_key_id(), "AKIA1");
    }

    #[tokio::test]
    async fn nothing_is_printed() {
        let renewed = Renewed::fixed(mk_keys("AKIA", None));
        renewed.get().await.unwrap();
        assert!(!format!("{renewed:?}").contains("canary"));
    }
}

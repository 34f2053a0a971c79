//! Credentials for waits of days: renewed before they end, and read anew when the vendor refuses
//! them, so that a rotated file or Secret is picked up.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvideFuture;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use futures::future::BoxFuture;
use sluice_tap::{Hosts, is_of_a_role};
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
    /// Where the last good ones came from.
    source: Source,
    /// The vendor does not take them.
    is_forgotten: bool,
}

impl Kept {
    fn new(outcome: Result<Credentials, String>, source: Source) -> Self {
        Self { outcome, read_at: Instant::now(), source, is_forgotten: false }
    }

    fn age(&self) -> Duration {
        self.read_at.elapsed()
    }
}

// Not derived: credentials must never be printed.
impl fmt::Debug for Renewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").finish_non_exhaustive()
    }
}

/// Where credentials come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Variables of the container.
    Environment,
    /// Keys in a profile of a mounted file.
    Profile,
    /// A role that a profile names.
    ProfileRole,
    /// The role of the service account, by its token (IRSA).
    WebIdentity,
    /// A service on the node or in the pod (EKS Pod Identity, ECS).
    Service,
    /// The role of the node.
    Node,
    /// None of these.
    Other,
}

impl Source {
    /// The source of these credentials, as the library notes it.
    #[must_use]
    pub fn of(credentials: &Credentials) -> Self {
        use AwsCredentialFeature as Feature;
        let noted = credentials.get_property::<Vec<Feature>>();
        let is_from = |feature| noted.is_some_and(|noted| noted.contains(&feature));
        // Outermost first: a profile may take its keys from any of the others.
        if is_from(Feature::CredentialsProfile) {
            return if is_of_a_role(credentials) { Self::ProfileRole } else { Self::Profile };
        }
        if is_from(Feature::CredentialsHttp) {
            return Self::Service;
        }
        if is_from(Feature::CredentialsImds) {
            return Self::Node;
        }
        if is_of_a_role(credentials) {
            return Self::WebIdentity;
        }
        if is_from(Feature::CredentialsEnvVars) { Self::Environment } else { Self::Other }
    }

    /// Whence, and what to do when they have ended: the end of a sentence.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Environment => {
                "they come from environment variables, which never change in a running pod: for \
                 long waits mount them as a file or use a role of the service account; this pod \
                 has to be started again with new ones"
            }
            Self::Profile => {
                "they come from a profile in a mounted file: update the Secret behind it (a mount \
                 with subPath never changes; the kubelet needs about a minute)"
            }
            Self::ProfileRole => {
                "they come from a role that the profile names: check that its source keys hold and \
                 that the role may still be taken on"
            }
            Self::WebIdentity => {
                "they come from the role of the service account: check its trust policy, and that \
                 the token service can be reached"
            }
            Self::Service => {
                "they come from the container credentials service: check its agent, and the role \
                 association of the service account"
            }
            Self::Node => "they come from the role of the node: check the instance's profile",
            Self::Other => "renew them where they come from",
        }
    }
}

/// The message of a failure that is kept for [`PAUSE`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct KeptFailure(String);

impl Renewed {
    /// The default chain of the AWS SDKs: environment, profile, web identity, container, instance.
    ///
    /// `region` is where a token service is asked when the environment names none, `hosts` and
    /// `http` how.
    #[must_use]
    pub fn from_environment(
        region: Option<String>,
        hosts: Hosts,
        http: Option<SharedHttpClient>,
    ) -> Self {
        Self::new(move || {
            let region = region.clone().unwrap_or_else(|| "us-east-1".to_owned());
            let mut config = ProviderConfig::default()
                .with_use_fips(Some(hosts.fips))
                .with_use_dual_stack(Some(hosts.dual_stack));
            if let Some(http) = &http {
                config = config.with_http_client(http.clone());
            }
            Box::pin(async move {
                // The chain is built anew each time: it keeps a profile file that it once read.
                let chain = DefaultCredentialsChain::builder()
                    .region(Region::new(region))
                    .configure(config)
                    .build()
                    .await;
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
        if let Some(kept) = kept.as_mut().filter(|k| k.outcome.is_ok() && k.age() >= PAUSE) {
            kept.is_forgotten = true;
        }
    }

    /// Where the credentials came from that were last read.
    pub async fn source(&self) -> Source {
        self.0.kept.lock().await.as_ref().map_or(Source::Other, |kept| kept.source)
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
        let known = kept.as_ref().map_or(Source::Other, |kept| kept.source);
        match (loaded, kept.as_mut()) {
            (Ok(fresh), _) => {
                *kept = Some(Kept::new(Ok(fresh.clone()), Source::of(&fresh)));
                Ok(fresh)
            }
            // An outage of the token service is no reason to drop what still works.
            (Err(_), Some(Kept { outcome: Ok(old), read_at, is_forgotten: false, .. }))
                if left(old) > Duration::ZERO =>
            {
                // Tried again after the pause, not at every request.
                *read_at = Instant::now();
                Ok(old.clone())
            }
            (Err(error), _) => {
                let text = innermost(&error);
                *kept = Some(Kept::new(Err(text), known));
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
    let age = kept.age();
    match &kept.outcome {
        _ if kept.is_forgotten => false,
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

    #[test]
    fn sources() {
        use AwsCredentialFeature::{
            CredentialsEnvVars, CredentialsEnvVarsStsWebIdToken, CredentialsHttp, CredentialsImds,
            CredentialsProfile, CredentialsStsAssumeRole,
        };
        for (noted, expected) in [
            (vec![CredentialsEnvVars], Source::Environment),
            (vec![CredentialsProfile], Source::Profile),
            (vec![CredentialsStsAssumeRole, CredentialsProfile], Source::ProfileRole),
            (vec![CredentialsEnvVarsStsWebIdToken], Source::WebIdentity),
            (vec![CredentialsHttp], Source::Service),
            (vec![CredentialsImds], Source::Node),
            (vec![], Source::Other),
        ] {
            let mut keys = mk_keys("ASIA", None);
            keys.set_property(noted);
            assert_eq!(Source::of(&keys), expected);
        }
        assert_eq!(Source::of(&mk_keys("AKIA", None)), Source::Other);
    }

    #[tokio::test(start_paused = true)]
    async fn the_source_is_known_while_it_fails() {
        let (renewed, _) = mk_counting(|n| match n {
            0 => {
                let mut keys = mk_keys("ASIA0", None);
                keys.set_property(vec![AwsCredentialFeature::CredentialsHttp]);
                Ok(keys)
            }
            _ => Err(CredentialsError::not_loaded("the agent is away")),
        });
        renewed.get().await.unwrap();
        tokio::time::advance(PAUSE).await;
        renewed.forget().await;
        renewed.get().await.unwrap_err();
        assert_eq!(renewed.source().await, Source::Service);
    }

    #[tokio::test]
    async fn nothing_is_printed() {
        let renewed = Renewed::fixed(mk_keys("AKIA", None));
        renewed.get().await.unwrap();
        assert!(!format!("{renewed:?}").contains("canary"));
    }
}

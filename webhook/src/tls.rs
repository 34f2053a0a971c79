//! The serving certificate: one Secret that all replicas share, reached through the API.
//!
//! Every few seconds each replica reads the Secret (the first one makes it), takes the next step
//! of a rotation if one is due, serves what is in it, and publishes the bundle. Every write is
//! guarded by a resource version, so replicas that do the same thing at once do it once.

mod bundle;
mod store;

use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use sluice_certs::rotation::{Step, Stored, Times, decide};
use sluice_certs::{IssueError, Issued, ReadError, issue, not_after};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::ready::Ready;
use bundle::Bundle;
use store::Store;
pub use store::Unreadable;

/// What readiness waits for here: a certificate is served.
pub const CERTIFICATE: &str = "the certificate";
/// What readiness waits for here: the API server trusts it.
pub const BUNDLE: &str = "the CA bundle in the webhook configuration";

/// How soon it is read again after a write, by us or by a faster replica.
const AGAIN: Duration = Duration::from_millis(50);
/// How soon it is read again after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// How long one look may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a certificate lives.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);
/// When it is renewed, and how long each phase of a rotation lasts: many times [`Place::poll`].
const TIMES: Times = Times {
    renew_before: SignedDuration::from_hours(24 * 120),
    overlap: SignedDuration::from_mins(10),
};

/// Where the certificate is kept and what it is for.
#[derive(Debug, Clone)]
pub struct Place {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// Name of the webhook configuration.
    pub webhook_configuration: String,
    /// Names in the certificate.
    pub dns_names: Vec<String>,
    /// How often the Secret is read.
    pub poll: Duration,
}

/// Why a look at the certificate failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the API server refused or did not answer: {0}")]
    Api(#[from] kube::Error),
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("Secret {secret:?}: {source}; delete it, and it is made anew")]
    Certificate { secret: String, source: ReadError },
    #[error(
        "Secret {secret:?} holds a certificate and a key that do not work together: {source}; \
             delete it, and it is made anew"
    )]
    Pair { secret: String, source: std::io::Error },
    #[error(transparent)]
    Issue(#[from] IssueError),
}

/// Serves whatever the Secret holds. The first configuration is sent to `first`; later ones
/// replace it in place.
pub async fn follow(
    client: Client,
    place: Place,
    ready: Ready,
    first: oneshot::Sender<RustlsConfig>,
    stop: CancellationToken,
) {
    let mut follower = Follower {
        store: Store::new(&client, &place.namespace, &place.secret),
        bundle: Bundle::new(&client, &place.webhook_configuration),
        place,
        ready,
        first: Some(first),
        serving: None,
    };
    loop {
        let looked = tokio::time::timeout(TIMEOUT, follower.look(Timestamp::now())).await;
        let pause = match looked.unwrap_or(Err(Failure::Timeout)) {
            Ok(true) => follower.place.poll,
            Ok(false) => AGAIN,
            Err(error) => {
                tracing::warn!(
                    %error,
                    secret = follower.place.secret,
                    namespace = follower.place.namespace,
                    configuration = follower.place.webhook_configuration,
                    "cannot keep the certificate up to date, trying again; what is served stays"
                );
                RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

struct Follower {
    store: Store,
    bundle: Bundle,
    place: Place,
    ready: Ready,
    first: Option<oneshot::Sender<RustlsConfig>>,
    serving: Option<(RustlsConfig, Issued)>,
}

impl Follower {
    /// Looks once. False when something was written and a second look is due.
    async fn look(&mut self, now: Timestamp) -> Result<bool, Failure> {
        let Some((stored, version)) = self.store.read().await? else {
            let issued = issue(&self.place.dns_names, LIFETIME, now)?;
            let stored = self.anew(issued, now);
            if self.store.create(&stored).await? {
                tracing::info!(secret = self.place.secret, "made the serving certificate");
            }
            return Ok(false);
        };
        let end = not_after(&stored.current.cert_pem)
            .map_err(|source| Failure::Certificate { secret: self.place.secret.clone(), source })?;
        self.serve(&stored).await?;
        self.bundle.publish(&stored.bundle()).await?;
        self.ready.done(BUNDLE);
        let step = decide(now, &stored, end, TIMES);
        let next = match step {
            Step::Keep => return Ok(true),
            Step::Stage => {
                let issued = issue(&self.place.dns_names, LIFETIME, now)?;
                stored.staged(issued, now)
            }
            Step::Switch => stored.switched(now),
            Step::Retire => stored.retired(),
        };
        if self.store.replace(&next, version).await? {
            tracing::info!(?step, "took the next step of the rotation of the certificate");
        }
        Ok(false)
    }

    /// What to store when nothing is. A Secret that was deleted under way is put back with a new
    /// certificate staged: the other replicas serve the old one for a moment longer.
    fn anew(&self, issued: Issued, now: Timestamp) -> Stored {
        match &self.serving {
            Some((_, served)) => Stored::new(served.clone()).staged(issued, now),
            None => Stored::new(issued),
        }
    }

    async fn serve(&mut self, stored: &Stored) -> Result<(), Failure> {
        let current = &stored.current;
        let (cert, key) = (current.cert_pem.clone().into(), current.key_pem.clone().into());
        let pair = |source| Failure::Pair { secret: self.place.secret.clone(), source };
        match &mut self.serving {
            Some((_, serving)) if serving == current => return Ok(()),
            Some((config, serving)) => {
                config.reload_from_pem(cert, key).await.map_err(pair)?;
                serving.clone_from(current);
                tracing::info!("serves the new certificate");
            }
            None => {
                let config = RustlsConfig::from_pem(cert, key).await.map_err(pair)?;
                if let Some(first) = self.first.take() {
                    // Nobody listens any more only when the process ends.
                    let _ = first.send(config.clone());
                }
                self.serving = Some((config, current.clone()));
            }
        }
        self.ready.done(CERTIFICATE);
        Ok(())
    }
}

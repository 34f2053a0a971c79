//! The keeper: makes gangs, opens gates and keeps them open.
//!
//! ```text
//!                    watches                        one look at one gang
//!  API server ──▶ observe ──▶ world (caches) ──▶ decide (plain function) ──▶ steps
//!      ▲                        ▲                                              │
//!      │                        └────────── answers ◀──────────┐               │
//!      └───────────────────────────────────────────────────── act ◀────────────┘
//!                                          gang, RoleBinding, status: one look after another
//!                                          gates: each on its own, some at a time
//! ```
//!
//! * It is level-triggered: a look at a gang takes in all that is known and decides what is to be
//!   written now. What fails is decided again; what is done is not decided any more.
//! * Gates are opened only under an order that the API server has confirmed on the gang
//!   ([`OrderReason`](sluice_shared::gang::OrderReason) lists all there are).
//! * All state is in the API. Every write is idempotent and bound to a uid or a version, so that
//!   two keepers do no harm. A Lease decides which of them acts.
//! * Answers to own writes go into the caches at once: the way from an order to the last open gate
//!   never waits for a watch.
//!
//! # Rights
//! `get, list, watch` on jobs, pods, quantumgangs and podgroups; `patch` on pods;
//! `create, delete, get` on quantumgangs and `patch` on quantumgangs/status;
//! `create, patch, delete` on podgroups; `create, list, delete` on rolebindings and `bind` on the
//! `ClusterRole` of the sidecars; `create` on events (events.k8s.io); `get, create, update` on
//! leases of the own namespace.

mod act;
mod call;
mod complaint;
mod decide;
mod desk;
mod event;
mod facts;
mod keeper;
mod lease;
mod metrics;
mod observe;
mod shelf;
mod world;

use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use metrics::Metrics;

/// How many observations may wait for the loop.
const QUEUE: usize = 4096;

/// How a keeper works. Times are those of one replica.
#[derive(Debug, Clone)]
pub struct KeeperConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Name of this replica, unique among them: the pod's name.
    pub identity: String,
    /// How long the Lease lasts without renewal, in whole seconds.
    pub lease_duration: Duration,
    /// Time between two looks at the Lease.
    pub lease_pause: Duration,
    /// Time limit of each call to the API server.
    pub call_limit: Duration,
    /// Most gate patches at a time.
    pub gates_in_flight: usize,
    /// How long a release waits for consumers that do not exist yet.
    pub gather: Duration,
    /// Shortest time between two writes of mere numbers into one gang's status.
    pub status_floor: Duration,
    /// How long a released pod may be without a node before that is reported.
    pub unplaced_grace: Duration,
    /// How long a namespace keeps its `RoleBinding` without a gang.
    pub binding_idle: Duration,
}

impl KeeperConfig {
    /// The usual settings for the replica `identity` in `namespace`.
    #[must_use]
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        let rules = decide::Rules::default();
        Self {
            namespace: namespace.into(),
            lease: "sluice-keeper".to_owned(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(5),
            lease_pause: Duration::from_secs(1),
            call_limit: Duration::from_secs(10),
            gates_in_flight: 64,
            gather: rules.gather,
            status_floor: rules.status_floor,
            unplaced_grace: rules.unplaced_grace,
            binding_idle: Duration::from_hours(1),
        }
    }

    fn check(&self) -> Result<(), KeeperError> {
        let empty = [
            ("namespace", self.namespace.is_empty()),
            ("lease", self.lease.is_empty()),
            ("identity", self.identity.is_empty()),
        ];
        if let Some((setting, _)) = empty.into_iter().find(|(_, empty)| *empty) {
            return Err(KeeperError::Empty { setting });
        }
        if self.lease_pause.mul_f32(2.0) > self.lease_duration {
            return Err(KeeperError::LeasePause {
                pause: self.lease_pause,
                duration: self.lease_duration,
            });
        }
        Ok(())
    }
}

/// Why a keeper cannot run.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// A setting has no value.
    #[error("the keeper's {setting} is empty; set it to the name it should have")]
    Empty {
        /// Which one.
        setting: &'static str,
    },
    /// The Lease would end between two renewals.
    #[error(
        "the Lease lasts {duration:?} and is renewed every {pause:?}; renew it twice in that time"
    )]
    LeasePause {
        /// Time between two renewals.
        pause: Duration,
        /// How long it lasts.
        duration: Duration,
    },
    /// The loop ended although nobody asked for it.
    #[error("the keeper's watches have ended by themselves; restart the process")]
    Ended,
}

/// Keeps gangs until `stop`. Every replica calls this; a Lease decides which of them acts, and it
/// is given up at the end, so that the next one takes over at once.
///
/// An API server that is away is waited for without end, with one line a minute in the log.
///
/// # Errors
/// When a setting makes no sense, or when the watches end by themselves.
pub async fn run(
    client: Client,
    config: KeeperConfig,
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<(), KeeperError> {
    config.check()?;
    let (to, observations) = mpsc::channel(QUEUE);
    let (leads, leading) = watch::channel(false);
    // Dropped, and thereby ended, with this function.
    let _watches = observe::start(&client, config.call_limit, &to);
    drop(to);
    let lease = lease::LeaseConfig {
        namespace: config.namespace.clone(),
        name: config.lease.clone(),
        identity: config.identity.clone(),
        duration: config.lease_duration,
        pause: config.lease_pause,
    };
    let keeper = keeper::Keeper::new(keeper::Setting {
        hands: act::Hands { client: client.clone(), limit: config.call_limit },
        rules: decide::Rules {
            gather: config.gather,
            status_floor: config.status_floor,
            unplaced_grace: config.unplaced_grace,
        },
        identity: config.identity,
        gates_in_flight: config.gates_in_flight,
        binding_idle: config.binding_idle,
        metrics,
    });
    let ended = stop.child_token();
    let work = async {
        keeper.run(observations, leading, stop.clone()).await;
        // The Lease goes when the work has ended, whatever the reason.
        ended.cancel();
    };
    tokio::join!(work, lease::hold(client, lease, leads, ended.clone()));
    if stop.is_cancelled() { Ok(()) } else { Err(KeeperError::Ended) }
}

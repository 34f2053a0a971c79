//! The loop: observe, decide, act. The only place of the follower that waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::gang::VendorStatus;
use sluice_tap::{Asks, Quota};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::decide::decide;
use super::plan::next_due;
use super::state::{Line, Rules, Seen, State, Step};
use super::timing::Now;
use crate::vendor::{Failure, FailureKind, Vendor};

/// The loop looks up at least this often, so that a step of the wall clock does not stretch a
/// wait.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// The loop never turns faster than this without news.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);

/// Where the present comes from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// The wall clock.
    #[must_use]
    pub fn wall() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// Another one, for tests.
    #[must_use]
    pub fn of(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// What the loop is connected to.
#[derive(Debug)]
pub struct Watch<V> {
    /// Asked for tasks and devices.
    pub vendor: Arc<V>,
    /// What others see: tap, announcements, gang.
    pub seen: mpsc::Receiver<Seen>,
    /// Takes the status that the gang should have; the newest counts.
    pub wanted: watch::Sender<Option<VendorStatus>>,
    /// Shows what is known.
    pub shown: watch::Sender<Arc<State>>,
    /// Tells the time.
    pub clock: Clock,
    /// What is known of the vendor's quotas, shared with the tap.
    pub quota: Arc<Quota>,
}

impl<V: Vendor> Watch<V> {
    /// What is known at the start, and the receiver for whoever shows it.
    #[must_use]
    pub fn nothing(rules: Rules, clock: &Clock) -> watch::Sender<Arc<State>> {
        watch::Sender::new(Arc::new(State::new(rules, clock.now())))
    }

    /// Follows until told to stop, and returns what is known then.
    pub async fn run(mut self, stop: CancellationToken) -> Arc<State> {
        let mut state = State::clone(&self.shown.borrow());
        let mut asked: JoinSet<Seen> = JoinSet::new();
        loop {
            let pause = self.pause(&state);
            let seen = tokio::select! {
                biased;
                () = stop.cancelled() => return Arc::clone(&self.shown.borrow()),
                Some(done) = asked.join_next() => match done {
                    Ok(seen) => seen,
                    Err(error) => {
                        // The look counts as lost and is repeated.
                        error!("a look at the vendor broke off: {error}");
                        Seen::Time
                    }
                },
                // Without a sender nothing more can come but our own looks.
                Some(seen) = self.seen.recv() => seen,
                () = tokio::time::sleep(pause) => Seen::Time,
            };
            let stretch = self.quota.stretch();
            let now = Now { at: self.clock.now(), luck: rand::random(), stretch };
            let steps;
            (state, steps) = decide(state, seen, now);
            // Shown first: whoever reads the log may ask at once.
            self.shown.send_replace(Arc::new(state.clone()));
            for step in steps {
                self.act(step, &mut asked);
            }
        }
    }

    fn pause(&self, state: &State) -> Duration {
        let Some(due) = next_due(state) else { return LONGEST_SLEEP };
        Duration::try_from(due.duration_since(self.clock.now()))
            .unwrap_or(Duration::ZERO)
            .clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
    }

    fn act(&self, step: Step, asked: &mut JoinSet<Seen>) {
        match step {
            Step::Say(Line { warn: false, text }) => info!("{text}"),
            Step::Say(Line { warn: true, text }) => warn!("{text}"),
            Step::Write(status) => {
                self.wanted.send_replace(Some(*status));
            }
            Step::Read { id, resource } => {
                let (vendor, at) = (Arc::clone(&self.vendor), self.clock.now());
                let quota = Arc::clone(&self.quota);
                asked.spawn(async move {
                    let outcome = ask(&quota, Asks::Tasks, async || {
                        vendor.task(resource.as_ref(), &id).await
                    })
                    .await;
                    Seen::Read(id, at, outcome)
                });
            }
            Step::ReadDevice { device, task } => {
                let (vendor, quota) = (Arc::clone(&self.vendor), Arc::clone(&self.quota));
                asked.spawn(async move {
                    let look =
                        async || vendor.device(device.resource.as_ref(), &device.name, &task).await;
                    let outcome = ask(&quota, Asks::Devices, look).await;
                    Seen::DeviceRead(device, outcome)
                });
            }
        }
    }
}

/// Asks, unless the vendor has told the tap or us to leave it alone for a while.
async fn ask<T>(
    quota: &Quota,
    asks: Asks,
    look: impl AsyncFnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    if let Some(until) = quota.not_before(asks) {
        let left = until.duration_since(tokio::time::Instant::now());
        let message = format!("the vendor asks for a pause of {} more seconds", left.as_secs());
        let (kind, retry_after) = (FailureKind::Throttled, Some(left));
        return Err(Failure { kind, message, retry_after });
    }
    let outcome = look().await;
    if let Err(failure) = &outcome
        && failure.kind == FailureKind::Throttled
    {
        quota.throttled(asks, failure.retry_after);
    }
    outcome
}

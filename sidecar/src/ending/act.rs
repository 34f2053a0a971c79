//! Waits for the gang's fate and cancels.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use sluice_shared::resource::Resource;
use sluice_shared::task::TaskState;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::{PATIENCE, Verdict, decide};
use crate::follow::followed::Followed;
use crate::follow::report;
use crate::follow::state::State;
use crate::follow::watch::Clock;
use crate::vendor::{Cancelled, Failure, FailureKind, Vendor};

/// Time for all cancels together. Braket takes 20 at once and 2 more each second.
const CANCELS: Duration = Duration::from_secs(5);
/// Cancels under way at the same time.
const AT_ONCE: usize = 4;
/// Pause before a cancel that failed is tried again, unless the vendor asks for a longer one.
const AGAIN: Duration = Duration::from_millis(500);
/// The longest that [`settle`] takes: the gang goes at the last moment, and then why it went and
/// the cancels take their whole time.
pub const LONGEST: Duration = PATIENCE.saturating_mul(2).saturating_add(CANCELS);

/// Decides about the live tasks and acts on it: `wanted` says whether they may be cancelled,
/// `ask_for_time` is called where it takes longer than a moment. Returns the tasks
/// that the vendor ends.
pub async fn settle<V: Vendor>(
    wanted: bool,
    vendor: &V,
    shown: &mut watch::Receiver<Arc<State>>,
    clock: &Clock,
    ask_for_time: fn(),
) -> BTreeSet<String> {
    let told = clock.now();
    if live(shown).is_empty() {
        return BTreeSet::new();
    }
    ask_for_time();
    match verdict(wanted, shown, clock, told).await {
        Verdict::Cancel => cancel_all(vendor, live(shown)).await,
        Verdict::Leave(why) => {
            info!("the live tasks are left alone: {why}");
            BTreeSet::new()
        }
        Verdict::Wait(_) => BTreeSet::new(),
    }
}

/// The tasks that the gang's program submitted and that are still live. What it only asked for
/// belongs to somebody else.
fn live(shown: &watch::Receiver<Arc<State>>) -> Vec<(Option<Resource>, String)> {
    let state = Arc::clone(&shown.borrow());
    let ours = |t: &&Followed| {
        let state = &t.reading.state;
        t.incarnation.is_some() && !state.is_final() && *state != TaskState::Cancelling
    };
    let place = |t: &Followed| (t.reading.resource.clone(), t.reading.id.clone());
    state.tasks.iter().filter(ours).map(place).collect()
}

async fn verdict(
    wanted: bool,
    shown: &mut watch::Receiver<Arc<State>>,
    clock: &Clock,
    told: Timestamp,
) -> Verdict {
    let mut announced = false;
    loop {
        let fate = shown.borrow_and_update().fate;
        let now = clock.now();
        let verdict = decide(wanted, fate, told, now);
        let Verdict::Wait(until) = verdict else { return verdict };
        if !announced {
            announced = true;
            let ids: Vec<_> = live(shown).into_iter().map(|(_, id)| id).collect();
            let ids = ids.join(", ");
            info!("still live at the vendor: {ids}; waiting for word whether the Job was deleted");
        }
        let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
        tokio::select! {
            changed = shown.changed() => if changed.is_err() {
                // The follower has gone; nothing new will be shown.
                return decide(wanted, fate, told, until);
            },
            () = sleep(pause) => {}
        }
    }
}

async fn cancel_all<V: Vendor>(
    vendor: &V,
    ids: Vec<(Option<Resource>, String)>,
) -> BTreeSet<String> {
    info!("the Job was deleted: cancelling {} live task(s)", ids.len());
    let deadline = Instant::now() + CANCELS;
    stream::iter(ids)
        .map(|(resource, id)| async move {
            let outcome = cancel(vendor, resource.as_ref(), &id, deadline).await;
            tell(&id, outcome).then_some(id)
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await
}

/// Says what came of it, and whether the task ends.
fn tell(id: &str, outcome: Result<Cancelled, Failure>) -> bool {
    let name = report::name(id);
    match outcome {
        Ok(Cancelled::Ending(state)) => info!("{name} is cancelled, it is {state}: {id}"),
        Ok(Cancelled::Over) => info!("{name} had ended already: {id}"),
        Err(failure) => {
            let hint = if failure.kind == FailureKind::Denied {
                "; at Braket, allow braket:CancelQuantumTask to have this done"
            } else {
                ""
            };
            let message = failure.message;
            warn!("{name} could not be cancelled ({message}){hint}; cancel it at the vendor: {id}");
            return false;
        }
    }
    true
}

/// Asks again after what passes, until the deadline.
async fn cancel<V: Vendor>(
    vendor: &V,
    resource: Option<&Resource>,
    id: &str,
    deadline: Instant,
) -> Result<Cancelled, Failure> {
    let mut last = None;
    let asking = async {
        loop {
            let failure = match vendor.cancel(resource, id).await {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            // A task that was submitted a moment ago may be unknown for a while.
            if matches!(failure.kind, FailureKind::Denied | FailureKind::Refused) {
                return Err(failure);
            }
            let pause = failure.retry_after.unwrap_or_default().max(AGAIN);
            last = Some(failure);
            sleep(pause).await;
        }
    };
    let outcome = timeout_at(deadline, asking).await;
    outcome.unwrap_or_else(|_| Err(last.unwrap_or_else(silent)))
}

fn silent() -> Failure {
    Failure {
        kind: FailureKind::Away,
        message: format!("no answer within {} s", CANCELS.as_secs()),
        retry_after: None,
    }
}

//! Lets time pass for the lines, and has the programs of started tasks computed.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::braket::world::Job;
use crate::hub::Hub;
use crate::rest::{self, machines::Work};
use crate::simulator::braket_order;

/// Lets everything happen that is due.
pub(crate) fn advance(hub: &Arc<Hub>, tracker: &TaskTracker) {
    let now = Timestamp::now();
    let (jobs, started, moved) = {
        let state = &mut *hub.lock();
        let due = state.vendors.next_due().is_some_and(|due| due <= now);
        (state.world.advance(now), state.vendors.advance(&mut state.store, now), due)
    };
    compute(hub, tracker, jobs);
    work(hub, tracker, started);
    if moved {
        hub.moved.notify_waiters();
    }
}

/// Has the programs of jobs of the vendors of QRMI computed in the background.
pub(crate) fn work(hub: &Arc<Hub>, tracker: &TaskTracker, works: Vec<Work>) {
    for work in works {
        let hub = Arc::clone(hub);
        tracker.spawn(async move {
            let outcome = rest::compute::run(&hub, &work.job, &work.programs).await;
            {
                let state = &mut *hub.lock();
                if let Some((vendor, _)) = state.vendors.of(work.service) {
                    vendor.machines_mut().computed(&work.job, outcome, Timestamp::now());
                }
            }
            hub.computed.notify_waiters();
            hub.changed.notify_one();
        });
    }
}

/// Has programs computed in the background; their results are put into the store.
pub(crate) fn compute(hub: &Arc<Hub>, tracker: &TaskTracker, jobs: Vec<Job>) {
    for job in jobs {
        let hub = Arc::clone(hub);
        tracker.spawn(async move {
            let order = braket_order(&job.id, &job.arn, &job.device, &job.action, job.shots);
            let outcome = hub.simulator.compute(&job.id, order).await;
            let now = Timestamp::now();
            let mut state = hub.lock();
            let runs = state.world.runs(&job.id);
            let outcome = outcome.map(|result| {
                if !runs {
                    // Cancelled or forgotten meanwhile: the vendor keeps no result of it.
                    return;
                }
                let body = Bytes::from(result);
                state.store.deposit(&job.account, &job.bucket, &job.key, body, now);
            });
            state.world.computed(&job.id, outcome, now);
            drop(state);
            hub.computed.notify_waiters();
            hub.changed.notify_one();
        });
    }
}

/// Wakes up whenever something is due, until the token is cancelled.
pub(crate) async fn run(hub: Arc<Hub>, tracker: TaskTracker, token: CancellationToken) {
    loop {
        advance(&hub, &tracker);
        let due = {
            let state = hub.lock();
            state.world.next_due().into_iter().chain(state.vendors.next_due()).min()
        };
        let wait = async {
            match due {
                Some(due) => {
                    let left = due.duration_since(Timestamp::now());
                    tokio::time::sleep(left.try_into().unwrap_or_default()).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = token.cancelled() => return,
            () = hub.changed.notified() => {}
            () = wait => {}
        }
    }
}

//! What the gang's status and the log say about what is known. PURE.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use sluice_dialect::{Waits, abilities};
use sluice_shared::gang::{Folded, MAX_TASKS, Task, VendorStatus};
use sluice_shared::price::Estimate;
use sluice_shared::task::{TaskState, device_name, job_name, short_id};

use super::cost;
use super::followed::Followed;
use super::state::State;
use super::timing::elapsed;
use crate::vendor::FailureKind;

/// The vendor may be silent this long before people are told.
const SILENCE: Duration = Duration::from_mins(1);
/// A new task may be unknown to the vendor this long.
const UNKNOWN_FOR: Duration = Duration::from_mins(5);

/// `status.vendor` as it should be, without the series, which goes with a write.
#[must_use]
pub fn vendor_status(state: &State, at: Timestamp) -> VendorStatus {
    VendorStatus {
        tasks: state.tasks.iter().take(MAX_TASKS).map(task).collect(),
        intents: state.ledger.intents.clone(),
        folded: Some(state.folded).filter(|f| *f != Folded::default()),
        order: state.order.clone(),
        cost: cost::of_gang(state),
        problem: problem(state, at).map(|text| cut(&text, 1024)),
        series: Vec::new(),
    }
}

/// The same without what changes at every look, to tell whether anything is worth a write.
#[must_use]
pub fn visible(status: &VendorStatus) -> VendorStatus {
    let mut status = status.clone();
    for task in &mut status.tasks {
        task.observed_at = None;
    }
    status
}

fn task(followed: &Followed) -> Task {
    let reading = &followed.reading;
    Task {
        id: reading.id.clone(),
        device: cut(reading.device.as_deref().unwrap_or_default(), 256),
        resource: reading.resource.clone(),
        state: cut(reading.state.as_str(), 64),
        position: reading.position.as_deref().map(|p| cut(p, 64)),
        at_least: followed.view.at_least,
        priority_ahead: followed.view.priority_ahead,
        job: reading.job.as_deref().map(|job| cut(job, 256)),
        session: reading.session.as_deref().map(|session| cut(session, 256)),
        shots: reading.shots,
        cost: match cost::of_task(followed) {
            Estimate::Fixed(price) => Some(price),
            Estimate::Minute(_) | Estimate::Unknown => None,
        },
        front: followed.view.front,
        counts: followed.counts,
        reason: reason(followed).map(|r| cut(r, 1024)),
        submitted_at: reading.submitted_at.map(Time),
        observed_at: followed.observed_at.map(Time),
        digest: followed.digest.as_deref().map(|d| cut(d, 64)),
        client_token: followed.client_token.as_deref().map(|t| cut(t, 64)),
        incarnation: followed.incarnation.as_deref().map(|i| cut(i, 96)),
        asked_at: followed.run_asked_at.map(MicroTime),
        resumed: followed.resumed,
    }
}

fn reason(followed: &Followed) -> Option<&str> {
    followed.reading.reason.as_deref().or(followed.view.held_by.as_deref())
}

/// The API server counts characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// `task …/834b21ed`.
#[must_use]
pub fn name(id: &str) -> String {
    format!("task …/{}", short_id(id))
}

/// State and place of a task in a few words: `QUEUED position 14 on iqm Garnet`.
#[must_use]
pub fn describe(followed: &Followed) -> String {
    let reading = &followed.reading;
    let mut text = cut(reading.state.as_str(), 64);
    if reading.state == TaskState::Queued
        && let Some(position) = &reading.position
    {
        text.push_str(" position ");
        text.push_str(&cut(position, 64));
    }
    let device = reading.device.as_deref().map(device_name).unwrap_or_default();
    let held = followed.view.held_by.as_deref();
    // What holds it may name the device already.
    if !device.is_empty() && !held.is_some_and(|held| held.starts_with(&device)) {
        text.push_str(" on ");
        text.push_str(&device);
    }
    if let Some(untold) = place_untold(followed) {
        text.push_str(&untold);
    }
    if let Some(job) = &reading.job {
        text.push_str(" of hybrid job ");
        text.push_str(&cut(job_name(job), 64));
    }
    if followed.view.front {
        text.push_str(", next to run");
    } else if let Some(held) = held {
        text.push_str(", but ");
        text.push_str(held);
    }
    if let Some(reason) = &reading.reason {
        text.push_str(": ");
        text.push_str(&cut(reason, 1024));
    }
    if matches!(reading.state, TaskState::Unknown(_)) {
        text.push_str(" (a state that this version does not know; it is waited on)");
    }
    text
}

/// What stands for the place of a task whose vendor tells none.
fn place_untold(followed: &Followed) -> Option<String> {
    let can = abilities(followed.reading.resource.as_ref());
    if can.position || followed.reading.state != TaskState::Queued {
        return None;
    }
    match (can.queue, &followed.view.queue) {
        (true, Some(queue)) => {
            Some(format!(", no position told, in its queue: {}", cut(queue, 64)))
        }
        // The device is about to be looked at.
        (true, None) => None,
        // At the door the refusal says why it waits.
        (false, _) if can.waits == Waits::AtTheDoor => None,
        (false, _) => Some(", neither a position nor the queue is told".to_owned()),
    }
}

/// What keeps the sidecar from going on, in one sentence that says what to do.
#[must_use]
pub fn problem(state: &State, at: Timestamp) -> Option<String> {
    let failing = state
        .tasks
        .iter()
        .filter(|t| !t.reading.state.is_final())
        .filter_map(|t| t.failing.as_ref().map(|(since, failure)| (t, *since, failure)));
    let mut worst: Option<(u8, String)> = None;
    for (task, since, failure) in failing {
        let name = name(&task.reading.id);
        let message = &failure.message;
        let lasted = elapsed(since, at);
        let (rank, text) = match failure.kind {
            FailureKind::NoCredentials => (
                0,
                match task.reading.resource {
                    Some(_) => format!(
                        "{message}, on the container that asks for the qpu; the gates stay shut \
                         and it is tried again"
                    ),
                    None => format!(
                        "the sidecar has no AWS credentials ({message}); give them to the \
                         container that asks for the qpu, by environment, Secret, mounted profile \
                         or service account; the gates stay shut and it is tried again"
                    ),
                },
            ),
            FailureKind::Expired => (
                0,
                format!(
                    "the AWS credentials have ended, the vendor refuses them since {} ({message}); \
                     the gates stay shut, and it goes on by itself once they are renewed",
                    since.strftime("%H:%M")
                ),
            ),
            FailureKind::Denied => (
                1,
                match &task.reading.resource {
                    Some(resource) => format!(
                        "{resource} refuses the credentials for {name} since {} ({message}); the \
                         gates stay shut, and it goes on by itself once they are renewed",
                        since.strftime("%H:%M")
                    ),
                    None => format!(
                        "the vendor refuses the sidecar's credentials for {name} ({message}); \
                         renew them or allow braket:GetQuantumTask; the gates stay shut and it is \
                         tried again"
                    ),
                },
            ),
            FailureKind::NotFound if lasted >= UNKNOWN_FOR => (
                2,
                format!(
                    "the vendor does not know {name} ({message}); check the id, and that the \
                     sidecar's credentials belong to its account; it is tried again"
                ),
            ),
            FailureKind::Throttled | FailureKind::Away | FailureKind::Refused
                if lasted >= SILENCE =>
            {
                (
                    3,
                    format!(
                        "the vendor has not told about {name} since {} ({message}); it is tried \
                         again",
                        since.strftime("%H:%M")
                    ),
                )
            }
            _ => continue,
        };
        if worst.as_ref().is_none_or(|(known, _)| rank < *known) {
            worst = Some((rank, text));
        }
    }
    worst.map(|(_, text)| text).or_else(|| state.tap_problem.clone()).or_else(|| {
        let refused = state.refused.as_ref()?;
        Some(format!("the last submission was refused: {refused}"))
    })
}

/// One sentence about what is still alive at the vendor, for the last line of the log.
/// `cancelled`: tasks that the vendor has just been made to end.
#[must_use]
pub fn farewell(state: &State, cancelled: &BTreeSet<String>) -> String {
    let live: Vec<String> = state
        .tasks
        .iter()
        .filter(|t| !t.reading.state.is_final() && !cancelled.contains(&t.reading.id))
        .map(|t| format!("{} {}", t.reading.id, describe(t)))
        .collect();
    let ending = match (live.is_empty(), state.tasks.last()) {
        (true, None) => "ending; no task was seen".to_owned(),
        (true, Some(_)) if !cancelled.is_empty() => {
            format!("ending; {} task(s) cancelled, none is live", cancelled.len())
        }
        (true, Some(last)) => {
            format!("ending; no task is live, the last was {} {}", last.reading.id, describe(last))
        }
        (false, _) => format!("ending; still live at the vendor: {}", live.join("; ")),
    };
    let open: Vec<String> =
        state.sessions.iter().map(|s| format!("{} at {}", s.id, s.place)).collect();
    if open.is_empty() {
        return ending;
    }
    format!(
        "{ending}; sessions that the program left open, and that end by themselves: {}",
        open.join(", ")
    )
}

//! What the tap tells, in the words of the follower.

use sluice_tap::{TapEvent, TaskFacts};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::follow::report;
use crate::follow::state::Seen;
use crate::vendor::Reading;
use crate::vendor::braket::position;

/// Hands on what the tap tells until one of both ends is gone.
pub(crate) async fn run(mut events: mpsc::Receiver<TapEvent>, seen: mpsc::Sender<Seen>) {
    while let Some(event) = events.recv().await {
        say(&event);
        let Some(news) = of(event) else { continue };
        if seen.send(news).await.is_err() {
            return;
        }
    }
}

/// What only the log needs to know.
fn say(event: &TapEvent) {
    match event {
        TapEvent::CancelRequested { task_id, status, .. } => {
            info!("the program asks to cancel {}: answer {status}", report::name(task_id));
        }
        TapEvent::UpstreamAway { host, error, .. } => {
            warn!("the vendor ({host}) cannot be reached, requests are held: {error}");
        }
        TapEvent::UpstreamBack { host, .. } => info!("the vendor ({host}) answers again"),
        TapEvent::Refused { message, .. } => warn!("a request was not forwarded: {message}"),
        TapEvent::NoCredentials { error, .. } => {
            warn!("the sidecar has no credentials to sign the program's requests with: {error}");
        }
        TapEvent::SubmissionUnknown { error, .. } => warn!(
            "the answer to a submission was lost ({error}); the task may exist: it is followed as \
             soon as the program asks for it or submits again"
        ),
        TapEvent::Submitting { .. }
        | TapEvent::Submitted { .. }
        | TapEvent::SubmissionRefused { .. }
        | TapEvent::Polled { .. } => {}
    }
}

/// What the follower needs to know. PURE.
fn of(event: TapEvent) -> Option<Seen> {
    Some(match event {
        TapEvent::Submitted { submission, task_id, .. } => Seen::Submitted {
            id: task_id,
            device: submission.device,
            digest: Some(submission.digest),
            client_token: submission.client_token,
        },
        TapEvent::SubmissionRefused { status, error_type, message, .. } => {
            let kind = error_type.unwrap_or_else(|| status.to_string());
            let message = message.map_or(kind.clone(), |message| format!("{kind}: {message}"));
            Seen::SubmissionRefused { message }
        }
        TapEvent::Polled { facts, at, .. } => Seen::Polled(reading(facts), at),
        TapEvent::Refused { message, .. } => {
            Seen::TapProblem(Some(format!("the program's requests are not forwarded: {message}")))
        }
        TapEvent::NoCredentials { error, .. } => Seen::TapProblem(Some(format!(
            "the sidecar has no AWS credentials to sign the program's requests with ({error}); \
             give them to the container that asks for the qpu"
        ))),
        TapEvent::UpstreamAway { host, since, error } => Seen::TapProblem(Some(format!(
            "the vendor ({host}) cannot be reached since {} ({error}); the program's requests are \
             held and repeated",
            since.strftime("%H:%M")
        ))),
        TapEvent::UpstreamBack { .. } => Seen::TapProblem(None),
        TapEvent::Submitting { .. }
        | TapEvent::SubmissionUnknown { .. }
        | TapEvent::CancelRequested { .. } => return None,
    })
}

fn reading(facts: TaskFacts) -> Reading {
    Reading {
        id: facts.task_id,
        device: facts.device,
        state: facts.state,
        position: position(facts.position_text.as_deref()),
        priority: facts.priority.as_deref() == Some("Priority"),
        reason: facts.failure_reason,
        submitted_at: facts.created_at,
    }
}

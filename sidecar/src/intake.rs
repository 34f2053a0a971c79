//! What the tap tells, in the words of the follower.

use jiff::Timestamp;
use sluice_dialect::quote;
use sluice_shared::task::job_name;
use sluice_tap::TapEvent;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::follow::passing::{Submitted, Waiting};
use crate::follow::report;
use crate::follow::state::{Line, Seen, Session};
use crate::vendor::credentials::{Renewed, Source};
use crate::vendor::rest::reading;

/// Hands on what the tap tells until one of both ends is gone.
pub(crate) async fn run(
    mut events: mpsc::Receiver<TapEvent>,
    seen: mpsc::Sender<Seen>,
    credentials: Renewed,
) {
    let mut last = None;
    // Since when the vendor does not take the keys.
    let mut ended: Option<Timestamp> = None;
    while let Some(event) = events.recv().await {
        let mut line = line(&event);
        let news = match event {
            TapEvent::KeysEnded { code, at, .. } => {
                credentials.forget().await;
                let since = *ended.get_or_insert(at);
                let text = keys_ended(&code, since, credentials.source().await);
                line = Some(Line { warn: true, text: text.clone() });
                Some(Seen::TapProblem(Some(text)))
            }
            TapEvent::KeysTaken { .. } => {
                ended = None;
                Some(Seen::TapProblem(None))
            }
            event => of(event),
        };
        // A program that tries again and again is told of once.
        if line != last {
            match &line {
                Some(Line { warn: true, text }) => warn!("{text}"),
                Some(Line { warn: false, text }) => info!("{text}"),
                None => {}
            }
            last = line;
        }
        let Some(news) = news else { continue };
        if seen.send(news).await.is_err() {
            return;
        }
    }
}

/// Why requests are held, and what to do. PURE.
fn keys_ended(code: &str, since: Timestamp, source: Source) -> String {
    format!(
        "the AWS credentials have ended, the vendor refuses them since {} ({code}; {}); the \
         program's requests are held and the gates stay shut; it goes on by itself once they are \
         renewed",
        since.strftime("%H:%M"),
        source.advice()
    )
}

/// What a hybrid job means for this gang. PURE.
fn hybrid(job: &str) -> String {
    format!(
        "the program made the hybrid job {}: Amazon Braket runs its code and submits its tasks \
         past this pod, so they are not found; announce the task that the consumers should wait \
         for: POST $SLUICE_URL/v1/tasks",
        quote(job_name(job), 128)
    )
}

/// What only the log needs to know. PURE.
fn line(event: &TapEvent) -> Option<Line> {
    let (warn, text) = match event {
        TapEvent::CancelRequested { task_id, status, .. } => (
            false,
            format!("the program asks to cancel {}: answer {status}", report::name(task_id)),
        ),
        TapEvent::UpstreamAway { host, error, .. } => {
            (true, format!("the vendor ({host}) cannot be reached, requests are held: {error}"))
        }
        TapEvent::UpstreamBack { host, .. } => {
            (false, format!("the vendor ({host}) answers again"))
        }
        TapEvent::Refused { message, .. } => {
            (true, format!("a request was not forwarded: {message}"))
        }
        TapEvent::NoCredentials { error, .. } => (
            true,
            format!("the sidecar has no credentials to sign the program's requests with: {error}"),
        ),
        TapEvent::KeysTaken { .. } => {
            (false, "the vendor takes the AWS credentials again".to_owned())
        }
        TapEvent::JobCreated { job, .. } => (true, hybrid(job)),
        TapEvent::Submitting { .. }
        | TapEvent::SubmissionUnknown { .. }
        | TapEvent::SubmissionWaits { .. }
        | TapEvent::SessionOpened { .. }
        | TapEvent::SessionClosed { .. }
        | TapEvent::Submitted { .. }
        | TapEvent::SubmissionRefused { .. }
        | TapEvent::KeysEnded { .. }
        | TapEvent::Polled { .. } => return None,
    };
    Some(Line { warn, text })
}

/// What the follower needs to know. PURE.
fn of(event: TapEvent) -> Option<Seen> {
    Some(match event {
        TapEvent::Submitted { submission, task_id, place, .. } => Seen::Submitted(Submitted {
            resource: place.resource().cloned(),
            id: task_id,
            device: submission.device,
            shots: submission.shots,
            digest: Some(submission.digest),
            client_token: submission.client_token,
        }),
        TapEvent::SubmissionRefused { submission, status, error_type, message, void, .. } => {
            let kind = error_type.unwrap_or_else(|| status.to_string());
            let message = message.map_or(kind.clone(), |message| format!("{kind}: {message}"));
            Seen::SubmissionRefused { message, token: submission.client_token, void }
        }
        TapEvent::SubmissionUnknown { submission, place, error, .. } => {
            Seen::SubmissionUnknown { token: submission.client_token, place, error }
        }
        TapEvent::Polled { facts, at, place } => {
            Seen::Polled(reading(facts, place.resource().cloned()), at)
        }
        TapEvent::SubmissionWaits { submission, place, task_id, reason, .. } => {
            Seen::Waits(Waiting {
                id: task_id,
                device: submission.device,
                reason,
                resource: place.resource().cloned(),
            })
        }
        TapEvent::SessionOpened { session, place, .. } => {
            Seen::SessionOpened(Session { id: session, place: place.to_string() })
        }
        TapEvent::SessionClosed { session, .. } => Seen::SessionClosed(session),
        TapEvent::JobCreated { job, .. } => Seen::TapProblem(Some(hybrid(&job))),
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
        | TapEvent::KeysEnded { .. }
        | TapEvent::KeysTaken { .. }
        | TapEvent::CancelRequested { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use sluice_dialect::braket;
    use sluice_shared::resource::Place;

    use super::*;

    #[test]
    fn a_poll_keeps_every_fact_that_the_follower_judges() {
        let body = br#"{"quantumTaskArn": "t", "status": "QUEUED", "deviceArn": "d",
            "createdAt": "2026-11-29T15:00:00.000Z",
            "queueInfo": {"queue": "QUANTUM_TASKS_QUEUE", "position": ">2000",
                          "queuePriority": "Priority"}}"#;
        let facts = braket::task(body).unwrap();
        let at = Timestamp::UNIX_EPOCH;
        let event = TapEvent::Polled { facts, place: Place::Region("r".into()), at };
        let Some(Seen::Polled(reading, seen_at)) = of(event) else { panic!("a poll is a poll") };
        assert_eq!((reading.id.as_str(), reading.device.as_deref()), ("t", Some("d")));
        assert_eq!(reading.position.as_deref(), Some(">2000"));
        assert!(reading.priority && reading.submitted_at.is_some());
        assert_eq!(seen_at, at);
    }

    #[test]
    fn a_refused_submission_says_by_whom_and_why() {
        let event = TapEvent::SubmissionRefused {
            submission: braket::submission(br#"{"clientToken": "t"}"#).unwrap(),
            place: Place::Region("r".into()),
            status: axum::http::StatusCode::PAYMENT_REQUIRED,
            error_type: Some("ServiceQuotaExceededException".into()),
            message: Some("the spending limit is reached".into()),
            void: true,
            at: Timestamp::UNIX_EPOCH,
        };
        let Some(Seen::SubmissionRefused { message, token, void }) = of(event) else {
            panic!("it is refused")
        };
        assert_eq!(message, "ServiceQuotaExceededException: the spending limit is reached");
        assert_eq!((token.as_deref(), void), (Some("t"), true));
    }
}

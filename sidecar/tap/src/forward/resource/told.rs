//! What came of a submission, as the event that tells it. PURE but for the time.

use http::StatusCode;
use jiff::Timestamp;
use sluice_dialect::{self as dialect, Submission};

use super::{Outcome, Read};
use crate::events::TapEvent;

/// The event that tells what came of a submission.
pub(super) fn told(read: &Read, outcome: &Outcome, submission: Submission) -> TapEvent {
    let (place, at) = (read.place(), Timestamp::now());
    let unknown =
        |submission, place, error| TapEvent::SubmissionUnknown { submission, place, error, at };
    match outcome {
        Outcome::Whole(whole) => {
            let said = dialect::Answer { status: whole.status, body: &whole.body };
            if whole.status.is_success() {
                if let Some(task_id) = read.dialect.accepted(read.request(), said) {
                    return TapEvent::Submitted { submission, place, task_id, known: false, at };
                }
                let error = format!("the vendor answered {} without an id", whole.status);
                return unknown(submission, place, error);
            }
            if let (Some(reason), Some(task_id)) =
                (read.dialect.waits(said), submission.client_token.clone())
            {
                return TapEvent::SubmissionWaits { submission, place, task_id, reason, at };
            }
            TapEvent::SubmissionRefused {
                submission,
                place,
                status: whole.status,
                error_type: None,
                message: read.dialect.message(said),
                // After an error of the vendor's own the task may exist all the same, and so it does
                // where the vendor says that it has one of this id.
                void: whole.status.is_client_error() && Some(whole.status) != read.taken(),
                at,
            }
        }
        Outcome::Streamed(response) => {
            let error = format!("the vendor's answer {} was too long", response.status());
            unknown(submission, place, error)
        }
        Outcome::GaveUp { error, arrived: false } => TapEvent::SubmissionRefused {
            submission,
            place,
            status: StatusCode::SERVICE_UNAVAILABLE,
            error_type: None,
            message: Some(error.clone()),
            void: true,
            at,
        },
        Outcome::GaveUp { error, .. } | Outcome::HungUp { error } => {
            unknown(submission, place, error.clone())
        }
    }
}

//! What all submissions have in common, whoever the vendor is: they are asked about first, guarded,
//! told of before and after, and what came of them is one of the same few things.

use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use sluice_dialect::Submission;
use sluice_shared::resource::Place;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::exchange::Outcome;
use super::{Forwarder, HungUp, kind_of};
use crate::answer;
use crate::events::TapEvent;
use crate::guard::Refusal;
use crate::intents::{Asked, Forward};
use crate::polls::Whole;

/// How a vendor's answer to a submission reads.
pub(super) trait Reads {
    /// The id of the task, in an answer that is no error.
    fn task_id(&self, whole: &Whole) -> Option<String>;

    /// The vendor's words in an error.
    fn message(&self, whole: &Whole) -> Option<String>;

    /// Why it will be taken later, and under which id: the refusal is the vendor's queue.
    fn waits(&self, _submission: &Submission, _whole: &Whole) -> Option<(String, String)> {
        None
    }

    /// Whether a refusal says that the vendor has the task already.
    fn has_it(&self, _whole: &Whole) -> bool {
        false
    }
}

/// The event that tells what came of a submission; `certain`: no earlier attempt can have made a
/// task.
pub(super) fn told(
    outcome: &Outcome,
    certain: bool,
    submission: Submission,
    place: Place,
    vendor: &impl Reads,
) -> TapEvent {
    let at = Timestamp::now();
    match outcome {
        Outcome::Whole(whole) if whole.status.is_success() => {
            if let Some(task_id) = vendor.task_id(whole) {
                return TapEvent::Submitted { submission, place, task_id, known: false, at };
            }
            let error = format!("the vendor answered {} without an id", whole.status);
            TapEvent::SubmissionUnknown { submission, place, error, at }
        }
        Outcome::Whole(whole) | Outcome::KeysEnded(whole) => {
            if let Some((reason, task_id)) = vendor.waits(&submission, whole) {
                return TapEvent::SubmissionWaits { submission, place, task_id, reason, at };
            }
            TapEvent::SubmissionRefused {
                submission,
                place,
                status: whole.status,
                error_type: kind_of(whole).map(str::to_owned),
                message: vendor.message(whole),
                // After an error of the vendor's own the task may exist all the same.
                void: certain && whole.status.is_client_error() && !vendor.has_it(whole),
                at,
            }
        }
        Outcome::Other(response) => {
            let error = format!("the vendor's answer {} was too long", response.status());
            TapEvent::SubmissionUnknown { submission, place, error, at }
        }
        Outcome::GaveUp { error, arrived: false, .. } => TapEvent::SubmissionRefused {
            submission,
            place,
            status: StatusCode::SERVICE_UNAVAILABLE,
            error_type: None,
            message: Some(error.clone()),
            void: true,
            at,
        },
        Outcome::GaveUp { error, arrived: true, .. } | Outcome::HungUp { error } => {
            TapEvent::SubmissionUnknown { submission, place, error: error.clone(), at }
        }
    }
}

fn answered_with(refusal: &Refusal) -> Outcome {
    let (status, kind) = refusal.form();
    Outcome::Whole(Arc::new(answer::refused(status, kind, &refusal.message)))
}

impl Forwarder {
    /// Asks what is to happen with a submission. Whoever comes after a program that has gone asks
    /// anew: its question must not take a task.
    pub(super) async fn ask(
        &self,
        asked: &Asked,
        gone: &CancellationToken,
    ) -> Result<Forward, HungUp> {
        tokio::select! {
            forward = self.intend(asked) => Ok(forward),
            () = gone.cancelled() => Err(HungUp),
        }
    }

    async fn intend(&self, asked: &Asked) -> Forward {
        let Some(intents) = &self.intents else { return Forward::Send };
        let limit = self.config.limits.intent_time;
        if let Ok(forward) = timeout(limit, intents.before(asked)).await {
            return forward;
        }
        tracing::warn!(
            seconds = limit.as_secs_f32(),
            digest = asked.submission.digest,
            "the intent to submit could not be recorded in time; the submission goes on, a restart \
             of the program now may pay for it twice"
        );
        Forward::Send
    }

    /// The answer to a submission that the guard refuses.
    pub(super) async fn guarded(&self, submission: &Submission) -> Option<Outcome> {
        Some(answered_with(&self.guard.as_ref()?.check(submission).await.err()?))
    }

    /// The answer to a submission that cannot be read, where a guard has to judge each.
    pub(super) fn guarded_unread(&self) -> Option<Outcome> {
        self.guard.as_ref()?;
        let message = format!(
            "Sluice refused a submission that it cannot read, because a ceiling or a backend is \
             set for the Job. Nothing was sent. Send it as the vendor's JSON, plain or in gzip \
             with at most {} MiB unpacked, or take the annotation off the Job.",
            self.config.limits.plain >> 20
        );
        Some(answered_with(&Refusal { again: false, message }))
    }

    /// Tells that a submission is about to be forwarded.
    pub(super) fn begins(&self, submission: &Submission, place: &Place) {
        let (submission, place) = (submission.clone(), place.clone());
        self.outbox.put(TapEvent::Submitting { submission, place, at: Timestamp::now() });
    }

    /// Tells what came of it; `own`: as the program sent it.
    pub(super) fn ends(&self, own: &Submission, event: TapEvent) {
        if let (Some(guard), TapEvent::SubmissionRefused { void: true, .. }) = (&self.guard, &event)
        {
            guard.refused(own);
        }
        self.outbox.put(event);
    }

    /// Tells that a submission got a task that exists.
    pub(super) fn gets_known(&self, submission: Submission, place: Place, task_id: String) {
        let (known, at) = (true, Timestamp::now());
        self.outbox.put(TapEvent::Submitted { submission, place, task_id, known, at });
    }
}

//! What the tap tells the sidecar, and how it does so without ever waiting for it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use http::StatusCode;
use jiff::Timestamp;
use sluice_dialect::{Submission, TaskFacts};
use sluice_shared::resource::Place;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Something that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapEvent {
    /// A submission is about to be forwarded.
    Submitting {
        /// What is asked for.
        submission: Submission,
        /// Where it goes.
        place: Place,
        /// When.
        at: Timestamp,
    },
    /// The vendor took a submission.
    Submitted {
        /// What was asked for, with the `clientToken` under which it was sent.
        submission: Submission,
        /// Where it went.
        place: Place,
        /// ARN of the task.
        task_id: String,
        /// Whether the answer is that of an earlier, identical submission (see
        /// [`Intents`](crate::Intents)) and nothing was sent.
        known: bool,
        /// When.
        at: Timestamp,
    },
    /// The vendor has no room for a submission yet, and refuses it until it has: this is its queue.
    SubmissionWaits {
        /// What is asked for.
        submission: Submission,
        /// Where it goes.
        place: Place,
        /// The id that the task will have.
        task_id: String,
        /// Why it waits.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// The program opened a session.
    SessionOpened {
        /// The session.
        session: String,
        /// Where.
        place: Place,
        /// When.
        at: Timestamp,
    },
    /// The program ended a session, or lets no more jobs into it.
    SessionClosed {
        /// The session.
        session: String,
        /// Where.
        place: Place,
        /// When.
        at: Timestamp,
    },
    /// The vendor refused a submission.
    SubmissionRefused {
        /// What was asked for, with the `clientToken` under which it was sent.
        submission: Submission,
        /// Where it went.
        place: Place,
        /// Status of the answer.
        status: StatusCode,
        /// Kind of the error, as the vendor names it.
        error_type: Option<String>,
        /// The vendor's message.
        message: Option<String>,
        /// Whether no task can have come of this request.
        void: bool,
        /// When.
        at: Timestamp,
    },
    /// A submission may or may not have arrived: its answer was lost for good.
    SubmissionUnknown {
        /// What was asked for.
        submission: Submission,
        /// Where it went.
        place: Place,
        /// What went wrong.
        error: String,
        /// When.
        at: Timestamp,
    },
    /// The program asked for a task and the vendor answered.
    Polled {
        /// What the answer says.
        facts: TaskFacts,
        /// Where it came from.
        place: Place,
        /// When.
        at: Timestamp,
    },
    /// The program made a hybrid job: the vendor runs its code, and that submits the tasks.
    JobCreated {
        /// ARN of the job.
        job: String,
        /// When.
        at: Timestamp,
    },
    /// The program asked the vendor to cancel a task.
    CancelRequested {
        /// ARN of the task.
        task_id: String,
        /// Status of the answer.
        status: StatusCode,
        /// When.
        at: Timestamp,
    },
    /// A request was not forwarded because of its signature.
    Refused {
        /// Key id of the caller, where it could be read.
        caller_key_id: Option<String>,
        /// Key id of the sidecar.
        own_key_id: Option<String>,
        /// What the program was told.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// The sidecar has no credentials to sign with.
    NoCredentials {
        /// What the source of credentials says.
        error: String,
        /// When.
        at: Timestamp,
    },
    /// The vendor does not take the sidecar's keys any more; requests are held.
    KeysEnded {
        /// Key id of the sidecar.
        key_id: String,
        /// The vendor's word, such as `ExpiredTokenException`.
        code: String,
        /// When.
        at: Timestamp,
    },
    /// The vendor takes the sidecar's keys again.
    KeysTaken {
        /// When.
        at: Timestamp,
    },
    /// The vendor cannot be reached; requests are held.
    UpstreamAway {
        /// Host that is away.
        host: String,
        /// Since when.
        since: Timestamp,
        /// What went wrong.
        error: String,
    },
    /// The vendor answers again.
    UpstreamBack {
        /// Host that is back.
        host: String,
        /// Since when it was away.
        since: Timestamp,
        /// When.
        at: Timestamp,
    },
}

/// Events that wait for a slow reader are merged from this number on.
const ROOM: usize = 1024;

/// Takes events without waiting and hands them on as fast as the receiver reads.
///
/// What costs money is never dropped; of polls of one task the newest is enough.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<VecDeque<TapEvent>>,
    news: Notify,
}

impl Outbox {
    /// Puts an event into the queue.
    pub(crate) fn put(&self, event: TapEvent) {
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            add(&mut waiting, event);
        }
        self.news.notify_one();
    }

    fn take(&self) -> Option<TapEvent> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Hands on until told to stop or until nobody reads. What is queued at the stop is still
    /// handed on; the caller bounds the time for that.
    pub(crate) async fn hand_on(&self, events: &mpsc::Sender<TapEvent>, stop: &CancellationToken) {
        loop {
            while let Some(event) = self.take() {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                biased;
                () = self.news.notified() => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

/// Adds an event; a newer poll of a task takes the place of an older one that nobody has read.
fn add(waiting: &mut VecDeque<TapEvent>, event: TapEvent) {
    match &event {
        TapEvent::Polled { facts, .. } => {
            let older = waiting.iter_mut().find(|old| {
                matches!(old, TapEvent::Polled { facts: old, .. } if old.task_id == facts.task_id)
            });
            if let Some(older) = older {
                *older = event;
                return;
            }
        }
        TapEvent::SubmissionWaits { task_id, .. } => {
            let is_its = |old: &TapEvent| matches!(old, TapEvent::SubmissionWaits { task_id: id, .. } if id == task_id);
            waiting.retain(|old| !is_its(old));
        }
        TapEvent::Refused { caller_key_id, message, .. } => {
            let told = waiting.iter().any(|old| {
                matches!(old, TapEvent::Refused { caller_key_id: id, message: text, .. }
                    if id == caller_key_id && text == message)
            });
            if told {
                return;
            }
        }
        TapEvent::KeysEnded { key_id, .. } => {
            let told = waiting
                .iter()
                .any(|old| matches!(old, TapEvent::KeysEnded { key_id: id, .. } if id == key_id));
            if told {
                return;
            }
        }
        TapEvent::NoCredentials { .. } => {
            waiting.retain(|old| !matches!(old, TapEvent::NoCredentials { .. }));
        }
        _ => {}
    }
    if waiting.len() >= ROOM
        && let Some(oldest) = waiting.iter().position(|old| !matters(old))
    {
        waiting.remove(oldest);
    }
    waiting.push_back(event);
}

/// Whether an event tells of something that costs money.
fn matters(event: &TapEvent) -> bool {
    matches!(
        event,
        TapEvent::Submitting { .. }
            | TapEvent::Submitted { .. }
            | TapEvent::SubmissionWaits { .. }
            | TapEvent::SubmissionRefused { .. }
            | TapEvent::SubmissionUnknown { .. }
            | TapEvent::JobCreated { .. }
            | TapEvent::CancelRequested { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_dialect::braket;

    fn polled(task: &str, status: &str) -> TapEvent {
        let body = format!(r#"{{"quantumTaskArn": "{task}", "status": "{status}"}}"#);
        TapEvent::Polled {
            facts: braket::task(body.as_bytes()).unwrap(),
            place: Place::Region("us-east-1".into()),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    fn submitted(task: &str) -> TapEvent {
        TapEvent::Submitted {
            submission: braket::submission(b"{}").unwrap(),
            place: Place::Region("us-east-1".into()),
            task_id: task.into(),
            known: false,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_newer_poll_takes_the_place_of_an_unread_one() {
        let mut waiting = VecDeque::new();
        for event in [polled("a", "QUEUED"), submitted("b"), polled("a", "RUNNING")] {
            add(&mut waiting, event);
        }
        assert_eq!(waiting, [polled("a", "RUNNING"), submitted("b")]);
    }

    #[test]
    fn submissions_survive_any_number_of_polls() {
        let mut waiting = VecDeque::new();
        for index in 0..ROOM * 2 {
            add(&mut waiting, submitted(&format!("s{index}")));
            add(&mut waiting, polled(&format!("t{index}"), "QUEUED"));
        }
        let kept = waiting.iter().filter(|event| matters(event)).count();
        assert_eq!(kept, ROOM * 2);
        assert!(waiting.len() <= ROOM * 2 + 1);
    }

    #[tokio::test]
    async fn a_slow_reader_gets_everything_that_matters_and_the_newest_poll() {
        let outbox = Outbox::default();
        let (sender, mut receiver) = mpsc::channel(1);
        for index in 0..100 {
            outbox.put(submitted(&format!("s{index}")));
            outbox.put(polled("t", if index == 99 { "COMPLETED" } else { "QUEUED" }));
        }
        let stop = CancellationToken::new();
        let read = async {
            let mut submissions = 0;
            let mut last = None;
            while submissions < 100 || last.is_none() {
                match receiver.recv().await.unwrap() {
                    TapEvent::Submitted { .. } => submissions += 1,
                    event => last = Some(event),
                }
            }
            stop.cancel();
            last.unwrap()
        };
        let (last, ()) = tokio::join!(read, outbox.hand_on(&sender, &stop));
        assert_eq!(last, polled("t", "COMPLETED"));
    }
}

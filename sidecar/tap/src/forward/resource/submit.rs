//! A submission to a resource: the task of an earlier run, or a new one.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use sluice_dialect::{self as dialect, Operation, Resume, Submission};

use super::Read;
use crate::connections::Ties;
use crate::events::TapEvent;
use crate::forward::exchange::Outcome;
use crate::forward::submission::{Reads, told};
use crate::forward::{Forwarder, HungUp};
use crate::intents::{Asked, Forward};
use crate::polls::Whole;
use crate::upstream;

impl Reads for Read {
    fn task_id(&self, whole: &Whole) -> Option<String> {
        self.dialect.accepted(self.request(), said(whole))
    }

    fn message(&self, whole: &Whole) -> Option<String> {
        self.dialect.message(said(whole))
    }

    fn waits(&self, submission: &Submission, whole: &Whole) -> Option<(String, String)> {
        self.dialect.waits(said(whole)).zip(submission.client_token.clone())
    }

    fn has_it(&self, whole: &Whole) -> bool {
        Some(whole.status) == self.taken()
    }
}

fn said(whole: &Whole) -> dialect::Answer<'_> {
    dialect::Answer { status: whole.status, body: &whole.body }
}

/// What the vendor says of a task that a submission is to get.
enum Known {
    /// It has it; the answer to the submission.
    Had(Response<Body>),
    /// Not for this program.
    NotHad,
    /// It did not say.
    Untold(Outcome),
}

/// Whether the answer to a question for a task says that this program does not have it. All other
/// refusals are of the question.
fn is_not_had(status: StatusCode) -> bool {
    [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND, StatusCode::GONE].contains(&status)
}

impl Forwarder {
    /// Forwards what makes a task, and tells what came of it.
    pub(super) async fn submit_to(
        self: Arc<Self>,
        mut read: Read,
        ties: Ties,
    ) -> Result<Response<Body>, HungUp> {
        let Some(mut submission) = read.dialect.submission(read.request()) else {
            let unread = Submission::unread(&read.body);
            if let Some(refused) = self.guarded_unread() {
                self.outbox.put(told(&refused, true, unread, read.place(), &read));
                return self.respond_to(&read, refused);
            }
            // What cannot be read is for the vendor to judge. It may be able to.
            let (outcome, certain) = self.send(&read).await;
            let event = told(&outcome, certain, unread, read.place(), &read);
            if matches!(event, TapEvent::Submitted { .. } | TapEvent::SubmissionUnknown { .. }) {
                self.outbox.put(event);
            }
            return self.respond_to(&read, outcome);
        };
        let place = read.place();
        if read.dialect.abilities().resume != Resume::No {
            // The vendor knows no such token: this one names the record of the submission.
            submission
                .client_token
                .get_or_insert_with(|| format!("{:032x}", rand::random::<u128>()));
            let asked = Asked { submission: submission.clone(), place: place.clone(), ties };
            if self.intents.is_some() {
                // The record may take nearly all of the time.
                read.least = self.config.limits.send_time;
            }
            let mut strangers = HashSet::new();
            loop {
                let forward = self.ask(&asked, &read.gone).await?;
                let Forward::Known(task_id) = forward else { break };
                match self.known_to(&read, &task_id).await {
                    Known::Had(response) => {
                        self.gets_known(submission, place, task_id);
                        return Ok(response);
                    }
                    Known::NotHad => self.return_known(&asked, &task_id, true).await,
                    // Anything else than sending it anew: the task is there, and would be paid
                    // for twice.
                    Known::Untold(outcome) => {
                        self.return_known(&asked, &task_id, false).await;
                        return self.respond_to(&read, outcome);
                    }
                }
                if !strangers.insert(task_id) {
                    break;
                }
            }
        }
        if let Some(refused) = self.guarded(&submission).await {
            self.outbox.put(told(&refused, true, submission, place, &read));
            return self.respond_to(&read, refused);
        }
        self.begins(&submission, &place);
        let (outcome, certain) = self.send(&read).await;
        let event = told(&outcome, certain, submission.clone(), place, &read);
        self.ends(&submission, event);
        self.respond_to(&read, outcome)
    }

    /// Asks the vendor for the task of an earlier run that a submission is to get.
    async fn known_to(&self, read: &Read, task_id: &str) -> Known {
        let call = read.dialect.ask_task(task_id);
        let Some(url) = upstream::url(&read.target, &call.path) else { return Known::NotHad };
        let mut headers = read.headers.clone();
        for name in [http::header::CONTENT_TYPE, http::header::CONTENT_ENCODING] {
            headers.remove(name);
        }
        let poll = Read {
            operation: Operation::Poll(task_id.to_owned()),
            dialect: read.dialect,
            resource: read.resource.clone(),
            method: call.method,
            path: call.path,
            target: read.target.clone(),
            url,
            headers,
            body: Bytes::new(),
            plain: Bytes::new(),
            deadline: read.deadline,
            least: read.least,
            answer_time: self.config.limits.answer_time,
            is_long_poll: false,
            gone: read.gone.clone(),
            _room: None,
        };
        match self.send(&poll).await.0 {
            Outcome::Whole(whole) if whole.status.is_success() => {
                let mut response = whole.response();
                *response.status_mut() = read.dialect.accepted_status();
                Known::Had(response)
            }
            // Too long to be read; the program gets it, and so the task.
            Outcome::Other(mut response) if response.status().is_success() => {
                *response.status_mut() = read.dialect.accepted_status();
                Known::Had(*response)
            }
            Outcome::Whole(whole) if is_not_had(whole.status) => Known::NotHad,
            outcome => Known::Untold(outcome),
        }
    }

    async fn return_known(&self, asked: &Asked, task_id: &str, unknown: bool) {
        if let Some(intents) = &self.intents {
            intents.returned(asked, task_id, unknown).await;
        }
    }
}

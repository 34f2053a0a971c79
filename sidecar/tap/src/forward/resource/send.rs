//! A request at a resource: attempts until there is an answer, or no time left.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sluice_dialect::{self as dialect, Dialect, Operation};
use tokio::time::{Instant, sleep, timeout_at};

use super::Read;
use crate::forward::Forwarder;
use crate::forward::exchange::{LONGEST_PAUSE, Outcome, pauses, pauses_of_throttled};
use crate::hold::{self, Next, Seen};
use crate::operation::Repeat;
use crate::polls::Whole;
use crate::upstream::{self, Attempt, Reading};

impl Forwarder {
    /// Attempts until there is an answer to pass on or the time to hold has passed. Says also
    /// whether what is passed on is certain: no earlier attempt can have made a task.
    pub(super) async fn send(&self, read: &Read) -> (Outcome, bool) {
        let host = &read.target.host;
        let (mut short_pauses, mut long_pauses) = (pauses(), pauses_of_throttled());
        let (mut arrived, mut lost) = (false, false);
        let deadline = read.deadline.max(Instant::now() + read.least);
        loop {
            if read.gone.is_cancelled() {
                let error = "the program has closed its connection".to_owned();
                return (Outcome::GaveUp { error, arrived, keyless: false }, !lost);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = read.answer_time.min(left.max(Duration::from_millis(100)));
            let (method, url) = (read.method.clone(), read.url.clone());
            let patient = self.patient.as_ref().filter(|_| read.is_long_poll);
            let client = patient.unwrap_or(&self.client);
            let sent = upstream::attempt(
                client,
                (method, url),
                read.headers.clone(),
                read.body.clone(),
                limit,
            );
            let (seen, error, outcome) = match sent.await {
                Attempt::NotSent(error) => (Seen::NotSent, error, None),
                Attempt::Lost(error) => (Seen::Lost, error, None),
                Attempt::Answer(answer) => self.answered(read, answer, lost, deadline).await,
            };
            match (seen, &outcome) {
                (Seen::Answered(status, _), _) if !hold::is_away(status) => {
                    self.away.clear(host, &self.outbox);
                }
                (Seen::Throttled(_), _) => self.away.clear(host, &self.outbox),
                _ => self.away.mark(host, &error, &self.outbox),
            }
            arrived |= !matches!(seen, Seen::NotSent | Seen::Throttled(_));
            let certain = !lost;
            lost |= seen == Seen::Lost;
            let (pauses, repeat) = match seen {
                // Nothing was done, so that it can be sent again whatever it is.
                Seen::Throttled(_) => (&mut long_pauses, Repeat::Freely),
                _ => (&mut short_pauses, read.repeat()),
            };
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            let left = deadline.saturating_duration_since(Instant::now());
            match (hold::next(seen, repeat, read.has_token(), pause, left), outcome) {
                (Next::PassOn, Some(outcome)) => return (outcome, certain),
                (Next::Again(pause), _) => {
                    tracing::debug!(host, error, ?pause, "the request is held");
                    // Nobody waits any more: no further attempt.
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = read.gone.cancelled() => {}
                    }
                }
                (Next::HangUp, _) => return (Outcome::HungUp { error }, certain),
                (Next::GiveUp | Next::PassOn, _) => {
                    return (Outcome::GaveUp { error, arrived, keyless: false }, certain);
                }
            }
        }
    }

    /// What an answer is worth; `lost`: an earlier attempt may have arrived.
    async fn answered(
        &self,
        read: &Read,
        answer: reqwest::Response,
        lost: bool,
        deadline: Instant,
    ) -> (Seen, String, Option<Outcome>) {
        let (status, wish) = (answer.status(), upstream::wish(answer.headers()));
        self.rights.note(&read.resource, &read.headers, status);
        let error = format!("it answered {status}");
        let seen = Seen::Answered(status, wish);
        if lost && Some(status) == read.taken() {
            // The first of two equal requests had arrived.
            let (status, body) = (read.dialect.accepted_status(), Bytes::new());
            let whole = Whole { status, headers: HeaderMap::new(), body };
            return (Seen::Answered(status, None), error, Some(Outcome::Whole(Arc::new(whole))));
        }
        if !read.is_read() {
            return (seen, error, Some(Outcome::Other(Box::new(upstream::streamed(answer)))));
        }
        let until = deadline.max(Instant::now() + self.config.limits.answer_time);
        match timeout_at(until, upstream::read(answer, self.config.limits.answer)).await {
            Ok(Reading::Whole(whole)) => {
                let said = dialect::Answer { status, body: &whole.body };
                let is_held =
                    read.operation == Operation::Submit && comes_too_soon(read.dialect, said, wish);
                let outcome = Some(Outcome::Whole(Arc::new(whole)));
                if is_held {
                    return (Seen::Throttled(wish), error, outcome);
                }
                (seen, error, outcome)
            }
            // Half an answer to a submission is no answer: the id is in the other half.
            Ok(Reading::Broken(_, error)) if read.operation == Operation::Submit => {
                (Seen::Lost, error, None)
            }
            Ok(Reading::TooLong(response) | Reading::Broken(response, _)) => {
                (seen, error, Some(Outcome::Other(Box::new(response))))
            }
            Err(_) => (Seen::Lost, "the answer did not come to its end in time".to_owned(), None),
        }
    }
}

/// Whether a refused submission is held and sent again in place of the program: the vendor says
/// when to come again, or publishes a limit that passes. What another 429 means nobody knows, a
/// quota of the month maybe: the program's own client hears it at once.
fn comes_too_soon(
    dialect: &dyn Dialect,
    said: dialect::Answer<'_>,
    wish: Option<Duration>,
) -> bool {
    // Where the refusal is the queue, the client's own loop is the wait.
    said.status == StatusCode::TOO_MANY_REQUESTS
        && dialect.waits(said).is_none()
        && (wish.is_some() || dialect.is_rate_limit(said))
}

#[cfg(test)]
mod tests {
    use sluice_shared::resource::Service;

    use super::*;

    #[test]
    fn who_is_held_after_429() {
        use Service::{
            AliceBobFelis, IbmQuantumComputeService, IbmQuantumSystem, IqmServer, PasqalCloud,
        };
        for (service, alone, with_a_wish) in [
            (IbmQuantumComputeService, true, true),
            (IbmQuantumSystem, false, false),
            (PasqalCloud, false, true),
            (IqmServer, false, true),
            (AliceBobFelis, false, true),
        ] {
            let dialect = dialect::of(service);
            let of = |status, wish: Option<u64>| {
                let said = dialect::Answer { status, body: b"{}" };
                comes_too_soon(dialect, said, wish.map(Duration::from_secs))
            };
            assert_eq!(of(StatusCode::TOO_MANY_REQUESTS, None), alone, "{service}");
            assert_eq!(of(StatusCode::TOO_MANY_REQUESTS, Some(1)), with_a_wish, "{service}");
            assert!(!of(StatusCode::LOCKED, Some(1)) && !of(StatusCode::FORBIDDEN, Some(1)));
        }
    }
}

//! A request at the vendor: attempts until there is an answer, or no time left.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_credential_types::Credentials;
use axum::body::Body;
use backon::{BackoffBuilder, ExponentialBuilder};
use http::{HeaderMap, Response, StatusCode};
use jiff::Timestamp;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::Forwarder;
use super::arrival::Accepted;
use crate::answer::{self, ERROR_TYPE};
use crate::config::Target;
use crate::events::TapEvent;
use crate::hold::{self, Next, Seen};
use crate::keys::says_ended;
use crate::operation::Operation;
use crate::polls::{Throttled, Whole};
use crate::quota::Asks;
use crate::signature::{Covered, SignatureError, signed_again};
use crate::upstream::{self, Attempt, Reading};

/// What came of a request at the vendor.
pub(super) enum Outcome {
    Whole(Arc<Whole>),
    /// The vendor does not take our keys any more; its answer.
    KeysEnded(Arc<Whole>),
    Other(Box<Response<Body>>),
    HungUp {
        error: String,
    },
    /// `arrived`: one of the attempts may have reached the vendor. `keyless`: there was nothing to
    /// sign the last one with.
    GaveUp {
        error: String,
        arrived: bool,
        keyless: bool,
    },
}

/// What came of one attempt.
enum Tried {
    Answered {
        status: StatusCode,
        wish: Option<Duration>,
        throttled: bool,
        outcome: Outcome,
    },
    /// The vendor does not take the keys of our signature any more.
    KeysEnded {
        code: String,
        answer: Arc<Whole>,
    },
    NotSent(String),
    Lost(String),
    /// Nothing to sign with. `is_passing`: waiting may help.
    Unsigned {
        error: String,
        is_passing: bool,
    },
}

impl Tried {
    fn seen(&self) -> Seen {
        match self {
            Self::Answered { throttled: true, wish, .. } => Seen::Throttled(*wish),
            Self::Answered { status, wish, .. } => Seen::Answered(*status, *wish),
            Self::KeysEnded { .. } => Seen::KeysEnded,
            Self::NotSent(_) | Self::Unsigned { .. } => Seen::NotSent,
            Self::Lost(_) => Seen::Lost,
        }
    }
}

impl Forwarder {
    /// Attempts until there is an answer to pass on or the time to hold has passed.
    pub(super) async fn exchange(&self, accepted: &Accepted, when: Throttled) -> Outcome {
        self.exchange_until(accepted, when, accepted.deadline).await
    }

    /// The same with another end of the wait for renewed keys.
    pub(super) async fn exchange_until(
        &self,
        accepted: &Accepted,
        when: Throttled,
        keys_deadline: Instant,
    ) -> Outcome {
        self.attempts(accepted, when, keys_deadline).await.0
    }

    /// The same for a submission, and whether a refusal is certain: no earlier attempt can have
    /// made a task.
    pub(super) async fn exchange_certain(&self, accepted: &Accepted) -> (Outcome, bool) {
        self.attempts(accepted, Throttled::AskAgain, accepted.deadline).await
    }

    async fn attempts(
        &self,
        accepted: &Accepted,
        when: Throttled,
        keys_deadline: Instant,
    ) -> (Outcome, bool) {
        let host = &accepted.target.host;
        let repeat = accepted.operation.repeat();
        let mut short_pauses = pauses();
        let mut long_pauses = pauses_of_throttled();
        let mut arrived = false;
        let mut certain = true;
        self.leave_alone(accepted).await;
        loop {
            if accepted.gone.is_cancelled() {
                let error = "the program has closed its connection".to_owned();
                return (Outcome::GaveUp { error, arrived, keyless: false }, certain);
            }
            let certain_before = certain;
            let tried = self.attempt(accepted).await;
            let seen = tried.seen();
            let keyless = matches!(tried, Tried::Unsigned { .. });
            if let Seen::Throttled(wish) = seen {
                if let Some(asks) = asks(accepted.operation) {
                    self.quota.throttled(asks, wish);
                }
                tracing::debug!(host, operation = ?accepted.operation, ?wish, "throttled");
            }
            arrived |= !matches!(seen, Seen::NotSent | Seen::KeysEnded);
            certain &= !matches!(seen, Seen::Lost | Seen::Answered(..));
            let (error, outcome) = match tried {
                Tried::Answered { status, outcome, .. } => {
                    let error = format!("it answered {status}");
                    if hold::is_away(status) {
                        self.away.mark(host, &error, &self.outbox);
                    } else {
                        self.away.clear(host, &self.outbox);
                    }
                    (error, Some(outcome))
                }
                Tried::KeysEnded { code, answer } => {
                    self.away.clear(host, &self.outbox);
                    (format!("it answered {code}"), Some(Outcome::KeysEnded(answer)))
                }
                Tried::NotSent(error) | Tried::Lost(error) => {
                    self.away.mark(host, &error, &self.outbox);
                    (error, None)
                }
                Tried::Unsigned { error, is_passing: true } => (error, None),
                Tried::Unsigned { error, is_passing: false } => {
                    return (Outcome::GaveUp { error, arrived, keyless }, certain_before);
                }
            };
            let pauses = match seen {
                Seen::Throttled(_) => &mut long_pauses,
                _ => &mut short_pauses,
            };
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            let until = match (seen, when) {
                (Seen::Throttled(_), Throttled::Tell) => Instant::now(),
                _ if keyless || seen == Seen::KeysEnded => keys_deadline,
                _ => accepted.deadline,
            };
            let left = until.saturating_duration_since(Instant::now());
            match (hold::next(seen, repeat, accepted.token, pause, left), outcome) {
                (Next::PassOn, Some(outcome)) => return (outcome, certain_before),
                (Next::Again(pause), _) => {
                    tracing::debug!(host, error, ?pause, "the request is held");
                    // Nobody waits any more: no further attempt.
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = accepted.gone.cancelled() => {}
                    }
                }
                (Next::HangUp, _) => return (Outcome::HungUp { error }, certain_before),
                (Next::GiveUp | Next::PassOn, _) => {
                    return (Outcome::GaveUp { error, arrived, keyless }, certain_before);
                }
            }
        }
    }

    /// Waits as long as the vendor wishes, if there is time for it.
    async fn leave_alone(&self, accepted: &Accepted) {
        let until = asks(accepted.operation).and_then(|asks| self.quota.not_before(asks));
        if let Some(until) = until.filter(|until| *until < accepted.deadline) {
            tokio::select! {
                () = sleep_until(until) => {}
                () = accepted.gone.cancelled() => {}
            }
        }
    }

    /// One attempt, with a signature of its own: the credentials may have changed meanwhile.
    async fn attempt(&self, accepted: &Accepted) -> Tried {
        let limits = &self.config.limits;
        let own = match self.keys.current().await {
            Ok(own) => own,
            Err(error) => {
                self.note_no_credentials(&error);
                return Tried::Unsigned { is_passing: error.is_passing, error: error.to_string() };
            }
        };
        let headers = match sign(accepted, &own) {
            Ok(headers) => headers,
            Err(error) => return Tried::Unsigned { error: error.to_string(), is_passing: false },
        };
        let left = accepted.deadline.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(100));
        let request = (accepted.method.clone(), accepted.url.clone());
        let body = accepted.body.clone();
        let limit = limits.answer_time.min(left);
        let answer = match upstream::attempt(&self.client, request, headers, body, limit).await {
            Attempt::Answer(answer) => answer,
            Attempt::NotSent(error) => return Tried::NotSent(error),
            Attempt::Lost(error) => return Tried::Lost(error),
        };
        let (status, wish) = (answer.status(), upstream::wish(answer.headers()));
        if let Some(code) = ended(status, answer.headers()) {
            return self.keys_ended(accepted, answer, own.access_key_id(), code).await;
        }
        self.keys_taken();
        let kind = answer.headers().get(answer::ERROR_TYPE).and_then(|kind| kind.to_str().ok());
        let throttled = hold::is_throttled(status, kind);
        let answered = |outcome| Tried::Answered { status, wish, throttled, outcome };
        if !accepted.operation.is_read() {
            return answered(Outcome::Other(Box::new(upstream::streamed(answer))));
        }
        let limit = accepted.deadline.max(Instant::now() + limits.answer_time.min(left));
        match timeout_at(limit, upstream::read(answer, limits.answer)).await {
            Ok(Reading::Whole(whole)) => answered(Outcome::Whole(Arc::new(whole))),
            // Half an answer to a submission is no answer: the ARN is in the other half.
            Ok(Reading::Broken(_, error)) if accepted.operation == Operation::CreateQuantumTask => {
                Tried::Lost(error)
            }
            Ok(Reading::TooLong(response) | Reading::Broken(response, _)) => {
                answered(Outcome::Other(Box::new(response)))
            }
            Err(_) => Tried::Lost("the answer did not come to its end in time".to_owned()),
        }
    }

    /// The vendor does not take our keys: their source is asked again, and people are told.
    async fn keys_ended(
        &self,
        accepted: &Accepted,
        answer: reqwest::Response,
        key_id: &str,
        code: String,
    ) -> Tried {
        self.keys.refused(key_id).await;
        let limit = Instant::now() + self.config.limits.answer_time;
        let read = upstream::read(answer, self.config.limits.answer);
        let Ok(Reading::Whole(whole)) = timeout_at(limit, read).await else {
            // It was refused, so it may be sent again.
            return Tried::NotSent(format!("it answered {code} and broke off"));
        };
        if !self.ended.swap(true, Ordering::Relaxed) {
            tracing::debug!(
                host = accepted.target.host,
                key = key_id,
                code,
                "the vendor does not take the keys any more; requests are held until their source \
                 has others"
            );
        }
        self.outbox.put(TapEvent::KeysEnded {
            key_id: key_id.to_owned(),
            code: code.clone(),
            at: Timestamp::now(),
        });
        Tried::KeysEnded { code, answer: Arc::new(whole) }
    }

    /// The vendor has looked at a request that was signed with our keys.
    fn keys_taken(&self) {
        if self.ended.swap(false, Ordering::Relaxed) {
            tracing::debug!("the vendor takes the keys again");
            self.outbox.put(TapEvent::KeysTaken { at: Timestamp::now() });
        }
    }
}

/// The vendor's word for keys that it does not take any more.
fn ended(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let refuses = matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
    );
    let code = headers.get(ERROR_TYPE).filter(|_| refuses)?.to_str().ok()?;
    let code = code.split([':', '#']).next().unwrap_or(code);
    says_ended(code).then(|| code.to_owned())
}

fn sign(accepted: &Accepted, own: &Credentials) -> Result<HeaderMap, SignatureError> {
    let covered = Covered {
        method: accepted.method.as_str(),
        target: &accepted.target_path,
        headers: &accepted.headers,
        body: &accepted.body,
    };
    let Target { origin, host, .. } = &accepted.target;
    let made = signed_again(covered, origin, host, &accepted.claim, own)?;
    let mut headers = accepted.headers.clone();
    headers.extend(made);
    Ok(headers)
}

/// Longest pause between two attempts.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Growing pauses between attempts, with jitter.
pub(super) fn pauses() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .with_jitter()
        .build()
}

/// Growing pauses after answers that the account asks too much.
pub(super) fn pauses_of_throttled() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(15))
        .without_max_times()
        .with_jitter()
        .build()
}

/// The quota that polling with this operation uses.
fn asks(operation: Operation) -> Option<Asks> {
    match operation {
        Operation::GetQuantumTask => Some(Asks::Tasks),
        Operation::GetDevice => Some(Asks::Devices),
        _ => None,
    }
}

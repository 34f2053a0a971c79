//! One request from its arrival to its answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use axum::body::Body;
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer;
use crate::config::{Config, Target};
use crate::events::{Outbox, TapEvent};
use crate::headers::onward;
use crate::hold::{self, Next, Seen};
use crate::intents::{Forward, Intents};
use crate::keys::{Keys, NoCredentials};
use crate::operation::{Operation, Repeat};
use crate::polls::{Asked, Key as PollKey, Polls, Whole};
use crate::signature::{Claim, Covered, SignatureError, signed_again, verifies};
use crate::trust::{Key, Refusal, Verdict, judge};
use crate::upstream::{self, Attempt, Away, Reading};
use crate::wire::{self, Submission, TaskFacts};

/// The connection is closed without a status, as the program would have seen it without us.
#[derive(Debug, thiserror::Error)]
#[error("the answer was lost and the request cannot be repeated")]
pub(crate) struct HungUp;

/// Everything that requests share.
pub(crate) struct Forwarder {
    config: Config,
    client: reqwest::Client,
    keys: Keys,
    intents: Option<Arc<dyn Intents>>,
    polls: Polls,
    away: Away,
    budget: Arc<Semaphore>,
    /// What the log has said already: a program repeats itself twice a second.
    said: Mutex<HashSet<String>>,
    keyless: AtomicBool,
    pub(crate) outbox: Outbox,
    /// Submissions go on when the program's connection breaks; they end here.
    pub(crate) submissions: TaskTracker,
}

/// A request that was read and belongs to us.
struct Accepted {
    operation: Operation,
    method: Method,
    url: reqwest::Url,
    /// Raw path and query as the vendor sees them.
    target_path: String,
    target: Target,
    headers: HeaderMap,
    body: Bytes,
    token: bool,
    claim: Claim,
    deadline: Instant,
    /// Cancelled when the program's connection is gone.
    gone: CancellationToken,
    /// Part of the budget, given back with the request.
    _room: OwnedSemaphorePermit,
}

/// What came of a request at the vendor.
enum Outcome {
    Whole(Arc<Whole>),
    Other(Box<Response<Body>>),
    HungUp {
        error: String,
    },
    /// `arrived`: one of the attempts may have reached the vendor.
    GaveUp {
        error: String,
        arrived: bool,
    },
}

/// What came of one attempt.
enum Tried {
    Answered {
        status: StatusCode,
        wish: Option<Duration>,
        outcome: Outcome,
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
            Self::Answered { status, wish, .. } => Seen::Answered(*status, *wish),
            Self::NotSent(_) | Self::Unsigned { .. } => Seen::NotSent,
            Self::Lost(_) => Seen::Lost,
        }
    }
}

impl Forwarder {
    pub(crate) fn new(
        config: Config,
        credentials: SharedCredentialsProvider,
    ) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: upstream::client(&config)?,
            keys: Keys::new(credentials, config.limits.credentials_time),
            intents: None,
            polls: Polls::default(),
            away: Away::default(),
            budget: Arc::new(Semaphore::new(config.limits.bodies)),
            said: Mutex::default(),
            keyless: AtomicBool::new(false),
            outbox: Outbox::default(),
            submissions: TaskTracker::new(),
            config,
        })
    }

    pub(crate) fn set_intents(&mut self, intents: Arc<dyn Intents>) {
        self.intents = Some(intents);
    }

    /// Answers one request.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, HungUp> {
        let arrived = Instant::now();
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let Some((operation, arn)) = Operation::of(&parts.method, path) else {
            tracing::warn!(method = %parts.method, path, "not an operation of Braket: refused");
            return Ok(answer::not_an_operation(parts.method.as_str(), path));
        };
        let arn = arn.map(str::to_owned);
        let gone = CancellationToken::new();
        let _guard = gone.clone().drop_guard();
        let accepted = match self.accept(operation, parts, body, arrived, gone).await {
            Ok(accepted) => accepted,
            Err(refused) => return Ok(*refused),
        };
        match (operation, arn) {
            (Operation::CreateQuantumTask, _) => {
                let submission = Arc::clone(&self).submit(accepted);
                // In a task of its own: the answer is worth money even if nobody waits for it.
                match self.submissions.spawn(submission).await {
                    Ok(answer) => answer,
                    Err(_) => Err(HungUp),
                }
            }
            (Operation::GetQuantumTask, _) => self.poll(&accepted, arrived).await,
            (Operation::CancelQuantumTask, Some(arn)) => self.cancel(&accepted, &arn).await,
            _ => self.pass(&accepted).await,
        }
    }

    /// Reads the request and checks whose it is.
    async fn accept(
        &self,
        operation: Operation,
        parts: Parts,
        body: Incoming,
        arrived: Instant,
        gone: CancellationToken,
    ) -> Result<Accepted, Box<Response<Body>>> {
        let deadline = arrived + self.config.hold;
        let (body, room) = self.read(&parts.headers, body, deadline).await?;
        let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let covered = Covered {
            method: parts.method.as_str(),
            target: path,
            headers: &parts.headers,
            body: &body,
        };
        let claim = match Claim::of(&parts.headers) {
            Ok(claim) => claim,
            Err(error) => return Err(Box::new(self.refuse(&error.into(), None, None))),
        };
        let own = self.keys_like(&claim, deadline).await?;
        let caller = Key { id: &claim.key_id, has_token: claim.has_token };
        let ours = Key { id: own.access_key_id(), has_token: own.session_token().is_some() };
        let check = || verifies(covered, &claim, &own);
        match judge(caller, ours, self.config.trust, check) {
            Verdict::Verified => {}
            Verdict::SameSource => self.note_trusted(&claim.key_id, own.access_key_id()),
            Verdict::Refused(refusal) => {
                let refused = self.refuse(&refusal, Some(&claim.key_id), Some(own.access_key_id()));
                return Err(Box::new(refused));
            }
        }
        let target = self.config.upstream.target(&claim.region);
        let Some(url) = upstream::url(&target, path) else {
            return Err(Box::new(answer::not_forwardable(path)));
        };
        let token = operation.repeat() == Repeat::WithToken && wire::has_token(&body);
        Ok(Accepted {
            operation,
            url,
            target_path: format!("{}{path}", target.prefix),
            target,
            headers: onward(&parts.headers, operation.is_read()),
            method: parts.method,
            body,
            token,
            claim,
            deadline,
            gone,
            _room: room,
        })
    }

    /// Reads a body within the budget of all bodies.
    async fn read(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        deadline: Instant,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Box<Response<Body>>> {
        let limits = &self.config.limits;
        let stated = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.parse::<usize>().ok());
        // Without a stated length room for the largest is taken, and the surplus given back:
        // two half-read bodies that both wait for more room would wait for ever.
        let size = match stated {
            Some(size) => size,
            None if hyper::body::Body::is_end_stream(&body) => 0,
            None => limits.body,
        };
        if size > limits.body {
            return Err(Box::new(answer::too_large(limits.body)));
        }
        let size = u32::try_from(size.min(limits.bodies)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.budget).acquire_many_owned(size);
        let Ok(Ok(mut room)) = timeout_at(deadline, room).await else {
            return Err(Box::new(answer::away(
                "The Sluice sidecar has too many large requests in flight; send fewer at a time.",
            )));
        };
        let read = timeout(limits.body_time, Limited::new(body, limits.body).collect()).await;
        let bytes = match read {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(Box::new(answer::too_large(limits.body)));
            }
            Ok(Err(_)) => return Err(Box::new(answer::incomplete("the connection broke off"))),
            Err(_) => {
                let what = format!("not within {} s", limits.body_time.as_secs_f32());
                return Err(Box::new(answer::incomplete(&what)));
            }
        };
        let surplus = room.num_permits().saturating_sub(bytes.len());
        drop(room.split(surplus));
        Ok((bytes, room))
    }

    async fn keys_like(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<aws_credential_types::Credentials, Box<Response<Body>>> {
        let mut pauses = pauses();
        loop {
            let error = match self.keys.like(&claim.key_id).await {
                Ok(own) => {
                    if self.keyless.swap(false, Ordering::Relaxed) {
                        tracing::debug!(key = own.access_key_id(), "requests can be signed again");
                    }
                    return Ok(own);
                }
                Err(error) => error,
            };
            self.note_no_credentials(&error);
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            if !error.is_passing || Instant::now() + pause >= deadline {
                let message = format!(
                    "The Sluice sidecar cannot sign the request of the program (key {}): {error}. \
                     Give the qpu container its credentials by environment or service account, or \
                     set discovery: announce.",
                    claim.key_id
                );
                return Err(Box::new(answer::away(&message)));
            }
            sleep(pause).await;
        }
    }

    /// Forwards and answers without reading anything.
    async fn pass(&self, accepted: &Accepted) -> Result<Response<Body>, HungUp> {
        let outcome = self.exchange(accepted).await;
        self.respond(accepted, outcome)
    }

    async fn poll(&self, accepted: &Accepted, arrived: Instant) -> Result<Response<Body>, HungUp> {
        let key = PollKey {
            region: accepted.claim.region.clone(),
            target: accepted.target_path[accepted.target.prefix.len()..].to_owned(),
        };
        let ask = async || match self.exchange(accepted).await {
            Outcome::Whole(whole) => {
                let facts = whole.status.is_success().then(|| TaskFacts::of(&whole.body)).flatten();
                if let Some(facts) = facts.clone() {
                    let region = accepted.claim.region.clone();
                    self.outbox.put(TapEvent::Polled { facts, region, at: Timestamp::now() });
                }
                Asked::Whole(whole, facts.map(Box::new))
            }
            other => Asked::Other(other),
        };
        // One that waits for the question of another is still answered in time.
        let outcome = match timeout_at(
            accepted.deadline + Duration::from_secs(1),
            self.polls.answer(key, arrived, ask),
        )
        .await
        {
            Ok(Asked::Whole(whole, _)) => Outcome::Whole(whole),
            Ok(Asked::Other(other)) => other,
            Err(_) => Outcome::GaveUp {
                error: "an earlier poll of the same task is still unanswered".to_owned(),
                arrived: false,
            },
        };
        self.respond(accepted, outcome)
    }

    async fn cancel(&self, accepted: &Accepted, arn: &str) -> Result<Response<Body>, HungUp> {
        let outcome = self.exchange(accepted).await;
        self.polls.forget(arn);
        let response = self.respond(accepted, outcome)?;
        if let Some(task_id) = wire::arn_of(arn) {
            let (status, at) = (response.status(), Timestamp::now());
            self.outbox.put(TapEvent::CancelRequested { task_id, status, at });
        }
        Ok(response)
    }

    async fn submit(self: Arc<Self>, accepted: Accepted) -> Result<Response<Body>, HungUp> {
        let region = accepted.claim.region.clone();
        // What is no submission is for the vendor to judge.
        let Some(submission) = Submission::of(&accepted.body) else {
            return self.pass(&accepted).await;
        };
        if let Some(task_id) = self.known(&submission, &region).await {
            let response = answer::known_task(&task_id);
            let at = Timestamp::now();
            self.outbox.put(TapEvent::Submitted { submission, region, task_id, known: true, at });
            return Ok(response);
        }
        self.outbox.put(TapEvent::Submitting {
            submission: submission.clone(),
            region: region.clone(),
            at: Timestamp::now(),
        });
        let outcome = self.exchange(&accepted).await;
        self.outbox.put(told(&outcome, submission, region));
        self.respond(&accepted, outcome)
    }

    async fn known(&self, submission: &Submission, region: &str) -> Option<String> {
        let intents = self.intents.as_ref()?;
        let limit = self.config.limits.intent_time;
        match timeout(limit, intents.before(submission, region)).await {
            Ok(Forward::Send) => None,
            Ok(Forward::Known(task_id)) => Some(task_id),
            Err(_) => {
                tracing::warn!(
                    seconds = limit.as_secs_f32(),
                    digest = submission.digest,
                    "the intent to submit could not be recorded in time; the submission goes on, \
                     a restart of the program now may pay for it twice"
                );
                None
            }
        }
    }

    /// Attempts until there is an answer to pass on or the time to hold has passed.
    async fn exchange(&self, accepted: &Accepted) -> Outcome {
        let host = &accepted.target.host;
        let repeat = accepted.operation.repeat();
        let mut pauses = pauses();
        let mut arrived = false;
        loop {
            if accepted.gone.is_cancelled() {
                let error = "the program has closed its connection".to_owned();
                return Outcome::GaveUp { error, arrived };
            }
            let tried = self.attempt(accepted).await;
            let seen = tried.seen();
            arrived |= seen != Seen::NotSent;
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
                Tried::NotSent(error) | Tried::Lost(error) => {
                    self.away.mark(host, &error, &self.outbox);
                    (error, None)
                }
                Tried::Unsigned { error, is_passing: true } => (error, None),
                Tried::Unsigned { error, is_passing: false } => {
                    return Outcome::GaveUp { error, arrived };
                }
            };
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            let left = accepted.deadline.saturating_duration_since(Instant::now());
            match (hold::next(seen, repeat, accepted.token, pause, left), outcome) {
                (Next::PassOn, Some(outcome)) => return outcome,
                (Next::Again(pause), _) => {
                    tracing::debug!(host, error, ?pause, "the request is held");
                    // Nobody waits any more: no further attempt.
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = accepted.gone.cancelled() => {}
                    }
                }
                (Next::HangUp, _) => return Outcome::HungUp { error },
                (Next::GiveUp | Next::PassOn, _) => return Outcome::GaveUp { error, arrived },
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
        let answered = |outcome| Tried::Answered { status, wish, outcome };
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

    fn respond(&self, accepted: &Accepted, outcome: Outcome) -> Result<Response<Body>, HungUp> {
        match outcome {
            Outcome::Whole(whole) => {
                let mut response = Response::new(Body::from(whole.body.clone()));
                *response.status_mut() = whole.status;
                *response.headers_mut() = whole.headers.clone();
                Ok(response)
            }
            Outcome::Other(response) => Ok(*response),
            Outcome::GaveUp { error, .. } => Ok(answer::away(&format!(
                "Amazon Braket at {} could not be reached: {error}. The Sluice sidecar held the \
                 request for {} s; repeat it, and check the network of the pod.",
                accepted.target.host,
                self.config.hold.as_secs()
            ))),
            Outcome::HungUp { error } => {
                tracing::warn!(
                    host = accepted.target.host,
                    error,
                    "the answer to a request without clientToken was lost; it is not repeated and \
                     the program's connection is closed"
                );
                Err(HungUp)
            }
        }
    }

    fn refuse(&self, refusal: &Refusal, caller: Option<&str>, own: Option<&str>) -> Response<Body> {
        let (status, kind, message) = refusal.answer();
        if self.is_news(&message) {
            tracing::debug!(caller, own, message, "a request was refused");
        }
        let response = answer::error(status, kind, &message);
        self.outbox.put(TapEvent::Refused {
            caller_key_id: caller.map(str::to_owned),
            own_key_id: own.map(str::to_owned),
            message,
            at: Timestamp::now(),
        });
        response
    }

    fn note_trusted(&self, caller: &str, own: &str) {
        if self.is_news(caller) {
            tracing::info!(
                caller,
                own,
                "requests signed with another session key of the same role source are forwarded"
            );
        }
    }

    /// Whether the log has not said this yet.
    fn is_news(&self, what: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // Messages hold what callers sent and session keys change: the memory has an end.
        if said.len() >= 64 {
            said.clear();
        }
        said.insert(what.to_owned())
    }

    fn note_no_credentials(&self, error: &NoCredentials) {
        if !self.keyless.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "requests cannot be signed; check the credentials of the pod");
        }
        let (error, at) = (error.to_string(), Timestamp::now());
        self.outbox.put(TapEvent::NoCredentials { error, at });
    }
}

/// The event that tells what came of a submission.
fn told(outcome: &Outcome, submission: Submission, region: String) -> TapEvent {
    let at = Timestamp::now();
    match outcome {
        Outcome::Whole(whole) if whole.status.is_success() => {
            if let Some(task_id) = wire::task_id_of(&whole.body) {
                return TapEvent::Submitted { submission, region, task_id, known: false, at };
            }
            let error = format!("the vendor answered {} without an ARN", whole.status);
            TapEvent::SubmissionUnknown { submission, region, error, at }
        }
        Outcome::Whole(whole) => TapEvent::SubmissionRefused {
            submission,
            region,
            status: whole.status,
            error_type: whole
                .headers
                .get(answer::ERROR_TYPE)
                .and_then(|kind| kind.to_str().ok())
                .map(str::to_owned),
            message: wire::message_of(&whole.body),
            at,
        },
        Outcome::Other(response) => {
            let error = format!("the vendor's answer {} was too long", response.status());
            TapEvent::SubmissionUnknown { submission, region, error, at }
        }
        Outcome::GaveUp { error, arrived: false } => TapEvent::SubmissionRefused {
            submission,
            region,
            status: StatusCode::SERVICE_UNAVAILABLE,
            error_type: None,
            message: Some(error.clone()),
            at,
        },
        Outcome::GaveUp { error, arrived: true } | Outcome::HungUp { error } => {
            TapEvent::SubmissionUnknown { submission, region, error: error.clone(), at }
        }
    }
}

fn sign(
    accepted: &Accepted,
    own: &aws_credential_types::Credentials,
) -> Result<HeaderMap, SignatureError> {
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

const LONGEST_PAUSE: Duration = Duration::from_secs(5);

fn pauses() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .with_jitter()
        .build()
}

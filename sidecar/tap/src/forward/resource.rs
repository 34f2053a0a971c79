//! A request for a resource of QRMI: it goes on as it is, with the program's own right.

mod told;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use sluice_dialect::{self as dialect, Dialect, Lost, Operation, Resume, Submission};
use sluice_shared::resource::{Place, Resource};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use self::told::told;
use super::exchange::{LONGEST_PAUSE, pauses, pauses_of_throttled};
use super::{Forwarder, HungUp};
use crate::answer;
use crate::config::{Route, Target};
use crate::connections::Ties;
use crate::events::TapEvent;
use crate::headers::{onward_as_sent, plain};
use crate::hold::{self, Next, Seen};
use crate::intents::{Asked, Forward};
use crate::operation::Repeat;
use crate::polls::Whole;
use crate::upstream::{self, Attempt, Reading};

/// Kind of the error for a resource without a usable endpoint.
const NO_ENDPOINT: &str = "ResourceEndpointException";
/// Beyond the time of a long poll, for the way there and back.
const MARGIN: Duration = Duration::from_secs(10);

/// The longest that a vendor may hold a request.
pub(super) const LONGEST: Duration = Duration::from_secs(dialect::LONGEST_POLL + MARGIN.as_secs());

/// A request that was read.
struct Read {
    operation: Operation,
    dialect: &'static dyn Dialect,
    resource: Resource,
    method: Method,
    /// Path and query below the endpoint.
    path: String,
    target: Target,
    url: reqwest::Url,
    headers: HeaderMap,
    body: Bytes,
    /// The body without its compression: what is read of it.
    plain: Bytes,
    deadline: Instant,
    /// Time that the request has at least once it is sent.
    least: Duration,
    answer_time: Duration,
    /// Whether the vendor may hold it.
    is_long_poll: bool,
    gone: CancellationToken,
    _room: Option<OwnedSemaphorePermit>,
}

impl Read {
    fn request(&self) -> dialect::Request<'_> {
        request(&self.method, &self.path, &self.plain)
    }

    fn place(&self) -> Place {
        Place::Resource(self.resource.clone())
    }

    /// Whether it may be sent again although it may have arrived.
    fn repeat(&self) -> Repeat {
        let safe = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS];
        match &self.operation {
            Operation::Submit => Repeat::WithToken,
            // A second end of a task changes nothing.
            Operation::Cancel(_) => Repeat::Freely,
            _ if safe.contains(&self.method) => Repeat::Freely,
            _ => Repeat::WithToken,
        }
    }

    /// Whether the vendor makes one task of two equal requests.
    fn has_token(&self) -> bool {
        self.operation == Operation::Submit && self.dialect.abilities().lost != Lost::HangUp
    }

    /// The status by which the vendor says that it has the first of two equal requests.
    fn taken(&self) -> Option<StatusCode> {
        match self.dialect.abilities().lost {
            Lost::SendAgainUnless { taken } if self.operation == Operation::Submit => {
                StatusCode::from_u16(taken).ok()
            }
            _ => None,
        }
    }

    fn is_read(&self) -> bool {
        self.operation != Operation::Other
    }
}

fn request<'a>(method: &'a Method, path: &'a str, body: &'a [u8]) -> dialect::Request<'a> {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, q)| (path, Some(q)));
    dialect::Request { method, path, query, body }
}

/// What came of a request.
enum Outcome {
    Whole(Whole),
    Streamed(Box<Response<Body>>),
    /// `arrived`: it may have reached the vendor.
    GaveUp {
        error: String,
        arrived: bool,
    },
    HungUp {
        error: String,
    },
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

/// Whether the answer to a question for a task says that this program does not have it. The right
/// to ask and the rate of asking are other matters.
fn is_not_had(status: StatusCode) -> bool {
    let other =
        [StatusCode::UNAUTHORIZED, StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status.is_client_error() && !other.contains(&status)
}

impl Forwarder {
    /// Answers one request for a resource; `rest` is its path below the endpoint.
    pub(super) async fn answer_resource(
        self: Arc<Self>,
        route: Route,
        rest: String,
        parts: Parts,
        body: Incoming,
        arrived: Instant,
    ) -> Result<Response<Body>, HungUp> {
        let endpoint = match route.endpoint {
            Ok(endpoint) => endpoint,
            Err(why) => {
                return Ok(answer::error(StatusCode::BAD_GATEWAY, NO_ENDPOINT, &why));
            }
        };
        let gone = CancellationToken::new();
        let _guard = gone.clone().drop_guard();
        let dialect = dialect::of(route.resource.service);
        let path = parts.uri.query().map_or(rest.clone(), |query| format!("{rest}?{query}"));
        let target = endpoint.target();
        // The address alone is its root.
        let path = if path.is_empty() { "/".to_owned() } else { path };
        let Some(url) = upstream::url(&target, &path) else {
            return Ok(answer::not_forwardable(&path));
        };
        let long_poll = Duration::from_secs(dialect.long_poll(request(&parts.method, &path, b"")));
        let margin = if long_poll.is_zero() { Duration::ZERO } else { long_poll + MARGIN };
        let deadline = arrived + self.config.hold.max(margin);
        let (body, room) = match self.read(&parts.headers, body, deadline).await {
            Ok(read) => read,
            Err(refused) => return Ok(*refused),
        };
        let plain = plain(&parts.headers, &body, self.config.limits.body);
        let operation = dialect.operation(request(&parts.method, &path, &plain));
        let read = Read {
            headers: onward_as_sent(&parts.headers, operation != Operation::Other),
            operation,
            dialect,
            resource: route.resource,
            method: parts.method,
            path,
            target,
            url,
            body,
            plain,
            deadline,
            least: Duration::ZERO,
            answer_time: self.config.limits.answer_time.max(margin),
            is_long_poll: !long_poll.is_zero(),
            gone,
            _room: Some(room),
        };
        let named = match &read.operation {
            Operation::Poll(id) | Operation::Cancel(id) => Some(id.as_str()),
            _ => None,
        };
        self.connections.request(named);
        if read.operation == Operation::Submit {
            let ties = self.connections.ties();
            let submission = Arc::clone(&self).submit_to(read, ties);
            // In a task of its own: the answer is worth money even if nobody waits for it.
            return self.submissions.spawn(submission).await.unwrap_or(Err(HungUp));
        }
        let outcome = self.send(&read).await;
        if let Outcome::Whole(whole) = &outcome {
            self.tell(&read, whole);
        }
        self.respond_to(&read, outcome)
    }

    /// Tells what an answer to something other than a submission says.
    fn tell(&self, read: &Read, whole: &Whole) {
        let (place, at) = (read.place(), Timestamp::now());
        let said = dialect::Answer { status: whole.status, body: &whole.body };
        match &read.operation {
            Operation::Poll(id) => {
                if let Some(facts) = read.dialect.task(id, said) {
                    self.outbox.put(TapEvent::Polled { facts, place, at });
                }
            }
            Operation::Cancel(id) => {
                let (task_id, status) = (id.clone(), whole.status);
                self.outbox.put(TapEvent::CancelRequested { task_id, status, at });
            }
            Operation::OpenSession => {
                if let Some(session) = read.dialect.session(said) {
                    self.outbox.put(TapEvent::SessionOpened { session, place, at });
                }
            }
            Operation::CloseSession(id) if whole.status.is_success() => {
                self.outbox.put(TapEvent::SessionClosed { session: id.clone(), place, at });
            }
            Operation::CloseSession(_) | Operation::Submit | Operation::Other => {}
        }
    }

    async fn submit_to(
        self: Arc<Self>,
        mut read: Read,
        ties: Ties,
    ) -> Result<Response<Body>, HungUp> {
        // What cannot be read is for the vendor to judge. It may be able to.
        let Some(mut submission) = read.dialect.submission(read.request()) else {
            let outcome = self.send(&read).await;
            let event = told(&read, &outcome, Submission::unread(&read.body));
            if matches!(event, TapEvent::Submitted { .. }) {
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
                let forward = tokio::select! {
                    forward = self.intend(&asked) => forward,
                    // Whoever comes next asks anew; this question must not take its task.
                    () = read.gone.cancelled() => return Err(HungUp),
                };
                let Forward::Known(task_id) = forward else { break };
                let known = self.known_to(&read, &task_id).await;
                match known {
                    Known::Had(response) => {
                        let (known, at) = (true, Timestamp::now());
                        let event = TapEvent::Submitted { submission, place, task_id, known, at };
                        self.outbox.put(event);
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
        if let Some(guard) = &self.guard
            && let Err(refusal) = guard.check(&submission).await
        {
            let (status, kind) = refusal.form();
            let error_type = Some(kind.to_owned());
            let (message, void, at) = (Some(refusal.message.clone()), true, Timestamp::now());
            self.outbox.put(TapEvent::SubmissionRefused {
                submission,
                place,
                status,
                error_type,
                message,
                void,
                at,
            });
            return Ok(answer::error(status, kind, &refusal.message));
        }
        let at = Timestamp::now();
        self.outbox.put(TapEvent::Submitting {
            submission: submission.clone(),
            place: place.clone(),
            at,
        });
        let outcome = self.send(&read).await;
        let event = told(&read, &outcome, submission.clone());
        if let (Some(guard), TapEvent::SubmissionRefused { void: true, .. }) = (&self.guard, &event)
        {
            guard.refused(&submission);
        }
        self.outbox.put(event);
        self.respond_to(&read, outcome)
    }

    /// Asks the vendor for the task of an earlier run that a submission is to get.
    async fn known_to(&self, read: &Read, task_id: &str) -> Known {
        let call = read.dialect.ask_task(task_id);
        let Some(url) = upstream::url(&read.target, &call.path) else { return Known::NotHad };
        let mut headers = read.headers.clone();
        headers.remove(http::header::CONTENT_TYPE);
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
            deadline: read.deadline,
            least: read.least,
            answer_time: self.config.limits.answer_time,
            is_long_poll: false,
            gone: read.gone.clone(),
            _room: None,
        };
        match self.send(&poll).await {
            Outcome::Whole(mut whole) if whole.status.is_success() => {
                whole.status = read.dialect.accepted_status();
                Known::Had(whole.response())
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

    /// Attempts until there is an answer to pass on or the time to hold has passed.
    async fn send(&self, read: &Read) -> Outcome {
        let host = &read.target.host;
        let (mut short_pauses, mut long_pauses) = (pauses(), pauses_of_throttled());
        let (mut arrived, mut lost) = (false, false);
        let deadline = read.deadline.max(Instant::now() + read.least);
        loop {
            if read.gone.is_cancelled() {
                let error = "the program has closed its connection".to_owned();
                return Outcome::GaveUp { error, arrived };
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
            lost |= seen == Seen::Lost;
            let (pauses, repeat) = match seen {
                // Nothing was done, so that it can be sent again whatever it is.
                Seen::Throttled(_) => (&mut long_pauses, Repeat::Freely),
                _ => (&mut short_pauses, read.repeat()),
            };
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            let left = deadline.saturating_duration_since(Instant::now());
            match (hold::next(seen, repeat, read.has_token(), pause, left), outcome) {
                (Next::PassOn, Some(outcome)) => return outcome,
                (Next::Again(pause), _) => {
                    tracing::debug!(host, error, ?pause, "the request is held");
                    // Nobody waits any more: no further attempt.
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = read.gone.cancelled() => {}
                    }
                }
                (Next::HangUp, _) => return Outcome::HungUp { error },
                (Next::GiveUp | Next::PassOn, _) => return Outcome::GaveUp { error, arrived },
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
            return (Seen::Answered(status, None), error, Some(Outcome::Whole(whole)));
        }
        if !read.is_read() {
            return (seen, error, Some(Outcome::Streamed(Box::new(upstream::streamed(answer)))));
        }
        let until = deadline.max(Instant::now() + self.config.limits.answer_time);
        match timeout_at(until, upstream::read(answer, self.config.limits.answer)).await {
            Ok(Reading::Whole(whole)) => {
                let said = dialect::Answer { status, body: &whole.body };
                let is_submission = read.operation == Operation::Submit;
                let is_queue = read.dialect.waits(said).is_some();
                let outcome = Some(Outcome::Whole(whole));
                if is_submission && status == StatusCode::TOO_MANY_REQUESTS && !is_queue {
                    return (Seen::Throttled(wish), error, outcome);
                }
                (seen, error, outcome)
            }
            // Half an answer to a submission is no answer: the id is in the other half.
            Ok(Reading::Broken(_, error)) if read.operation == Operation::Submit => {
                (Seen::Lost, error, None)
            }
            Ok(Reading::TooLong(response) | Reading::Broken(response, _)) => {
                (seen, error, Some(Outcome::Streamed(Box::new(response))))
            }
            Err(_) => (Seen::Lost, "the answer did not come to its end in time".to_owned(), None),
        }
    }

    fn respond_to(&self, read: &Read, outcome: Outcome) -> Result<Response<Body>, HungUp> {
        match outcome {
            Outcome::Whole(whole) => Ok(whole.response()),
            Outcome::Streamed(response) => Ok(*response),
            Outcome::GaveUp { error, .. } => Ok(answer::away(&format!(
                "{} at {} could not be reached: {error}. The Sluice sidecar held the request for \
                 {} s; repeat it, and check the endpoint variable of {} and the network of the pod.",
                read.resource.service.row().label,
                read.target.host,
                self.config.hold.as_secs(),
                read.resource
            ))),
            Outcome::HungUp { error } => {
                tracing::warn!(
                    host = read.target.host,
                    error,
                    "the answer to a request that the vendor would carry out twice was lost; it is \
                     not repeated and the program's connection is closed"
                );
                Err(HungUp)
            }
        }
    }
}

//! A request for a resource of QRMI: it goes on as it is, with the program's own right.

mod send;
mod submit;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use sluice_dialect::{self as dialect, Dialect, Lost, Operation};
use sluice_shared::resource::{Place, Resource};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::exchange::Outcome;
use super::{Forwarder, HungUp};
use crate::answer;
use crate::config::{Route, Target};
use crate::events::TapEvent;
use crate::headers::{is_packed, onward_as_sent, plain};
use crate::operation::Repeat;
use crate::polls::Whole;
use crate::upstream;

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
    /// Time that it has at least from when it is sent.
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
        let operation = dialect.operation(request(&parts.method, &path, b""));
        let is_unpacked = operation == Operation::Submit && is_packed(&parts.headers);
        let more = if is_unpacked { self.config.limits.plain } else { 0 };
        let (body, room) = match self.read(&parts.headers, body, more, deadline).await {
            Ok(read) => read,
            Err(refused) => return Ok(*refused),
        };
        let plain = if is_unpacked { plain(&body, more) } else { body.clone() };
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
        let (outcome, _) = self.send(&read).await;
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

    fn respond_to(&self, read: &Read, outcome: Outcome) -> Result<Response<Body>, HungUp> {
        match outcome {
            Outcome::Whole(whole) | Outcome::KeysEnded(whole) => Ok(whole.response()),
            Outcome::Other(response) => Ok(*response),
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

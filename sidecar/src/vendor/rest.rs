//! The resources of QRMI: the calls of their dialects, made.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, StatusCode};
use reqwest::Url;
use sluice_dialect::{self as dialect, Answer, Call, Dialect, Ending, TaskFacts, quote};
use sluice_shared::resource::Resource;
use sluice_shared::task::TaskState;
use sluice_tap::{Endpoint, Rights, Route, Target};

use super::token::Access;
use super::{Cancelled, DeviceReading, Failure, FailureKind, Reading};
use crate::vendor::answer::position;

/// Time for one call, with everything: connect, TLS, answer.
pub(super) const CALL: Duration = Duration::from_secs(10);
/// Longest piece of a foreign text that is repeated in ours.
const QUOTE: usize = 300;
/// Longest answer that is read, in bytes.
const ANSWER: usize = 4 << 20;
/// The status of a device that works, in the follower's words.
const ONLINE: &str = "ONLINE";

/// All resources of the pod.
#[derive(Debug)]
pub struct Rest {
    http: Option<reqwest::Client>,
    all: BTreeMap<Resource, At>,
}

/// One resource.
#[derive(Debug)]
struct At {
    dialect: &'static dyn Dialect,
    endpoint: Result<Endpoint, String>,
    access: Access,
}

impl Rest {
    /// Asks these resources with `http`, which may be absent where there are none. `variable` reads
    /// the environment that the sidecar shares with the program.
    #[must_use]
    pub fn new(
        http: Option<reqwest::Client>,
        routes: Vec<Route>,
        variable: &dyn Fn(&str) -> Option<String>,
        rights: &Rights,
    ) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let at = |Route { resource, endpoint }: Route| {
            let dialect = dialect::of(resource.service);
            let own = |name: &str| given(&resource.variable(name)).or_else(|| given(name));
            let sign_in = dialect.sign_in(&own);
            let access = Access::new(resource.clone(), dialect, sign_in, rights.clone());
            (resource, At { dialect, endpoint, access })
        };
        Self { http, all: routes.into_iter().map(at).collect() }
    }

    /// The resources there are.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.all.keys()
    }

    fn at(&self, resource: &Resource) -> Result<&At, Failure> {
        let missing = || refused(format!("this pod has no resource {resource}"));
        self.all.get(resource).ok_or_else(missing)
    }

    /// Looks at a task.
    ///
    /// # Errors
    /// See [`FailureKind`].
    pub async fn task(&self, resource: &Resource, id: &str) -> Result<Reading, Failure> {
        let at = self.at(resource)?;
        at.check(resource, id)?;
        let (status, body) = self.call(at, &at.dialect.ask_task(id)).await?;
        let Some(facts) = at.dialect.task(id, Answer { status, body: &body }) else {
            return Err(Failure {
                kind: FailureKind::Away,
                message: format!("answer {status} that tells nothing of the task"),
                retry_after: None,
            });
        };
        let mut reading = reading(facts, Some(resource.clone()));
        if reading.state == TaskState::Cancelled
            && reading.reason.is_none()
            && let Some(session) = &reading.session
        {
            reading.reason = self.session_end(at, session).await;
        }
        Ok(reading)
    }

    /// Why the jobs of a session were cancelled, if it has ended.
    async fn session_end(&self, at: &At, session: &str) -> Option<String> {
        let call = at.dialect.ask_session(session)?;
        let (status, body) = self.call(at, &call).await.ok()?;
        let how = at.dialect.session_ended(Answer { status, body: &body })?;
        Some(format!("cancelled with its session {session}: {how}"))
    }

    /// Looks at a device.
    ///
    /// # Errors
    /// See [`FailureKind`].
    pub async fn device(
        &self,
        resource: &Resource,
        device: &str,
    ) -> Result<DeviceReading, Failure> {
        let at = self.at(resource)?;
        let mut answers = Vec::new();
        let mut failure = None;
        for call in at.dialect.ask_device(device) {
            match self.call(at, &call).await {
                Ok(answer) => answers.push(Some(answer)),
                Err(error) => {
                    failure.get_or_insert(error);
                    answers.push(None);
                }
            }
        }
        let said: Vec<_> = answers
            .iter()
            .map(|answer| answer.as_ref().map(|(status, body)| Answer { status: *status, body }))
            .collect();
        let Some(facts) = at.dialect.device(device, &said) else {
            return Err(failure.unwrap_or_else(|| Failure {
                kind: FailureKind::NotFound,
                message: format!("{resource} does not list {}", quote(device, 64)),
                retry_after: None,
            }));
        };
        let status = if facts.is_online { ONLINE.to_owned() } else { facts.status };
        Ok(DeviceReading {
            status,
            reason: facts.reason.filter(|_| !facts.is_online),
            queue: facts.queue.map(|queue| queue.to_string()),
            ..DeviceReading::default()
        })
    }

    /// Asks for the end of a task.
    ///
    /// # Errors
    /// See [`FailureKind`].
    pub async fn cancel(&self, resource: &Resource, id: &str) -> Result<Cancelled, Failure> {
        let at = self.at(resource)?;
        at.check(resource, id)?;
        let (status, headers, body) = self.exchange(at, &at.dialect.cancel(id)).await?;
        let said = Answer { status, body: &body };
        match at.dialect.cancelled(said) {
            Some(Ending::Ending(state)) => Ok(Cancelled::Ending(state)),
            Some(Ending::Over) => Ok(Cancelled::Over),
            None => Err(failure_of(at.dialect, said, &headers)),
        }
    }

    /// Whether an id can be one of a task at a resource.
    #[must_use]
    pub fn is_task_id(&self, resource: &Resource, id: &str) -> bool {
        self.all.get(resource).is_some_and(|at| at.dialect.is_task_id(id))
    }

    /// One call; a token that is refused is bought anew once.
    async fn exchange(
        &self,
        at: &At,
        call: &Call,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Failure> {
        let first = self.send(at, call).await?;
        if first.0 == StatusCode::UNAUTHORIZED && at.access.refused().await {
            return self.send(at, call).await;
        }
        Ok(first)
    }

    /// One call whose answer must be a good one.
    async fn call(&self, at: &At, call: &Call) -> Result<(StatusCode, Bytes), Failure> {
        let (status, headers, body) = self.exchange(at, call).await?;
        if status.is_success() {
            return Ok((status, body));
        }
        let mut failure = failure_of(at.dialect, Answer { status, body: &body }, &headers);
        if failure.kind == FailureKind::Denied {
            failure.message = format!("{}; check {}", failure.message, at.access.source());
        }
        Err(failure)
    }

    async fn send(&self, at: &At, call: &Call) -> Result<(StatusCode, HeaderMap, Bytes), Failure> {
        let endpoint = at.endpoint.as_ref().map_err(|why| refused(why.clone()))?.target();
        let http =
            self.http.as_ref().ok_or_else(|| refused("this pod has no resources".to_owned()))?;
        let headers = at.access.headers(http).await?;
        let url = address(&endpoint, &call.path)
            .ok_or_else(|| refused("a name of the vendor would ask for something else".into()))?;
        let request = http.request(call.method.clone(), url).headers(headers);
        let request = request.header(USER_AGENT, OURSELVES);
        let answer = request.timeout(CALL).send().await.map_err(|error| broken(&error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if answer.content_length().is_some_and(|length| length > ANSWER as u64) {
            return Err(refused(format!("answer {status} is longer than {ANSWER} bytes")));
        }
        let body = answer.bytes().await.map_err(|error| broken(&error))?;
        Ok((status, headers, body))
    }
}

/// As whom the sidecar asks, for those who read a vendor's access log.
pub(super) const OURSELVES: &str = concat!("sluice-sidecar/", env!("CARGO_PKG_VERSION"));

impl At {
    /// An id becomes part of a path.
    fn check(&self, resource: &Resource, id: &str) -> Result<(), Failure> {
        if self.dialect.is_task_id(id) {
            return Ok(());
        }
        Err(refused(format!("it is no id of a task at {resource}")))
    }
}

/// The address of a call; `None` where reading it as a URL would change the path.
fn address(endpoint: &Target, path: &str) -> Option<Url> {
    let text = format!("{}{}{path}", endpoint.origin, endpoint.prefix);
    Url::parse(&text).ok().filter(|url| url.as_str() == text && url.fragment().is_none())
}

/// What the vendor tells of a task, in the follower's words.
#[must_use]
pub fn reading(facts: TaskFacts, resource: Option<Resource>) -> Reading {
    let device = facts.device.or_else(|| Some(resource.as_ref()?.name.clone()));
    // Where a task is before it runs (compiling), as a reason to wait.
    let stage = facts.message.filter(|_| resource.is_some() && facts.state.is_waiting());
    Reading {
        id: facts.task_id,
        device: device.filter(|device| !device.is_empty()),
        state: facts.state,
        position: position(facts.position_text.as_deref()),
        priority: facts.priority.as_deref() == Some("Priority"),
        reason: facts.failure_reason.or(stage),
        submitted_at: facts.created_at,
        shots: facts.shots,
        job: facts.job,
        resource,
        session: facts.session,
    }
}

fn refused(message: String) -> Failure {
    Failure { kind: FailureKind::Refused, message, retry_after: None }
}

/// A call without an answer.
pub(super) fn broken(error: &reqwest::Error) -> Failure {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let message = if error.is_timeout() {
        format!("no answer within {} s", CALL.as_secs())
    } else {
        quote(&last.to_string(), QUOTE)
    };
    Failure { kind: FailureKind::Away, message, retry_after: None }
}

/// What an error of the vendor means.
pub(super) fn failure_of(dialect: &dyn Dialect, said: Answer<'_>, headers: &HeaderMap) -> Failure {
    let words = dialect.message(said).unwrap_or_else(|| "without a readable message".to_owned());
    let kind = match said.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => FailureKind::Denied,
        StatusCode::NOT_FOUND => FailureKind::NotFound,
        StatusCode::TOO_MANY_REQUESTS => FailureKind::Throttled,
        StatusCode::REQUEST_TIMEOUT => FailureKind::Away,
        status if status.is_server_error() => FailureKind::Away,
        _ => FailureKind::Refused,
    };
    let wish = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Failure {
        kind,
        message: quote(&format!("{} {words}", said.status.as_u16()), QUOTE),
        retry_after: wish.map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_ask_for_another_path() {
        let endpoint = Endpoint::parse("http://h:1/api/v1/").unwrap().target();
        let of = |path: &str| address(&endpoint, path).map(String::from);
        assert_eq!(of("/jobs/a").as_deref(), Some("http://h:1/api/v1/jobs/a"));
        for path in ["/backends/../jobs/a", "/backends/./status", "/backends/a b", "/b#status"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}

//! The vendor port: HTTP in, HTTP out, and the faults that only a connection can show.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::error::{ApiError, Service};
use crate::fault::{Action, Stage};
use crate::hub::{Call, Hub, Operation, Read, Reply};
use crate::journal::Answered;
use crate::rest;

/// The largest request body that is read.
const BODY_LIMIT: usize = 64 << 20;

/// The connection is closed without (the rest of) an answer.
#[derive(Debug, thiserror::Error)]
#[error("closed on purpose")]
pub(crate) struct Closed;

type Body = BoxBody<Bytes, Closed>;

/// Serves the vendor port until the token is cancelled; open requests are then cut off.
pub(crate) async fn serve(
    listener: TcpListener,
    hub: Arc<Hub>,
    token: CancellationToken,
    tracker: TaskTracker,
) {
    loop {
        let stream = tokio::select! {
            () = token.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(problem) => {
                    // Out of descriptors, most likely: others must close first.
                    tracing::warn!(%problem, "cannot accept a connection; trying again");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (hub, token) = (Arc::clone(&hub), token.clone());
        let jobs = tracker.clone();
        tracker.spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = converse(stream, hub, jobs) => {}
            }
        });
    }
}

async fn converse(stream: TcpStream, hub: Arc<Hub>, jobs: TaskTracker) {
    // Small answers must not wait for the acknowledgement of earlier ones.
    if let Err(problem) = stream.set_nodelay(true) {
        tracing::debug!(%problem, "no TCP_NODELAY");
    }
    let service = service_fn(move |request| answer(Arc::clone(&hub), jobs.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    if let Err(problem) = connection.await {
        tracing::debug!(%problem, "a connection ended");
    }
}

async fn answer(
    hub: Arc<Hub>,
    jobs: TaskTracker,
    request: Request<Incoming>,
) -> Result<Response<Body>, Closed> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_LIMIT).collect().await else {
        let error = ApiError::new("RequestEntityTooLarge", "the body is too large or broken");
        return Ok(response(Reply::error(&error, Service::Braket), false));
    };
    let call = Call {
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        method: parts.method,
        headers: parts.headers,
        body: body.to_bytes(),
    };
    let mut read = hub.read(&call, Timestamp::now());
    let fault = read.fault.take();
    read.entry.fault = fault.as_ref().map(|action| action.name().to_owned());
    tokio::time::sleep(read.latency).await;
    if let Some(Action::Delay { ms }) = fault {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    if let Some(action) = fault.as_ref().filter(|action| action.stage() == Stage::Before)
        && let Some(outcome) = strike(&hub, &read, action).await
    {
        return outcome;
    }
    let reply = if matches!(read.operation, Operation::Rest(_)) {
        rest::front::answer(&hub, &jobs, &call, &mut read).await
    } else {
        clock::advance(&hub, &jobs);
        hub.perform(&call, &mut read, Timestamp::now())
    };
    // What was just submitted may start at once, and its end becomes due.
    clock::advance(&hub, &jobs);
    hub.changed.notify_one();
    if let Some(action) = fault.as_ref().filter(|action| action.stage() == Stage::After)
        && let Some(outcome) = strike(&hub, &read, action).await
    {
        return outcome;
    }
    record(&hub, &read, Some(&reply));
    let cut = matches!(fault, Some(Action::Cut {}));
    Ok(response(reply, cut))
}

/// Does what a fault asks for instead of answering; `None`: the request goes on.
async fn strike(hub: &Hub, read: &Read, action: &Action) -> Option<Result<Response<Body>, Closed>> {
    let reply = match action {
        Action::Delay { .. } | Action::Cut {} => return None,
        Action::Close { .. } => {
            record(hub, read, None);
            return Some(Err(Closed));
        }
        Action::Hang { ms, .. } => {
            record(hub, read, None);
            tokio::time::sleep(Duration::from_millis(*ms)).await;
            return Some(Err(Closed));
        }
        Action::Error { code, status, message, retry_after, .. } => {
            let mut error = ApiError::new(code, message.as_str());
            error.status = status.unwrap_or(error.status);
            let mut reply = Reply::error(&error, read.service);
            if let Some(retry_after) = retry_after {
                reply.headers.push(("retry-after", retry_after.clone()));
            }
            reply
        }
        Action::Answer { status, content_type, body, .. } => Reply {
            status: *status,
            headers: vec![("content-type", content_type.clone())],
            body: Bytes::from(body.clone()),
            error: None,
        },
    };
    record(hub, read, Some(&reply));
    Some(Ok(response(reply, false)))
}

fn record(hub: &Hub, read: &Read, reply: Option<&Reply>) {
    let mut entry = read.entry.clone();
    entry.status = reply.map(|reply| reply.status);
    entry.error = reply.and_then(|reply| reply.error.clone());
    entry.answer = reply.filter(|_| hub.config.record_answers).map(|reply| Answered {
        headers: reply
            .headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect::<BTreeMap<_, _>>(),
        body: String::from_utf8_lossy(&reply.body).into_owned(),
    });
    tracing::debug!(
        operation = entry.operation,
        status = entry.status,
        error = entry.error,
        task = entry.task_arn,
        fault = entry.fault,
        "answered"
    );
    hub.lock().journal.write(entry);
}

fn response(reply: Reply, cut: bool) -> Response<Body> {
    let length = reply.body.len();
    let body = if cut {
        let half = reply.body.slice(..length / 2);
        let parts = stream::unfold(Some(half), |half| async move {
            let Some(half) = half else {
                // Head and first half have to leave before the connection breaks.
                tokio::time::sleep(Duration::from_millis(20)).await;
                return Some((Err(Closed), None));
            };
            Some((Ok(Frame::data(half)), None))
        });
        BodyExt::boxed(StreamBody::new(parts))
    } else {
        Full::new(reply.body).map_err(|never: Infallible| match never {}).boxed()
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    if cut {
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

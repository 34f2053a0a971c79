//! Answers that the tap gives itself, in Braket's form.

use crate::polls::Whole;
use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response, StatusCode};

/// Header that names the kind of an error.
pub(crate) const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");
/// Says that the tap gave the answer and not the vendor, for people who look at traffic.
const SOURCE: HeaderName = HeaderName::from_static("x-sluice-answer");

/// An error in Braket's form: the kind in a header, the message in a small JSON body.
pub(crate) fn error(status: StatusCode, kind: &'static str, message: &str) -> Response<Body> {
    let mut response = json(status, message_body(message));
    response.headers_mut().insert(ERROR_TYPE, HeaderValue::from_static(kind));
    response
}

fn message_body(message: &str) -> String {
    serde_json::json!({ "message": message }).to_string()
}

/// The same, read to its end.
pub(crate) fn refused(status: StatusCode, kind: &'static str, message: &str) -> Whole {
    let (parts, _) = error(status, kind, message).into_parts();
    Whole { status: parts.status, headers: parts.headers, body: message_body(message).into() }
}

/// A JSON body.
pub(crate) fn json(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(SOURCE, HeaderValue::from_static("tap"));
    response
}

/// No operation of Braket.
pub(crate) fn not_an_operation(method: &str, path: &str) -> Response<Body> {
    let message = format!(
        "{method} {path} is not an operation of Amazon Braket; the Sluice sidecar forwards nothing \
         else. Check the endpoint that the program uses for this service."
    );
    error(StatusCode::NOT_FOUND, "UnknownOperationException", &message)
}

/// The request line would not reach the vendor as it was sent.
pub(crate) fn not_forwardable(path: &str) -> Response<Body> {
    let message = format!(
        "The path or query {path} holds characters that must be percent-encoded; the Sluice \
         sidecar forwards it unchanged or not at all."
    );
    error(StatusCode::BAD_REQUEST, "ValidationException", &message)
}

/// A body larger than the limit.
pub(crate) fn too_large(limit: usize) -> Response<Body> {
    let message = format!(
        "The request is larger than the {limit} bytes that the Sluice sidecar forwards. Split the \
         program, or set discovery: announce so that it talks to the vendor directly."
    );
    error(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLargeException", &message)
}

/// A body that did not arrive in time, or broke off.
pub(crate) fn incomplete(what: &str) -> Response<Body> {
    let message = format!("The request body did not arrive: {what}. Nothing was forwarded.");
    error(StatusCode::REQUEST_TIMEOUT, "RequestTimeoutException", &message)
}

/// The vendor could not be asked for as long as a request is held. SDKs retry this.
pub(crate) fn away(message: &str) -> Response<Body> {
    error(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableException", message)
}

/// A submission that was recognised: the answer that the vendor gave the first time.
pub(crate) fn known_task(task_id: &str) -> Response<Body> {
    json(StatusCode::CREATED, serde_json::json!({ "quantumTaskArn": task_id }).to_string())
}

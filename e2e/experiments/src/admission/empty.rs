//! The floor: a handler that does nothing but read the body and say yes.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use sluice_webhook::http::BODY_LIMIT;

/// The same path and limit as the product's.
pub(super) fn router() -> Router {
    Router::new().route("/admit/pods", post(allow)).layer(DefaultBodyLimit::max(BODY_LIMIT))
}

async fn allow(body: Bytes) -> Response {
    let uid = uid(&body);
    let answer = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{"uid":"{uid}","allowed":true}}}}"#
    );
    ([(CONTENT_TYPE, "application/json")], answer).into_response()
}

/// The uid of a review: the first `uid` in it, as the API server writes it. Reading the body as
/// JSON would be work that is not needed for an answer.
fn uid(body: &[u8]) -> &str {
    const KEY: &[u8] = br#""uid":""#;
    let start = body.windows(KEY.len()).position(|w| w == KEY).map(|at| at + KEY.len());
    let rest = start.and_then(|at| body.get(at..)).unwrap_or_default();
    let end = rest.iter().position(|b| *b == b'"').unwrap_or_default();
    std::str::from_utf8(&rest[..end]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_uid_is_the_reviews() {
        assert_eq!(uid(br#"{"request":{"uid":"r-1","object":{"metadata":{"uid":"p"}}}}"#), "r-1");
        assert_eq!(uid(br#"{"uid":"open"#), "");
        assert_eq!(uid(b"{}"), "");
    }
}

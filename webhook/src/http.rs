//! `AdmissionReview` in and out, and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::core::admission::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, META_API_VERSION_V1, META_KIND,
};
use serde::Deserialize;
use sluice_shared::patch::lossless;
use tower_http::timeout::TimeoutLayer;

use crate::admit::{Admit, Verdict, admit};
use crate::config::Config;
use crate::metrics::{Labels, Metrics};
use crate::served::Latest;

/// Largest review. The API server takes objects of 3 MiB and sends the old one along.
pub const BODY_LIMIT: usize = 16 * 1024 * 1024;
/// Longest time for one review, below the 5 s that the API server waits.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Everything that an answer depends on besides the review.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The configuration.
    pub config: Arc<Config>,
    /// What the cluster serves.
    pub served: Latest,
    /// Where answers are counted.
    pub metrics: Metrics,
}

/// The routes of the two webhooks.
pub fn router(admission: Admission) -> Router {
    Router::new()
        .route("/admit/jobs", post(review::<Job>))
        .route("/admit/pods", post(review::<Pod>))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, TIMEOUT))
        .with_state(admission)
}

async fn review<T: Admit>(
    State(admission): State<Admission>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let text = format!("the review is larger than {BODY_LIMIT} bytes\n");
            return (StatusCode::PAYLOAD_TOO_LARGE, text).into_response();
        }
        Err(rejection) => return rejection.into_response(),
    };
    let start = Instant::now();
    let (response, outcome, detail) = match parse::<T>(&body) {
        Ok(request) => answer(&request, &admission),
        Err(Malformed::Object { uid, message }) => {
            let mut response = AdmissionResponse::invalid(&message);
            response.uid = uid;
            (response, "invalid", "object")
        }
        Err(Malformed::Review(message)) => {
            return (StatusCode::BAD_REQUEST, format!("{message}\n")).into_response();
        }
    };
    let labels = Labels { resource: resource::<T>(), outcome, detail };
    admission.metrics.answered(&labels, start.elapsed().as_secs_f64());
    Json(response.into_review()).into_response()
}

/// What is wrong with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Malformed {
    /// It is no review at all, so there is nobody to answer.
    Review(String),
    /// It is a review, and its object cannot be read.
    Object {
        /// Of the review.
        uid: String,
        /// What is wrong.
        message: String,
    },
}

/// The part of a review that is needed to answer when the rest cannot be read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    request: Option<Addressee>,
}

#[derive(Deserialize)]
struct Addressee {
    #[serde(default)]
    uid: String,
}

fn parse<T: Admit>(body: &[u8]) -> Result<AdmissionRequest<T>, Malformed> {
    let error = match serde_json::from_slice::<AdmissionReview<T>>(body) {
        Ok(AdmissionReview { types, request: Some(request), .. })
            if types.api_version == META_API_VERSION_V1 && types.kind == META_KIND =>
        {
            if request.kind.kind == T::kind(&()) {
                return Ok(AdmissionRequest { types, ..request });
            }
            return Err(Malformed::Object {
                message: format!(
                    "a {} was sent to the webhook for {}; correct the path in the webhook \
                     configuration",
                    request.kind.kind,
                    resource::<T>()
                ),
                uid: request.uid,
            });
        }
        Ok(review) => format!(
            "this is {} {}, with{} a request; {META_API_VERSION_V1} {META_KIND} with a request is \
             needed",
            review.types.api_version,
            review.types.kind,
            if review.request.is_some() { "" } else { "out" },
        ),
        Err(error) => {
            // The error may repeat a value of the object; whoever sent it gets that, the log not.
            tracing::warn!(
                line = error.line(),
                column = error.column(),
                kind = ?error.classify(),
                "a review cannot be read"
            );
            format!("the review cannot be read: {error}")
        }
    };
    match serde_json::from_slice::<Envelope>(body) {
        Ok(Envelope { api_version, kind, request: Some(Addressee { uid }) })
            if api_version == META_API_VERSION_V1 && kind == META_KIND && !uid.is_empty() =>
        {
            Err(Malformed::Object { uid, message: error })
        }
        _ => Err(Malformed::Review(error)),
    }
}

fn answer<T: Admit>(
    request: &AdmissionRequest<T>,
    admission: &Admission,
) -> (AdmissionResponse, &'static str, &'static str) {
    let response = AdmissionResponse::from(request);
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let name = display_name(request);
    match admit(request, &admission.config, admission.served.get()) {
        Verdict::Pass => (response, "pass", ""),
        Verdict::Deny(reason) => {
            tracing::info!(resource = resource::<T>(), namespace, name, %reason, "refused");
            let mut response = response.deny(&reason);
            "Forbidden".clone_into(&mut response.result.reason);
            response.result.code = StatusCode::FORBIDDEN.as_u16();
            (response, "deny", reason.label())
        }
        Verdict::Change { object, warnings, kind } => {
            let patched = request
                .object
                .as_ref()
                .map_or(Ok(json_patch::Patch::default()), |o| lossless(o, &object))
                .map_err(|e| e.to_string())
                .and_then(|patch| with_patch(&response, patch));
            match patched {
                Ok(mut response) => {
                    tracing::debug!(resource = resource::<T>(), namespace, name, kind, "admitted");
                    if !warnings.is_empty() {
                        response.warnings =
                            Some(warnings.iter().map(ToString::to_string).collect());
                    }
                    (response, "change", kind)
                }
                Err(error) => {
                    tracing::error!(namespace, name, error, "cannot write the patch of an object");
                    let text = format!("the change cannot be written: {error}; report this");
                    (response.deny(text), "invalid", "patch")
                }
            }
        }
    }
}

/// The answer with a patch, if there is anything to patch.
fn with_patch(
    response: &AdmissionResponse,
    patch: json_patch::Patch,
) -> Result<AdmissionResponse, String> {
    if patch.0.is_empty() {
        return Ok(response.clone());
    }
    response.clone().with_patch(patch).map_err(|e| e.to_string())
}

/// What to call an object whose name is not made yet.
fn display_name<T: Admit>(request: &AdmissionRequest<T>) -> String {
    let meta = request.object.as_ref().map(kube::Resource::meta);
    let given = meta.and_then(|m| m.name.clone().or_else(|| m.generate_name.clone()));
    given.unwrap_or_else(|| request.name.clone())
}

fn resource<T: Admit>() -> &'static str {
    match T::kind(&()).as_ref() {
        "Job" => "jobs",
        _ => "pods",
    }
}

//! The sidecar's own API on loopback: announcements, the program's release, the state, and a sign
//! of life.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use sluice_shared::resource::Resource;
use tokio::sync::{mpsc, watch};

use crate::follow::manual::{self, Answer};
use crate::follow::report;
use crate::follow::state::{Seen, State};
use crate::vendor::NotATask;

/// An announcement is one id.
const BODY: usize = 16 * 1024;
/// A program may ask for the release in the moment of its submission: the tap's news of the task
/// may come a little later.
const NEWS: Duration = Duration::from_secs(2);
/// The order is answered for when the gang holds it, so that it survives this process. Shorter
/// than clients wait.
const KEPT: Duration = Duration::from_secs(8);

/// Tells where the task of an id is, by the resource that is named with it, if one is.
pub type Locate =
    Arc<dyn Fn(Option<&str>, &str) -> Result<Option<Resource>, NotATask> + Send + Sync>;

/// What the API is connected to.
#[derive(Clone)]
pub struct Control {
    /// Takes announcements.
    pub seen: mpsc::Sender<Seen>,
    /// Shows what is known.
    pub shown: watch::Receiver<Arc<State>>,
    /// Where the task of an id is.
    pub locate: Locate,
}

/// Body of an announcement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Announcement {
    id: String,
    #[serde(default)]
    resource: Option<String>,
}

/// Body of a release, which may also be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    #[serde(default)]
    id: Option<String>,
}

/// The routes.
pub fn router(control: Control) -> Router {
    Router::new()
        .route("/v1/tasks", post(announce))
        .route("/v1/release", post(release))
        .route("/v1/state", get(state))
        .route("/livez", get(|| async { "ok\n" }))
        .fallback(|| async {
            refuse(
                StatusCode::NOT_FOUND,
                "the sidecar serves POST /v1/tasks {\"id\": \"<task id>\"}, POST /v1/release, \
                 GET /v1/state and GET /livez",
            )
        })
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(control)
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"message": message}))).into_response()
}

async fn announce(
    Shared(control): Shared<Control>,
    body: Result<Json<Announcement>, JsonRejection>,
) -> Response {
    let announcement = match body {
        Ok(Json(announcement)) => announcement,
        Err(rejection) => {
            let text = format!(
                "{}; send {{\"id\": \"<task id>\"}} with content-type: application/json, and with \
                 \"resource\" where the pod has several",
                rejection.body_text()
            );
            return refuse(rejection.status(), &text);
        }
    };
    let id = announcement.id.trim();
    let named = announcement.resource.as_deref().map(str::trim);
    let resource = match (control.locate)(named, id) {
        Ok(resource) => resource,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let known = control.shown.borrow().task(id).is_some();
    if !known
        && control
            .seen
            .send(Seen::Announced { id: id.to_owned(), resource: resource.clone() })
            .await
            .is_err()
    {
        return ending();
    }
    let status = if known { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut body = json!({"id": id, "followed": true, "known": known});
    if let Some(resource) = resource {
        body["resource"] = json!(resource.to_string());
    }
    (status, Json(body)).into_response()
}

/// Opens the gates because the program says so. 202: ordered; 200: ordered before; 409: not
/// possible now, the message says why; 503: on its way, ask again to be sure.
async fn release(Shared(control): Shared<Control>, body: Bytes) -> Response {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { &body[..] };
    let wanted: Release = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(error) => {
            let text = format!("{error}; send {{\"id\": \"<task id>\"}}, or no body at all");
            return refuse(StatusCode::UNPROCESSABLE_ENTITY, &text);
        }
    };
    let id = wanted.id.as_deref().map(str::trim);
    let is_known = id.is_some_and(|id| control.shown.borrow().task(id).is_some());
    if let Some(Err(error)) = id.filter(|_| !is_known).map(|id| (control.locate)(None, id)) {
        return refuse(StatusCode::BAD_REQUEST, &error.to_string());
    }
    let mut shown = control.shown.clone();
    let known = shown.wait_for(|s| !matches!(manual::answer(s, id), Answer::Unknown(_)));
    let answer = match tokio::time::timeout(NEWS, known).await {
        Ok(Ok(state)) => manual::answer(&state, id),
        Ok(Err(_)) => return ending(),
        Err(_) => manual::answer(&control.shown.borrow(), id),
    };
    let status = match answer {
        Answer::Refuse(message) | Answer::Unknown(message) => {
            return refuse(StatusCode::CONFLICT, &message);
        }
        Answer::Already(_) => StatusCode::OK,
        Answer::Take(id) => {
            if control.seen.send(Seen::ReleaseAsked { id }).await.is_err() {
                return ending();
            }
            StatusCode::ACCEPTED
        }
    };
    match tokio::time::timeout(KEPT, shown.wait_for(|s| s.order_kept().is_some())).await {
        Ok(Ok(state)) => {
            let body = json!({"id": state.order_kept(), "ordered": true});
            (status, Json(body)).into_response()
        }
        Ok(Err(_)) => ending(),
        Err(_) => {
            let gang = control.shown.borrow().rules.gang.clone();
            let text = format!(
                "the order is not in gang {gang} yet, as the gang cannot be read or written; it is \
                 tried again without end: ask again to be sure"
            );
            refuse(StatusCode::SERVICE_UNAVAILABLE, &text)
        }
    }
}

fn ending() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the sidecar is ending; send it again")
}

async fn state(Shared(control): Shared<Control>) -> Json<Value> {
    let state = Arc::clone(&control.shown.borrow());
    Json(view(&state, Timestamp::now()))
}

/// The state as JSON: what the gang's status says, and what only the sidecar knows.
#[must_use]
pub fn view(state: &State, at: Timestamp) -> Value {
    json!({
        "gang": state.rules.gang,
        "gangRead": state.gang.is_some(),
        "role": state.rules.role.as_str(),
        "policy": state.rules.policy.to_string(),
        "needed": state.rules.needed,
        "follow": state.rules.follow.as_str(),
        "vendor": report::vendor_status(state, at),
        "gates": {"open": state.open, "consumers": state.consumers},
        "ownLooks": state
            .tasks
            .iter()
            .map(|t| json!({"id": t.reading.id, "due": t.due, "failures": t.failures}))
            .collect::<Vec<_>>(),
    })
}

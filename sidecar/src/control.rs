//! The sidecar's own API on loopback: announcements, the state, and a sign of life.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::follow::report;
use crate::follow::state::{Seen, State};
use crate::vendor::NotATask;

/// An announcement is one id.
const BODY: usize = 16 * 1024;

/// Tells whether an id can be a task's.
pub type Check = Arc<dyn Fn(&str) -> Result<(), NotATask> + Send + Sync>;

/// What the API is connected to.
#[derive(Clone)]
pub struct Control {
    /// Takes announcements.
    pub seen: mpsc::Sender<Seen>,
    /// Shows what is known.
    pub shown: watch::Receiver<Arc<State>>,
    /// Whether an id can be a task's.
    pub check: Check,
}

/// Body of an announcement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Announcement {
    id: String,
}

/// The routes.
pub fn router(control: Control) -> Router {
    Router::new()
        .route("/v1/tasks", post(announce))
        .route("/v1/state", get(state))
        .route("/livez", get(|| async { "ok\n" }))
        .fallback(|| async {
            refuse(
                StatusCode::NOT_FOUND,
                "the sidecar serves POST /v1/tasks {\"id\": \"<task ARN>\"}, GET /v1/state and \
                 GET /livez",
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
                "{}; send {{\"id\": \"<task ARN>\"}} with content-type: application/json",
                rejection.body_text()
            );
            return refuse(rejection.status(), &text);
        }
    };
    let id = announcement.id.trim();
    if let Err(error) = (control.check)(id) {
        return refuse(StatusCode::BAD_REQUEST, &error.to_string());
    }
    let known = control.shown.borrow().task(id).is_some();
    if !known && control.seen.send(Seen::Announced { id: id.to_owned() }).await.is_err() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the sidecar is ending; send it again");
    }
    let status = if known { StatusCode::OK } else { StatusCode::ACCEPTED };
    (status, Json(json!({"id": id, "followed": true, "known": known}))).into_response()
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

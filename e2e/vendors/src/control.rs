//! The control API: JSON over HTTP on a port of its own. The crate's page lists it.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::braket::change::{ControlError, DeviceChange, StateChange};
use crate::braket::device::Device;
use crate::emulator::{Steering, TaskView};
use crate::fault::Fault;
use crate::journal::Entry;
use crate::rest::machine::{Machine, MachineChange};
use crate::rest::steer::{Forced, JobView};
use crate::simulator::Health;

impl IntoResponse for ControlError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoDevice(_) | Self::NoTask(_) => StatusCode::NOT_FOUND,
            Self::Impossible { .. } => StatusCode::CONFLICT,
        };
        (status, Json(json!({ "error": self.to_string() }))).into_response()
    }
}

pub(crate) async fn serve(listener: TcpListener, steering: Steering, token: CancellationToken) {
    let served = axum::serve(listener, router(steering));
    tokio::select! {
        () = token.cancelled() => {}
        ended = served => if let Err(problem) = ended {
            tracing::error!(%problem, "the control API ended; start the emulator again");
        }
    }
}

fn router(steering: Steering) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/journal", get(journal))
        .route("/counts", get(counts))
        .route("/tasks", get(tasks))
        .route("/tasks/{id}", get(task))
        .route("/tasks/{id}/state", post(state))
        .route("/devices", get(devices))
        .route("/devices/{name}", put(device))
        .route("/jobs", get(jobs))
        .route("/jobs/{id}/state", post(job_state))
        .route("/machines", get(machines))
        .route("/machines/{service}/{name}", put(machine))
        .route("/tokens", delete(end_tokens))
        .route("/accounts/{name}", delete(revoke))
        .route("/step", post(step))
        .route("/faults", get(faults).post(add_fault).delete(clear_faults))
        .route("/latency", put(latency))
        .route("/principals/{key}/expire", post(expire))
        .route("/reset", post(reset))
        .with_state(steering)
}

async fn healthz(State(steering): State<Steering>) -> Json<Value> {
    let simulator = match steering.health() {
        Health::Starting => "starting".to_owned(),
        Health::Ready => "ready".to_owned(),
        Health::Broken(why) => format!("broken: {why}"),
    };
    Json(json!({ "status": "ok", "simulator": simulator }))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Since {
    /// Only requests with a higher number.
    after: u64,
    operation: Option<String>,
}

async fn journal(State(steering): State<Steering>, Query(since): Query<Since>) -> Json<Vec<Entry>> {
    let mut entries = steering.journal();
    entries.retain(|entry| {
        entry.number > since.after
            && since.operation.as_ref().is_none_or(|operation| *operation == entry.operation)
    });
    Json(entries)
}

async fn counts(State(steering): State<Steering>) -> Json<Value> {
    Json(json!(steering.counts()))
}

async fn tasks(State(steering): State<Steering>) -> Json<Vec<TaskView>> {
    Json(steering.tasks())
}

async fn task(
    State(steering): State<Steering>,
    Path(id): Path<String>,
) -> Result<Json<TaskView>, ControlError> {
    steering.task(&id).map(Json).ok_or(ControlError::NoTask(id))
}

async fn state(
    State(steering): State<Steering>,
    Path(id): Path<String>,
    Json(change): Json<StateChange>,
) -> Result<StatusCode, ControlError> {
    steering.change_state(&id, change)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn devices(State(steering): State<Steering>) -> Json<Vec<Device>> {
    Json(steering.devices())
}

async fn device(
    State(steering): State<Steering>,
    Path(name): Path<String>,
    Json(change): Json<DeviceChange>,
) -> Result<Json<Device>, ControlError> {
    steering.change_device(&name, change).map(Json)
}

async fn jobs(State(steering): State<Steering>) -> Json<Vec<JobView>> {
    Json(steering.jobs())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    state: Forced,
    #[serde(default)]
    reason: String,
}

async fn job_state(
    State(steering): State<Steering>,
    Path(id): Path<String>,
    Json(end): Json<End>,
) -> Result<StatusCode, ControlError> {
    steering.force_job(&id, end.state, &end.reason)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn machines(State(steering): State<Steering>) -> Json<Vec<Machine>> {
    Json(steering.machines())
}

async fn machine(
    State(steering): State<Steering>,
    Path((service, name)): Path<(String, String)>,
    Json(change): Json<MachineChange>,
) -> Result<Json<Machine>, ControlError> {
    steering.change_machine(&format!("{service}/{name}"), change).map(Json)
}

async fn end_tokens(State(steering): State<Steering>) -> StatusCode {
    steering.end_tokens();
    StatusCode::NO_CONTENT
}

async fn revoke(State(steering): State<Steering>, Path(name): Path<String>) -> Response {
    if steering.revoke_key(&name) {
        return StatusCode::NO_CONTENT.into_response();
    }
    let error = format!("no account of the vendors of QRMI is called '{name}'");
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Step {
    device: Option<String>,
    times: u32,
}

impl Default for Step {
    fn default() -> Self {
        Self { device: None, times: 1 }
    }
}

async fn step(
    State(steering): State<Steering>,
    step: Option<Json<Step>>,
) -> Result<StatusCode, ControlError> {
    let Json(Step { device, times }) = step.unwrap_or_default();
    steering.step(device.as_deref(), times).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn faults(State(steering): State<Steering>) -> Json<Vec<Fault>> {
    Json(steering.faults())
}

async fn add_fault(State(steering): State<Steering>, Json(fault): Json<Fault>) -> StatusCode {
    steering.add_fault(fault);
    StatusCode::NO_CONTENT
}

async fn clear_faults(State(steering): State<Steering>) -> StatusCode {
    steering.clear_faults();
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
struct Latency {
    ms: u64,
}

async fn latency(State(steering): State<Steering>, Json(latency): Json<Latency>) -> StatusCode {
    steering.set_latency(std::time::Duration::from_millis(latency.ms));
    StatusCode::NO_CONTENT
}

async fn expire(State(steering): State<Steering>, Path(key): Path<String>) -> Response {
    if steering.expire(&key) {
        return StatusCode::NO_CONTENT.into_response();
    }
    let error = format!("no principal has the key '{key}'; the configuration names them");
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}

async fn reset(State(steering): State<Steering>) -> StatusCode {
    steering.reset();
    StatusCode::NO_CONTENT
}

//! Readiness: what is still pending, and the port where probes ask for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Content type of the metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What must happen before the process is ready.
#[derive(Debug, Clone, Default)]
pub struct Ready(Arc<Mutex<BTreeSet<&'static str>>>);

impl Ready {
    /// Holds readiness back until [`Ready::done`] names the same thing.
    pub fn wait_for(&self, what: &'static str) {
        self.pending().insert(what);
    }

    /// One thing is done.
    pub fn done(&self, what: &'static str) {
        let mut pending = self.pending();
        if pending.remove(what) && pending.is_empty() {
            tracing::info!("ready");
        }
    }

    /// Everything that is pending.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        self.pending().iter().copied().collect()
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, BTreeSet<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `/livez`, `/readyz` and `/metrics`.
pub fn router(ready: Ready, registry: Registry) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz).with_state(ready))
        .route("/metrics", get(metrics).with_state(Arc::new(registry)))
}

async fn readyz(State(ready): State<Ready>) -> Response {
    let missing = ready.missing();
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    let text = format!("waiting for: {}\n", missing.join(", "));
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write metrics: {error}\n"))
                .into_response()
        }
    }
}

//! A double of the API server that knows one gang: list, watch, merge patch of its status, and
//! faults on demand. It refuses what the cluster's policy refuses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use bytes::Bytes;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use sluice_shared::gang::VendorStatus;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

/// Name of the gang.
pub(crate) const GANG: &str = "maxcut-12345678";
const KIND: &str = "QuantumGang";
const API: &str = "sluice.flux-framework.org/v1alpha1";

#[derive(Clone)]
pub(crate) struct Cluster {
    inner: Arc<Mutex<Inner>>,
    changed: watch::Sender<u64>,
    url: String,
}

#[derive(Default)]
struct Inner {
    gang: Option<Value>,
    version: u64,
    /// Refusals of the next requests of a kind: `list` or `patch`.
    faults: VecDeque<(&'static str, u16, &'static str)>,
    patches: Vec<(Instant, Value)>,
    tries: usize,
    /// Opens the gates as soon as an order is written.
    keeper: bool,
    kind: Kind,
}

/// What became of the type of gangs.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Served,
    /// Its definition is being deleted: what is left can be read, nothing can be made.
    Going,
    Gone,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    watch: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
    field_selector: String,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let cluster = Self { inner: Arc::default(), changed: watch::Sender::new(0), url };
        let gangs = "/apis/sluice.flux-framework.org/v1alpha1/namespaces/ns/quantumgangs";
        let router = Router::new()
            .route("/apis/sluice.flux-framework.org/v1alpha1", get(types))
            .route(gangs, get(list))
            .route(&format!("{gangs}/{{name}}/status"), patch(patch_status))
            .with_state(cluster.clone());
        tokio::spawn(axum::serve(listener, router).into_future());
        cluster
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::try_from(kube::Config::new(self.url.parse().unwrap())).unwrap()
    }

    /// A kubeconfig, for processes.
    pub(crate) fn kubeconfig(&self) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        })
        .to_string()
    }

    fn change(&self, with: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock().unwrap();
        inner.version += 1;
        with(&mut inner);
        let version = inner.version.to_string();
        if let Some(gang) = &mut inner.gang {
            gang["metadata"]["resourceVersion"] = version.into();
        }
        let version = inner.version;
        drop(inner);
        self.changed.send_replace(version);
    }

    pub(crate) fn create_gang(&self, uid: &str) {
        self.change(|inner| {
            inner.gang = Some(json!({
                "apiVersion": API,
                "kind": KIND,
                "metadata": {"name": GANG, "namespace": "ns", "uid": uid},
                "spec": {},
                "status": {"producer": {"pod": "maxcut-0-abcde", "uid": "pod-uid-1"}},
            }));
        });
    }

    /// Deletes the gang, as the garbage collector does.
    pub(crate) fn delete_gang(&self) {
        self.change(|inner| inner.gang = None);
    }

    /// Deletes the type as `kubectl delete crd` does: the gang goes before the type is gone.
    pub(crate) fn delete_type(&self, now: Kind) {
        self.inner.lock().unwrap().kind = now;
        self.delete_gang();
    }

    /// Names another producer, or another run of it, as the keeper does.
    pub(crate) fn set_producer(&self, producer: Value) {
        self.change(|inner| inner.gang.as_mut().unwrap()["status"]["producer"] = producer);
    }

    /// Opens the gates from now on when an order is written.
    pub(crate) fn keep(&self) {
        self.inner.lock().unwrap().keeper = true;
    }

    pub(crate) fn refuse(
        &self,
        kind: &'static str,
        times: usize,
        code: u16,
        message: &'static str,
    ) {
        let faults = std::iter::repeat_n((kind, code, message), times);
        self.inner.lock().unwrap().faults.extend(faults);
    }

    /// Refuses nothing any more.
    pub(crate) fn heal(&self) {
        self.inner.lock().unwrap().faults.clear();
    }

    pub(crate) fn vendor(&self) -> Option<VendorStatus> {
        let inner = self.inner.lock().unwrap();
        let vendor = inner.gang.as_ref()?.get("status")?.get("vendor")?;
        Some(serde_json::from_value(vendor.clone()).unwrap())
    }

    pub(crate) fn set_status(&self, status: Value) {
        self.change(|inner| inner.gang.as_mut().unwrap()["status"] = status);
    }

    pub(crate) fn patches(&self) -> Vec<(Instant, Value)> {
        self.inner.lock().unwrap().patches.clone()
    }

    /// Patches that were tried, the refused ones included.
    pub(crate) fn tries(&self) -> usize {
        self.inner.lock().unwrap().tries
    }

    fn fault(&self, kind: &str) -> Option<Response> {
        let mut inner = self.inner.lock().unwrap();
        let index = inner.faults.iter().position(|(k, ..)| *k == kind)?;
        let (_, code, message) = inner.faults.remove(index)?;
        Some(refusal(code, message))
    }
}

async fn types(State(cluster): State<Cluster>) -> Response {
    if let Some(refusal) = cluster.fault("types") {
        return refusal;
    }
    let verbs = match cluster.inner.lock().unwrap().kind {
        Kind::Served => json!(["create", "delete", "get", "list", "patch", "watch"]),
        Kind::Going => json!(["delete", "get", "list", "watch"]),
        Kind::Gone => return (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
    };
    Json(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API,
        "resources": [{
            "name": "quantumgangs", "singularName": "quantumgang", "namespaced": true,
            "kind": KIND, "verbs": verbs,
        }],
    }))
    .into_response()
}

fn refusal(code: u16, message: &str) -> Response {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message, "code": code,
    });
    (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
}

async fn list(State(cluster): State<Cluster>, Query(params): Query<Params>) -> Response {
    assert_eq!(params.field_selector, format!("metadata.name={GANG}"), "only the own gang");
    if let Some(refusal) = cluster.fault("list") {
        return refusal;
    }
    if cluster.inner.lock().unwrap().kind == Kind::Gone {
        return refusal(404, "the server could not find the requested resource");
    }
    if params.watch.is_some() {
        let from: u64 = params.resource_version.unwrap().parse().unwrap();
        return watch_from(cluster, from);
    }
    let inner = cluster.inner.lock().unwrap();
    Json(json!({
        "apiVersion": API,
        "kind": "QuantumGangList",
        "metadata": {"resourceVersion": inner.version.to_string()},
        "items": inner.gang.iter().collect::<Vec<_>>(),
    }))
    .into_response()
}

fn watch_from(cluster: Cluster, from: u64) -> Response {
    let changes = cluster.changed.subscribe();
    let events =
        stream::unfold((cluster, changes, from), |(cluster, mut changes, seen)| async move {
            let version = *changes.wait_for(|version| *version > seen).await.ok()?;
            let gang = cluster.inner.lock().unwrap().gang.clone();
            let event = match gang {
                Some(gang) => json!({"type": "MODIFIED", "object": gang}),
                None => json!({"type": "DELETED", "object": {
                    "apiVersion": API,
                    "kind": KIND,
                    "metadata": {
                        "name": GANG, "namespace": "ns", "resourceVersion": version.to_string(),
                    },
                }}),
            };
            let line = Bytes::from(format!("{event}\n"));
            Some((Ok::<_, Infallible>(line), (cluster, changes, version)))
        });
    Response::new(Body::from_stream(events))
}

async fn patch_status(
    State(cluster): State<Cluster>,
    headers: HeaderMap,
    Json(patch): Json<Value>,
) -> Response {
    cluster.inner.lock().unwrap().tries += 1;
    if let Some(refusal) = cluster.fault("patch") {
        return refusal;
    }
    assert_eq!(headers["content-type"], "application/merge-patch+json");
    let fields: Vec<&String> = patch["status"].as_object().unwrap().keys().collect();
    if fields != ["vendor"] || patch.as_object().unwrap().len() != 1 {
        return refusal(
            422,
            "ValidatingAdmissionPolicy 'sluice' denied request: only status.vendor",
        );
    }
    if cluster.inner.lock().unwrap().gang.is_none() {
        return refusal(404, "quantumgangs not found");
    }
    cluster.change(|inner| {
        json_patch::merge(inner.gang.as_mut().unwrap(), &patch);
        inner.patches.push((Instant::now(), patch.clone()));
    });
    let (gang, ordered) = {
        let inner = cluster.inner.lock().unwrap();
        let gang = inner.gang.clone().unwrap();
        let ordered = inner.keeper && gang["status"]["vendor"]["order"].is_object();
        (gang, ordered)
    };
    if ordered {
        cluster.change(|inner| {
            let status = &mut inner.gang.as_mut().unwrap()["status"];
            status["phase"] = "Released".into();
            status["consumers"] = json!({"expected": 7, "gated": 0, "released": 7});
            status["order"] = json!({"reason": "PolicyMet"});
        });
    }
    Json(gang).into_response()
}

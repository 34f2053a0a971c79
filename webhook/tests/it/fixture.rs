//! Reviews of objects from files, and what comes of them.

use std::sync::Arc;

use serde_json::{Value, json};
use sluice_webhook::config::{Config, Sidecar};
use sluice_webhook::http::{Admission, router};
use sluice_webhook::metrics::Metrics;
use sluice_webhook::served::{Latest, Served};
use tower::ServiceExt;

/// The configuration of a fixture: the default with its overrides.
pub(crate) fn mk_config(overrides: &Value) -> Config {
    Config {
        sidecar: Sidecar {
            image: "sluice-sidecar:dev".into(),
            pull_policy: "IfNotPresent".into(),
            pull_secrets: vec!["pull".into()],
            resources: [("cpu", "50m"), ("memory", "64Mi"), ("ephemeral-storage", "64Mi")]
                .map(|(n, q)| (n.to_owned(), q.to_owned()))
                .into(),
        },
        gate: sluice_shared::names::GATE.into(),
        default_mode: overrides["defaultMode"].as_str().unwrap_or("shared").parse().unwrap(),
        priority_class: overrides["priorityClass"].as_str().map(str::to_owned),
        keep_qpu: overrides["keepQpu"] == true,
    }
    .validated()
    .unwrap()
}

/// The state of the router.
pub(crate) fn mk_admission(overrides: &Value) -> Admission {
    Admission {
        config: Arc::new(mk_config(overrides)),
        served: Latest::new(Served { pod_groups: overrides["podGroups"] == true }),
        metrics: Metrics::register(&mut prometheus_client::registry::Registry::default()),
    }
}

/// A review of the creation of an object.
pub(crate) fn mk_review(resource: &str, object: &Value) -> Value {
    let (group, kind) = if resource == "jobs" { ("batch", "Job") } else { ("", "Pod") };
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r-1",
            "kind": {"group": group, "version": "v1", "kind": kind},
            "resource": {"group": group, "version": "v1", "resource": resource},
            "namespace": "quantum",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
            "object": object,
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

/// Sends bytes to the router in process.
pub(crate) async fn post(admission: &Admission, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(axum::body::Body::from(body))
        .unwrap();
    let response = router(admission.clone()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, body.to_vec())
}

/// The answer to the creation of an object, and the object as it would be stored.
pub(crate) async fn create(
    admission: &Admission,
    resource: &str,
    object: &Value,
) -> (Value, Value) {
    let body = serde_json::to_vec(&mk_review(resource, object)).unwrap();
    let (status, body) = post(admission, &format!("/admit/{resource}"), body).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let review: Value = serde_json::from_slice(&body).unwrap();
    let response = review["response"].clone();
    assert_eq!(response["uid"], "r-1");
    let mut stored = object.clone();
    if let Some(patch) = patch_of(&response) {
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        json_patch::patch(&mut stored, &patch).unwrap();
    }
    (response, stored)
}

/// The patch in an answer.
pub(crate) fn patch_of(response: &Value) -> Option<Value> {
    let bytes: Vec<u8> = serde_json::from_value(response["patch"].clone()).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

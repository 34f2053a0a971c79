//! Match conditions on the real API server: odd objects are never held up, and only those that
//! are quantum reach us.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};
use sluice_shared::names;
use sluice_stories::world::World;

crate::stories![
    odd_pods_pass_and_quantum_pods_are_shaped,
    odd_jobs_pass_and_quantum_jobs_are_stamped
];

fn qpu(amount: &str) -> Value {
    json!({names::QPU_RESOURCE: amount})
}

/// Specs of pods, and whether they are quantum.
fn pod_specs() -> Vec<(&'static str, Value, bool)> {
    let container = |resources: Option<Value>| {
        let mut container = json!({"name": "c", "image": "none"});
        if let Some(resources) = resources {
            container["resources"] = resources;
        }
        container
    };
    let with = |resources: Value| json!({"containers": [container(Some(resources))]});
    vec![
        ("nothing at all", json!({"containers": [container(None)]}), false),
        ("empty resources", with(json!({})), false),
        ("requests without limits", with(json!({"requests": {"cpu": "1m"}})), false),
        ("limits without requests", with(json!({"limits": {"cpu": "1"}})), false),
        ("another extended resource", with(json!({"limits": {"example.com/qpu": "1"}})), false),
        ("a quantity of 0", with(json!({"limits": qpu("0")})), false),
        ("a qpu", with(json!({"limits": qpu("1")})), true),
        ("requests and limits", with(json!({"requests": qpu("2"), "limits": qpu("2")})), true),
        (
            "a qpu in the second container",
            json!({"containers": [
                container(None),
                {"name": "d", "image": "none", "resources": {"limits": qpu("1")}},
            ]}),
            true,
        ),
        (
            "init containers without resources",
            json!({"containers": [container(None)], "initContainers": [{"name": "i", "image": "none"}]}),
            false,
        ),
        (
            "a native sidecar beside a qpu",
            json!({
                "containers": [container(Some(json!({"limits": qpu("1")})))],
                "initContainers": [{"name": "i", "image": "none", "restartPolicy": "Always"}],
            }),
            true,
        ),
    ]
}

/// Metadata of objects, which must not matter.
fn metadata() -> Vec<Value> {
    vec![
        json!({"generateName": "odd-"}),
        json!({"generateName": "odd-", "labels": {}, "annotations": {}}),
        json!({"generateName": "odd-", "labels": {"a": "b"}, "annotations": {"c/d": "e"}}),
    ]
}

async fn odd_pods_pass_and_quantum_pods_are_shaped(world: &World) -> Result<()> {
    let stage = world.stage("match-pods").await?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    for (what, spec, quantum) in pod_specs() {
        for metadata in metadata() {
            let pod: Pod =
                serde_json::from_value(json!({"metadata": metadata, "spec": spec.clone()}))?;
            let made = stage.api::<Pod>().create(&dry, &pod).await.with_context(|| what)?;
            let shaped = made.labels().contains_key(names::ROLE);
            ensure!(shaped == quantum, "{what} with {metadata}: shaped {shaped}");
        }
    }
    stage.strike().await
}

async fn odd_jobs_pass_and_quantum_jobs_are_stamped(world: &World) -> Result<()> {
    let stage = world.stage("match-jobs").await?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    for (what, spec, quantum) in pod_specs() {
        for metadata in metadata() {
            for template in [None, Some(json!({})), Some(json!({"labels": {"a": "b"}}))] {
                let mut spec = spec.clone();
                spec["restartPolicy"] = json!("Never");
                let mut body = json!({"metadata": metadata, "spec": {"template": {"spec": spec}}});
                if let Some(template) = template {
                    body["spec"]["template"]["metadata"] = template;
                }
                let job: Job = serde_json::from_value(body)?;
                let made = stage.api::<Job>().create(&dry, &job).await.with_context(|| what)?;
                let stamped = made.labels().contains_key(names::JOB_LABEL);
                ensure!(stamped == quantum, "{what} with {metadata}: stamped {stamped}");
            }
        }
    }
    stage.strike().await
}

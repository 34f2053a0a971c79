//! The reviews: a consumer and a producer of a quantum Job, 22 KB each.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Map, Value, json};
use sluice_shared::names;
use sluice_webhook::admit::{Admit, Verdict};
use sluice_webhook::config::{Config, Sidecar};
use sluice_webhook::http::Admission;
use sluice_webhook::metrics::Metrics;
use sluice_webhook::served::{Latest, Served};

/// Size of the pod in a review.
pub(super) const POD_BYTES: usize = 22 * 1024;
const JOB: &str = "calibration-sweep";
const JOB_UID: &str = "3f1c5a52-64a4-4a0c-9d0c-0a8d6f1f6a10";

/// The reviews of one Job.
#[derive(Debug)]
pub(super) struct Reviews {
    /// Of the pod with index 3.
    pub(super) consumer: Bytes,
    /// Of the pod with index 0.
    pub(super) producer: Bytes,
}

/// The state of the router: the defaults, on a cluster that serves `PodGroups`.
pub(super) fn admission() -> Result<Admission> {
    let resources = [("cpu", "50m"), ("memory", "64Mi"), ("ephemeral-storage", "64Mi")];
    let config = Config {
        sidecar: Sidecar {
            image: "sluice-sidecar:bench".to_owned(),
            pull_policy: "IfNotPresent".to_owned(),
            pull_secrets: Vec::new(),
            resources: resources.map(|(n, q)| (n.to_owned(), q.to_owned())).into(),
        },
        gate: names::GATE.to_owned(),
        default_mode: sluice_shared::stamp::Mode::Shared,
        priority_class: None,
        keep_qpu: false,
    };
    Ok(Admission {
        config: Arc::new(config.validated()?),
        served: Latest::new(Served { pod_groups: true }),
        metrics: Metrics::register(&mut prometheus_client::registry::Registry::default()),
    })
}

/// The reviews, as the API server would send them for the pods of a stamped Job.
pub(super) fn reviews(admission: &Admission) -> Result<Reviews> {
    let mut variables = 0;
    let (consumer, producer) = loop {
        let template = template(admission, variables)?;
        let consumer = pod(&template, 3, variables);
        if consumer.to_string().len() >= POD_BYTES {
            break (consumer, pod(&template, 0, variables));
        }
        variables += 1;
    };
    Ok(Reviews { consumer: review(&consumer)?, producer: review(&producer)? })
}

/// Checks that an answer is the real one: a bench that measures a refusal would look splendid.
pub(super) fn check(role: &str, answer: &[u8]) -> Result<()> {
    let review: Value = serde_json::from_slice(answer).context("an answer is no JSON")?;
    let response = &review["response"];
    ensure!(
        response["allowed"] == true,
        "the {role} was refused: {}",
        response["status"]["message"]
    );
    let patch: Vec<u8> = serde_json::from_value(response["patch"].clone())
        .with_context(|| format!("the {role} was admitted without a patch"))?;
    let patch = String::from_utf8_lossy(&patch);
    let mark = if role == "producer" { names::SIDECAR_CONTAINER } else { names::GATE };
    if !patch.contains(mark) {
        bail!("the patch of the {role} lacks {mark}: {patch}");
    }
    Ok(())
}

/// The pod template as the Job webhook leaves it.
fn template(admission: &Admission, variables: usize) -> Result<Value> {
    let env: Vec<Value> = (0..variables).map(variable).collect();
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": JOB, "namespace": "quantum", "uid": JOB_UID},
        "spec": {
            "completions": 8, "parallelism": 8, "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": {"app": "sweep"}},
                "spec": {
                    "restartPolicy": "Never",
                    "serviceAccountName": "researcher",
                    "containers": [
                        {"name": "program", "image": "registry.example/sweep:1",
                         "command": ["python", "sweep.py"], "env": env,
                         "envFrom": [{"secretRef": {"name": "aws"}}],
                         "resources": {"limits": {names::QPU_RESOURCE: "1", "memory": "2Gi"},
                                       "requests": {"cpu": "500m"}},
                         "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                        {"name": "metrics", "image": "registry.example/metrics:1",
                         "ports": [{"containerPort": 9100, "protocol": "TCP"}]},
                    ],
                    "volumes": [{"name": "data", "emptyDir": {}}],
                },
            },
        },
    }))?;
    match job.verdict(&admission.config, admission.served.get()) {
        Verdict::Change { object, .. } => {
            Ok(serde_json::to_value(object.spec.map(|s| s.template))?)
        }
        Verdict::Deny(reason) => bail!("the Job of the bench is refused: {reason}"),
        Verdict::Pass => bail!("the Job of the bench is not taken for a quantum one"),
    }
}

fn variable(number: usize) -> Value {
    json!({"name": format!("SWEEP_PARAMETER_{number:03}"), "value": format!("linspace(0.{number:03}, 6.283, 512)")})
}

/// The pod that the Job controller makes of the template, with the traces that the API server
/// adds before it asks.
fn pod(template: &Value, index: u32, variables: usize) -> Value {
    let mut pod = template.clone();
    let meta = &mut pod["metadata"];
    meta["generateName"] = json!(format!("{JOB}-{index}-"));
    meta["namespace"] = json!("quantum");
    meta["annotations"][names::COMPLETION_INDEX] = json!(index.to_string());
    for (key, value) in [
        (names::JOB_UID, JOB_UID),
        (names::JOB_NAME, JOB),
        (names::COMPLETION_INDEX, &index.to_string()),
    ] {
        meta["labels"][key] = json!(value);
    }
    meta["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    meta["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": JOB,
        "uid": JOB_UID, "controller": true, "blockOwnerDeletion": true}]);
    let mut fields = Map::from_iter([(".".to_owned(), json!({}))]);
    for number in 0..variables {
        let key = format!(r#"k:{{"name":"SWEEP_PARAMETER_{number:03}"}}"#);
        fields.insert(key, json!({".": {}, "f:name": {}, "f:value": {}}));
    }
    meta["managedFields"] = json!([{"manager": "kube-controller-manager", "operation": "Update",
        "apiVersion": "v1", "time": "2026-11-29T12:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": {r#"k:{"name":"program"}"#: {".": {}, "f:env": fields}}}}}]);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["spec"]["hostname"] = json!(format!("{JOB}-{index}"));
    pod
}

fn review(pod: &Value) -> Result<Bytes> {
    // As text, since the API server puts the uid first and maps of values are sorted.
    let types = r#""kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"}"#;
    let user = json!({"username": "system:serviceaccount:kube-system:job-controller"});
    let text = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002",{types},"namespace":"quantum","operation":"CREATE","userInfo":{user},"object":{pod},"oldObject":null,"dryRun":false,"options":{{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}}}}"#
    );
    serde_json::from_str::<Value>(&text).context("the review of the bench is no JSON")?;
    Ok(Bytes::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pods_have_the_size_that_is_promised() {
        let reviews = reviews(&admission().unwrap()).unwrap();
        for review in [&reviews.consumer, &reviews.producer] {
            let read: Value = serde_json::from_slice(review).unwrap();
            let size = read["request"]["object"].to_string().len();
            assert!((POD_BYTES..POD_BYTES + 512).contains(&size), "{size}");
        }
    }

    #[test]
    fn answers_that_do_nothing_are_not_measured() {
        let answer = |patch: Option<&str>, allowed: bool| {
            let patch = patch.map(str::as_bytes);
            json!({"response": {"allowed": allowed, "patch": patch}}).to_string()
        };
        assert!(check("consumer", answer(Some(names::GATE), true).as_bytes()).is_ok());
        for (answer, text) in [
            (answer(None, true), "without a patch"),
            (answer(Some("[]"), true), "lacks"),
            (answer(Some(names::GATE), false), "refused"),
        ] {
            let error = check("consumer", answer.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}

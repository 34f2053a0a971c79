//! The scheduling gate: reading it, and the one patch that opens it.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::names;

/// Whether the pod is held by `gate`.
#[must_use]
pub fn holds(pod: &Pod, gate: &str) -> bool {
    gates(pod).any(|g| g == gate)
}

/// The first gate of the pod that is not `gate`.
#[must_use]
pub fn foreign<'a>(pod: &'a Pod, gate: &str) -> Option<&'a str> {
    gates(pod).find(|g| *g != gate)
}

fn gates(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.spec.iter().flat_map(|s| s.scheduling_gates.iter().flatten()).map(|g| g.name.as_str())
}

/// The strategic merge patch that opens `gate` on the pod with `uid` and hands it the task ids.
///
/// The gate is removed by its key, so foreign gates stay whatever their order. The uid makes the
/// API server refuse the patch (422) when another pod has taken the name. The id is written in
/// the same request, so no consumer starts without it. The first of `task_ids` is the task of
/// the order; no task gives an empty id.
#[must_use]
pub fn release_patch(uid: &str, gate: &str, task_ids: &[String]) -> Value {
    let first = task_ids.first().map_or("", String::as_str);
    json!({
        "metadata": {
            "uid": uid,
            "annotations": {
                names::QUANTUM_JOB_ID: first,
                names::QUANTUM_JOB_IDS: task_ids.join(","),
            },
        },
        "spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_pod(gates: &[&str]) -> Pod {
        let gates: Vec<_> = gates.iter().map(|g| json!({"name": g})).collect();
        serde_json::from_value(json!({"spec": {"containers": [], "schedulingGates": gates}}))
            .unwrap()
    }

    #[test]
    fn foreign_gates_are_told_apart() {
        let pod = mk_pod(&["kueue.x-k8s.io/topology", names::GATE]);
        assert!(holds(&pod, names::GATE));
        assert_eq!(foreign(&pod, names::GATE), Some("kueue.x-k8s.io/topology"));
        assert!(!holds(&Pod::default(), names::GATE));
    }

    #[test]
    fn the_patch_names_gate_uid_and_ids() {
        insta::assert_json_snapshot!(
            release_patch("u-1", names::GATE, &["arn:1".into(), "arn:2".into()]),
            @r#"
        {
          "metadata": {
            "annotations": {
              "fluence.flux-framework.org/quantum-job-id": "arn:1",
              "sluice.flux-framework.org/quantum-job-ids": "arn:1,arn:2"
            },
            "uid": "u-1"
          },
          "spec": {
            "schedulingGates": [
              {
                "$patch": "delete",
                "name": "sluice.flux-framework.org/queue"
              }
            ]
          }
        }
        "#
        );
        let empty = release_patch("u-1", names::GATE, &[]);
        assert_eq!(empty["metadata"]["annotations"][names::QUANTUM_JOB_ID], "");
    }
}

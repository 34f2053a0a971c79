//! Consumers: always gated, whatever the state of the gang.

use k8s_openapi::api::core::v1::{Pod, PodSchedulingGate, PodSchedulingGroup, PodSpec};
use sluice_shared::names;

use super::{env, label, tell_backend, tell_role};
use crate::pod::Facts;
use crate::quantum;
use crate::warning::Warning;

/// Makes the pod a consumer.
pub fn shape(pod: &mut Pod, facts: &Facts<'_>, warnings: &mut Vec<Warning>) {
    label(pod, facts.role);
    // Whatever understands the request would hold a qpu for a pod that never submits.
    quantum::strip(pod);
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let Some(spec) = pod.spec.as_mut() else { return };
    gate(spec, &facts.stamp.gate);
    if let Some(gang) = facts.gang.as_ref().filter(|_| facts.served.pod_groups) {
        // The Job controller may have put all pods of the Job into one group, the producer too:
        // that group could never start while its consumers are gated.
        spec.scheduling_group = Some(PodSchedulingGroup { pod_group_name: Some(gang.clone()) });
    }
    if let Some(class) = &facts.config.priority_class {
        prioritise(spec, class);
    }
    for container in &mut spec.containers {
        tell_role(container, facts.role, warnings);
        let entries = container.env.get_or_insert_default();
        // Read when the container starts: the ids are written in the patch that opens the gate.
        env::set(entries, env::annotation(names::ENV_QUANTUM_JOB_ID, names::QUANTUM_JOB_ID));
        env::set(entries, env::annotation(names::ENV_QUANTUM_JOB_IDS, names::QUANTUM_JOB_IDS));
        tell_backend(container, facts.stamp.backend.as_deref(), &annotations);
    }
}

fn gate(spec: &mut PodSpec, name: &str) {
    let gates = spec.scheduling_gates.get_or_insert_default();
    if gates.iter().all(|g| g.name != name) {
        gates.push(PodSchedulingGate { name: name.to_owned() });
    }
}

/// Gives the pod a class if its user gave none. The numbers are cleared only while the class
/// changes: cleared again in a second call, the pod would be stored without any priority.
fn prioritise(spec: &mut PodSpec, class: &str) {
    if spec.priority_class_name.as_ref().is_none_or(String::is_empty) {
        spec.priority_class_name = Some(class.to_owned());
        spec.priority = None;
        spec.preemption_policy = None;
    }
}

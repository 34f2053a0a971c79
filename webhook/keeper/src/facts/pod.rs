//! A pod as the keeper sees it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::Object;
use serde::Deserialize;
use sluice_shared::names;
use sluice_shared::role::Role;
use sluice_shared::stamp::{Mode, Stamp};

use super::{Place, kept_by_place};

/// The pod on the wire, without what nobody reads.
pub(crate) type RawPod = Object<RawPodSpec, RawPodStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawPodSpec {
    #[serde(default)]
    scheduling_gates: Vec<RawGate>,
    scheduling_group: Option<RawGroup>,
    priority_class_name: Option<String>,
    node_name: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawGate {
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawGroup {
    pod_group_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawPodStatus {
    phase: Option<String>,
    #[serde(default)]
    conditions: Vec<RawPodCondition>,
    #[serde(default)]
    container_statuses: Vec<RawContainerStatus>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainerStatus {
    name: String,
    #[serde(default)]
    restart_count: u32,
    #[serde(default)]
    state: RawState,
    #[serde(default)]
    last_state: RawState,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawState {
    running: Option<RawRun>,
    terminated: Option<RawRun>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRun {
    started_at: Option<Time>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawPodCondition {
    r#type: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

/// Where a pod stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// The Job that made a pod, by the pod's labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobOfPod {
    pub uid: String,
    pub name: String,
}

/// A pod that carries our role label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodSeen {
    pub place: Place,
    pub role: Role,
    /// Completion index, of pods of Indexed Jobs.
    pub index: Option<u32>,
    /// `None` for a pod of its own.
    pub job: Option<JobOfPod>,
    pub mode: Mode,
    /// The stamp of a pod of its own; pods of Jobs have theirs on the Job.
    pub stamp: Option<Stamp>,
    /// Names of all gates, ours and foreign ones.
    pub gates: Vec<String>,
    /// Name of the `PodGroup` that the pod wants to be placed with.
    pub group: Option<String>,
    pub priority_class: Option<String>,
    /// Whether the scheduler has found a node.
    pub placed: bool,
    pub phase: PodPhase,
    pub terminating: bool,
    pub created: Option<Timestamp>,
    /// What the scheduler says when it finds no node.
    pub unschedulable: Option<String>,
    /// How often the containers that ask for the qpu were started again; 0 for consumers.
    pub restarts: u32,
    /// When the run under way was started, if it is not the first.
    pub restarted_at: Option<Timestamp>,
    /// Whether the cluster ended it: eviction, preemption, a lost node.
    pub disrupted: bool,
}

kept_by_place!(PodSeen);

impl PodSeen {
    /// Reads a pod; `None` when its role label is none of ours.
    pub(crate) fn of(raw: &RawPod) -> Option<Self> {
        let meta = &raw.metadata;
        let label = |name: &str| meta.labels.as_ref().and_then(|l| l.get(name));
        let annotation = |name: &str| meta.annotations.as_ref().and_then(|a| a.get(name));
        let role = label(names::ROLE)?.parse().ok()?;
        let index = annotation(names::COMPLETION_INDEX)
            .or_else(|| label(names::COMPLETION_INDEX))
            .and_then(|i| i.parse().ok());
        let job = label(names::JOB_UID).map(|uid| JobOfPod {
            uid: uid.clone(),
            name: label(names::JOB_NAME).cloned().unwrap_or_default(),
        });
        let stamp = annotation(names::STAMP).and_then(|text| Stamp::parse(text).ok());
        let status = raw.status.clone().unwrap_or_default();
        let (restarts, restarted_at) = match role {
            Role::Consumer => (0, None),
            Role::Producer | Role::Single => {
                restarts(&status, annotation(names::QPU_REQUEST).map(String::as_str))
            }
        };
        Some(Self {
            place: Place::of(meta),
            role,
            index,
            mode: stamp.as_ref().map_or(Mode::Shared, |s| s.mode),
            // The stamp of a Job's pods is the Job's: keeping it once is enough.
            stamp: stamp.filter(|_| job.is_none()),
            job,
            gates: raw.spec.scheduling_gates.iter().map(|g| g.name.clone()).collect(),
            group: raw.spec.scheduling_group.as_ref().and_then(|g| g.pod_group_name.clone()),
            priority_class: raw.spec.priority_class_name.clone().filter(|c| !c.is_empty()),
            placed: raw.spec.node_name.as_deref().is_some_and(|n| !n.is_empty()),
            phase: match status.phase.as_deref() {
                Some("Running") => PodPhase::Running,
                Some("Succeeded") => PodPhase::Succeeded,
                Some("Failed") => PodPhase::Failed,
                _ => PodPhase::Pending,
            },
            terminating: meta.deletion_timestamp.is_some(),
            created: meta.creation_timestamp.as_ref().map(|t| t.0),
            unschedulable: unschedulable(&status),
            restarts,
            restarted_at,
            disrupted: status
                .conditions
                .iter()
                .any(|c| c.r#type == "DisruptionTarget" && c.status == "True"),
        })
    }

    /// Uid of the object whose gang this pod belongs to.
    pub(crate) fn owner(&self) -> &str {
        self.job.as_ref().map_or(&self.place.uid, |j| &j.uid)
    }

    /// Whether `gate` holds the pod.
    pub(crate) fn holds(&self, gate: &str) -> bool {
        self.gates.iter().any(|g| g == gate)
    }

    /// The first gate that is not `gate`.
    pub(crate) fn foreign_gate(&self, gate: &str) -> Option<&str> {
        self.gates.iter().map(String::as_str).find(|g| *g != gate)
    }

    /// Whether its containers have all ended.
    pub(crate) const fn finished(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether it still has a future: neither finished nor being deleted.
    pub(crate) const fn lives(&self) -> bool {
        !self.finished() && !self.terminating
    }
}

/// Restarts of the containers that the annotation names, and the start of the last of them; of all
/// containers where it is missing, because the request was kept.
fn restarts(status: &RawPodStatus, requests: Option<&str>) -> (u32, Option<Timestamp>) {
    let asks = |name: &str| {
        requests.is_none_or(|all| {
            all.split(',').any(|pair| pair.split('=').next().is_some_and(|n| n.trim() == name))
        })
    };
    let again =
        || status.container_statuses.iter().filter(|c| asks(&c.name) && c.restart_count > 0);
    let started = |c: &RawContainerStatus| {
        let now = c.state.running.as_ref().or(c.state.terminated.as_ref());
        // While it waits to be started once more.
        let run = now.or(c.last_state.terminated.as_ref())?;
        Some(run.started_at.as_ref()?.0)
    };
    let count = again().fold(0_u32, |sum, c| sum.saturating_add(c.restart_count));
    (count, again().filter_map(started).max())
}

fn unschedulable(status: &RawPodStatus) -> Option<String> {
    let condition = status.conditions.iter().find(|c| c.r#type == "PodScheduled")?;
    let stuck = condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable");
    stuck.then(|| condition.message.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_consumer_is_read() {
        let raw: RawPod = serde_json::from_value(json!({
            "metadata": {
                "name": "j-3-x", "namespace": "n", "uid": "u", "resourceVersion": "9",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {names::ROLE: "consumer", names::JOB_UID: "ju", names::JOB_NAME: "j"},
                "annotations": {names::COMPLETION_INDEX: "3"},
            },
            "spec": {
                "containers": [{"name": "c"}],
                "schedulingGates": [{"name": "foreign"}, {"name": names::GATE}],
                "schedulingGroup": {"podGroupName": "g"},
                "priorityClassName": "p",
            },
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
            ]},
        }))
        .unwrap();
        let pod = PodSeen::of(&raw).unwrap();
        assert_eq!((pod.role, pod.index, pod.owner()), (Role::Consumer, Some(3), "ju"));
        assert!(pod.holds(names::GATE) && pod.lives() && !pod.placed);
        assert_eq!(pod.foreign_gate(names::GATE), Some("foreign"));
        assert_eq!(pod.group.as_deref(), Some("g"));
        assert_eq!(pod.unschedulable, None);
    }

    #[test]
    fn a_pod_with_a_strange_role_is_left_alone() {
        let raw: RawPod = serde_json::from_value(json!({
            "metadata": {"name": "p", "labels": {names::ROLE: "conductor"}}, "spec": {},
        }))
        .unwrap();
        assert_eq!(PodSeen::of(&raw), None);
    }

    #[test]
    fn restarts_are_those_of_the_program_and_disruptions_are_seen() {
        let read = |annotations: serde_json::Value, role: &str| {
            let raw: RawPod = serde_json::from_value(json!({
                "metadata": {"name": "p", "uid": "u", "namespace": "n",
                    "labels": {names::ROLE: role}, "annotations": annotations},
                "spec": {},
                "status": {
                    "phase": "Failed",
                    "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                    "containerStatuses": [
                        {"name": "main", "restartCount": 2,
                         "state": {"running": {"startedAt": "2026-11-29T15:00:07Z"}}},
                        {"name": "log", "restartCount": 5, "state": {"terminated":
                            {"exitCode": 1, "startedAt": "2026-11-29T15:00:09Z"}}},
                        {"name": "first", "restartCount": 0,
                         "state": {"running": {"startedAt": "2026-11-29T15:00:11Z"}}},
                    ],
                },
            }))
            .unwrap();
            PodSeen::of(&raw).unwrap()
        };
        let pod = read(json!({names::QPU_REQUEST: "main=1"}), "producer");
        let second = |pod: &PodSeen| pod.restarted_at.map(|at| at.strftime("%S").to_string());
        assert_eq!((pod.restarts, pod.disrupted), (2, true));
        assert_eq!(second(&pod).as_deref(), Some("07"));
        let pod = read(json!({}), "single");
        assert_eq!((pod.restarts, second(&pod).as_deref()), (7, Some("09")), "nobody says which");
        let pod = read(json!({names::QPU_REQUEST: "main=1"}), "consumer");
        assert_eq!((pod.restarts, pod.restarted_at), (0, None));
    }
}

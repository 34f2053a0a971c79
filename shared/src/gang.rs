//! `QuantumGang`: the object in which sidecar and keeper meet, and which people read.
//!
//! Two writers share the status and never write the same field: `status.vendor` belongs to the
//! sidecar of the recorded producer, everything else to the keeper. Policies in the cluster hold
//! both to it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod vendor;

pub use vendor::{Cost, Folded, Intent, MAX_INTENTS, MAX_TASKS, Order, Task, VendorStatus};

/// What a gang is, written once by the keeper.
#[derive(
    CustomResource, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "sluice.flux-framework.org",
    version = "v1alpha1",
    kind = "QuantumGang",
    plural = "quantumgangs",
    singular = "quantumgang",
    shortname = "qg",
    category = "all",
    namespaced,
    status = "QuantumGangStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "The pods of one quantum Job that wait for one producer.",
    printcolumn = r#"{"name":"Job","type":"string","jsonPath":".spec.owner.name"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Task","type":"string","jsonPath":".status.task"}"#,
    printcolumn = r#"{"name":"Position","type":"string","jsonPath":".status.position"}"#,
    printcolumn = r#"{"name":"Device","type":"string","jsonPath":".status.device"}"#,
    printcolumn = r#"{"name":"Waited","type":"date","jsonPath":".status.waitingSince"}"#,
    printcolumn = r#"{"name":"Gated","type":"integer","jsonPath":".status.consumers.gated"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message"}"#,
    printcolumn = r#"{"name":"Cost","type":"string","jsonPath":".status.vendor.cost.total","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct QuantumGangSpec {
    /// The Job, or the bare pod, whose gang this is.
    pub owner: OwnerRef,
    /// Pods that can exist at the same time, the producer included.
    #[schemars(range(min = 1))]
    pub size: u32,
    /// `shared` or `independent`.
    #[schemars(length(max = 32))]
    pub mode: String,
    /// Completion index of the only member, in `independent` mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// When the gates open: `front`, `running`, `completed`, `position<=K`, `manual`.
    #[schemars(length(max = 64))]
    pub policy: String,
    /// How many tasks must be ready.
    #[schemars(range(min = 1, max = 100))]
    pub tasks: u32,
    /// Which tasks count: `device`, `qpu`, `any`.
    #[schemars(length(max = 32))]
    pub follow: String,
    /// The chosen backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub backend: Option<String>,
    /// The gate that holds the consumers.
    #[schemars(length(max = 317))]
    pub gate: String,
    /// Version of the stamp that this was made from.
    pub stamp_version: u32,
    /// A person's order to open the gates now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<PersonOrder>,
}

/// The object whose gang this is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerRef {
    /// `Job` or `Pod`.
    #[schemars(length(max = 16))]
    pub kind: String,
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its uid: the identity of the gang.
    #[schemars(length(max = 64))]
    pub uid: String,
}

/// A person's order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonOrder {
    /// Who gave it, as they want to be named.
    #[schemars(length(max = 253))]
    pub by: String,
    /// Why.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub reason: String,
}

/// The state of a gang. `vendor` is the sidecar's, the rest is the keeper's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuantumGangStatus {
    /// What the sidecar saw at the vendor, and its order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<VendorStatus>,
    /// Where the gang stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The pod whose sidecar may write `vendor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<PodRef>,
    /// The consumers by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumers: Option<Consumers>,
    /// The order that the keeper executes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<KeeperOrder>,
    /// Short id of the task that decides, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub task: Option<String>,
    /// Its position, as the vendor says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub position: Option<String>,
    /// Its device, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub device: Option<String>,
    /// Since when the gang waits at the vendor; absent when it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// Generation of the spec that the keeper has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Submitted`, `AtFront`, `Released`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where a gang stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The producer is not there yet, or has submitted nothing.
    Starting,
    /// A task waits in the vendor's queue.
    Queued,
    /// The task is next, or runs; the policy is not met yet, or the order is on its way.
    Front,
    /// An order stands and gates are being opened.
    Releasing,
    /// Every expected consumer is open.
    Released,
    /// The Job has ended.
    Finished,
}

/// The producer: a pod by name and uid, and which run of its program is under way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodRef {
    /// Name of the pod.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// Uid of the pod.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// How often the containers that ask for the qpu were started again in this pod.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// When the run under way was started, to the second; absent for the first in this pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Completion index of the pod, of an Indexed Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The producer that this one continues: the last of the same place in the Job that asked for
    /// something. Absent for the first, and after one that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousPod>,
}

/// The uid of the pod in the name of a run.
#[must_use]
pub fn pod_of_run(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

impl PodRef {
    /// The name of the run under way: pod uid and restart count.
    #[must_use]
    pub fn run(&self) -> String {
        format!("{}/{}", self.uid, self.restarts)
    }

    /// Whether this is the name of the run under way.
    #[must_use]
    pub fn is_run(&self, name: &str) -> bool {
        let restarts = name.strip_prefix(self.uid.as_str()).and_then(|n| n.strip_prefix('/'));
        restarts.is_some_and(|n| n == self.restarts.to_string())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A producer that another one has replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviousPod {
    /// Uid of the pod.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// How it ended.
    pub end: PodEnd,
}

/// How a producer ended that another one has replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PodEnd {
    /// Its program failed.
    Failed,
    /// It was evicted, preempted, deleted or lost with its node.
    Disrupted,
}

/// The consumers of a gang by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Consumers {
    /// How many should exist now: finished and failed indexes are left out.
    pub expected: u32,
    /// How many exist and are held by our gate.
    pub gated: u32,
    /// How many exist and are not held by our gate, the finished ones included.
    pub released: u32,
}

/// Who gave the order that the keeper executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OrderReason {
    /// The sidecar: the policy is met.
    PolicyMet,
    /// The keeper: index 0 succeeded.
    ProducerSucceeded,
    /// The keeper: index 0 failed for good while the Job goes on.
    ProducerFailed,
    /// A person.
    Person,
}

impl OrderReason {
    /// The word in status and Events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PolicyMet => "PolicyMet",
            Self::ProducerSucceeded => "ProducerSucceeded",
            Self::ProducerFailed => "ProducerFailed",
            Self::Person => "Person",
        }
    }
}

/// The order that the keeper executes, recorded before the first gate is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeeperOrder {
    /// Who gave it.
    pub reason: OrderReason,
    /// The task, empty if there is none.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub task_id: String,
    /// When the keeper took it up.
    pub at: MicroTime,
    /// When the last expected gate was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<MicroTime>,
    /// The task ended without a result after the release: later pods stay gated.
    #[serde(default)]
    pub withdrawn: bool,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn the_schema_has_list_maps_and_limits() {
        let crd = serde_json::to_value(QuantumGang::crd()).unwrap();
        let status = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
            ["properties"];
        let tasks = &status["vendor"]["properties"]["tasks"];
        assert_eq!(tasks["x-kubernetes-list-type"], "map");
        assert_eq!(tasks["x-kubernetes-list-map-keys"][0], "id");
        assert_eq!(tasks["maxItems"], MAX_TASKS);
        let intents = &status["vendor"]["properties"]["intents"];
        assert_eq!(intents["x-kubernetes-list-map-keys"][0], "clientToken");
        assert_eq!(intents["maxItems"], MAX_INTENTS);
        let series = &status["vendor"]["properties"]["series"];
        assert_eq!(series["maxItems"], crate::series::MAX_SAMPLES);
        assert_eq!(status["conditions"]["x-kubernetes-list-map-keys"][0], "type");
    }

    #[test]
    fn every_string_of_the_status_has_a_length_limit() {
        fn check(path: &str, schema: &serde_json::Value, missing: &mut Vec<String>) {
            if let Some(properties) = schema["properties"].as_object() {
                for (name, property) in properties {
                    check(&format!("{path}.{name}"), property, missing);
                }
            }
            check_items(path, schema, missing);
            let free = schema["type"] == "string"
                && schema.get("maxLength").is_none()
                && schema.get("enum").is_none()
                && schema.get("format").is_none();
            // Condition is Kubernetes' own type; its fields are ours to fill.
            if free && !path.contains(".conditions") {
                missing.push(path.to_owned());
            }
        }
        fn check_items(path: &str, schema: &serde_json::Value, missing: &mut Vec<String>) {
            if schema.get("items").is_some() {
                check(&format!("{path}[]"), &schema["items"], missing);
            }
        }
        let crd = serde_json::to_value(QuantumGang::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let mut missing = Vec::new();
        check("spec", &schema["spec"], &mut missing);
        check("status", &schema["status"], &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }
}

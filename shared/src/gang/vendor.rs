//! `status.vendor`: what the sidecar of the recorded producer writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pod_of_run;
use crate::price::{self, Usd};
use crate::resource::Resource;
use crate::series::Sample;
use crate::task::TaskState;

/// Most tasks that a gang lists; older final ones are folded into [`Folded`].
pub const MAX_TASKS: usize = 100;
/// Most intents that a gang lists.
pub const MAX_INTENTS: usize = 100;

/// What the sidecar saw and decided.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VendorStatus {
    /// The tasks in order of submission, at most [`MAX_TASKS`].
    #[serde(default)]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub tasks: Vec<Task>,
    /// Submissions that were about to be forwarded and whose task is not known yet, at most
    /// [`MAX_INTENTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["clientToken"]))]
    pub intents: Vec<Intent>,
    /// Older final tasks that are not listed any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<Folded>,
    /// The order to open the gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// What the tasks cost; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What keeps the sidecar from going on, in one sentence; absent when nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub problem: Option<String>,
    /// What the queue did, in the order of time, at most
    /// [`MAX_SAMPLES`](crate::series::MAX_SAMPLES): see [`crate::series`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub series: Vec<Sample>,
}

impl VendorStatus {
    /// Whether a run of the program in this pod has asked for a task, or taken one up.
    #[must_use]
    pub fn asked_for_by(&self, pod_uid: &str) -> bool {
        let is_its = |run: &str| pod_of_run(run) == pod_uid;
        self.tasks.iter().any(|t| t.incarnation.as_deref().is_some_and(is_its))
            || self.intents.iter().any(|i| is_its(&i.incarnation))
    }
}

/// One task at the vendor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The vendor's id.
    #[schemars(length(max = 256))]
    pub id: String,
    /// The vendor's name of the device.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub device: String,
    /// The resource of QRMI through which it was found, as `<type>/<name>`; absent at Braket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = 192))]
    pub resource: Option<Resource>,
    /// The vendor's word for its state.
    #[schemars(length(max = 64))]
    pub state: String,
    /// Position in the queue as the vendor says it; absent when it says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub position: Option<String>,
    /// Lower bound of the position when the vendor gives only that (`>2000`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u32>,
    /// Tasks known to run before this one, whatever its position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_ahead: Option<u32>,
    /// The hybrid job that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub job: Option<String>,
    /// The session that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub session: Option<String>,
    /// Number of shots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shots: Option<u64>,
    /// What it costs by list price; nothing once it has ended without a result. Absent where the
    /// catalogue has no price, or one by the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = 32), regex(pattern = price::PATTERN))]
    pub cost: Option<Usd>,
    /// Whether the vendor will run it next.
    #[serde(default)]
    pub front: bool,
    /// Whether it counts for the release.
    #[serde(default)]
    pub counts: bool,
    /// Why it ended without a result, or why it does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// When it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_at: Option<Time>,
    /// When this was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Time>,
    /// Digest of the submission, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub digest: Option<String>,
    /// The client token of the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub client_token: Option<String>,
    /// Which run of the program asked for it last: pod uid and restart count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 96))]
    pub incarnation: Option<String>,
    /// When that run last asked for it, by the clock of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<MicroTime>,
    /// Whether that run got it from an earlier one, instead of a task of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resumed: bool,
}

impl Task {
    /// The state as a value.
    #[must_use]
    pub fn task_state(&self) -> TaskState {
        TaskState::from(self.state.as_str())
    }
}

/// A submission that is about to be forwarded, written down first: whoever comes after a crash
/// sends it again under the same token and gets the same task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// The client token under which it is sent.
    #[schemars(length(max = 64))]
    pub client_token: String,
    /// The token of a later run that asks for the same and gets this one's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub asked_as: Option<String>,
    /// Digest of the submission, hex.
    #[schemars(length(max = 64))]
    pub digest: String,
    /// Region where it goes, or resource.
    #[schemars(length(max = 192))]
    pub region: String,
    /// Which run of the program asked last: pod uid and restart count.
    #[schemars(length(max = 96))]
    pub incarnation: String,
    /// When that was.
    pub at: MicroTime,
}

/// Counts of tasks that are not listed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Folded {
    /// Ended with a result.
    pub completed: u32,
    /// Ended without one.
    pub unsuccessful: u32,
    /// What they cost together.
    #[serde(default)]
    #[schemars(with = "String", length(max = 32), regex(pattern = price::PATTERN))]
    pub cost: Usd,
}

/// What the tasks of a gang cost by list prices: an estimate, not a bill.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// The tasks with a price, those that ended without a result left out.
    #[schemars(with = "String", length(max = 32), regex(pattern = price::PATTERN))]
    pub total: Usd,
    /// Most that they may cost, if the user said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = 32), regex(pattern = price::PATTERN))]
    pub max: Option<Usd>,
    /// Tasks that are charged by the minute and are not in the total.
    #[serde(default)]
    pub metered: u32,
    /// Tasks without a known price, not in the total either.
    #[serde(default)]
    pub unpriced: u32,
    /// When the prices were last compared with a source, as `2026-06`.
    #[schemars(length(max = 32))]
    pub prices: String,
}

/// The sidecar's order: the gates may open for these tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// How the policy is met: `front`, `running`, `completed`, `position 14`, `manual`.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// The task of the order.
    #[schemars(length(max = 256))]
    pub task_id: String,
    /// When it was given.
    pub at: MicroTime,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

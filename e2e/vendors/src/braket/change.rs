//! What the control API can change about devices and tasks.

use serde::{Deserialize, Serialize};

use super::device::{Status, StatusReason, Window};
use super::task::Pretence;
use crate::queue::{Ahead, Pace, TaskId};

/// A change to a device; absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DeviceChange {
    /// New status.
    pub status: Option<Status>,
    /// New reason; goes away by itself with `ONLINE`.
    pub status_reason: Option<StatusReason>,
    /// New hours, all of them.
    pub windows: Option<Vec<Window>>,
    /// New pace, whole.
    pub pace: Option<Pace>,
    /// Foreign places before later submissions.
    pub ahead: Option<Ahead>,
    /// Foreign places that the normal lane has now, at its end.
    pub add_normal: Option<u64>,
    /// Foreign places that the priority lane has now, at its end.
    pub add_priority: Option<u64>,
    /// Takes the foreign places of the priority lane away.
    pub clear_priority: bool,
    /// Recorded waits, see [`Device::waits_ms`].
    pub waits_ms: Option<Vec<u64>>,
    /// The next tasks that start fail.
    pub fail_next: Option<u64>,
    /// What their `failureReason` says.
    pub fail_reason: Option<String>,
}

/// A forced state of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StateChange {
    /// `RUNNING`, `COMPLETED` (once its result exists), `FAILED`, `CANCELLING`, `CANCELLED`.
    pub state: Option<String>,
    /// `failureReason` of a failed task.
    pub reason: Option<String>,
    /// What the API is made to say from now on; an empty object ends it.
    pub pretend: Option<Pretence>,
}

/// A request for something that is not there; for the control API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// No device of that name.
    #[error("no device '{0}'; ask GET /devices for the names")]
    NoDevice(String),
    /// No task of that id.
    #[error("no task '{0}'; ask GET /tasks for the ids")]
    NoTask(String),
    /// A task that cannot get that state.
    #[error("task '{id}' cannot become {state}: {why}")]
    Impossible {
        /// The task.
        id: TaskId,
        /// The state asked for.
        state: String,
        /// What stands against it.
        why: &'static str,
    },
}

//! What passes on the wire, as values that mean the same for every vendor.

use jiff::Timestamp;
use sluice_shared::task::{Position, TaskState};

use crate::digest::sha256_hex;

/// Longest text of the vendor that is repeated, characters.
pub const MESSAGE: usize = 1024;

/// What an answer about a task tells. A field is `None` when the vendor did not say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFacts {
    /// The vendor's id of the task.
    pub task_id: String,
    /// State, with words kept that nobody has seen yet.
    pub state: TaskState,
    /// The vendor's name of the device.
    pub device: Option<String>,
    /// ARN of the hybrid job that it belongs to, at Braket.
    pub job: Option<String>,
    /// The session that it belongs to.
    pub session: Option<String>,
    /// Number of shots.
    pub shots: Option<u64>,
    /// Place in the queue; unknown when it was not asked for.
    pub position: Position,
    /// The vendor's own text of the place, for people.
    pub position_text: Option<String>,
    /// `QUANTUM_TASKS_QUEUE` or `JOBS_QUEUE`, at Braket.
    pub queue: Option<String>,
    /// `Normal` or `Priority`, at Braket.
    pub priority: Option<String>,
    /// What the vendor says about the place.
    pub message: Option<String>,
    /// Why the task failed.
    pub failure_reason: Option<String>,
    /// When the vendor accepted it.
    pub created_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl TaskFacts {
    /// Facts of which only id and state are known.
    #[must_use]
    pub fn new(task_id: impl Into<String>, state: TaskState) -> Self {
        Self {
            task_id: task_id.into(),
            state,
            device: None,
            job: None,
            session: None,
            shots: None,
            position: Position::Unknown,
            position_text: None,
            queue: None,
            priority: None,
            message: None,
            failure_reason: None,
            created_at: None,
            ended_at: None,
        }
    }
}

/// What a submission asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// SHA-256 of the canonical request without what differs from try to try: equal for
    /// submissions that ask for the same thing.
    pub digest: String,
    /// What the vendor knows a repeated request by: Braket's `clientToken`, the id that the client
    /// of IBM Quantum System chooses.
    pub client_token: Option<String>,
    /// The vendor's name of the device.
    pub device: Option<String>,
    /// Number of shots.
    pub shots: Option<u64>,
}

impl Submission {
    /// A submission that cannot be read: equal only to one of the same bytes.
    #[must_use]
    pub fn unread(body: &[u8]) -> Self {
        Self { digest: sha256_hex(body), client_token: None, device: None, shots: None }
    }
}

/// What answers about a device tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceFacts {
    /// Whether it works.
    pub is_online: bool,
    /// The vendor's word.
    pub status: String,
    /// Why it has that status, in the vendor's words.
    pub reason: Option<String>,
    /// Tasks that wait for it, as the vendor counts them.
    pub queue: Option<u64>,
}

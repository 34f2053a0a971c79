//! What a vendor tells about tasks and devices, as values, and the calls that ask for it.

pub mod answer;
pub mod braket;
pub mod credentials;
pub mod device;
pub mod front;
pub mod http;
mod kept;
pub mod settings;
pub mod window;

use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::task::TaskState;

pub use device::DeviceReading;

/// What one look at a task told. A field is `None` when the vendor did not say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The vendor's id.
    pub id: String,
    /// The vendor's name of the device.
    pub device: Option<String>,
    /// The state, in the vendor's word.
    pub state: TaskState,
    /// The position as the vendor writes it; absent when the task is in no queue.
    pub position: Option<String>,
    /// Whether the task waits in the queue that is served before the normal one.
    pub priority: bool,
    /// Why it ended without a result.
    pub reason: Option<String>,
    /// When the vendor took the submission.
    pub submitted_at: Option<Timestamp>,
    /// Number of shots.
    pub shots: Option<u64>,
    /// ARN of the hybrid job that it belongs to.
    pub job: Option<String>,
}

/// Why a look at a task or device told nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What to make of it.
    pub kind: FailureKind,
    /// The vendor's words, or ours when it said none. Never a credential.
    pub message: String,
    /// How long the vendor asks to be left alone.
    pub retry_after: Option<Duration>,
}

/// The kinds of failure that are answered differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The vendor does not know the task (normal just after the submission) or device.
    NotFound,
    /// There are no credentials to ask with.
    NoCredentials,
    /// The credentials have ended: the message says where they come from and how to renew them.
    Expired,
    /// The vendor refuses the credentials, or what they may do.
    Denied,
    /// Too many requests.
    Throttled,
    /// No answer, or one that says that the vendor is in trouble.
    Away,
    /// Another refusal.
    Refused,
}

/// What came of a cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// The vendor ends the task; in its word.
    Ending(TaskState),
    /// It had ended before.
    Over,
}

/// The calls that the sidecar makes itself.
///
/// Each call has its own time-out; none is retried within: the caller decides when to ask again.
pub trait Vendor: Send + Sync + 'static {
    /// Looks at a task.
    fn task(&self, id: &str) -> impl Future<Output = Result<Reading, Failure>> + Send;
    /// Looks at a device, as seen from the region of `task`.
    fn device(
        &self,
        device: &str,
        task: &str,
    ) -> impl Future<Output = Result<DeviceReading, Failure>> + Send;
    /// Asks for the end of a task.
    fn cancel(&self, id: &str) -> impl Future<Output = Result<Cancelled, Failure>> + Send;
    /// Whether `id` can be a task of this vendor.
    ///
    /// # Errors
    /// Says what a task id looks like.
    fn check_id(&self, id: &str) -> Result<(), NotATask>;
}

/// An id that cannot be a task's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{id:?} is not the id of an Amazon Braket quantum task; send the whole ARN, \
     arn:aws:braket:<region>:<account>:quantum-task/<uuid>"
)]
pub struct NotATask {
    /// What was sent, cut to a readable length.
    pub id: String,
}

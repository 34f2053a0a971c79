//! What a vendor tells about tasks and devices, as values, and the calls that ask for it.

pub mod answer;
pub mod braket;
pub mod credentials;
pub mod device;
pub mod front;
pub mod http;
mod kept;
pub mod rest;
pub mod settings;
mod token;
pub mod vendors;
pub mod window;

use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::resource::Resource;
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
    /// The resource of QRMI through which it is reached; `None` at Braket.
    pub resource: Option<Resource>,
    /// The session that it belongs to.
    pub session: Option<String>,
}

impl Reading {
    /// A task of which only id and state are known.
    #[must_use]
    pub fn new(id: impl Into<String>, state: TaskState) -> Self {
        Self {
            id: id.into(),
            device: None,
            state,
            position: None,
            priority: false,
            reason: None,
            submitted_at: None,
            shots: None,
            job: None,
            resource: None,
            session: None,
        }
    }
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
    /// Looks at a task, at a resource or else at Braket.
    fn task(
        &self,
        resource: Option<&Resource>,
        id: &str,
    ) -> impl Future<Output = Result<Reading, Failure>> + Send;
    /// Looks at a device, as seen from the region of `task`.
    fn device(
        &self,
        resource: Option<&Resource>,
        device: &str,
        task: &str,
    ) -> impl Future<Output = Result<DeviceReading, Failure>> + Send;
    /// Asks for the end of a task.
    fn cancel(
        &self,
        resource: Option<&Resource>,
        id: &str,
    ) -> impl Future<Output = Result<Cancelled, Failure>> + Send;
    /// Where a task of this id is: at the resource that is named, or at the only one that its id
    /// fits.
    ///
    /// # Errors
    /// Says what a task id looks like, or which resources there are.
    fn place(&self, resource: Option<&str>, id: &str) -> Result<Option<Resource>, NotATask>;
}

/// An id that cannot be a task's, or not for certain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotATask {
    /// It is no ARN, and there is nothing but Braket.
    #[error(
        "{id:?} is not the id of an Amazon Braket quantum task; send the whole ARN, \
         arn:aws:braket:<region>:<account>:quantum-task/<uuid>"
    )]
    NoArn {
        /// What was sent, cut to a readable length.
        id: String,
    },
    /// It cannot be an id at that resource.
    #[error(
        "{id:?} is not the id of a task at {resource}; send it as the vendor's client prints it"
    )]
    Misshapen {
        /// What was sent, cut to a readable length.
        id: String,
        /// Where.
        resource: Resource,
    },
    /// No resource of this pod has that name.
    #[error("there is no resource {resource:?}; this pod has: {known}")]
    NoResource {
        /// What was sent, cut to a readable length.
        resource: String,
        /// What there is.
        known: String,
    },
    /// Several resources may have it.
    #[error(
        "task {id:?} may be at any of {known}; say where: {{\"id\": …, \"resource\": \"<type>/<name>\"}}"
    )]
    Where {
        /// What was sent, cut to a readable length.
        id: String,
        /// What there is.
        known: String,
    },
}

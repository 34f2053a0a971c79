//! Why an object is refused. Every message says what was found, where, and what to do.

use sluice_shared::names;
use sluice_shared::stamp::StampError;

use crate::shape::tap::Obstacle;

/// Why an object is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// An annotation has a value that does not exist.
    #[error("annotation {key}: {message}")]
    Unknown {
        /// The annotation.
        key: String,
        /// What is allowed.
        message: String,
    },
    /// An annotation should be a number.
    #[error("annotation {key} is {value:?}; give a whole number from {min} to {max}, in quotes")]
    NotANumber {
        /// The annotation.
        key: String,
        /// What it says.
        value: String,
        /// Smallest value.
        min: u32,
        /// Largest value.
        max: u32,
    },
    /// Job and template say different things.
    #[error(
        "annotation {key} is {job:?} on the Job and {template:?} on its pod template; \
         set it in one place, or to the same value"
    )]
    Conflict {
        /// The annotation.
        key: String,
        /// The value on the Job.
        job: String,
        /// The value on the template.
        template: String,
    },
    /// A backend should be chosen.
    #[error(
        "annotation {0}: this version cannot choose a backend yet; remove it, and name the \
         backend with annotation {backend}",
        backend = names::BACKEND
    )]
    NoChoice(String),
    /// Our annotations without a qpu.
    #[error(
        "annotation {0} asks Sluice to manage this Job, but no container requests {qpu}; \
         request at least 1 in the resources of the container that submits, or remove the \
         annotation",
        qpu = names::QPU_RESOURCE
    )]
    NotQuantum(String),
    /// An init container requests a qpu.
    #[error(
        "init container {0:?} requests {qpu}: it would run before Sluice can follow its tasks; \
         move the request to a container under spec.containers",
        qpu = names::QPU_RESOURCE
    )]
    InitRequest(String),
    /// A pod for Windows.
    #[error(
        "the pod is for Windows nodes, and the sidecar of Sluice runs on Linux only; remove the \
         request for {qpu} or run it on Linux",
        qpu = names::QPU_RESOURCE
    )]
    Windows,
    /// A work queue in shared mode.
    #[error(
        "the Job has parallelism {0} and no completions (a work queue), so no pod can be the \
         producer; set spec.completions to {0}, or annotation {key} to \"independent\" if every \
         pod submits for itself",
        key = names::COORDINATION
    )]
    WorkQueue(i32),
    /// A Job without indexes that cannot be given any.
    #[error(
        "the Job has completions {completions}, parallelism {parallelism} and no completion \
         indexes, so no pod can be the producer; set spec.completionMode to Indexed, or \
         annotation {key} to \"independent\" if every pod submits for itself",
        key = names::COORDINATION
    )]
    NoIndexes {
        /// `spec.completions`
        completions: i32,
        /// `spec.parallelism`
        parallelism: i32,
    },
    /// The host names of indexed pods would be invalid.
    #[error(
        "the Job needs completion indexes, and with them its pods are called {0:?}, which is no \
         valid host name; give the Job a name of at most {max} letters, digits and dashes",
        max = crate::job::size::LONGEST_NAME
    )]
    HostName(String),
    /// The group size contradicts the Job.
    #[error(
        "annotation {key} is {said}, but the Job runs {size} pods at the same time; correct it or \
         remove it",
        key = names::GROUP_SIZE
    )]
    GroupSize {
        /// What the annotation says.
        said: u32,
        /// What the Job says.
        size: u32,
    },
    /// A node is named, so gates are impossible.
    #[error(
        "the pod template names its node ({0:?}), and a pod with a node cannot wait behind a \
         scheduling gate; use nodeSelector with kubernetes.io/hostname instead"
    )]
    NodeName(String),
    /// The tap is demanded and impossible.
    #[error(
        "annotation {key} is \"tap\", but {0}; or set the annotation to \"auto\"",
        key = names::DISCOVERY
    )]
    Untappable(Obstacle),
    /// The stamp cannot be used.
    #[error(transparent)]
    Stamp(#[from] StampError),
    /// The completion index is no number.
    #[error(
        "annotation {key} is {0:?}; it is written by the Job controller and must be a whole number",
        key = names::COMPLETION_INDEX
    )]
    Index(String),
    /// Our container name is taken.
    #[error(
        "a container is called {name:?}, a name that Sluice needs for its sidecar; rename it",
        name = names::SIDECAR_CONTAINER
    )]
    NameTaken,
    /// A mark of ours was set by hand.
    #[error("{0} is written by Sluice and cannot be set by hand; remove it")]
    Mark(&'static str),
}

impl Reason {
    /// The word in metrics and logs.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_value",
            Self::NotANumber { .. } => "not_a_number",
            Self::Conflict { .. } => "conflict",
            Self::NoChoice(_) => "no_backend_choice",
            Self::NotQuantum(_) => "not_quantum",
            Self::InitRequest(_) => "init_request",
            Self::Windows => "windows",
            Self::WorkQueue(_) => "work_queue",
            Self::NoIndexes { .. } => "no_indexes",
            Self::HostName(_) => "host_name",
            Self::GroupSize { .. } => "group_size",
            Self::NodeName(_) => "node_name",
            Self::Untappable(_) => "untappable",
            Self::Stamp(_) => "stamp",
            Self::Index(_) => "index",
            Self::NameTaken => "name_taken",
            Self::Mark(_) => "mark",
        }
    }
}

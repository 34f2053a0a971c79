//! What is accepted and still worth a word. The API server hands these lines to the user.

use std::fmt;

use sluice_shared::names;

use crate::shape::resources::Remark;
use crate::shape::tap::Obstacle;

/// Something worth a word. Lines stay short: clients cut at about 120 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Nobody said how the pods work together.
    DefaultShared {
        /// Pods at the same time.
        size: u32,
    },
    /// The Job was given completion indexes.
    Indexed,
    /// Many consumers would poll for one result.
    ManyConsumers(u32),
    /// Under the policy `manual` no task has to be ready.
    TasksWithManual,
    /// Nothing can differ from a backend that is not named.
    MismatchWithoutBackend,
    /// What passes the tap by is neither counted nor stopped.
    CeilingNotTapped,
    /// The deadline counts while the Job waits at the vendor.
    Deadline(i64),
    /// The Job ends when some indexes have succeeded.
    SuccessPolicy,
    /// Pods run one after the other, so each submits.
    OneAtATime,
    /// An annotation under our prefix that means nothing.
    UnknownAnnotation(String),
    /// A scheduler that has to know gates.
    Scheduler(String),
    /// The program cannot be tapped.
    NotTapped(Obstacle),
    /// A file that the environment names is in the program's image alone.
    FileInImage {
        /// The container.
        container: String,
        /// The variable.
        variable: &'static str,
        /// The file.
        file: String,
    },
    /// Something about the resources of QRMI.
    Resource {
        /// The container.
        container: String,
        /// What.
        remark: Remark,
    },
    /// A pod without a Job has nobody to share with.
    BareShared,
    /// A pod without a Job has nothing whose deletion could be told from an eviction.
    BareCancel,
    /// A variable of ours was set by the user.
    RoleReplaced {
        /// The container.
        container: String,
        /// What the user had set.
        value: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefaultShared { size } => write!(
                f,
                "index 0 submits, {} pods wait for its task; annotation {}: \"independent\" lets \
                 each submit, \"shared\" confirms this",
                size.saturating_sub(1),
                names::COORDINATION
            ),
            Self::Indexed => {
                f.write_str("completionMode is set to Indexed: the completion index tells the pods apart")
            }
            Self::ManyConsumers(n) => write!(
                f,
                "{n} consumers that poll for one result exceed the vendor's quota: release is set \
                 to \"completed\""
            ),
            Self::TasksWithManual => write!(
                f,
                "{} has no effect with release \"manual\": the program alone says when the gates open",
                names::TASKS
            ),
            Self::MismatchWithoutBackend => write!(
                f,
                "{} has no effect without {}: no backend is named",
                names::MISMATCH,
                names::BACKEND
            ),
            Self::CeilingNotTapped => write!(
                f,
                "{} cannot be kept: the program's submissions do not pass the tap",
                names::MAX_COST
            ),
            Self::Deadline(seconds) => write!(
                f,
                "activeDeadlineSeconds {seconds} counts while the task waits in the vendor's \
                 queue, often for hours"
            ),
            Self::SuccessPolicy => f.write_str(
                "successPolicy ends the Job before all pods are done: consumers may be cut off",
            ),
            Self::OneAtATime => f.write_str(
                "parallelism is 1: pods run one after the other, none waits, each submits for itself",
            ),
            Self::UnknownAnnotation(key) => {
                write!(f, "annotation {key} means nothing to this version of Sluice; check its spelling")
            }
            Self::Scheduler(name) => write!(
                f,
                "scheduler {name:?} must respect scheduling gates and does not know our pod groups"
            ),
            Self::NotTapped(why) => write!(f, "the program is not followed by itself: {why}"),
            Self::FileInImage { container, variable, file } => write!(
                f,
                "{variable} of container {container:?} names {file}, which no volume holds: the \
                 sidecar cannot read it; mount it"
            ),
            Self::Resource { container, remark } => write!(f, "container {container:?}: {remark}"),
            Self::BareShared => f.write_str(
                "a pod without a Job has nobody to share a task with and is treated as independent",
            ),
            Self::BareCancel => write!(
                f,
                "{} has no effect on a pod without a Job: its deletion and its eviction look alike",
                names::CANCEL_ON_DELETE
            ),
            Self::RoleReplaced { container, value } => write!(
                f,
                "container {container:?} sets {} to {value:?}; Sluice decides the role and replaces it",
                names::ENV_ROLE
            ),
        }
    }
}

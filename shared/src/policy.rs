//! When the gates may open: the release policy and the decision whether it is met.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::task::{TaskState, is_qpu};

/// When the consumers are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ReleasePolicy {
    /// The vendor will run the task next, or runs it, or has run it.
    #[default]
    Front,
    /// The task runs or has run.
    Running,
    /// The task has a result.
    Completed,
}

/// A release policy that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("release {0:?} is unknown; allowed are front, running, completed")]
pub struct UnknownPolicy(pub String);

impl FromStr for ReleasePolicy {
    type Err = UnknownPolicy;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s.trim() {
            "front" => Ok(Self::Front),
            "running" => Ok(Self::Running),
            "completed" => Ok(Self::Completed),
            _ => Err(UnknownPolicy(s.to_owned())),
        }
    }
}

impl fmt::Display for ReleasePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Front => "front",
            Self::Running => "running",
            Self::Completed => "completed",
        })
    }
}

impl TryFrom<String> for ReleasePolicy {
    type Error = UnknownPolicy;

    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse()
    }
}

impl From<ReleasePolicy> for String {
    fn from(policy: ReleasePolicy) -> Self {
        policy.to_string()
    }
}

/// Which of the program's tasks count for the release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Follow {
    /// Tasks on the chosen backend.
    Device,
    /// Tasks on any QPU, not those on simulators.
    Qpu,
    /// Every task.
    #[default]
    Any,
}

/// A word for `follow` that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("follow {0:?} is unknown; allowed are device, qpu, any")]
pub struct UnknownFollow(pub String);

impl FromStr for Follow {
    type Err = UnknownFollow;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "device" => Ok(Self::Device),
            "qpu" => Ok(Self::Qpu),
            "any" => Ok(Self::Any),
            other => Err(UnknownFollow(other.to_owned())),
        }
    }
}

impl Follow {
    /// The word used in annotations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Qpu => "qpu",
            Self::Any => "any",
        }
    }

    /// Whether a task on `device` counts. With `device` and no chosen backend every task counts.
    #[must_use]
    pub fn counts(self, device: &str, backend: Option<&str>) -> bool {
        match (self, backend) {
            (Self::Any, _) | (Self::Device, None) => true,
            (Self::Qpu, _) => is_qpu(device),
            (Self::Device, Some(backend)) => {
                device == backend
                    || device.rsplit('/').next().is_some_and(|n| n.eq_ignore_ascii_case(backend))
            }
        }
    }
}

/// What is known of one task when the policy is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSeen {
    /// The vendor's id.
    pub id: String,
    /// Whether the task counts ([`Follow::counts`]).
    pub counts: bool,
    /// Its state.
    pub state: TaskState,
    /// Whether the vendor will run it next, by that vendor's own meaning of the front.
    pub front: bool,
}

impl TaskSeen {
    /// Whether this task alone satisfies the policy. Unknown states and unsuccessful ends never
    /// do.
    #[must_use]
    pub fn satisfies(&self, policy: ReleasePolicy) -> bool {
        if !self.counts {
            return false;
        }
        match (policy, &self.state) {
            (_, TaskState::Completed)
            | (ReleasePolicy::Front | ReleasePolicy::Running, TaskState::Running) => true,
            (ReleasePolicy::Front, TaskState::Queued) => self.front,
            _ => false,
        }
    }
}

/// The ids of the tasks that satisfy the policy, if there are enough of them.
///
/// The order of the ids is the order of `seen`, which is the order of submission.
#[must_use]
pub fn met(policy: ReleasePolicy, needed: u32, seen: &[TaskSeen]) -> Option<Vec<String>> {
    let ready: Vec<String> =
        seen.iter().filter(|t| t.satisfies(policy)).map(|t| t.id.clone()).collect();
    let needed = usize::try_from(needed.max(1)).unwrap_or(usize::MAX);
    (ready.len() >= needed).then_some(ready)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mk_seen(state: &str, front: bool) -> TaskSeen {
        TaskSeen { id: "t".into(), counts: true, state: TaskState::from(state), front }
    }

    #[test]
    fn the_table_of_policies() {
        use ReleasePolicy::{Completed, Front, Running};
        let rows = [
            // state, front, does it satisfy front, running, completed
            ("CREATED", false, [false, false, false]),
            ("CREATED", true, [false, false, false]),
            ("QUEUED", false, [false, false, false]),
            ("QUEUED", true, [true, false, false]),
            ("RUNNING", false, [true, true, false]),
            ("COMPLETED", false, [true, true, true]),
            ("FAILED", true, [false, false, false]),
            ("CANCELLING", true, [false, false, false]),
            ("CANCELLED", true, [false, false, false]),
            ("PONDERING", true, [false, false, false]),
        ];
        for (state, front, expected) in rows {
            for (policy, expected) in [Front, Running, Completed].into_iter().zip(expected) {
                assert_eq!(
                    mk_seen(state, front).satisfies(policy),
                    expected,
                    "{policy} {state} front={front}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_count_never_releases() {
        let seen = TaskSeen { counts: false, ..mk_seen("COMPLETED", true) };
        assert_eq!(met(ReleasePolicy::Front, 1, &[seen]), None);
    }

    #[test]
    fn follow_knows_names_and_arns() {
        let garnet = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
        assert!(Follow::Device.counts(garnet, Some("garnet")));
        assert!(Follow::Device.counts(garnet, Some(garnet)));
        assert!(!Follow::Device.counts(garnet, Some("emerald")));
        assert!(Follow::Device.counts(garnet, None));
        assert!(!Follow::Qpu.counts("arn:aws:braket:::device/quantum-simulator/amazon/sv1", None));
    }

    proptest! {
        #[test]
        fn never_early(
            tasks in proptest::collection::vec(
                (prop_oneof!["CREATED", "QUEUED", "FAILED", "CANCELLED", "[A-Z]{3,9}"], any::<bool>()),
                0..6,
            ),
            needed in 0u32..4,
        ) {
            let seen: Vec<_> = tasks.iter().map(|(s, front)| mk_seen(s, *front)).collect();
            let ready = seen.iter().filter(|t| match t.state {
                TaskState::Running | TaskState::Completed => true,
                TaskState::Queued => t.front,
                _ => false,
            }).count();
            let met = met(ReleasePolicy::Front, needed, &seen).is_some();
            prop_assert_eq!(met, ready >= needed.max(1) as usize);
        }
    }
}

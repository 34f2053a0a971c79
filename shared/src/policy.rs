//! When the gates may open: the release policy and the decision whether it is met.

use std::fmt;
use std::num::NonZeroU32;
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
    /// At most so many places are left, the task's own included: `position<=14`. The device has
    /// to run tasks, as for [`Self::Front`]; `position<=1` is met exactly when the front is.
    Position(NonZeroU32),
    /// The program says so (`POST $SLUICE_URL/v1/release`). No state of a task releases.
    Manual,
}

/// How the policy with a place begins.
const POSITION: &str = "position<=";

/// A release policy that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "release {0:?} is unknown; allowed are front, running, completed, position<=K (K: a whole \
     number from 1, as in position<=5), manual"
)]
pub struct UnknownPolicy(pub String);

impl FromStr for ReleasePolicy {
    type Err = UnknownPolicy;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s.trim() {
            "front" => Ok(Self::Front),
            "running" => Ok(Self::Running),
            "completed" => Ok(Self::Completed),
            "manual" => Ok(Self::Manual),
            other => other
                .strip_prefix(POSITION)
                // A number alone would also be read with a sign before it.
                .filter(|place| place.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|place| place.parse().ok())
                .map(Self::Position)
                .ok_or_else(|| UnknownPolicy(s.to_owned())),
        }
    }
}

impl ReleasePolicy {
    /// The place in the queue from which on a look decides: the last one that satisfies the
    /// policy, 1 where no place does.
    #[must_use]
    pub const fn place(self) -> u32 {
        match self {
            Self::Position(place) => place.get(),
            Self::Front | Self::Running | Self::Completed | Self::Manual => 1,
        }
    }
}

impl fmt::Display for ReleasePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Front => f.write_str("front"),
            Self::Running => f.write_str("running"),
            Self::Completed => f.write_str("completed"),
            Self::Position(place) => write!(f, "{POSITION}{place}"),
            Self::Manual => f.write_str("manual"),
        }
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
            (Self::Device, Some(backend)) => is_backend(device, backend),
        }
    }
}

/// Whether `device` is the one that people call `backend`: its whole name, or the last part of it
/// in capitals or not.
#[must_use]
pub fn is_backend(device: &str, backend: &str) -> bool {
    device == backend
        || device.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case(backend))
}

/// What happens with a submission to another QPU than the chosen backend. Simulators are never a
/// mismatch: sanity runs belong there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mismatch {
    /// It passes, and people are told.
    #[default]
    Warn,
    /// It is refused.
    Refuse,
}

impl Mismatch {
    /// Whether nothing else was said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a task on `device` is elsewhere than the chosen backend.
    #[must_use]
    pub fn is_elsewhere(device: &str, backend: &str) -> bool {
        is_qpu(device) && !is_backend(device, backend)
    }
}

/// A word for `mismatch` that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mismatch {0:?} is unknown; allowed are warn, refuse")]
pub struct UnknownMismatch(pub String);

impl FromStr for Mismatch {
    type Err = UnknownMismatch;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "warn" => Ok(Self::Warn),
            "refuse" => Ok(Self::Refuse),
            other => Err(UnknownMismatch(other.to_owned())),
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
    /// How many tasks the device still runs until this one has been its turn, as far as is known:
    /// 1 is the front. `None` where the vendor tells no exact place, or where the device does not
    /// run tasks now.
    pub place: Option<u32>,
}

impl TaskSeen {
    /// Whether this task alone satisfies the policy. Unknown states and unsuccessful ends never
    /// do; [`ReleasePolicy::Manual`] is satisfied by no task.
    #[must_use]
    pub fn satisfies(&self, policy: ReleasePolicy) -> bool {
        if !self.counts {
            return false;
        }
        match (policy, &self.state) {
            (ReleasePolicy::Manual, _) => false,
            (_, TaskState::Completed)
            | (
                ReleasePolicy::Front | ReleasePolicy::Running | ReleasePolicy::Position(_),
                TaskState::Running,
            ) => true,
            (ReleasePolicy::Front, TaskState::Queued) => self.front,
            (ReleasePolicy::Position(most), TaskState::Queued) => {
                self.front || self.place.is_some_and(|place| place <= most.get())
            }
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
        TaskSeen {
            id: "t".into(),
            counts: true,
            state: TaskState::from(state),
            front,
            place: front.then_some(1),
        }
    }

    fn mk_policy(text: &str) -> ReleasePolicy {
        text.parse().unwrap()
    }

    #[test]
    fn the_table_of_policies() {
        use ReleasePolicy::{Completed, Front, Manual, Running};
        let rows = [
            // state, front, does it satisfy front, running, completed, position<=1, manual
            ("CREATED", false, [false, false, false, false, false]),
            ("CREATED", true, [false, false, false, false, false]),
            ("QUEUED", false, [false, false, false, false, false]),
            ("QUEUED", true, [true, false, false, true, false]),
            ("RUNNING", false, [true, true, false, true, false]),
            ("COMPLETED", false, [true, true, true, true, false]),
            ("FAILED", true, [false, false, false, false, false]),
            ("CANCELLING", true, [false, false, false, false, false]),
            ("CANCELLED", true, [false, false, false, false, false]),
            ("PONDERING", true, [false, false, false, false, false]),
        ];
        for (state, front, expected) in rows {
            let policies = [Front, Running, Completed, mk_policy("position<=1"), Manual];
            for (policy, expected) in policies.into_iter().zip(expected) {
                assert_eq!(
                    mk_seen(state, front).satisfies(policy),
                    expected,
                    "{policy} {state} front={front}"
                );
            }
        }
    }

    #[test]
    fn the_table_of_places() {
        let rows = [
            // state, place, does it satisfy position<=1, position<=5
            ("QUEUED", None, [false, false]),
            ("QUEUED", Some(1), [true, true]),
            ("QUEUED", Some(5), [false, true]),
            ("QUEUED", Some(6), [false, false]),
            ("CREATED", Some(1), [false, false]),
            ("RUNNING", None, [true, true]),
            ("COMPLETED", None, [true, true]),
            ("FAILED", Some(1), [false, false]),
            ("CANCELLING", Some(1), [false, false]),
            ("PONDERING", Some(1), [false, false]),
        ];
        for (state, place, expected) in rows {
            let seen = TaskSeen { place, ..mk_seen(state, false) };
            for (text, expected) in ["position<=1", "position<=5"].into_iter().zip(expected) {
                assert_eq!(seen.satisfies(mk_policy(text)), expected, "{text} {state} {place:?}");
            }
        }
    }

    #[test]
    fn words_of_policies() {
        for word in ["front", "running", "completed", "position<=1", "position<=4000", "manual"] {
            assert_eq!(mk_policy(word).to_string(), word);
        }
        assert_eq!(mk_policy(" position<=14 ").to_string(), "position<=14");
        assert_eq!(mk_policy("position<=014").place(), 14);
        assert_eq!(mk_policy("front").place(), 1);
        for word in [
            "soon",
            "",
            "Front",
            "position",
            "position<=",
            "position<=0",
            "position<=-1",
            "position<=+1",
            "position<= 5",
            "position <=5",
            "position<5",
            "position<=5.0",
            "position<=many",
            "position<=99999999999",
        ] {
            let message = word.parse::<ReleasePolicy>().unwrap_err().to_string();
            for allowed in ["front", "running", "completed", "position<=K", "manual"] {
                assert!(message.contains(allowed), "{word}: {message}");
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

        #[test]
        fn a_place_satisfies_every_wider_place_and_the_front_every_place(
            place in proptest::option::of(1u32..3000),
            front in any::<bool>(),
            state in prop_oneof!["CREATED", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "[A-Z]{3,9}"],
            most in 1u32..3000,
            wider in 0u32..3000,
        ) {
            let seen = TaskSeen { place, ..mk_seen(&state, front) };
            let within = |most: u32| seen.satisfies(mk_policy(&format!("position<={most}")));
            prop_assert!(!within(most) || within(most + wider));
            prop_assert!(!seen.satisfies(ReleasePolicy::Front) || within(most));
            prop_assert!(!seen.satisfies(ReleasePolicy::Manual));
        }

        #[test]
        fn what_is_printed_reads_back(place in 1u32..) {
            let text = format!("position<={place}");
            let policy = mk_policy(&text);
            prop_assert_eq!((policy.to_string(), policy.place()), (text, place));
        }

        #[test]
        fn a_batch_in_waves_is_met_when_enough_of_it_is_done(
            size in 1usize..60,
            at_once in 1usize..20,
            needed in 1u32..60,
        ) {
            // Each wave is submitted when the one before has its results: only its first task is
            // ever at the front, all the earlier ones are completed.
            for done in 0..=size {
                let wave = done..size.min(done / at_once * at_once + at_once);
                let seen: Vec<_> = (0..done)
                    .map(|_| mk_seen("COMPLETED", false))
                    .chain(wave.enumerate().map(|(place, _)| mk_seen("QUEUED", place == 0)))
                    .collect();
                let ready = done + usize::from(done < size);
                let met = met(ReleasePolicy::Front, needed, &seen).is_some();
                prop_assert_eq!(met, ready >= needed as usize);
            }
        }
    }
}

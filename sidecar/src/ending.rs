//! The end of the sidecar while a task is live: was the Job deleted, so that nobody wants the
//! result, or does the task go on without this pod? PURE; [`act`] is the shell around it.
//!
//! The sidecar may read its gang and nothing else. The cluster deletes a Job's pods and its gang
//! at the same time, so a gang that went when this pod is told to end says that the Job was
//! deleted. After an eviction or a suspension the gang stays; after an uninstall it went with its
//! type ([`crate::gang::kind`]).

pub mod act;

use std::time::Duration;

use jiff::Timestamp;

use crate::follow::timing::{after, elapsed};

/// How long the gang may take to go after the pod was told to end.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// How long before the pod's end the gang may have gone: programs take up to their grace period,
/// usually 30 s, to end. A gang that went earlier was deleted by hand while no keeper ran.
const LONG_AGO: Duration = Duration::from_mins(1);

/// What is known of the gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// It was never seen.
    #[default]
    Unseen,
    /// It is there.
    Lives,
    /// It was there and is not any more.
    Gone {
        /// When that was seen.
        at: Timestamp,
        /// Whether gangs can still be made, so that it was deleted for itself; `None` while the
        /// API server has not said so.
        type_stays: Option<bool>,
    },
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Wait for news of the gang, at most until then.
    Wait(Timestamp),
    /// Leave the tasks alone.
    Leave(Why),
    /// The Job was deleted: cancel the tasks.
    Cancel,
}

/// Why tasks are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The user wants it so, or the pod has no Job.
    #[error("they are not to be cancelled (annotation cancel-on-delete, or a pod without a Job)")]
    Unwanted,
    /// This worker has never seen the gang.
    #[error("the gang was never seen, so it is not known whether the Job was deleted")]
    Unseen,
    /// The Job was not deleted.
    #[error("the gang is there, so the Job was not deleted")]
    Lives,
    /// The gang did not go because the Job was deleted now.
    #[error("the gang went long before this pod was told to end")]
    LongAgo,
    /// All gangs went.
    #[error("the type QuantumGang is being removed from the cluster, so the Job was not deleted")]
    Uninstalled,
    /// The API server was silent.
    #[error("the API server does not say why the gang went")]
    Untold,
}

/// Decides about the live tasks of a pod that was told to end at `told`.
#[must_use]
pub fn decide(wanted: bool, fate: Fate, told: Timestamp, now: Timestamp) -> Verdict {
    if !wanted {
        return Verdict::Leave(Why::Unwanted);
    }
    let until = |deadline: Timestamp, why: Why| {
        if now < deadline { Verdict::Wait(deadline) } else { Verdict::Leave(why) }
    };
    match fate {
        Fate::Unseen => Verdict::Leave(Why::Unseen),
        Fate::Lives => until(after(told, PATIENCE), Why::Lives),
        Fate::Gone { at, .. } if elapsed(at, told) > LONG_AGO => Verdict::Leave(Why::LongAgo),
        Fate::Gone { type_stays: Some(true), .. } => Verdict::Cancel,
        Fate::Gone { type_stays: Some(false), .. } => Verdict::Leave(Why::Uninstalled),
        Fate::Gone { at, type_stays: None } => until(after(told.max(at), PATIENCE), Why::Untold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_796_000_000 + second).unwrap()
    }

    #[test]
    fn only_a_gang_that_goes_with_the_pod_cancels() {
        let gone = |second, type_stays| Fate::Gone { at: at(second), type_stays };
        let (wait, leave) = (|second| Verdict::Wait(at(second)), Verdict::Leave);
        let rows = [
            // wanted, fate, now; told to end at 100
            (false, gone(100, Some(true)), 100, leave(Why::Unwanted)),
            (true, Fate::Unseen, 100, leave(Why::Unseen)),
            (true, Fate::Lives, 100, wait(103)),
            (true, Fate::Lives, 102, wait(103)),
            (true, Fate::Lives, 103, leave(Why::Lives)),
            // It went with the pod, or while the program took its time to end.
            (true, gone(100, Some(true)), 100, Verdict::Cancel),
            (true, gone(70, Some(true)), 100, Verdict::Cancel),
            (true, gone(40, Some(true)), 100, Verdict::Cancel),
            (true, gone(102, Some(true)), 104, Verdict::Cancel),
            // Long before: by hand, while no keeper ran.
            (true, gone(39, Some(true)), 100, leave(Why::LongAgo)),
            (true, gone(-90_000, None), 100, leave(Why::LongAgo)),
            // With its type.
            (true, gone(100, Some(false)), 101, leave(Why::Uninstalled)),
            (true, gone(70, Some(false)), 100, leave(Why::Uninstalled)),
            // Not known yet, and never.
            (true, gone(100, None), 100, wait(103)),
            (true, gone(102, None), 102, wait(105)),
            (true, gone(70, None), 102, wait(103)),
            (true, gone(70, None), 103, leave(Why::Untold)),
            (true, gone(102, None), 105, leave(Why::Untold)),
        ];
        for (wanted, fate, now, verdict) in rows {
            assert_eq!(decide(wanted, fate, at(100), at(now)), verdict, "{fate:?} at {now}");
        }
    }
}

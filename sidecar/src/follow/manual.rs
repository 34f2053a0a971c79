//! The policy `manual`: what the sidecar answers when the program asks to open the gates. PURE.

use sluice_shared::names;
use sluice_shared::policy::ReleasePolicy;
use sluice_shared::role::Role;

use super::followed::Followed;
use super::report;
use super::state::State;

/// What becomes of a request to open the gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An order stands already, for this task.
    Already(String),
    /// The gates are opened for this task.
    Take(String),
    /// Not now: the task is not known yet. It may have been submitted a moment ago.
    Unknown(String),
    /// Not at all.
    Refuse(String),
}

/// Answers a request to open the gates for the task `id`, or for the first one that counts and has
/// not failed.
#[must_use]
pub fn answer(state: &State, id: Option<&str>) -> Answer {
    if state.rules.role != Role::Producer {
        return Answer::Refuse("no pod waits for this one, so there is nothing to open".to_owned());
    }
    if let Some(order) = state.order.as_ref().filter(|_| state.order_stands()) {
        return Answer::Already(order.task_id.clone());
    }
    let policy = state.rules.policy;
    if policy != ReleasePolicy::Manual {
        return Answer::Refuse(format!(
            "the gates of this Job open by the policy {policy}; set {}: manual on the Job to let \
             the program open them",
            names::RELEASE
        ));
    }
    match id {
        Some(id) => named(state, id),
        None => state
            .gone
            .iter()
            .cloned()
            .chain(state.tasks.iter().map(Followed::judged))
            .find(|t| t.counts && !t.state.is_unsuccessful())
            .map_or_else(
                || {
                    Answer::Unknown(format!(
                        "no task is known that counts (follow: {}) and has not failed; submit one, \
                         or announce it with POST /v1/tasks, then ask again",
                        state.rules.follow.as_str()
                    ))
                },
                |t| Answer::Take(t.id),
            ),
    }
}

fn named(state: &State, id: &str) -> Answer {
    let name = report::name(id);
    let gone = state.gone.iter().find(|t| t.id == id).cloned();
    let task = state.task(id);
    let Some(seen) = task.map(Followed::judged).or(gone) else {
        return Answer::Unknown(format!(
            "{name} is not known here; announce it with POST /v1/tasks, then ask again"
        ));
    };
    if seen.state.is_unsuccessful() {
        return Answer::Refuse(format!(
            "{name} is {}: it releases nothing; submit another task and name that one",
            seen.state
        ));
    }
    if seen.counts {
        return Answer::Take(id.to_owned());
    }
    if task.is_some_and(|t| t.reading.device.is_none()) {
        return Answer::Unknown(format!("the device of {name} is not known yet; ask again"));
    }
    Answer::Refuse(format!(
        "{name} does not count for the release: {} is {}; name a task that counts",
        names::FOLLOW,
        state.rules.follow.as_str()
    ))
}

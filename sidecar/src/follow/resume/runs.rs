//! Which run of the program something belongs to. PURE.

use std::time::Duration;

use sluice_shared::gang::{PodRef, pod_of_run};

use super::book::Ask;
use super::judge::{is_alike, is_alike_intent, is_own, ran};
use super::lost;
use crate::follow::state::{State, Step, say};
use crate::follow::timing::after;

/// The kubelet tells the start of a container by whole seconds.
const START_TOLD_TO: Duration = Duration::from_secs(1);

/// The name of a run: pod uid and restart count.
#[must_use]
pub fn incarnation(pod_uid: &str, producer: Option<&PodRef>) -> String {
    let known = producer.filter(|p| p.uid == pod_uid).map(PodRef::run);
    known.unwrap_or_else(|| PodRef { uid: pod_uid.to_owned(), ..PodRef::default() }.run())
}

/// Lets go of what other places of the Job have asked for: nothing of it is ever handed on.
pub(super) fn disown(state: &mut State, producer: &PodRef, steps: &mut Vec<Step>) {
    if producer.previous.is_some() {
        return;
    }
    let foreign = |run: &str| pod_of_run(run) != producer.uid;
    for task in &mut state.tasks {
        if task.incarnation.as_deref().is_some_and(foreign) {
            task.digest = None;
        }
    }
    while let Some(index) = state.ledger.intents.iter().position(|i| foreign(&i.incarnation)) {
        let intent = state.ledger.end_intent(index);
        say(steps, true, lost::forgotten(&intent, "it was another pod's"));
    }
}

/// Gives the name of the present run to what was asked for after it had started, under the name
/// of the run before: the keeper told of the restart later.
pub(super) fn rename(state: &mut State, producer: &PodRef, run: &str) {
    let Some(started) = &producer.started_at else { return };
    let since = after(started.0, START_TOLD_TO);
    let other = |name: &str| name != run && pod_of_run(name) == producer.uid;
    for task in &mut state.tasks {
        let late = task.run_asked_at.is_some_and(|at| at >= since);
        if late && task.incarnation.as_deref().is_some_and(other) {
            task.incarnation = Some(run.to_owned());
        }
    }
    for intent in &mut state.ledger.intents {
        if intent.at.0 >= since && other(&intent.incarnation) {
            run.clone_into(&mut intent.incarnation);
        }
    }
}

/// Gives the name of the present run to equal submissions that are certainly its own, whatever
/// was told of restarts since.
pub(super) fn claim_what_is_certain(state: &mut State, ask: &Ask, run: &str) {
    for task in state.tasks.iter_mut().filter(|t| is_alike(ask, t)) {
        if task.incarnation.is_some() && is_own(ask, task) {
            task.incarnation = Some(run.to_owned());
        }
    }
    for intent in state.ledger.intents.iter_mut().filter(|i| is_alike_intent(ask, i)) {
        if ran(ask, Some(intent.at.0)) {
            run.clone_into(&mut intent.incarnation);
        }
    }
}

//! Submissions of which nobody knows whether a task came. At a vendor that knows a token they are
//! sent again under it. The others cannot be asked, so people are told, and then the intent has
//! done its work. PURE.

use sluice_dialect::{Resume, abilities};
use sluice_shared::gang::{Intent, MAX_INTENTS, PodRef, VendorStatus, pod_of_run};
use sluice_shared::resource::{Place, Resource};

use super::book::{Ask, Change};
use super::effect::undo;
use super::judge::{is_alike, is_own};
use crate::follow::followed::Followed;
use crate::follow::report;
use crate::follow::state::{State, Step, say};

/// What people can do about a task that may exist.
const LOOK_FOR_IT: &str = "look for it in the vendor's list, it may be paid for";

/// The gang as it was read. What an earlier worker had sent to a vendor that knows no tokens is
/// told of: that worker may have had no time to.
pub(in crate::follow) fn gang_read(
    state: &mut State,
    producer: Option<&PodRef>,
    vendor: Option<&VendorStatus>,
    steps: &mut Vec<Step>,
) {
    let taken_over = state.ledger.read(producer, vendor);
    for intent in taken_over.iter().filter(|intent| !is_by_token(intent)) {
        let text = format!(
            "an earlier {} was about to submit to {}, and whether a task came of it was not \
             written down: it is followed as soon as the program asks for it; else {LOOK_FOR_IT}",
            if pod_of_run(&intent.incarnation) == state.rules.incarnation {
                "run of the sidecar"
            } else {
                "pod"
            },
            intent.region
        );
        say(steps, true, text);
    }
}

/// A submission was refused; `void`: it is certain that no task came of this request.
pub(in crate::follow) fn refused(state: &mut State, token: Option<&str>, void: bool) {
    if void {
        state.ledger.void(token);
    }
    // What is left of it may have become a task all the same.
    state.ledger.lose(token);
}

/// The answer to a submission was lost for good.
pub(in crate::follow) fn unanswered(
    state: &mut State,
    token: Option<&str>,
    place: &Place,
    error: &str,
    steps: &mut Vec<Step>,
) {
    state.ledger.lose(token);
    let resume = abilities(place.resource()).resume;
    let then = if resume == Resume::ByToken {
        "it is followed as soon as the program asks for it or submits again".to_owned()
    } else {
        format!("it is followed as soon as the program asks for it; else {LOOK_FOR_IT}")
    };
    let text = format!(
        "the answer to a submission was lost ({place}: {error}); the task may exist: {then}"
    );
    say(steps, true, text);
}

/// The program was not given the task of an earlier run that its submission was to get: it is the
/// earlier run's again. `unknown`: the vendor does not have it for this program, so that it is
/// handed on to nobody.
pub(in crate::follow) fn returned(
    state: &mut State,
    token: Option<&str>,
    id: &str,
    unknown: bool,
    steps: &mut Vec<Step>,
) {
    let tickets: Vec<u64> = state
        .ledger
        .answers
        .values()
        .filter(|a| a.ask.client_token.as_deref() == token)
        .filter(|a| matches!(&a.change, Change::ClaimedTask(claimed, _) if claimed == id))
        .map(|a| a.ask.ticket)
        .collect();
    for ticket in tickets.into_iter().rev() {
        if let Some(answer) = state.ledger.answers.remove(&ticket) {
            undo(state, &answer.ask, answer.change);
        }
    }
    if unknown && state.ledger.strangers.insert(id.to_owned()) {
        let text = format!(
            "the vendor does not have {} for this program, so that the program cannot get it",
            report::name(id)
        );
        say(steps, true, text);
    }
}

/// That a submission is like one whose answer was lost.
pub(super) fn repeated(ask: &Ask) -> String {
    format!(
        "the same was submitted to {} before, and its answer was lost; that vendor cannot be asked \
         for it, so the program submits anew; the earlier one may exist: {LOOK_FOR_IT} as well",
        ask.place
    )
}

/// Tells of tasks that were handed on to this run before, where nothing proves that the program
/// got the answer and the vendor has no token to know a repeated request by.
pub(super) fn perhaps_repeated(state: &State, ask: &Ask, run: &str, steps: &mut Vec<Step>) {
    if abilities(ask.place.resource()).resume == Resume::ByToken {
        return;
    }
    let handed_on = |t: &&Followed| {
        t.resumed && t.incarnation.as_deref() == Some(run) && !t.reading.state.is_final()
    };
    let alike = state.tasks.iter().filter(|t| is_alike(ask, t)).filter(handed_on);
    for task in alike.filter(|t| !is_own(ask, t)) {
        let text = format!(
            "{} was handed on to this run before, and the same is submitted again: if the program \
             never got that answer, it is left over; cancel it if nobody needs it: {}",
            report::name(&task.reading.id),
            task.reading.id
        );
        say(steps, true, text);
    }
}

/// That an intent is given up, and why.
pub(super) fn forgotten(intent: &Intent, why: &str) -> String {
    format!(
        "a submission to {} was never answered and is not remembered any more, because {why}; a \
         task of it may exist: {LOOK_FOR_IT}",
        intent.region
    )
}

/// Tells of the intent that had to make room for another one.
pub(super) fn crowded_out(oldest: Option<&Intent>, steps: &mut Vec<Step>) {
    if let Some(oldest) = oldest {
        let why = format!("more than {MAX_INTENTS} wait for their answer");
        say(steps, true, forgotten(oldest, &why));
    }
}

/// Whether the vendor answers a repeated request with the task of the first.
fn is_by_token(intent: &Intent) -> bool {
    let resource = intent.region.parse::<Resource>().ok();
    abilities(resource.as_ref()).resume == Resume::ByToken
}

//! What an answer changes, and how that is taken back. PURE.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use sluice_shared::gang::Intent;

use super::book::{Ask, Change, Claim, Verdict, is_of};
use super::lost;
use crate::follow::followed::Followed;
use crate::follow::report;
use crate::follow::state::{State, Step, say};

/// Only the run that asked has the token: what came of it is that run's.
pub(super) fn repeat(state: &mut State, ask: &Ask, run: &str) {
    let Some(token) = &ask.client_token else { return };
    if let Some(intent) = state.ledger.intents.iter_mut().find(|i| is_of(i, token)) {
        run.clone_into(&mut intent.incarnation);
        intent.at = MicroTime(ask.at);
    } else if let Some(task) =
        state.tasks.iter_mut().find(|t| t.client_token.as_ref() == Some(token))
    {
        task.incarnation = Some(run.to_owned());
        task.run_asked_at = Some(ask.at);
    }
}

pub(super) fn hand_on(state: &mut State, ask: Ask, run: &str, id: &str, steps: &mut Vec<Step>) {
    let Some(task) = state.tasks.iter_mut().find(|t| t.reading.id == id) else { return };
    let before = Claim {
        incarnation: task.incarnation.replace(run.to_owned()),
        client_token: task.client_token.clone(),
        at: task.run_asked_at.replace(ask.at),
        resumed: std::mem::replace(&mut task.resumed, true),
    };
    if ask.client_token.is_some() {
        task.client_token.clone_from(&ask.client_token);
    }
    let text = format!(
        "the program was started again and submits the same: it gets {}, nothing is sent",
        report::name(id)
    );
    say(steps, false, text);
    let change = Change::ClaimedTask(id.to_owned(), before);
    state.ledger.note(ask, run, Verdict::Known(id.to_owned()), change);
}

pub(super) fn take_up(state: &mut State, ask: Ask, run: &str, index: usize, steps: &mut Vec<Step>) {
    let intent = &mut state.ledger.intents[index];
    let token = intent.client_token.clone();
    let before = Claim {
        incarnation: Some(std::mem::replace(&mut intent.incarnation, run.to_owned())),
        client_token: std::mem::replace(&mut intent.asked_as, ask.client_token.clone()),
        at: Some(std::mem::replace(&mut intent.at, MicroTime(ask.at)).0),
        resumed: false,
    };
    let text = "an earlier run was about to submit the same: it is sent under that run's \
                clientToken, so that there is one task";
    say(steps, false, text.to_owned());
    let change = Change::ClaimedIntent(token.clone(), before);
    state.ledger.note(ask, run, Verdict::SendWith(token), change);
}

pub(super) fn new(state: &mut State, ask: Ask, run: &str, steps: &mut Vec<Step>) {
    let earlier = |t: &&Followed| t.incarnation.as_deref().is_some_and(|i| i != run);
    let live: Vec<&str> = state
        .tasks
        .iter()
        .filter(earlier)
        .filter(|t| !t.reading.state.is_final())
        .map(|t| t.reading.id.as_str())
        .collect();
    if !live.is_empty() {
        let text = format!(
            "the program was started again and submits something else than before: a new task is \
             paid for; still live from the earlier run: {}; cancel it if nobody needs it",
            live.join(", ")
        );
        say(steps, true, text);
    }
    lost::perhaps_repeated(state, &ask, run, steps);
    let oldest = state.ledger.intend(&ask, run);
    lost::crowded_out(oldest.as_ref(), steps);
    state.ledger.note(ask, run, Verdict::Send, Change::Intent);
}

/// Takes back what an answer without effect has changed, unless it was changed again since.
pub(super) fn undo(state: &mut State, ask: &Ask, change: Change) {
    match change {
        Change::None => {}
        Change::Intent => {
            let is_its = |i: &Intent| Some(&i.client_token) == ask.client_token.as_ref();
            if let Some(index) = state.ledger.intents.iter().position(is_its) {
                state.ledger.end_intent(index);
            }
        }
        Change::ClaimedIntent(token, before) => {
            let is_its =
                |i: &&mut Intent| i.client_token == token && i.asked_as == ask.client_token;
            if let Some(intent) = state.ledger.intents.iter_mut().find(is_its) {
                intent.asked_as = before.client_token;
                intent.incarnation = before.incarnation.unwrap_or_default();
                intent.at = MicroTime(before.at.unwrap_or(ask.at));
            }
        }
        Change::ClaimedTask(id, before) => {
            // The name of its run may have changed since: the keeper told of a restart.
            let is_its = |t: &&mut Followed| {
                t.reading.id == id
                    && (ask.client_token.is_none() || t.client_token == ask.client_token)
                    && t.run_asked_at == Some(ask.at)
            };
            if let Some(task) = state.tasks.iter_mut().find(is_its) {
                task.incarnation = before.incarnation;
                task.client_token = before.client_token;
                task.run_asked_at = before.at;
                task.resumed = before.resumed;
            }
        }
    }
}

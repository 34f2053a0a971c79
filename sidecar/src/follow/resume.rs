//! Not paying twice: which submission gets the task of an earlier run, and what is written down
//! before one is forwarded. PURE.
//!
//! A run of the program (an *incarnation*) is the pod and its restart count as the keeper tells
//! them. What is asked for in one run is separate, however equal; what an earlier run has asked
//! for is handed on once, in order.
//!
//! ```text
//!  ask ─▶ certainly this run's? ─▶ claimed        ties: connections, named tasks, tokens
//!      ─▶ an earlier run's?     ─▶ its task, or its token
//!      ─▶ equal, and of which run is not certain? ─▶ wait for the keeper's word
//!      ─▶ new: an intent
//!  answer ─▶ read back from the gang, which still names the same run ─▶ takes effect
//! ```

mod book;

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use sluice_dialect::{Resume, abilities};
use sluice_shared::gang::{Intent, PodEnd, PodRef, pod_of_run};
use sluice_shared::task::TaskState;

pub use self::book::{Ask, Ledger, Verdict};
use self::book::{Change, Claim, is_of};
use super::followed::Followed;
use super::report;
use super::state::{State, Step, say};
use super::timing::{Now, after, elapsed};
use crate::vendor::FailureKind;

/// The keeper tells of a container's restart within this time, also while its leader changes.
const RESTART_TOLD: Duration = Duration::from_secs(10);
/// A task is handed on unseen when the vendor has not told about it for this long.
const LOOK: Duration = Duration::from_secs(20);
/// The kubelet tells the start of a container by whole seconds.
const START_TOLD_TO: Duration = Duration::from_secs(1);

/// The name of a run: pod uid and restart count.
#[must_use]
pub fn incarnation(pod_uid: &str, producer: Option<&PodRef>) -> String {
    let known = producer.filter(|p| p.uid == pod_uid).map(PodRef::run);
    known.unwrap_or_else(|| PodRef { uid: pod_uid.to_owned(), ..PodRef::default() }.run())
}

/// Puts a question.
pub(super) fn ask(state: &mut State, ask: Ask) {
    state.ledger.asks.push_back(ask);
}

/// The program has gone before its question took effect: nothing is sent.
pub(super) fn withdraw(state: &mut State, ticket: u64) {
    state.ledger.asks.retain(|a| a.ticket != ticket);
    let Some(answer) = state.ledger.answers.remove(&ticket) else { return };
    // The program's client may have repeated it over another connection by now.
    if !state.ledger.is_asked_again(&answer.ask) {
        undo(state, &answer.ask, &answer.incarnation, answer.change);
    }
}

/// The submission went on without its answer, because the gang could not be written.
pub(super) fn went_on(state: &mut State, ticket: u64) {
    let run = incarnation(&state.rules.incarnation, state.ledger.producer.as_ref());
    state.ledger.went_on(ticket, &run);
}

/// When something is due although nothing is seen.
pub(super) fn due(state: &State) -> Option<Timestamp> {
    let turns = |ask: &Ask| [after(same_since(ask), RESTART_TOLD), after(ask.at, LOOK)];
    // What has passed is decided; a later wake-up finds nothing new.
    let seen = state.ledger.asks.iter().flat_map(turns);
    seen.filter(|at| *at > state.ledger_at).min()
}

/// Answers what can be answered.
pub(super) fn answer(state: &mut State, now: Now, steps: &mut Vec<Step>) {
    state.ledger_at = now.at;
    let own = &state.rules.incarnation;
    let ours = state.ledger.producer.as_ref().filter(|p| p.uid == *own).cloned();
    // Before the gang names this pod nothing can be written, and what was is not known.
    let (Some(producer), Some(_)) = (ours, &state.gang) else { return };
    let run = producer.run();
    disown(state, &producer);
    rename(state, &producer, &run);
    for answer in state.ledger.outdated(&run).into_iter().rev() {
        undo(state, &answer.ask, &answer.incarnation, answer.change);
        state.ledger.asks.push_front(answer.ask);
    }
    let mut waiting = VecDeque::new();
    while let Some(ask) = state.ledger.asks.pop_front() {
        claim_what_is_certain(state, &ask, &run);
        match judge(state, &ask, &run, &producer, now.at) {
            Judged::Wait => waiting.push_back(ask),
            Judged::Look(id) => {
                if let Some(task) = state.tasks.iter_mut().find(|t| t.reading.id == id) {
                    // While looks fail, the pauses between them stay.
                    if task.failing.is_none() {
                        task.due = now.at;
                    }
                }
                waiting.push_back(ask);
            }
            Judged::Repeat(verdict) => {
                repeat(state, &ask, &run);
                state.ledger.note(ask, &run, verdict, Change::None);
            }
            Judged::Task(id) => hand_on(state, ask, &run, &id, steps),
            Judged::Intent(index) => take_up(state, ask, &run, index, steps),
            Judged::Lost(index) => {
                state.ledger.end_intent(index);
                say(steps, true, lost(&ask));
                new(state, ask, &run, steps);
            }
            Judged::New => new(state, ask, &run, steps),
        }
    }
    state.ledger.asks = waiting;
    state.ledger.mark_recorded();
}

/// What is to be made of a question.
enum Judged {
    /// Too little is known.
    Wait,
    /// This task must be looked at first.
    Look(String),
    /// The program's client repeats itself.
    Repeat(Verdict),
    /// The task of an earlier run.
    Task(String),
    /// The intent of an earlier run.
    Intent(usize),
    /// The same, and the vendor cannot be asked whether a task came of it.
    Lost(usize),
    /// Nothing like it was asked for by an earlier run.
    New,
}

/// Since when it is certain that the program of this question runs.
fn same_since(ask: &Ask) -> Timestamp {
    ask.ties.since.unwrap_or(ask.at)
}

/// Whether the program that ran `then` is certainly the one that asks now.
fn ran(ask: &Ask, then: Option<Timestamp>) -> bool {
    then.zip(ask.ties.since).is_some_and(|(then, since)| since <= then)
}

/// Whether the task was certainly asked for by the run that asks now.
fn is_own(ask: &Ask, task: &Followed) -> bool {
    // Nobody else knows its id.
    ran(ask, task.run_asked_at) || ask.ties.named.contains(&task.reading.id)
}

fn is_alike(ask: &Ask, task: &Followed) -> bool {
    task.digest.as_ref() == Some(&ask.digest) && task.place().as_ref() == Some(&ask.place)
}

fn is_alike_intent(ask: &Ask, intent: &Intent) -> bool {
    intent.digest == ask.digest && intent.region == ask.place.to_string()
}

/// Lets go of what other places of the Job have asked for: nothing of it is ever handed on.
fn disown(state: &mut State, producer: &PodRef) {
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
        state.ledger.end_intent(index);
    }
}

/// Gives the name of the present run to what was asked for after it had started, under the name
/// of the run before: the keeper told of the restart later.
fn rename(state: &mut State, producer: &PodRef, run: &str) {
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
fn claim_what_is_certain(state: &mut State, ask: &Ask, run: &str) {
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

fn judge(state: &State, ask: &Ask, run: &str, producer: &PodRef, at: Timestamp) -> Judged {
    if let Some(token) = &ask.client_token {
        if let Some(intent) = state.ledger.intents.iter().find(|i| is_of(i, token)) {
            return Judged::Repeat(if intent.client_token == *token {
                Verdict::Send
            } else {
                Verdict::SendWith(intent.client_token.clone())
            });
        }
        if let Some(task) = state.tasks.iter().find(|t| t.client_token.as_ref() == Some(token)) {
            // The vendor would answer the same; a body that differs is for it to judge.
            let same = task.digest.as_ref() == Some(&ask.digest);
            return Judged::Repeat(if same {
                Verdict::Known(task.reading.id.clone())
            } else {
                Verdict::Send
            });
        }
    }
    let is_earlier = |t: &&Followed| t.incarnation.as_deref().is_some_and(|i| i != run);
    for task in state.tasks.iter().filter(|t| is_alike(ask, t)).filter(is_earlier) {
        if !is_worth(task, producer) {
            continue;
        }
        let looked = task.observed_at.is_some_and(|seen| seen >= ask.at);
        let waited = elapsed(ask.at, at);
        if !looked && !task.reading.state.is_final() && waited < LOOK {
            return Judged::Look(task.reading.id.clone());
        }
        return Judged::Task(task.reading.id.clone());
    }
    let intents = || state.ledger.intents.iter().enumerate();
    let alike = || intents().filter(|(_, i)| is_alike_intent(ask, i));
    if let Some((index, _)) = alike().find(|(_, i)| i.incarnation != run) {
        let by_token = abilities(ask.place.resource()).resume == Resume::ByToken;
        return if by_token { Judged::Intent(index) } else { Judged::Lost(index) };
    }
    // An equal submission that lives still: is this a second one of the same run, or has the
    // container just been started again, and the keeper has not told yet? Each has to be proved:
    // another one may have got the name of the run before in the same way.
    let own_task = |t: &Followed| {
        let lives = is_alike(ask, t)
            && t.incarnation.as_deref() == Some(run)
            && !t.reading.state.is_final();
        !lives || is_own(ask, t)
    };
    let all_own = alike().all(|(_, i)| ran(ask, Some(i.at.0))) && state.tasks.iter().all(own_task);
    // A restart before the program connected would have been told by now.
    let told = elapsed(same_since(ask), at) >= RESTART_TOLD;
    if all_own || told { Judged::New } else { Judged::Wait }
}

/// Whether a later run should get this task.
fn is_worth(task: &Followed, producer: &PodRef) -> bool {
    let unknown = task.failing.as_ref().is_some_and(|(_, f)| f.kind == FailureKind::NotFound);
    match &task.reading.state {
        state if state.is_unsuccessful() => false,
        // A program that failed by itself may have failed over this very result.
        TaskState::Completed => producer.previous.as_ref().is_some_and(|previous| {
            previous.end == PodEnd::Disrupted
                && task.incarnation.as_deref().map(pod_of_run) == Some(previous.uid.as_str())
        }),
        // The vendor knows no such task for this account.
        _ => !unknown,
    }
}

/// Only the run that asked has the token: what came of it is that run's.
fn repeat(state: &mut State, ask: &Ask, run: &str) {
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

fn hand_on(state: &mut State, ask: Ask, run: &str, id: &str, steps: &mut Vec<Step>) {
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

fn take_up(state: &mut State, ask: Ask, run: &str, index: usize, steps: &mut Vec<Step>) {
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

/// An earlier submission whose answer nobody has seen.
fn lost(ask: &Ask) -> String {
    format!(
        "an earlier run was about to submit the same to {}, and its answer was lost; that vendor \
         cannot be asked for it, so the program submits anew; look for the earlier one in the \
         vendor's list, it may be paid for as well",
        ask.place
    )
}

fn new(state: &mut State, ask: Ask, run: &str, steps: &mut Vec<Step>) {
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
    state.ledger.intend(&ask, run);
    state.ledger.note(ask, run, Verdict::Send, Change::Intent);
}

/// Takes back what an answer without effect has changed, unless it was changed again since.
fn undo(state: &mut State, ask: &Ask, run: &str, change: Change) {
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
            let is_its = |t: &&mut Followed| {
                t.reading.id == id
                    && t.incarnation.as_deref() == Some(run)
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

#[cfg(test)]
#[path = "resume_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "resume_places.rs"]
mod places;

#[cfg(test)]
#[path = "resume_laws.rs"]
mod laws;

#[cfg(test)]
#[path = "resume_world.rs"]
mod world;

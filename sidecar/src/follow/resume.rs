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
//!      ─▶ equal, lost, and the vendor knows no tokens? ─▶ told, and new
//!      ─▶ new: an intent
//!  answer ─▶ read back from the gang, which still names the same run ─▶ takes effect
//! ```

mod book;
mod effect;
mod judge;
mod lost;
mod runs;

use std::collections::VecDeque;

use jiff::Timestamp;

use self::book::Change;
pub use self::book::{Ask, Ledger, Verdict};
use self::effect::{hand_on, new, repeat, take_up, undo};
use self::judge::{Judged, LOOK, RESTART_TOLD, judge, same_since};
pub(super) use self::lost::{gang_read, refused, returned, unanswered};
pub use self::runs::incarnation;
use self::runs::{claim_what_is_certain, disown, rename};
use super::state::{State, Step, say};
use super::timing::{Now, after};

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
        undo(state, &answer.ask, answer.change);
    }
}

/// The submission went on without its answer, because the gang could not be written.
pub(super) fn went_on(state: &mut State, ticket: u64, steps: &mut Vec<Step>) {
    let run = incarnation(&state.rules.incarnation, state.ledger.producer.as_ref());
    let oldest = state.ledger.went_on(ticket, &run);
    lost::crowded_out(oldest.as_ref(), steps);
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
    disown(state, &producer, steps);
    rename(state, &producer, &run);
    for answer in state.ledger.outdated(&run).into_iter().rev() {
        undo(state, &answer.ask, answer.change);
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
                say(steps, true, lost::repeated(&ask));
                new(state, ask, &run, steps);
            }
            Judged::New => new(state, ask, &run, steps),
        }
    }
    state.ledger.asks = waiting;
    state.ledger.mark_recorded();
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
#[path = "resume_tokenless.rs"]
mod tokenless;

#[cfg(test)]
#[path = "resume_program.rs"]
mod program;

#[cfg(test)]
#[path = "resume_world.rs"]
mod world;

//! What is to be made of a question. PURE.

use std::time::Duration;

use jiff::Timestamp;
use sluice_dialect::{Resume, abilities};
use sluice_shared::gang::{Intent, PodEnd, PodRef, pod_of_run};
use sluice_shared::task::TaskState;

use super::book::{Ask, Verdict, is_of};
use crate::follow::followed::Followed;
use crate::follow::state::State;
use crate::follow::timing::elapsed;
use crate::vendor::FailureKind;

/// The keeper tells of a container's restart within this time, also while its leader changes.
pub(super) const RESTART_TOLD: Duration = Duration::from_secs(10);
/// A task is handed on unseen when the vendor has not told about it for this long.
pub(super) const LOOK: Duration = Duration::from_secs(20);

/// What is to be made of a question.
pub(super) enum Judged {
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
    /// The same, of any run: its answer was lost, and the vendor cannot be asked for it.
    Lost(usize),
    /// Nothing like it was asked for by an earlier run.
    New,
}

/// Since when it is certain that the program of this question runs.
pub(super) fn same_since(ask: &Ask) -> Timestamp {
    ask.ties.since.unwrap_or(ask.at)
}

/// Whether the program that ran `then` is certainly the one that asks now.
pub(super) fn ran(ask: &Ask, then: Option<Timestamp>) -> bool {
    then.zip(ask.ties.since).is_some_and(|(then, since)| since <= then)
}

/// Whether the task was certainly asked for by the run that asks now.
pub(super) fn is_own(ask: &Ask, task: &Followed) -> bool {
    // Nobody else knows its id.
    ran(ask, task.run_asked_at) || ask.ties.named.contains(&task.reading.id)
}

pub(super) fn is_alike(ask: &Ask, task: &Followed) -> bool {
    task.digest.as_ref() == Some(&ask.digest) && task.place().as_ref() == Some(&ask.place)
}

pub(super) fn is_alike_intent(ask: &Ask, intent: &Intent) -> bool {
    intent.digest == ask.digest && intent.region == ask.place.to_string()
}

/// Judges a question of this run.
pub(super) fn judge(
    state: &State,
    ask: &Ask,
    run: &str,
    producer: &PodRef,
    at: Timestamp,
) -> Judged {
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
        if !is_worth(task, producer) || state.ledger.strangers.contains(&task.reading.id) {
            continue;
        }
        let looked = task.observed_at.is_some_and(|seen| seen >= ask.at);
        let waited = elapsed(ask.at, at);
        if !looked && !task.reading.state.is_final() && waited < LOOK {
            return Judged::Look(task.reading.id.clone());
        }
        return Judged::Task(task.reading.id.clone());
    }
    let by_token = abilities(ask.place.resource()).resume == Resume::ByToken;
    let is_lost = |intent: &Intent| !by_token && state.ledger.is_lost(intent);
    let intents = || state.ledger.intents.iter().enumerate();
    let alike = || intents().filter(|(_, i)| is_alike_intent(ask, i));
    if let Some((index, intent)) = alike().find(|(_, i)| i.incarnation != run) {
        return if by_token {
            Judged::Intent(index)
        } else if is_lost(intent) {
            Judged::Lost(index)
        } else {
            // On its way still, although its program has gone: its task will be handed on.
            Judged::Wait
        };
    }
    // An equal submission that lives still: is this a second one of the same run, or has the
    // container just been started again, and the keeper has not told yet? Each has to be proved:
    // another one may have got the name of the run before in the same way. A lost one is nobody's.
    let own_task = |t: &Followed| {
        let lives = is_alike(ask, t)
            && t.incarnation.as_deref() == Some(run)
            && !t.reading.state.is_final();
        !lives || is_own(ask, t)
    };
    let own_intent = |i: &Intent| is_lost(i) || ran(ask, Some(i.at.0));
    let all_own = alike().all(|(_, i)| own_intent(i)) && state.tasks.iter().all(own_task);
    // A restart before the program connected would have been told by now.
    let told = elapsed(same_since(ask), at) >= RESTART_TOLD;
    if !all_own && !told {
        return Judged::Wait;
    }
    // Clients repeat a request whose connection broke: that one may have arrived.
    alike().find(|(_, i)| is_lost(i)).map_or(Judged::New, |(index, _)| Judged::Lost(index))
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

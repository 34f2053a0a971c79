//! Not paying twice: which submission gets the task of an earlier run, and what is written down
//! before one is forwarded. PURE.
//!
//! A run of the program (an *incarnation*) is the pod and its restart count as the keeper tells
//! them. What is asked for in one run is separate, however equal; what an earlier run has asked
//! for is handed on once, in order. An answer takes effect only when the gang's status, as read
//! back from the API server, tells of it: see [`Ledger::answer`].

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use sluice_shared::gang::{Intent, MAX_INTENTS, PodEnd, PodRef, VendorStatus};
use sluice_shared::task::TaskState;

use super::report;
use super::state::{Followed, State, Step, say};
use super::timing::{Now, after, elapsed};
use crate::vendor::FailureKind;
use crate::vendor::braket::region_of_task;

/// The keeper tells of a container's restart within this time, on a cluster that works.
const RESTART_TOLD: Duration = Duration::from_secs(10);
/// A task is handed on unseen when the vendor has not told about it for this long.
const LOOK: Duration = Duration::from_secs(20);
/// Answers that are remembered.
const ANSWERS: usize = 256;
/// Ended intents that are remembered, so that an old look at the gang does not bring them back.
const SPENT: usize = 1024;

/// A submission that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Names the question.
    pub ticket: u64,
    /// Digest of the submission, hex.
    pub digest: String,
    /// Region where it goes.
    pub region: String,
    /// The client token of the submission.
    pub client_token: Option<String>,
    /// Since when the program's oldest open connection is open.
    pub connected_since: Option<Timestamp>,
    /// When it was asked.
    pub at: Timestamp,
}

/// What happens with a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent as it is.
    Send,
    /// It is sent under this token of an earlier run.
    SendWith(String),
    /// The program gets this task.
    Known(String),
}

/// A verdict, and what has to be in the gang before it takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    verdict: Verdict,
    client_token: Option<String>,
    incarnation: String,
}

impl Answer {
    fn is_recorded(&self, status: &VendorStatus) -> bool {
        let token = self.client_token.as_deref();
        let mine = |incarnation: &str| incarnation == self.incarnation;
        let accepted =
            || token.is_some() && status.tasks.iter().any(|t| t.client_token.as_deref() == token);
        match &self.verdict {
            Verdict::Send => {
                token.is_none()
                    || status.intents.iter().any(|i| Some(i.client_token.as_str()) == token)
                    || accepted()
            }
            Verdict::SendWith(earlier) => {
                let kept = |i: &Intent| i.client_token == *earlier && mine(&i.incarnation);
                status.intents.iter().any(kept) || accepted()
            }
            Verdict::Known(id) => status
                .tasks
                .iter()
                .any(|t| t.id == *id && t.incarnation.as_deref().is_some_and(mine)),
        }
    }
}

/// Submissions on their way.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// The producer, as the keeper has it.
    pub producer: Option<PodRef>,
    /// Intents whose task is not known yet, in order.
    pub intents: Vec<Intent>,
    asks: VecDeque<Ask>,
    answers: BTreeMap<u64, Answer>,
    spent: VecDeque<String>,
    /// `status.vendor` as it was last read from the API server.
    durable: VendorStatus,
}

impl Ledger {
    /// The verdict on a question, as soon as there is one, and whether the gang tells of it.
    #[must_use]
    pub fn answer(&self, ticket: u64) -> Option<(&Verdict, bool)> {
        let answer = self.answers.get(&ticket)?;
        Some((&answer.verdict, answer.is_recorded(&self.durable)))
    }

    /// Submissions that wait for their answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.asks.len()
    }

    /// Puts a question.
    pub(super) fn ask(&mut self, ask: Ask) {
        self.asks.push_back(ask);
    }

    /// The gang as it was read. Intents of an earlier worker are taken over.
    pub(super) fn read(&mut self, producer: Option<&PodRef>, vendor: Option<&VendorStatus>) {
        self.producer = producer.cloned().or_else(|| self.producer.take());
        let Some(vendor) = vendor else {
            self.durable = VendorStatus::default();
            return;
        };
        let known = |token: &String| {
            self.spent.contains(token)
                || self.intents.iter().any(|i| i.client_token == *token)
                || vendor.tasks.iter().any(|t| t.client_token.as_ref() == Some(token))
        };
        let earlier: Vec<Intent> =
            vendor.intents.iter().filter(|i| !known(&i.client_token)).cloned().collect();
        self.intents.splice(0..0, earlier);
        self.durable.clone_from(vendor);
    }

    /// A task came of the submission with this token, or certainly none: its intent ends.
    pub(super) fn settle(&mut self, token: Option<&str>) -> Option<Intent> {
        let token = token?;
        self.asks.retain(|a| a.client_token.as_deref() != Some(token));
        let index = self.intents.iter().position(|i| is_of(i, token))?;
        let intent = self.intents.remove(index);
        self.spent.push_back(intent.client_token.clone());
        if self.spent.len() > SPENT {
            self.spent.pop_front();
        }
        Some(intent)
    }

    fn note(&mut self, ask: &Ask, incarnation: &str, verdict: Verdict) {
        let answer = Answer {
            verdict,
            client_token: ask.client_token.clone(),
            incarnation: incarnation.to_owned(),
        };
        self.answers.insert(ask.ticket, answer);
        while self.answers.len() > ANSWERS {
            self.answers.pop_first();
        }
    }
}

/// Whether the intent is the one of this token, its own or that of a later run.
fn is_of(intent: &Intent, token: &str) -> bool {
    intent.client_token == token || intent.asked_as.as_deref() == Some(token)
}

/// The name of a run: pod uid and restart count.
#[must_use]
pub fn incarnation(pod_uid: &str, producer: Option<&PodRef>) -> String {
    let restarts = producer.filter(|p| p.uid == pod_uid).map_or(0, |p| p.restarts);
    format!("{pod_uid}/{restarts}")
}

/// The pod of a run.
fn pod_of(incarnation: &str) -> &str {
    incarnation.split('/').next().unwrap_or(incarnation)
}

/// When something is due although nothing is seen.
pub(super) fn due(state: &State) -> Option<Timestamp> {
    let turns = |ask: &Ask| [after(ask.at, RESTART_TOLD), after(ask.at, LOOK)];
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
    let run = incarnation(&producer.uid, Some(&producer));
    let mut waiting = VecDeque::new();
    while let Some(ask) = state.ledger.asks.pop_front() {
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
            Judged::Repeat(verdict) => state.ledger.note(&ask, &run, verdict),
            Judged::Task(id) => hand_on(state, &ask, &run, &id, steps),
            Judged::Intent(index) => {
                let intent = &mut state.ledger.intents[index];
                let token = intent.client_token.clone();
                intent.asked_as.clone_from(&ask.client_token);
                intent.incarnation.clone_from(&run);
                intent.at = MicroTime(ask.at);
                let text = "an earlier run was about to submit the same: it is sent under that \
                            run's clientToken, so that there is one task";
                say(steps, false, text.to_owned());
                state.ledger.note(&ask, &run, Verdict::SendWith(token));
            }
            Judged::New => new(state, &ask, &run, steps),
        }
    }
    state.ledger.asks = waiting;
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
    /// Nothing like it was asked for by an earlier run.
    New,
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
    let like = |t: &&Followed| {
        t.digest.as_ref() == Some(&ask.digest)
            && region_of_task(&t.reading.id) == Some(ask.region.as_str())
    };
    // Whoever was connected then is connected still: no other run, whatever was told of it since.
    let certain = |then: Option<Timestamp>| {
        then.zip(ask.connected_since).is_some_and(|(then, since)| since <= then)
    };
    let earlier = |t: &&Followed| {
        t.incarnation.as_deref().is_some_and(|i| i != run) && !certain(t.asked_by_run_at)
    };
    let waited = elapsed(ask.at, at);
    for task in state.tasks.iter().filter(like).filter(earlier) {
        if !is_worth(task, producer) {
            continue;
        }
        let looked = task.observed_at.is_some_and(|seen| seen >= ask.at);
        if !looked && !task.reading.state.is_final() && waited < LOOK {
            return Judged::Look(task.reading.id.clone());
        }
        return Judged::Task(task.reading.id.clone());
    }
    let alike = |i: &&Intent| i.digest == ask.digest && i.region == ask.region;
    let open = |i: &&Intent| alike(i) && i.incarnation != run && !certain(Some(i.at.0));
    if let Some(index) = state.ledger.intents.iter().position(|i| open(&i)) {
        return Judged::Intent(index);
    }
    // An equal submission that lives still: is this a second one of the same run, or has the
    // container just been started again, and the keeper has not told yet?
    let mine = |incarnation: Option<&str>| incarnation == Some(run);
    let unfinished = |t: &&Followed| mine(t.incarnation.as_deref()) && !t.reading.state.is_final();
    let asked_at =
        state.tasks.iter().filter(like).filter(unfinished).map(|t| t.asked_by_run_at).chain(
            state
                .ledger
                .intents
                .iter()
                .filter(alike)
                .filter(|i| mine(Some(&i.incarnation)))
                .map(|i| Some(i.at.0)),
        );
    let asked_at: Vec<_> = asked_at.collect();
    let same_run = asked_at.is_empty() || asked_at.into_iter().any(certain);
    if same_run || waited >= RESTART_TOLD { Judged::New } else { Judged::Wait }
}

/// Whether a later run should get this task.
fn is_worth(task: &Followed, producer: &PodRef) -> bool {
    let unknown = task.failing.as_ref().is_some_and(|(_, f)| f.kind == FailureKind::NotFound);
    match &task.reading.state {
        state if state.is_unsuccessful() => false,
        // A program that failed by itself may have failed over this very result.
        TaskState::Completed => producer.previous.as_ref().is_some_and(|previous| {
            previous.end == PodEnd::Disrupted
                && task.incarnation.as_deref().map(pod_of) == Some(previous.uid.as_str())
        }),
        // The vendor knows no such task for this account.
        _ => !unknown,
    }
}

fn hand_on(state: &mut State, ask: &Ask, run: &str, id: &str, steps: &mut Vec<Step>) {
    let Some(task) = state.tasks.iter_mut().find(|t| t.reading.id == id) else { return };
    task.incarnation = Some(run.to_owned());
    if ask.client_token.is_some() {
        task.client_token.clone_from(&ask.client_token);
    }
    task.asked_by_run_at = Some(ask.at);
    let text = format!(
        "the program was started again and submits the same: it gets {}, nothing is sent",
        report::name(id)
    );
    say(steps, false, text);
    state.ledger.note(ask, run, Verdict::Known(id.to_owned()));
}

fn new(state: &mut State, ask: &Ask, run: &str, steps: &mut Vec<Step>) {
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
    if let Some(token) = &ask.client_token {
        if state.ledger.intents.len() >= MAX_INTENTS {
            // The oldest has had the most time to become a task.
            state.ledger.intents.remove(0);
        }
        state.ledger.intents.push(Intent {
            client_token: token.clone(),
            asked_as: None,
            digest: ask.digest.clone(),
            region: ask.region.clone(),
            incarnation: run.to_owned(),
            at: MicroTime(ask.at),
        });
    }
    state.ledger.note(ask, run, Verdict::Send);
}

#[cfg(test)]
#[path = "resume_tests.rs"]
mod tests;

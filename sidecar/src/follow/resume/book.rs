//! Submissions on their way: what was asked, what was answered, and what is written down. PURE.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use sluice_shared::gang::{Intent, MAX_INTENTS, MAX_TASKS, PodRef, VendorStatus};
use sluice_shared::resource::Place;
use sluice_tap::Ties;

/// Answers that are remembered: more than the tap has connections.
const ANSWERS: usize = 1024;
/// Ended intents that are remembered, so that an old look at the gang does not bring them back.
const SPENT: usize = 1024;

/// A submission that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Names the question.
    pub ticket: u64,
    /// Digest of the submission, hex.
    pub digest: String,
    /// Where it goes.
    pub place: Place,
    /// The client token of the submission.
    pub client_token: Option<String>,
    /// What proves that the program is the one that asked before.
    pub ties: Ties,
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

/// Whose a task or an intent is, and since when that is certain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) incarnation: Option<String>,
    pub(super) client_token: Option<String>,
    pub(super) at: Option<Timestamp>,
    pub(super) resumed: bool,
}

/// What an answer has changed, to be taken back if it takes no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// An intent was written for it.
    Intent,
    /// The intent of this token was claimed, and was another run's before.
    ClaimedIntent(String, Claim),
    /// The task was claimed, and was another run's before.
    ClaimedTask(String, Claim),
}

/// A verdict, and what has to be in the gang before it takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) ask: Ask,
    verdict: Verdict,
    pub(super) incarnation: String,
    pub(super) change: Change,
    is_recorded: bool,
}

impl Answer {
    /// Whether the gang tells enough for whoever comes after a crash: under which token the
    /// submission is sent, or which task this submission got.
    fn is_in(&self, status: &VendorStatus) -> bool {
        if let Verdict::Known(id) = &self.verdict {
            let Some(task) = status.tasks.iter().find(|t| t.id == *id) else {
                // A gang has no room for more.
                return status.tasks.len() >= MAX_TASKS;
            };
            // A repeated token may come with the name of another run.
            return match &self.ask.client_token {
                Some(token) => task.client_token.as_ref() == Some(token),
                None => task.incarnation.as_ref() == Some(&self.incarnation),
            };
        }
        // Without a token there is no intent.
        let Some(token) = self.ask.client_token.as_deref() else { return true };
        let has_task = || status.tasks.iter().any(|t| t.client_token.as_deref() == Some(token));
        let intent = |sent: &str| status.intents.iter().find(|i| i.client_token == sent);
        let is_intended = match &self.verdict {
            Verdict::SendWith(earlier) => {
                intent(earlier).is_some_and(|i| i.asked_as.as_deref() == Some(token))
            }
            Verdict::Send | Verdict::Known(_) => intent(token).is_some(),
        };
        is_intended || has_task()
    }
}

/// Submissions on their way.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// The producer, as the keeper has it.
    pub producer: Option<PodRef>,
    /// Intents whose task is not known yet, in order.
    pub intents: Vec<Intent>,
    pub(super) asks: VecDeque<Ask>,
    pub(super) answers: BTreeMap<u64, Answer>,
    spent: VecDeque<String>,
    /// Tokens of intents to which no answer will come: an earlier worker sent the request, or its
    /// answer was lost, or told nothing.
    lost: BTreeSet<String>,
    /// Tasks of earlier runs that the vendor does not have for this program.
    pub(super) strangers: BTreeSet<String>,
    /// `status.vendor` as it was last read from the API server.
    durable: VendorStatus,
}

impl Ledger {
    /// The verdict on a question, as soon as there is one, and whether it takes effect: the gang
    /// tells of it.
    #[must_use]
    pub fn answer(&self, ticket: u64) -> Option<(&Verdict, bool)> {
        let answer = self.answers.get(&ticket)?;
        Some((&answer.verdict, answer.is_recorded))
    }

    /// Submissions that wait for their answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.asks.len()
    }

    /// The gang as it was read. Returns the intents of an earlier worker, which are taken over:
    /// the connections over which their answers would have come went with it.
    pub(super) fn read(
        &mut self,
        producer: Option<&PodRef>,
        vendor: Option<&VendorStatus>,
    ) -> Vec<Intent> {
        self.producer = producer.cloned().or_else(|| self.producer.take());
        let Some(vendor) = vendor else {
            self.durable = VendorStatus::default();
            return Vec::new();
        };
        let known = |token: &String| {
            self.spent.contains(token)
                || self.intents.iter().any(|i| i.client_token == *token)
                || vendor.tasks.iter().any(|t| t.client_token.as_ref() == Some(token))
        };
        let earlier: Vec<Intent> =
            vendor.intents.iter().filter(|i| !known(&i.client_token)).cloned().collect();
        self.lost.extend(earlier.iter().map(|i| i.client_token.clone()));
        self.intents.splice(0..0, earlier.iter().cloned());
        self.durable.clone_from(vendor);
        earlier
    }

    /// No answer will tell whether a task came of what was sent under this token.
    pub(super) fn lose(&mut self, token: Option<&str>) {
        let intent = self.intents.iter().find(|i| token.is_some_and(|token| is_of(i, token)));
        self.lost.extend(intent.map(|i| i.client_token.clone()));
    }

    /// Whether no answer will come to what was sent under this intent.
    pub(super) fn is_lost(&self, intent: &Intent) -> bool {
        self.lost.contains(&intent.client_token)
    }

    /// No task came of the request that was sent under this token. Its intent ends if the request
    /// was the only one: an earlier one, of another worker or another run, may have arrived.
    pub(super) fn void(&mut self, token: Option<&str>) {
        let Some(token) = token else { return };
        let is_its = |a: &&Answer| {
            a.ask.client_token.as_deref() == Some(token)
                || matches!(&a.verdict, Verdict::SendWith(earlier) if earlier == token)
        };
        let mut answers = self.answers.values().filter(is_its);
        let first = answers.next().filter(|a| a.change == Change::Intent);
        let Some(ticket) = first.filter(|_| answers.next().is_none()).map(|a| a.ask.ticket) else {
            return;
        };
        self.answers.remove(&ticket);
        self.settle(Some(token));
    }

    /// A task came of the submission that was sent under this token: its intent ends.
    pub(in crate::follow) fn settle(&mut self, token: Option<&str>) -> Option<Intent> {
        let token = token?;
        let index = self.intents.iter().position(|i| is_of(i, token))?;
        Some(self.end_intent(index))
    }

    /// The intent leaves the list for good.
    pub(super) fn end_intent(&mut self, index: usize) -> Intent {
        let intent = self.intents.remove(index);
        self.lost.remove(&intent.client_token);
        self.spent.push_back(intent.client_token.clone());
        if self.spent.len() > SPENT {
            self.spent.pop_front();
        }
        intent
    }

    /// Whether there is another question with the same token.
    pub(super) fn is_asked_again(&self, ask: &Ask) -> bool {
        let mut others = self.asks.iter().chain(self.answers.values().map(|a| &a.ask));
        ask.client_token.is_some()
            && others.any(|o| o.ticket != ask.ticket && o.client_token == ask.client_token)
    }

    /// Writes an intent down. Returns the one that has to make room for it: the oldest, which has
    /// had the most time to become a task.
    pub(super) fn intend(&mut self, ask: &Ask, incarnation: &str) -> Option<Intent> {
        let token = ask.client_token.as_ref()?;
        if self.intents.iter().any(|i| is_of(i, token)) {
            return None;
        }
        let oldest = (self.intents.len() >= MAX_INTENTS).then(|| self.end_intent(0));
        self.intents.push(Intent {
            client_token: token.clone(),
            asked_as: None,
            digest: ask.digest.clone(),
            region: ask.place.to_string(),
            incarnation: incarnation.to_owned(),
            at: MicroTime(ask.at),
        });
        oldest
    }

    pub(super) fn note(&mut self, ask: Ask, incarnation: &str, verdict: Verdict, change: Change) {
        let incarnation = incarnation.to_owned();
        let ticket = ask.ticket;
        let answer = Answer { ask, verdict, incarnation, change, is_recorded: false };
        self.answers.insert(ticket, answer);
        while self.answers.len() > ANSWERS {
            self.answers.pop_first();
        }
    }

    /// Notes which answers the gang tells of by now: they take effect, and stay.
    pub(super) fn mark_recorded(&mut self) {
        for answer in self.answers.values_mut() {
            answer.is_recorded = answer.is_recorded || answer.is_in(&self.durable);
        }
    }

    /// Takes out the answers that have no effect yet and were given for another run than this.
    pub(super) fn outdated(&mut self, run: &str) -> Vec<Answer> {
        let outdated = |a: &Answer| !a.is_recorded && a.incarnation != run;
        let tickets: Vec<u64> =
            self.answers.iter().filter(|(_, a)| outdated(a)).map(|(ticket, _)| *ticket).collect();
        tickets.iter().filter_map(|ticket| self.answers.remove(ticket)).collect()
    }

    /// The submission went on without its answer, or without the record of it. Returns the intent
    /// that has to make room for its own.
    pub(super) fn went_on(&mut self, ticket: u64, incarnation: &str) -> Option<Intent> {
        if let Some(index) = self.asks.iter().position(|a| a.ticket == ticket) {
            let ask = self.asks.remove(index)?;
            return self.intend(&ask, incarnation);
        }
        if let Some(answer) = self.answers.get_mut(&ticket) {
            answer.is_recorded = true;
        }
        None
    }
}

/// Whether the intent is the one of this token, its own or that of a later run.
pub(super) fn is_of(intent: &Intent, token: &str) -> bool {
    intent.client_token == token || intent.asked_as.as_deref() == Some(token)
}

//! Polls of a task that waits or runs, shared: one question to the vendor answers all that ask.
//!
//! A poll that the vendor throttles is answered from the last answer, if that said that the task
//! waits or runs. It is what the vendor said last, and the vendor says nothing newer; the program
//! would otherwise end with `ThrottlingException` after its own three attempts, with a paid task
//! in the queue. After [`LONGEST_KEPT`] without any answer the program is told the truth.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use jiff::Timestamp;
use sluice_shared::task::TaskState;
use tokio::time::Instant;

use crate::interval;
use crate::quota::{Asks, Quota};
use sluice_dialect::TaskFacts;

/// An answer of the vendor that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Whole {
    /// The same as an answer to the program.
    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body.clone()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// Which polls are the same question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) region: String,
    /// Raw path and query.
    pub(crate) target: String,
}

/// Tasks whose answers are kept at one time. More are forwarded as they come.
const ROOM: usize = 256;
/// While we have no keys the vendor is asked for a task once in this time.
const KEYLESS: Duration = Duration::from_secs(3);
/// Largest answer that is kept.
const LARGEST: usize = 64 << 10;
/// Longest time for which a throttled vendor is spoken for.
const LONGEST_KEPT: Duration = Duration::from_mins(10);

#[derive(Debug)]
pub(crate) struct Polls {
    slots: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Slot>>>>,
    quota: Arc<Quota>,
}

#[derive(Debug, Default)]
struct Slot {
    kept: Option<Kept>,
    waiting_since: Option<Instant>,
    running_since: Option<Instant>,
}

impl Slot {
    /// For how long an answer of this moment is good, in an account that is not throttled.
    fn interval(&mut self, facts: &TaskFacts, got: Instant) -> Duration {
        if facts.state.is_waiting() {
            self.running_since = None;
            let since = *self.waiting_since.get_or_insert(got);
            let waited = (got - since).max(age(facts, Timestamp::now()));
            interval::until_next(facts.position, waited, rand::random())
        } else if facts.state == TaskState::Running {
            let since = *self.running_since.get_or_insert(got);
            interval::while_running(got - since, rand::random())
        } else {
            Duration::ZERO
        }
    }
}

#[derive(Debug)]
struct Kept {
    answer: Arc<Whole>,
    got: Instant,
    /// Zero when the task neither waited nor ran: then no other answer is expected.
    interval: Duration,
    good_until: Instant,
}

impl Kept {
    /// Good until its interval has passed; and for whoever asked while the question was out.
    fn serves(&self, arrived: Instant, now: Instant) -> bool {
        now < self.good_until || arrived <= self.got
    }

    /// Whether the task waited or ran, so that the answer is not the last one.
    fn is_of_a_live_task(&self) -> bool {
        !self.interval.is_zero()
    }

    /// Whether it can stand in for an answer that a throttled vendor does not give.
    fn stands_in(&self, now: Instant) -> bool {
        self.is_of_a_live_task() && now < self.got + LONGEST_KEPT
    }
}

/// What to do when the vendor throttles a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Throttled {
    /// Ask again while the request may be held.
    AskAgain,
    /// Say so at once: an earlier answer stands in.
    Tell,
}

/// What came of the question: an answer that can be shared, or something else.
pub(crate) enum Asked<T> {
    Whole(Arc<Whole>, Option<Box<TaskFacts>>),
    /// The vendor wants fewer questions; what it said to that.
    Throttled(T),
    /// We have no keys that the vendor takes.
    Keyless(T),
    Other(T),
}

impl Polls {
    pub(crate) fn new(quota: Arc<Quota>) -> Self {
        Self { slots: Mutex::default(), quota }
    }

    /// The answer to a poll that arrived at `arrived`: the last one while it is good, else that
    /// of `ask`. Those who ask at the same time wait for one question.
    ///
    /// `ask` is also told whether there is an answer of a task that waits or runs: that one is given
    /// again while we have no keys, for however long, so that the program does not die of our keys.
    pub(crate) async fn answer<T>(
        &self,
        key: Key,
        arrived: Instant,
        ask: impl AsyncFnOnce(Throttled, bool) -> Asked<T>,
    ) -> Asked<T> {
        let Some(slot) = self.slot(&key) else { return ask(Throttled::AskAgain, false).await };
        let mut slot = slot.lock().await;
        let now = Instant::now();
        if let Some(kept) = &slot.kept {
            let left_alone = kept.stands_in(now) && self.quota.not_before(Asks::Tasks).is_some();
            if kept.serves(arrived, now) || left_alone {
                return Asked::Whole(Arc::clone(&kept.answer), None);
            }
        }
        let stands_in = slot.kept.as_ref().is_some_and(|kept| kept.stands_in(now));
        let throttled = if stands_in { Throttled::Tell } else { Throttled::AskAgain };
        let has_last = slot.kept.as_ref().is_some_and(Kept::is_of_a_live_task);
        match (ask(throttled, has_last).await, &mut slot.kept) {
            (Asked::Whole(whole, facts), _) => {
                let fits = whole.body.len() <= LARGEST;
                slot.kept = fits.then(|| self.keep(&mut slot, &whole, facts.as_deref()));
                Asked::Whole(whole, facts)
            }
            (Asked::Throttled(_), Some(kept)) if stands_in => {
                // It is overdue, so sooner than usual.
                let again = (kept.interval / 2).max(interval::SHORTEST);
                let again = interval::stretched(again, self.quota.stretch().tasks);
                kept.good_until = Instant::now() + again;
                Asked::Whole(Arc::clone(&kept.answer), None)
            }
            (Asked::Keyless(_), Some(kept)) if has_last => {
                kept.good_until = Instant::now() + KEYLESS;
                Asked::Whole(Arc::clone(&kept.answer), None)
            }
            (other, _) => other,
        }
    }

    fn keep(&self, slot: &mut Slot, answer: &Arc<Whole>, facts: Option<&TaskFacts>) -> Kept {
        let got = Instant::now();
        let interval = facts.map_or(Duration::ZERO, |facts| slot.interval(facts, got));
        let good_for = interval::stretched(interval, self.quota.stretch().tasks);
        Kept { answer: Arc::clone(answer), got, interval, good_until: got + good_for }
    }

    /// Forgets what is known of a task: somebody has just changed it.
    pub(crate) fn forget(&self, raw_arn: &str) {
        let start = format!("/quantum-task/{raw_arn}");
        self.lock().retain(|key, _| {
            !key.target
                .strip_prefix(&start)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('?'))
        });
    }

    fn slot(&self, key: &Key) -> Option<Arc<tokio::sync::Mutex<Slot>>> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(key) {
            return Some(Arc::clone(slot));
        }
        if slots.len() >= ROOM {
            let now = Instant::now();
            slots.retain(|_, slot| match slot.try_lock() {
                Ok(slot) => slot.kept.as_ref().is_some_and(|kept| now < kept.good_until),
                Err(_) => true,
            });
        }
        if slots.len() >= ROOM {
            return None;
        }
        Some(Arc::clone(slots.entry(key.clone()).or_default()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<tokio::sync::Mutex<Slot>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long the vendor has had the task; nothing where the clocks disagree.
fn age(facts: &TaskFacts, now: Timestamp) -> Duration {
    facts
        .created_at
        .and_then(|created| now.duration_since(created).try_into().ok())
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "polls_tests.rs"]
mod tests;

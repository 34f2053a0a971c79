//! Polls of a waiting task, shared: one question to the vendor answers all that ask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::interval;
use crate::wire::TaskFacts;

/// An answer of the vendor that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
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
/// Largest answer that is kept.
const LARGEST: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Polls {
    slots: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Slot>>>>,
}

#[derive(Debug, Default)]
struct Slot {
    kept: Option<Kept>,
    waiting_since: Option<Instant>,
}

#[derive(Debug)]
struct Kept {
    answer: Arc<Whole>,
    got: Instant,
    good_for: Duration,
}

impl Kept {
    /// Good until its interval has passed; and for whoever asked while the question was out.
    fn serves(&self, arrived: Instant, now: Instant) -> bool {
        now < self.got + self.good_for || arrived <= self.got
    }
}

/// What came of the question: an answer that can be shared, or something else.
pub(crate) enum Asked<T> {
    Whole(Arc<Whole>, Option<Box<TaskFacts>>),
    Other(T),
}

impl Polls {
    /// The answer to a poll that arrived at `arrived`: the last one while it is good, else that
    /// of `ask`. Those who ask at the same time wait for one question.
    pub(crate) async fn answer<T>(
        &self,
        key: Key,
        arrived: Instant,
        ask: impl AsyncFnOnce() -> Asked<T>,
    ) -> Asked<T> {
        let Some(slot) = self.slot(&key) else { return ask().await };
        let mut slot = slot.lock().await;
        if let Some(kept) = &slot.kept
            && kept.serves(arrived, Instant::now())
        {
            return Asked::Whole(Arc::clone(&kept.answer), None);
        }
        slot.kept = None;
        let answer = ask().await;
        if let Asked::Whole(whole, facts) = &answer
            && whole.body.len() <= LARGEST
        {
            let got = Instant::now();
            let waiting = facts.as_ref().filter(|facts| facts.state.is_waiting());
            let good_for = match waiting {
                Some(facts) => {
                    let since = *slot.waiting_since.get_or_insert(got);
                    let waited = (got - since).max(age(facts, Timestamp::now()));
                    interval::until_next(facts.position, waited, rand::random())
                }
                None => Duration::ZERO,
            };
            slot.kept = Some(Kept { answer: Arc::clone(whole), got, good_for });
        }
        answer
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
                Ok(slot) => slot.kept.as_ref().is_some_and(|kept| now < kept.got + kept.good_for),
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

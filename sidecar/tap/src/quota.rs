//! Yielding to the others of the account: a sidecar that is throttled asks less often for a while.
//!
//! The vendor counts requests by account, and no sidecar knows how many others there are, or how
//! many consumers poll. What it can see is an answer 429. Each one doubles the intervals of this
//! sidecar; they shrink again by half every two minutes. Sidecars that are throttled more yield
//! more, until what they ask fits into what is left. `Retry-After` is obeyed besides.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Longest stretch. With it 1,000 tasks in six lines cost 8 questions a second instead of 40, and
/// the front is still noticed within 8 s.
const MOST: f64 = 8.0;
/// What is over 1 in the stretch halves in this time.
const HALVES: Duration = Duration::from_mins(2);
/// Answers 429 that come together are one piece of news.
const TOGETHER: Duration = Duration::from_secs(1);
/// Longest pause for which the vendor's `Retry-After` is believed.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(10);

/// The vendor's quotas that polling uses; each is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// `GetQuantumTask`.
    Tasks,
    /// `GetDevice`.
    Devices,
}

/// How many times as long the intervals are; 1 where nobody is throttled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// For tasks.
    pub tasks: f64,
    /// For devices.
    pub devices: f64,
}

impl Default for Stretch {
    fn default() -> Self {
        Self { tasks: 1.0, devices: 1.0 }
    }
}

/// What one sidecar has learned of one quota. A value: time is handed in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Yielding {
    last: Option<(Instant, f64)>,
    not_before: Option<Instant>,
}

impl Yielding {
    /// The vendor throttled a request, and may have said for how long it wants to be left alone.
    pub fn throttled(&mut self, retry_after: Option<Duration>, now: Instant) {
        if self.last.is_none_or(|(at, _)| now.duration_since(at) >= TOGETHER) {
            self.last = Some((now, (self.factor(now) * 2.0).min(MOST)));
        }
        if let Some(pause) = retry_after {
            let until = now + pause.min(LONGEST_RETRY_AFTER);
            self.not_before = Some(self.not_before.map_or(until, |known| known.max(until)));
        }
    }

    /// How many times as long the intervals are now, from 1 to 8.
    #[must_use]
    pub fn factor(&self, now: Instant) -> f64 {
        let Some((at, factor)) = self.last else { return 1.0 };
        let passed = now.duration_since(at).as_secs_f64() / HALVES.as_secs_f64();
        1.0 + (factor - 1.0) * 0.5_f64.powf(passed)
    }

    /// Until when the vendor wants to be left alone.
    #[must_use]
    pub fn not_before(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|until| *until > now)
    }
}

/// What the tap and the follower of one sidecar have learned, together.
#[derive(Debug, Default)]
pub struct Quota(Mutex<[Yielding; 2]>);

impl Quota {
    /// The vendor throttled a request.
    pub fn throttled(&self, asks: Asks, retry_after: Option<Duration>) {
        self.lock()[asks as usize].throttled(retry_after, Instant::now());
    }

    /// The stretch at this time.
    #[must_use]
    pub fn stretch(&self) -> Stretch {
        let now = Instant::now();
        let [tasks, devices] = self.lock().map(|yielding| yielding.factor(now));
        Stretch { tasks, devices }
    }

    /// Until when the vendor wants to be left alone with such requests.
    #[must_use]
    pub fn not_before(&self, asks: Asks) -> Option<Instant> {
        self.lock()[asks as usize].not_before(Instant::now())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, [Yielding; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.001, "{found} instead of {expected}");
    }

    #[test]
    fn each_refusal_doubles_and_two_minutes_halve() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut yielding = Yielding::default();
        near(yielding.factor(at(0)), 1.0);
        yielding.throttled(None, at(0));
        near(yielding.factor(at(0)), 2.0);
        near(yielding.factor(at(120)), 1.5);
        yielding.throttled(None, at(120));
        near(yielding.factor(at(120)), 3.0);
        near(yielding.factor(at(3600)), 1.0);
    }

    #[test]
    fn refusals_that_come_together_count_once_and_there_is_an_end() {
        let start = Instant::now();
        let mut yielding = Yielding::default();
        for _ in 0..50 {
            yielding.throttled(None, start);
        }
        near(yielding.factor(start), 2.0);
        for second in 1..50 {
            yielding.throttled(None, start + Duration::from_secs(second));
        }
        assert!(yielding.factor(start + Duration::from_secs(50)) <= MOST);
    }

    #[test]
    fn the_longest_wish_counts_and_none_for_ever() {
        let start = Instant::now();
        let mut yielding = Yielding::default();
        yielding.throttled(Some(Duration::from_secs(90)), start);
        yielding.throttled(Some(Duration::from_secs(5)), start);
        assert_eq!(yielding.not_before(start), Some(start + Duration::from_secs(90)));
        assert_eq!(yielding.not_before(start + Duration::from_secs(90)), None);
        yielding.throttled(Some(Duration::from_hours(24)), start);
        assert_eq!(yielding.not_before(start), Some(start + LONGEST_RETRY_AFTER));
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_and_devices_are_counted_apart() {
        let quota = Quota::default();
        quota.throttled(Asks::Devices, Some(Duration::from_secs(3)));
        assert_eq!(quota.stretch(), Stretch { tasks: 1.0, devices: 2.0 });
        assert_eq!(quota.not_before(Asks::Tasks), None);
        assert!(quota.not_before(Asks::Devices).is_some());
    }
}

//! How long an answer about a task that has not ended stays good: short near the front, long far
//! away.
//!
//! The intervals are chosen so that 1,000 producers of one account stay inside the vendor's
//! published quota by themselves, with room for consumers, which poll the vendor past the tap.
//! Amazon Braket allows an account 100 `GetQuantumTask` a second in a region, with a burst of 500.
//!
//! * **Waiting.** A task at place p is asked for every p-1 seconds, so a line of n tasks costs
//!   `1 + H(n-1)` questions a second, H being the harmonic numbers: 6.7 for a line of 167. A region
//!   has about six lines: 1,000 tasks in six lines cost 40 a second, 44 with the jitter.
//! * **Starting.** A young task is asked for again when it is twice as old, but not before a
//!   quarter of the time above: at place 84, the middle of such a line, at 0, 21, 42 and 84 s. The
//!   vendor takes 20 submissions a second, so the first answers of 1,000 programs that start
//!   together are 20 a second for 50 s, and the second ones as many again.
//! * **Running.** One task runs in each line; each is asked for at a tenth of its running time.
//!
//! Where the account is busier than that, throttled sidecars stretch their intervals: see
//! [`Quota`](crate::Quota). `sidecar/tests/it/quotas.rs` plays it through.

use std::time::Duration;

use sluice_shared::task::Position;

/// The shortest interval of a waiting task: at the front, and for one just submitted.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The longest interval, however far away the task is.
pub const LONGEST: Duration = Duration::from_mins(3);
/// Shortest interval for a task whose place nobody tells.
pub const UNTOLD: Duration = Duration::from_secs(10);
/// The shortest and longest interval of a task that runs. The shortest one is under the pause that
/// the Braket SDK makes itself (0.43 s): it holds back only programs that ask without a pause.
const RUNNING: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(5));

/// Lines are taken to move at most one place in this time: a task is asked for again before it
/// can have come to the front.
const PLACE: Duration = Duration::from_secs(1);
/// A young task may be in a line that moves faster, but not by more than this.
const FASTEST: u32 = 4;
/// The end of a run, or of a wait without a place, is noticed late by this part of it.
const PART: u32 = 10;

/// When to ask again for a task that waits.
///
/// By place: a second for each place before it, at most three minutes. A task that has not waited
/// that long yet is asked for sooner, since its line can move faster than it should: after the
/// wait so far and a second, but not before a quarter of the time by place. Where the place is
/// not told: a tenth of the wait so far, 10 s to three minutes, and sooner at first likewise.
///
/// `waited`: since the task was first seen to wait. `jitter`: from 0 to 1, spreads the answer
/// over 85 % to 100 % of the interval, so that many followers do not ask at the same time.
#[must_use]
pub fn until_next(position: Position, waited: Duration, jitter: f64) -> Duration {
    let (soonest, latest) = match position {
        Position::At(place) | Position::Beyond(place) => {
            let by_place = PLACE.saturating_mul(place.saturating_sub(1)).clamp(SHORTEST, LONGEST);
            (by_place / FASTEST, by_place)
        }
        Position::Unknown => (SHORTEST, (waited / PART).clamp(UNTOLD, LONGEST)),
    };
    let young = waited.saturating_add(SHORTEST);
    spread(young.clamp(soonest, latest), jitter)
}

/// When to ask again for a task that runs: a tenth of its running time, 0.3 s to 5 s.
///
/// `ran`: since it was first seen to run. `jitter` as in [`until_next`].
#[must_use]
pub fn while_running(ran: Duration, jitter: f64) -> Duration {
    let (shortest, longest) = RUNNING;
    spread((ran / PART).clamp(shortest, longest), jitter)
}

/// The interval in an account that is throttled: `stretch` times as long (from 1), and still at
/// most [`LONGEST`].
#[must_use]
pub fn stretched(interval: Duration, stretch: f64) -> Duration {
    let stretch = if stretch.is_finite() { stretch.max(1.0) } else { 1.0 };
    let seconds = (interval.as_secs_f64() * stretch).min(LONGEST.as_secs_f64());
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).max(interval)
}

fn spread(interval: Duration, jitter: f64) -> Duration {
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.5 };
    interval.mul_f64(0.85 + 0.15 * jitter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn table_by_position() {
        for (position, seconds) in [
            (Position::At(1), 1.0),
            (Position::At(2), 1.0),
            (Position::At(3), 2.0),
            (Position::At(14), 13.0),
            (Position::At(90), 89.0),
            (Position::At(2000), 180.0),
            (Position::At(u32::MAX), 180.0),
            (Position::Beyond(2000), 180.0),
            (Position::Beyond(0), 1.0),
            (Position::Unknown, 180.0),
        ] {
            let found = until_next(position, DAY, 1.0).as_secs_f64();
            assert!((found - seconds).abs() < 0.001, "{position:?}: {found}");
        }
    }

    #[test]
    fn a_young_task_is_asked_for_at_growing_ages() {
        for (position, expected) in [
            (Position::At(1), [1, 2, 3, 4]),
            (Position::At(9), [2, 5, 11, 19]),
            (Position::At(85), [21, 43, 87, 171]),
            (Position::Beyond(2000), [45, 91, 183, 363]),
            (Position::Unknown, [1, 3, 7, 15]),
        ] {
            let mut age = Duration::ZERO;
            let ages = [0; 4].map(|_| {
                age += until_next(position, age, 1.0);
                age.as_secs()
            });
            assert_eq!(ages, expected, "{position:?}");
        }
    }

    #[test]
    fn the_end_of_a_run_is_noticed_late_by_a_tenth_of_it() {
        for (ran, interval) in [(0, 300), (5, 500), (30, 3_000), (600, 5_000)] {
            let found = while_running(Duration::from_secs(ran), 1.0);
            assert_eq!(found.as_millis(), interval, "{ran} s");
        }
    }

    #[test]
    fn a_stretched_interval_has_an_end_and_a_mad_factor_changes_nothing() {
        let second = Duration::from_secs(1);
        for (stretch, seconds) in
            [(1.0, 1), (8.0, 8), (1e9, 180), (0.0, 1), (-3.0, 1), (f64::NAN, 1), (f64::INFINITY, 1)]
        {
            assert_eq!(stretched(second, stretch).as_secs(), seconds, "{stretch}");
        }
    }

    proptest! {
        #[test]
        fn always_between_the_bounds(place in any::<u32>(), waited in 0u64..1_000_000, jitter in any::<f64>()) {
            let found = until_next(Position::At(place), Duration::from_secs(waited), jitter);
            prop_assert!(found >= SHORTEST.mul_f64(0.849) && found <= LONGEST);
        }

        #[test]
        fn further_back_is_never_asked_for_more_often(a in 1u32..5000, b in 1u32..5000) {
            let (near, far) = (a.min(b), a.max(b));
            prop_assert!(
                until_next(Position::At(near), DAY, 0.5) <= until_next(Position::At(far), DAY, 0.5)
            );
        }

        /// What makes a release just in time: at a place a second, nothing passes between two looks.
        #[test]
        fn a_line_that_moves_a_place_a_second_is_seen_at_the_front(
            place in 1u32..180,
            jitter in proptest::collection::vec(0.0..=1.0f64, 200),
        ) {
            let mut jitter = jitter.into_iter().cycle();
            let reached = PLACE * (place - 1);
            let mut now = Duration::ZERO;
            while now < reached {
                let moved = u32::try_from(now.as_secs()).unwrap();
                now += until_next(Position::At(place - moved), DAY, jitter.next().unwrap());
            }
            prop_assert!(now <= reached + PLACE, "at {now:?} instead of {reached:?}");
        }
    }
}

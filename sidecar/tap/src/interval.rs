//! How long an answer about a waiting task stays good: short near the front, long far away.

use std::time::Duration;

use sluice_shared::task::Position;

/// The shortest interval: near the front, and for a task that has just been submitted.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The longest interval, however far away the task is.
pub const LONGEST: Duration = Duration::from_mins(3);
/// Interval for a task whose place nobody tells.
pub const UNTOLD: Duration = Duration::from_secs(10);

/// Places that count as near the front.
const NEAR: u32 = 3;
/// A place that many tasks back is asked for so many times the shortest interval.
const PLACES_PER_STEP: u32 = 3;
/// The interval is at most this part of the wait so far, so that a task that jumps to its end is
/// noticed late by no more than that part of its whole wait.
const PART_OF_WAIT: u32 = 10;

/// The interval by place alone: 1 s up to place 3, then a third of a second for each place, at
/// most three minutes; 10 s where the place is unknown.
#[must_use]
pub fn by_position(position: Position) -> Duration {
    match position {
        Position::At(place) if place <= NEAR => SHORTEST,
        Position::At(place) | Position::Beyond(place) => {
            (SHORTEST * place / PLACES_PER_STEP).clamp(SHORTEST, LONGEST)
        }
        Position::Unknown => UNTOLD,
    }
}

/// When to ask again: by place, but never more than a tenth of the wait so far (and never less
/// than a second).
///
/// `waited`: since the task was first seen to wait. `jitter`: from 0 to 1, spreads the answer
/// over 85 % to 100 % of the interval, so that many followers do not ask at the same time.
#[must_use]
pub fn until_next(position: Position, waited: Duration, jitter: f64) -> Duration {
    let longest = (waited / PART_OF_WAIT).max(SHORTEST);
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.5 };
    by_position(position).min(longest).mul_f64(0.85 + 0.15 * jitter)
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
            (Position::At(3), 1.0),
            (Position::At(4), 4.0 / 3.0),
            (Position::At(14), 14.0 / 3.0),
            (Position::At(90), 30.0),
            (Position::At(2000), 180.0),
            (Position::At(u32::MAX), 180.0),
            (Position::Beyond(2000), 180.0),
            (Position::Beyond(0), 1.0),
            (Position::Unknown, 10.0),
        ] {
            let found = by_position(position).as_secs_f64();
            assert!((found - seconds).abs() < 0.001, "{position:?}: {found}");
        }
    }

    #[test]
    fn a_fresh_task_is_asked_for_often_wherever_it_is() {
        for position in [Position::At(2000), Position::Beyond(2000), Position::Unknown] {
            assert_eq!(until_next(position, Duration::ZERO, 1.0), SHORTEST);
            assert_eq!(until_next(position, Duration::from_secs(30), 1.0).as_secs(), 3);
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
    }
}

//! When to ask again. PURE: the chance that spreads requests is a value.

use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::task::Position;
use sluice_tap::quota::LONGEST_RETRY_AFTER;
use sluice_tap::{Stretch, interval};

use crate::vendor::{Failure, FailureKind};

/// A submission that passed the tap is normally polled by the program at once; only a program
/// that stays silent is read for.
pub const FIRST_READ: Duration = Duration::from_secs(2);
/// A program that polled this lately is expected to poll again.
const POLLS: Duration = Duration::from_secs(15);
/// Devices of tasks far away: for the status that people see.
const DEVICE_FAR: Duration = Duration::from_mins(10);
/// The first look at the device of a task far away comes within this time: for 1,000 tasks that
/// are submitted together that is 3.3 of the 5 looks a second that the vendor allows an account.
pub const DEVICE_SPREAD: Duration = Duration::from_mins(5);
/// Devices of tasks that come near, so that the judgement at position 1 needs no extra call.
const DEVICE_NEAR: Duration = Duration::from_secs(30);
/// Devices of tasks at position 1 that are held by the device or by priority tasks.
const DEVICE_FRONT: Duration = Duration::from_secs(10);
/// The same when the vendor throttles us: still before the last look is too old.
const DEVICE_FRONT_LONGEST: Duration = Duration::from_secs(40);
/// A device reading that decides on the front is at most this old.
pub const DEVICE_FRESH: Duration = Duration::from_secs(45);
/// Positions that count as near for device reads.
const NEAR: u32 = 3;
/// Back-off starts here.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The present, and what stretches and spreads what is planned from it.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The wall-clock time.
    pub at: Timestamp,
    /// The chance, from 0 to 1.
    pub luck: f64,
    /// How many times as long intervals are in an account that is throttled.
    pub stretch: Stretch,
}

/// `at` moved by `by`, at most to the end of time.
#[must_use]
pub fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Time from `since` to `at`, never negative.
#[must_use]
pub fn elapsed(since: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(since)).unwrap_or(Duration::ZERO)
}

/// The position as seen from the last place that satisfies the policy: a task that is about to
/// reach `position<=50` is looked at as often as one that is about to reach the front.
#[must_use]
pub fn seen_from(deciding: u32, position: Position) -> Position {
    match position {
        Position::At(place) => {
            Position::At(place.saturating_sub(deciding.saturating_sub(1)).max(1))
        }
        other => other,
    }
}

/// What a task does, as far as the next look at it is concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doing {
    /// It waits, at this position as seen from the deciding place, for so long.
    Waits(Position, Duration),
    /// It runs, for so long.
    Runs(Duration),
}

/// Interval until a task is read by the sidecar itself.
///
/// A program that polls is given time to do so first: its polls tell the same and cost no quota
/// of our own.
#[must_use]
pub fn read_interval(
    doing: Doing,
    polled_ago: Option<Duration>,
    luck: f64,
    stretch: f64,
) -> Duration {
    let interval = match doing {
        Doing::Waits(position, waited) => interval::until_next(position, waited, luck),
        Doing::Runs(ran) => interval::while_running(ran, luck).max(interval::SHORTEST),
    };
    let interval = interval::stretched(interval, stretch);
    let polls = polled_ago.is_some_and(|ago| ago < POLLS.max(interval.saturating_mul(2)));
    if polls { interval.mul_f64(1.25) + Duration::from_millis(1500) } else { interval }
}

/// Whether a task at this position needs to know its device soon.
#[must_use]
pub const fn is_near(position: Position) -> bool {
    matches!(position, Position::At(place) if place <= NEAR)
}

/// Interval between reads of a device whose best task is at `position`.
///
/// 1,000 tasks in six lines cost 2.8 looks a second: 1,000 in 10 minutes, two near the front of
/// each line in 30 s, one at the front in 10 s, and 8 % for the spread.
#[must_use]
pub fn device_interval(position: Position, luck: f64, stretch: f64) -> Duration {
    let stretched = |interval: Duration| interval.mul_f64(stretch.max(1.0));
    let interval = match position {
        Position::At(1) => stretched(DEVICE_FRONT).min(DEVICE_FRONT_LONGEST),
        near if is_near(near) => stretched(DEVICE_NEAR).min(DEVICE_FAR),
        _ => stretched(DEVICE_FAR),
    };
    interval.mul_f64(0.85 + 0.15 * luck.clamp(0.0, 1.0))
}

/// Pause after the `failures`th failure in a row: doubled each time up to a limit, spread by
/// half, and never shorter than the vendor asks for. There is no last try.
#[must_use]
pub fn back_off(failure: &Failure, failures: u32, luck: f64) -> Duration {
    let longest = Duration::from_secs(match failure.kind {
        // Renewed keys are to be taken up soon, and are read anew at each try.
        FailureKind::Expired => 15,
        FailureKind::NotFound | FailureKind::Away => 30,
        FailureKind::NoCredentials | FailureKind::Denied | FailureKind::Throttled => 60,
        FailureKind::Refused => 120,
    });
    let doubled = FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(longest);
    let spread = doubled.mul_f64(0.5 + luck.clamp(0.0, 1.0));
    spread.max(failure.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_failure(kind: FailureKind, retry_after: Option<u64>) -> Failure {
        Failure { kind, message: String::new(), retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn back_off_doubles_to_its_limit_and_never_ends() {
        let away = mk_failure(FailureKind::Away, None);
        let seconds: Vec<u64> =
            [1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|n| back_off(&away, n, 0.5).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn retry_after_is_obeyed_but_not_for_ever() {
        let kind = FailureKind::Throttled;
        assert_eq!(back_off(&mk_failure(kind, Some(90)), 1, 0.5).as_secs(), 90);
        assert_eq!(back_off(&mk_failure(kind, Some(86_400)), 1, 0.5), LONGEST_RETRY_AFTER);
        assert_eq!(back_off(&mk_failure(kind, Some(0)), 3, 0.5).as_secs(), 4);
    }

    #[test]
    fn a_polling_program_goes_first() {
        let day = Duration::from_hours(24);
        for doing in [
            Doing::Waits(Position::At(1), day),
            Doing::Waits(Position::At(50), day),
            Doing::Waits(Position::Unknown, day),
            Doing::Runs(day),
        ] {
            let alone = read_interval(doing, None, 0.5, 1.0);
            let polled = read_interval(doing, Some(Duration::from_secs(1)), 0.5, 1.0);
            assert!(polled > alone + Duration::from_secs(1), "{doing:?}");
            let stopped = read_interval(doing, Some(day), 0.5, 1.0);
            assert_eq!(stopped, alone);
        }
    }

    #[test]
    fn a_throttled_account_is_asked_less_and_the_front_is_still_judged() {
        let day = Duration::from_hours(24);
        let front = Doing::Waits(Position::At(1), day);
        assert_eq!(read_interval(front, None, 1.0, 8.0), Duration::from_secs(8));
        for (place, seconds) in [(1, 40), (2, 240), (50, 4800)] {
            let found = device_interval(Position::At(place), 1.0, 8.0);
            assert_eq!(found.as_secs(), seconds, "{place}");
        }
        assert!(DEVICE_FRONT_LONGEST < DEVICE_FRESH);
    }
}

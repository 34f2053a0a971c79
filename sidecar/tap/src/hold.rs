//! The decision after each attempt: pass the answer on, try again, or give up.

use std::time::Duration;

use http::StatusCode;

use crate::operation::Repeat;

/// What came of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The vendor (or something before it) answered, with its wish to be left alone for a while.
    Answered(StatusCode, Option<Duration>),
    /// The vendor did nothing because the account asks too much; with its wish to be left alone.
    Throttled(Option<Duration>),
    /// The vendor does not take the keys of our signature any more: nothing was done.
    KeysEnded,
    /// No connection: not a byte of the request has left.
    NotSent,
    /// The request may have arrived; its answer did not.
    Lost,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Give the answer to the program as it is.
    PassOn,
    /// Send the same request again after this time.
    Again(Duration),
    /// Tell the program in Braket's form that the vendor is away.
    GiveUp,
    /// Close the connection without a status: what the program would have seen itself.
    HangUp,
}

/// Decides about one attempt.
///
/// `token`: the request carries a `clientToken`. `pause`: the next step of the back-off.
/// `left`: how long the request may still be held. Keys that have ended may be renewed meanwhile.
#[must_use]
pub(crate) fn next(
    seen: Seen,
    repeat: Repeat,
    token: bool,
    pause: Duration,
    left: Duration,
) -> Next {
    let repeatable = repeat == Repeat::Freely || token;
    match seen {
        Seen::Answered(status, wish) => {
            let pause = wish.map_or(pause, |wish| wish.max(pause));
            // A creation that was answered goes back with its answer: the program's own client
            // knows best what to do with it.
            if repeat == Repeat::Freely && is_away(status) && pause < left {
                Next::Again(pause)
            } else {
                Next::PassOn
            }
        }
        // Nothing was done, so a submission is still to be made; with its token it is made once.
        Seen::Throttled(wish) => {
            let pause = wish.map_or(pause, |wish| wish.max(pause));
            if repeatable && pause < left { Next::Again(pause) } else { Next::PassOn }
        }
        Seen::KeysEnded if pause < left => Next::Again(pause),
        Seen::KeysEnded => Next::PassOn,
        Seen::Lost if !repeatable => Next::HangUp,
        Seen::NotSent | Seen::Lost if pause < left => Next::Again(pause),
        Seen::NotSent | Seen::Lost => Next::GiveUp,
    }
}

/// Whether the answer says that the account asks more than its quota.
#[must_use]
pub(crate) fn is_throttled(status: StatusCode, kind: Option<&str>) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || (status.is_client_error()
            && kind.is_some_and(|k| k.contains("Throttl") || k.contains("TooManyRequests")))
}

/// Whether the status says that the service itself could not be asked.
#[must_use]
pub(crate) fn is_away(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);
    const LEFT: Duration = Duration::from_secs(10);

    #[test]
    fn table() {
        use Next::{Again, GiveUp, HangUp, PassOn};
        use Repeat::{Freely, WithToken};
        let answered = |code| Seen::Answered(StatusCode::from_u16(code).unwrap(), None);
        let wait = |code, s| {
            Seen::Answered(StatusCode::from_u16(code).unwrap(), Some(Duration::from_secs(s)))
        };
        let busy = |s| Seen::Throttled(Some(Duration::from_secs(s)));
        for (name, seen, repeat, token, left, expected) in [
            ("good", answered(200), Freely, false, LEFT, PassOn),
            ("throttled", Seen::Throttled(None), Freely, false, LEFT, Again(PAUSE)),
            ("throttled, wishes 3 s", busy(3), Freely, false, LEFT, Again(Duration::from_secs(3))),
            ("throttled, wishes too much", busy(60), Freely, false, LEFT, PassOn),
            ("throttled, no time left", Seen::Throttled(None), Freely, false, PAUSE, PassOn),
            (
                "submission, throttled",
                busy(1),
                WithToken,
                true,
                LEFT,
                Again(Duration::from_secs(1)),
            ),
            ("submission, throttled, no token", busy(1), WithToken, false, LEFT, PassOn),
            ("broken", answered(500), Freely, false, LEFT, PassOn),
            ("away", answered(503), Freely, false, LEFT, Again(PAUSE)),
            ("gateway", answered(502), Freely, false, LEFT, Again(PAUSE)),
            ("away, wishes 3 s", wait(503, 3), Freely, false, LEFT, Again(Duration::from_secs(3))),
            ("away, wishes too much", wait(503, 60), Freely, false, LEFT, PassOn),
            ("away, no time left", answered(504), Freely, false, PAUSE, PassOn),
            ("submission, away", answered(503), WithToken, true, LEFT, PassOn),
            ("keys ended", Seen::KeysEnded, Freely, false, LEFT, Again(PAUSE)),
            ("submission, keys ended", Seen::KeysEnded, WithToken, false, LEFT, Again(PAUSE)),
            ("keys ended for long", Seen::KeysEnded, Freely, false, PAUSE, PassOn),
            ("no connection", Seen::NotSent, Freely, false, LEFT, Again(PAUSE)),
            ("submission, no connection", Seen::NotSent, WithToken, false, LEFT, Again(PAUSE)),
            ("no connection for long", Seen::NotSent, WithToken, true, Duration::ZERO, GiveUp),
            ("lost", Seen::Lost, Freely, false, LEFT, Again(PAUSE)),
            ("submission lost, token", Seen::Lost, WithToken, true, LEFT, Again(PAUSE)),
            ("submission lost, no token", Seen::Lost, WithToken, false, LEFT, HangUp),
            ("submission lost for long", Seen::Lost, WithToken, true, PAUSE, GiveUp),
        ] {
            assert_eq!(next(seen, repeat, token, PAUSE, left), expected, "{name}");
        }
    }

    #[test]
    fn throttling_is_known_by_status_or_by_name() {
        for (status, kind, expected) in [
            (429, None, true),
            (400, Some("ThrottlingException"), true),
            (400, Some("TooManyRequestsException"), true),
            (400, Some("ValidationException"), false),
            (200, Some("ThrottlingException"), false),
            (503, None, false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_throttled(status, kind), expected, "{status} {kind:?}");
        }
    }
}

//! One gang: the answers that its tap keeps, and its follower.

use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::policy::{Follow, ReleasePolicy};
use sluice_shared::role::Role;
use sluice_shared::task::Position;
use sluice_sidecar::follow::decide::decide;
use sluice_sidecar::follow::passing::Submitted;
use sluice_sidecar::follow::plan::next_due;
use sluice_sidecar::follow::state::{GangSeen, Rules, Seen, State, Step};
use sluice_sidecar::follow::timing::Now;
use sluice_sidecar::vendor::{DeviceReading, Failure, FailureKind, Reading};
use sluice_tap::quota::Yielding;
use sluice_tap::{Stretch, interval};
use tokio::time::Instant;

/// What a follower wants done.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    Task,
    Device,
    Release,
}

/// As long as the tap holds a request.
const HOLD: Duration = Duration::from_secs(50);

/// An attempt of the program to submit.
#[derive(Debug, Default)]
struct Attempt {
    number: u32,
    since: Duration,
    tries: u32,
}

type Truth = (&'static str, Option<usize>);

pub(super) struct Gang {
    pub(super) line: usize,
    pub(super) consumers: usize,
    pub(super) polls: bool,
    /// Until when the tap answers the program from memory.
    pub(super) good_until: Duration,
    /// When the policy was met in truth.
    pub(super) met_at: Option<Duration>,
    policy: ReleasePolicy,
    id: String,
    state: Option<State>,
    attempt: Attempt,
    submitted_at: Option<Duration>,
    ordered_at: Option<Duration>,
    running_since: Option<Duration>,
    look_at: Option<Duration>,
    interval: Duration,
    tasks: Yielding,
    devices: Yielding,
    start: Timestamp,
}

impl Gang {
    pub(super) fn new(
        index: usize,
        line: usize,
        policy: ReleasePolicy,
        consumers: usize,
        polls: bool,
        start: Timestamp,
    ) -> Self {
        let rules = Rules {
            role: Role::Producer,
            policy,
            needed: 1,
            follow: Follow::Any,
            backend: None,
            mismatch: sluice_shared::policy::Mismatch::Warn,
            max_cost: None,
            incarnation: "pod".into(),
            gang: format!("ns/g{index}"),
            hints: Vec::new(),
            announce_url: "http://127.0.0.1:8730".into(),
        };
        Self {
            line,
            consumers,
            polls,
            good_until: Duration::ZERO,
            met_at: None,
            policy,
            id: format!("t{index}"),
            state: Some(State::new(rules, start)),
            attempt: Attempt::default(),
            submitted_at: None,
            ordered_at: None,
            running_since: None,
            look_at: None,
            interval: Duration::ZERO,
            tasks: Yielding::default(),
            devices: Yielding::default(),
            start,
        }
    }

    fn device(&self) -> String {
        format!("arn:aws:braket:eu-north-1::device/qpu/x/Line{}", self.line)
    }

    fn reading(&self, (state, place): Truth) -> Reading {
        Reading {
            device: Some(self.device()),
            position: place.map(|place| place.to_string()),
            submitted_at: self.submitted_at.map(|at| self.start + at),
            ..Reading::new(&self.id, state.into())
        }
    }

    pub(super) fn submitted(&mut self, now: Duration) {
        self.submitted_at = Some(now);
        let (at, moment) = (self.start + now, Instant::now());
        let gang = GangSeen { uid: "g".into(), ..GangSeen::default() };
        self.see(Seen::Gang(Some(gang)), at, moment, 0.5);
        let submission = Seen::Submitted(Submitted {
            resource: None,
            id: self.id.clone(),
            device: Some(self.device()),
            digest: None,
            shots: None,
            client_token: None,
        });
        self.see(submission, at, moment, 0.5);
    }

    /// When the tap sends a throttled submission again, or the program after the tap has given up;
    /// `None`: after its third attempt the program ends.
    pub(super) fn submission_throttled(&mut self, now: Duration, luck: f64) -> Option<Duration> {
        let attempt = &mut self.attempt;
        let pause = Duration::from_secs(1 << attempt.tries.min(4)).min(Duration::from_secs(15));
        let pause = pause.mul_f64(1.0 + luck);
        attempt.tries += 1;
        if now + pause < attempt.since + HOLD {
            return Some(pause);
        }
        let number = attempt.number + 1;
        let pause = Duration::from_secs(number.into());
        *attempt = Attempt { number, since: now + pause, tries: 0 };
        (number < 3).then_some(pause)
    }

    pub(super) fn at_front(&mut self, now: Duration) {
        if self.policy == ReleasePolicy::Front {
            self.met_at.get_or_insert(now);
        }
    }

    pub(super) fn runs(&mut self, now: Duration) {
        self.at_front(now);
    }

    pub(super) fn ended(&mut self, now: Duration) {
        self.met_at.get_or_insert(now);
    }

    pub(super) fn ordered(&mut self, now: Duration) {
        assert!(self.met_at.is_some_and(|met| met <= now), "{} was released early", self.id);
        self.ordered_at = Some(now);
    }

    /// How late the order came; of one that is due, how late it is by now.
    pub(super) fn late(&self, now: Duration) -> Option<Duration> {
        Some(self.ordered_at.unwrap_or(now).saturating_sub(self.met_at?))
    }

    pub(super) fn tap_answers(&self, now: Duration) -> bool {
        now < self.good_until
    }

    /// The vendor answered the tap.
    pub(super) fn polled(
        &mut self,
        truth: Truth,
        now: Duration,
        moment: Instant,
        jitter: f64,
    ) -> Reading {
        let waited = now.saturating_sub(self.submitted_at.unwrap());
        let good_for = match truth {
            ("QUEUED", place) => {
                let place = place.and_then(|place| u32::try_from(place).ok());
                let position = place.map_or(Position::Unknown, Position::At);
                interval::until_next(position, waited, jitter)
            }
            ("RUNNING", _) => {
                let since = *self.running_since.get_or_insert(now);
                interval::while_running(now.saturating_sub(since), jitter)
            }
            _ => Duration::ZERO,
        };
        self.interval = good_for;
        self.good_until = now + interval::stretched(good_for, self.tasks.factor(moment));
        self.reading(truth)
    }

    /// The vendor throttled the tap: the last answer stands in, or the program waits.
    pub(super) fn poll_throttled(&mut self, now: Duration, moment: Instant) {
        self.tasks.throttled(None, moment);
        let again = (self.interval / 2).max(interval::SHORTEST);
        self.good_until = now + interval::stretched(again, self.tasks.factor(moment));
    }

    pub(super) fn tell(
        &mut self,
        polled: Option<Reading>,
        at: Timestamp,
        moment: Instant,
        luck: f64,
    ) -> Vec<Wish> {
        let seen = polled.map_or(Seen::Time, |reading| Seen::Polled(reading, at));
        self.see(seen, at, moment, luck)
    }

    /// The follower's own look; `None`: it was throttled.
    pub(super) fn read(
        &mut self,
        truth: Option<Truth>,
        at: Timestamp,
        moment: Instant,
        luck: f64,
    ) -> Vec<Wish> {
        let outcome = truth.map(|truth| self.reading(truth)).ok_or_else(throttled);
        if outcome.is_err() {
            self.tasks.throttled(None, moment);
        }
        self.see(Seen::Read(self.id.clone(), at, outcome), at, moment, luck)
    }

    pub(super) fn device_read(
        &mut self,
        ok: bool,
        at: Timestamp,
        moment: Instant,
        luck: f64,
    ) -> Vec<Wish> {
        let reading = DeviceReading {
            status: "ONLINE".into(),
            priority_queue: Some(0),
            ..DeviceReading::default()
        };
        let outcome = if ok { Ok(reading) } else { Err(throttled()) };
        if outcome.is_err() {
            self.devices.throttled(None, moment);
        }
        self.see(Seen::DeviceRead(self.device().as_str().into(), outcome), at, moment, luck)
    }

    fn see(&mut self, seen: Seen, at: Timestamp, moment: Instant, luck: f64) -> Vec<Wish> {
        let stretch =
            Stretch { tasks: self.tasks.factor(moment), devices: self.devices.factor(moment) };
        let (state, steps) = decide(self.state.take().unwrap(), seen, Now { at, luck, stretch });
        self.state = Some(state);
        let ordered = self.ordered_at.is_some();
        steps
            .into_iter()
            .filter_map(|step| match step {
                Step::Read { .. } => Some(Wish::Task),
                Step::ReadDevice { .. } => Some(Wish::Device),
                Step::Write(status) if status.order.is_some() && !ordered => Some(Wish::Release),
                Step::Write(_) | Step::Say(_) => None,
            })
            .collect()
    }

    /// When to tell the follower that time has passed, if that is news.
    pub(super) fn next_look(&mut self, start: Timestamp, now: Duration) -> Option<Duration> {
        let due = next_due(self.state.as_ref()?)?;
        let due = Duration::try_from(due.duration_since(start)).unwrap_or_default();
        let due = due.max(now + Duration::from_millis(5));
        (self.look_at.replace(due) != Some(due)).then_some(due)
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.look_at == Some(now)
    }
}

fn throttled() -> Failure {
    Failure { kind: FailureKind::Throttled, message: "Rate exceeded".into(), retry_after: None }
}

//! The loop on a paused clock, with a scripted vendor.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::gang::VendorStatus;
use sluice_shared::policy::{Follow, ReleasePolicy};
use sluice_shared::resource::Resource;
use sluice_shared::role::Role;
use sluice_sidecar::follow::state::{GangSeen, Rules, Seen, State};
use sluice_sidecar::follow::watch::{Clock, Watch};
use sluice_sidecar::vendor::{
    Cancelled, DeviceReading, Failure, FailureKind, NotATask, Reading, Vendor,
};
use sluice_tap::{Asks, Quota};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

type Answer = Result<Reading, Failure>;

/// Gives the answers in order, each for a time; the last one for ever.
struct Script {
    answers: Mutex<VecDeque<(Duration, Answer)>>,
    started: Instant,
    calls: Mutex<Vec<Duration>>,
}

impl Script {
    fn of(answers: Vec<(u64, Answer)>) -> Arc<Self> {
        let answers =
            answers.into_iter().map(|(s, answer)| (Duration::from_secs(s), answer)).collect();
        let started = Instant::now();
        Arc::new(Self { answers: Mutex::new(answers), started, calls: Mutex::default() })
    }
}

impl Vendor for Script {
    async fn task(&self, _: Option<&Resource>, _id: &str) -> Answer {
        let now = self.started.elapsed();
        self.calls.lock().unwrap().push(now);
        let mut answers = self.answers.lock().unwrap();
        while answers.len() > 1 && answers[0].0 <= now {
            answers.pop_front();
        }
        answers[0].1.clone()
    }

    async fn device(
        &self,
        _: Option<&Resource>,
        _device: &str,
        _task: &str,
    ) -> Result<DeviceReading, Failure> {
        Ok(DeviceReading {
            status: "ONLINE".into(),
            priority_queue: Some(0),
            ..DeviceReading::default()
        })
    }

    async fn cancel(&self, _: Option<&Resource>, _id: &str) -> Result<Cancelled, Failure> {
        Err(Failure {
            kind: FailureKind::Refused,
            message: "not asked for".into(),
            retry_after: None,
        })
    }

    fn place(&self, _: Option<&str>, _id: &str) -> Result<Option<Resource>, NotATask> {
        Ok(None)
    }
}

struct Loop {
    script: Arc<Script>,
    seen: mpsc::Sender<Seen>,
    wanted: watch::Receiver<Option<VendorStatus>>,
    shown: watch::Receiver<Arc<State>>,
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<Arc<State>>,
}

impl Loop {
    fn start(policy: ReleasePolicy, script: Arc<Script>) -> Self {
        Self::start_in(Arc::default(), policy, script)
    }

    fn start_in(quota: Arc<Quota>, policy: ReleasePolicy, script: Arc<Script>) -> Self {
        let rules = Rules {
            role: Role::Producer,
            policy,
            needed: 1,
            follow: Follow::Any,
            backend: None,
            mismatch: sluice_shared::policy::Mismatch::Warn,
            max_cost: None,
            incarnation: "pod-1".into(),
            gang: "ns/g".into(),
            hints: Vec::new(),
            announce_url: "http://127.0.0.1:8730".into(),
        };
        let (wall, started) = (Timestamp::from_second(1_796_000_000).unwrap(), Instant::now());
        let clock = Clock::of(move || wall + started.elapsed());
        let (seen, received) = mpsc::channel(8);
        let (wanted_by_writer, wanted) = watch::channel(None);
        let shown = watch::Sender::new(Arc::new(State::new(rules, clock.now())));
        let shown_to_us = shown.subscribe();
        let watch = Watch {
            vendor: Arc::clone(&script),
            seen: received,
            wanted: wanted_by_writer,
            shown,
            clock,
            quota,
        };
        let stop = CancellationToken::new();
        let ended = tokio::spawn(watch.run(stop.clone()));
        Self { script, seen, wanted, shown: shown_to_us, stop, ended }
    }

    async fn begin(&self) {
        let gang = GangSeen { uid: "g-1".into(), ..GangSeen::default() };
        self.seen.send(Seen::Gang(Some(gang))).await.unwrap();
        self.seen.send(Seen::Announced { resource: None, id: "t".into() }).await.unwrap();
    }

    /// When the order came, since the start. The clock runs by itself.
    async fn ordered(&mut self) -> Duration {
        let order = |w: &Option<VendorStatus>| w.as_ref().is_some_and(|w| w.order.is_some());
        self.wanted.wait_for(order).await.unwrap();
        self.script.started.elapsed()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of the answers of a script")]
fn mk_reading(state: &str, position: Option<&str>) -> Answer {
    Ok(Reading {
        device: Some("arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet".into()),
        position: position.map(str::to_owned),
        ..Reading::new("t", state.into())
    })
}

fn mk_failure(kind: FailureKind, retry_after: Option<u64>) -> Answer {
    let retry_after = retry_after.map(Duration::from_secs);
    Err(Failure { kind, message: "no".into(), retry_after })
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_through_every_trouble_to_the_front() {
    use FailureKind::{Away, Denied, NotFound, Throttled};
    let script = Script::of(vec![
        (20, mk_failure(NotFound, None)),
        (60, mk_reading("CREATED", None)),
        (660, mk_failure(Throttled, None)),
        (2460, mk_failure(Denied, None)),
        (2600, mk_failure(Away, None)),
        (3600, mk_reading("QUEUED", Some(">2000"))),
        (86_400, mk_reading("QUEUED", Some("40"))),
        (90_000, mk_reading("PONDERING", None)),
        (93_000, mk_reading("QUEUED", Some("2"))),
        (0, mk_reading("QUEUED", Some("1"))),
    ]);
    let mut follower = Loop::start(ReleasePolicy::Front, script);
    follower.begin().await;
    let at = follower.ordered().await;
    assert!(at.as_secs() >= 93_000, "{at:?} is early");
    assert!(at < Duration::from_secs(93_003), "{at:?} is late");
    let calls = follower.script.calls.lock().unwrap().len();
    assert!(calls < 12_000, "{calls} calls in a day");
}

#[tokio::test(start_paused = true)]
async fn eight_days_are_waited_for() {
    let week = 8 * 86_400;
    let script = Script::of(vec![
        (week, mk_reading("QUEUED", Some(">2000"))),
        (0, mk_reading("COMPLETED", None)),
    ]);
    let mut follower = Loop::start(ReleasePolicy::Completed, script);
    follower.begin().await;
    let at = follower.ordered().await.as_secs();
    assert!((week..week + 200).contains(&at), "{at}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed() {
    let script = Script::of(vec![
        (1, mk_failure(FailureKind::Throttled, Some(120))),
        (0, mk_reading("RUNNING", None)),
    ]);
    let mut follower = Loop::start(ReleasePolicy::Running, script);
    follower.begin().await;
    assert!(follower.ordered().await.as_secs() >= 120);
    let calls = follower.script.calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 2, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_tap_is_asked_to_leave_alone_is_left_alone() {
    let quota = Arc::new(Quota::default());
    quota.throttled(Asks::Tasks, Some(Duration::from_secs(90)));
    let script = Script::of(vec![(0, mk_reading("RUNNING", None))]);
    let mut follower = Loop::start_in(Arc::clone(&quota), ReleasePolicy::Running, script);
    follower.begin().await;
    let at = follower.ordered().await;
    assert!((90..100).contains(&at.as_secs()), "{at:?}");
    assert_eq!(follower.script.calls.lock().unwrap().len(), 1);
    // Throttled once, by the tap: its own patience is not taken for another refusal.
    assert!(quota.stretch().tasks < 2.0);
}

#[tokio::test(start_paused = true)]
async fn it_ends_at_once_and_says_what_it_knows() {
    let script = Script::of(vec![(0, mk_reading("QUEUED", Some("14")))]);
    let mut follower = Loop::start(ReleasePolicy::Front, script);
    follower.begin().await;
    follower
        .shown
        .wait_for(|s| s.task("t").is_some_and(|t| t.observed_at.is_some()))
        .await
        .unwrap();
    let told = Instant::now();
    follower.stop.cancel();
    let state = follower.ended.await.unwrap();
    assert_eq!(told.elapsed(), Duration::ZERO);
    assert_eq!(state.task("t").unwrap().reading.position.as_deref(), Some("14"));
}

use std::collections::BTreeSet;
use std::time::Duration;

use sluice_shared::gang::{Consumers, OrderReason, Phase, VendorStatus};
use sluice_shared::policy::{Follow, ReleasePolicy};

use super::*;
use crate::follow::passing::Submitted;
use crate::follow::plan::next_due;
use crate::follow::state::{GangSeen, Rules};
use crate::follow::timing::after;
use crate::vendor::{DeviceReading, Failure, FailureKind, Reading};

pub(in crate::follow) const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
pub(in crate::follow) const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";

pub(in crate::follow) fn mk_rules(role: Role, policy: ReleasePolicy) -> Rules {
    Rules {
        role,
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
    }
}

pub(in crate::follow) fn mk_reading(id: &str, state: &str, position: Option<&str>) -> Reading {
    Reading {
        device: Some(GARNET.into()),
        position: position.map(str::to_owned),
        ..Reading::new(id, state.into())
    }
}

pub(in crate::follow) fn mk_failure(kind: FailureKind) -> Failure {
    Failure { kind, message: "what the vendor says".into(), retry_after: None }
}

pub(in crate::follow) fn mk_gang(vendor: Option<VendorStatus>) -> GangSeen {
    GangSeen { uid: "g-1".into(), vendor, ..GangSeen::default() }
}

pub(in crate::follow) fn submitted(id: &str) -> Seen {
    Seen::Submitted(Submitted {
        resource: None,
        id: id.into(),
        device: Some(GARNET.into()),
        digest: Some("d1".into()),
        shots: None,
        client_token: Some("t1".into()),
    })
}

pub(in crate::follow) fn online() -> DeviceReading {
    DeviceReading { status: "ONLINE".into(), priority_queue: Some(0), ..DeviceReading::default() }
}

/// A follower that is told things, one after the other.
pub(in crate::follow) struct Play {
    pub(in crate::follow) state: State,
    pub(in crate::follow) now: Timestamp,
    pub(in crate::follow) steps: Vec<Step>,
}

impl Play {
    pub(in crate::follow) fn new(rules: Rules) -> Self {
        let now = Timestamp::from_second(1_796_000_000).unwrap();
        Self { state: State::new(rules, now), now, steps: Vec::new() }
    }

    pub(in crate::follow) fn producer(policy: ReleasePolicy) -> Self {
        Self::new(mk_rules(Role::Producer, policy))
    }

    pub(in crate::follow) fn see(&mut self, seen: Seen) -> &mut Self {
        let state = self.state.clone();
        let now = Now { at: self.now, luck: 0.5, stretch: sluice_tap::Stretch::default() };
        let (state, steps) = decide(state, seen, now);
        self.state = state;
        self.steps.extend(steps);
        self
    }

    pub(in crate::follow) fn later(&mut self, seconds: f64) -> &mut Self {
        self.now = after(self.now, Duration::from_secs_f64(seconds));
        self.see(Seen::Time)
    }

    pub(in crate::follow) fn poll(&mut self, reading: Reading) -> &mut Self {
        let at = self.now;
        self.see(Seen::Polled(reading, at))
    }

    fn read(&mut self, reading: Reading) -> &mut Self {
        let at = self.now;
        self.see(Seen::Read(reading.id.clone(), at, Ok(reading)))
    }

    pub(in crate::follow) fn device(&mut self, reading: DeviceReading) -> &mut Self {
        self.see(Seen::DeviceRead(GARNET.into(), Ok(reading)))
    }

    pub(in crate::follow) fn gang(&mut self) -> &mut Self {
        self.see(Seen::Gang(Some(mk_gang(None))))
    }

    pub(in crate::follow) fn lines(&self) -> Vec<&str> {
        self.steps
            .iter()
            .filter_map(|s| match s {
                Step::Say(line) => Some(line.text.as_str()),
                _ => None,
            })
            .collect()
    }

    pub(in crate::follow) fn writes(&self) -> Vec<&VendorStatus> {
        self.steps
            .iter()
            .filter_map(|s| match s {
                Step::Write(status) => Some(&**status),
                _ => None,
            })
            .collect()
    }

    /// Tasks of the orders that were written, without repetition.
    pub(in crate::follow) fn orders(&self) -> Vec<(&str, &str)> {
        let mut orders: Vec<_> = self
            .writes()
            .into_iter()
            .filter_map(|w| w.order.as_ref())
            .map(|o| (o.task_id.as_str(), o.reason.as_str()))
            .collect();
        orders.dedup();
        orders
    }

    fn looks(&self, id: &str) -> usize {
        self.steps.iter().filter(|s| matches!(s, Step::Read { id: read, .. } if read == id)).count()
    }

    fn problem(&self) -> Option<String> {
        report::problem(&self.state, self.now)
    }
}

#[test]
fn each_policy_is_met_by_its_states_and_by_no_other() {
    use ReleasePolicy::{Completed, Front, Running};
    let rows = [
        ("CREATED", None, [None, None, None]),
        ("QUEUED", Some("2"), [None, None, None]),
        ("QUEUED", Some("1"), [Some("front"), None, None]),
        ("QUEUED", Some(">2000"), [None, None, None]),
        ("RUNNING", None, [Some("running"), Some("running"), None]),
        ("COMPLETED", None, [Some("completed"), Some("completed"), Some("completed")]),
        ("FAILED", None, [None, None, None]),
        ("PONDERING", Some("1"), [None, None, None]),
    ];
    for (word, position, expected) in rows {
        for (policy, expected) in [Front, Running, Completed].into_iter().zip(expected) {
            let mut play = Play::producer(policy);
            play.gang().see(submitted("t")).device(online()).poll(mk_reading("t", word, position));
            let expected: Vec<_> = expected.map(|how| ("t", how)).into_iter().collect();
            assert_eq!(play.orders(), expected, "{policy}: {word} {position:?}");
        }
    }
}

#[test]
fn position_one_asks_for_the_device_and_waits_for_it() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t")).poll(mk_reading("t", "QUEUED", Some("1")));
    let look = Step::ReadDevice { device: GARNET.into(), task: "t".into() };
    assert!(play.steps.contains(&look));
    assert_eq!(play.orders(), []);
    play.device(DeviceReading {
        status: "PAUSED".into(),
        priority_queue: Some(0),
        ..DeviceReading::default()
    });
    assert_eq!(play.orders(), []);
    play.device(DeviceReading { priority_queue: Some(2), ..online() });
    assert_eq!(play.orders(), []);
    play.device(online());
    assert_eq!(play.orders(), [("t", "front")]);
    let lines = play.lines().join("\n");
    assert!(lines.contains("position 1, but iqm Garnet is PAUSED"), "{lines}");
    assert!(lines.contains("but 2 priority tasks ahead"), "{lines}");
    assert!(lines.contains("position 1 on iqm Garnet, next to run"), "{lines}");
}

#[test]
fn a_task_of_a_hybrid_job_is_named_so_and_keeps_the_name() {
    let mut play = Play::producer(ReleasePolicy::Front);
    let job = Some("arn:aws:braket:us-west-2:123456789012:job/qaoa-7".to_owned());
    let named = Reading { job: job.clone(), ..mk_reading("t", "QUEUED", Some("9")) };
    play.gang().see(submitted("t")).poll(named).later(1.0);
    // An answer that leaves it out takes nothing back.
    play.poll(mk_reading("t", "QUEUED", Some("8")));
    let lines = play.lines().join("\n");
    assert!(lines.contains("QUEUED position 8 on iqm Garnet of hybrid job qaoa-7"), "{lines}");
    assert_eq!(play.writes().last().unwrap().tasks[0].job, job);
}

#[test]
fn an_old_device_reading_does_not_decide() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t")).poll(mk_reading("t", "QUEUED", Some("50"))).device(online());
    play.later(100.0).poll(mk_reading("t", "QUEUED", Some("1")));
    assert_eq!(play.orders(), []);
    play.device(online());
    assert_eq!(play.orders(), [("t", "front")]);
}

#[test]
fn a_device_that_may_not_be_read_leaves_the_position() {
    for kind in [FailureKind::Denied, FailureKind::NotFound] {
        let mut play = Play::producer(ReleasePolicy::Front);
        play.gang().see(submitted("t")).poll(mk_reading("t", "QUEUED", Some("1")));
        play.see(Seen::DeviceRead(GARNET.into(), Err(mk_failure(kind))));
        assert_eq!(play.orders(), [("t", "front")], "{kind:?}");
        assert!(play.lines().iter().any(|l| l.contains("position 1 alone")));
    }
    for kind in [FailureKind::Away, FailureKind::Throttled] {
        let mut play = Play::producer(ReleasePolicy::Front);
        play.gang().see(submitted("t")).poll(mk_reading("t", "QUEUED", Some("1")));
        play.see(Seen::DeviceRead(GARNET.into(), Err(mk_failure(kind))));
        assert_eq!(play.orders(), [], "{kind:?}");
    }
}

#[test]
fn nothing_is_written_before_the_gang_was_read() {
    let mut play = Play::producer(ReleasePolicy::Running);
    play.see(submitted("t")).poll(mk_reading("t", "RUNNING", None)).later(5.0);
    assert!(play.writes().is_empty());
    play.gang();
    assert_eq!(play.orders(), [("t", "running")]);
}

#[test]
fn a_single_is_followed_and_orders_nothing() {
    let mut play = Play::new(mk_rules(Role::Single, ReleasePolicy::Front));
    play.gang().see(submitted("t")).poll(mk_reading("t", "COMPLETED", None));
    assert_eq!(play.orders(), []);
    assert_eq!(play.writes().last().unwrap().tasks[0].state, "COMPLETED");
}

#[test]
fn a_failed_task_releases_nothing_and_the_next_one_does() {
    let mut play = Play::producer(ReleasePolicy::Running);
    let mut failed = mk_reading("t1", "FAILED", None);
    failed.reason = Some("calibration".into());
    play.gang().see(submitted("t1")).poll(failed);
    assert_eq!(play.orders(), []);
    let lines = play.lines().join("\n");
    assert!(lines.contains("FAILED on iqm Garnet: calibration; nothing is released"), "{lines}");
    play.see(submitted("t2")).poll(mk_reading("t2", "RUNNING", None));
    assert_eq!(play.orders(), [("t2", "running")]);
    let task = &play.writes().last().unwrap().tasks[0];
    assert_eq!(task.reason.as_deref(), Some("calibration"));
}

#[test]
fn an_order_whose_task_fails_is_replaced_by_the_next_tasks() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t1")).device(online());
    play.poll(mk_reading("t1", "QUEUED", Some("1"))).later(1.0);
    play.poll(mk_reading("t1", "CANCELLED", None)).later(1.0);
    assert_eq!(play.orders(), [("t1", "front")]);
    play.see(submitted("t2")).poll(mk_reading("t2", "RUNNING", None));
    assert_eq!(play.orders(), [("t1", "front"), ("t2", "running")]);
}

#[test]
fn going_back_in_the_queue_takes_no_order_back() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t")).device(online());
    for position in ["3", "2", "5", "2", "1", "4", "1"] {
        play.later(1.0).poll(mk_reading("t", "QUEUED", Some(position)));
    }
    assert_eq!(play.orders(), [("t", "front")]);
    assert!(play.writes().last().unwrap().order.is_some());
}

#[test]
fn several_tasks_and_only_those_that_count() {
    let mut rules = mk_rules(Role::Producer, ReleasePolicy::Completed);
    rules.needed = 2;
    rules.follow = Follow::Qpu;
    let mut play = Play::new(rules);
    play.gang();
    let mut on_sv1 = mk_reading("s", "COMPLETED", None);
    on_sv1.device = Some(SV1.into());
    play.poll(on_sv1);
    play.poll(mk_reading("t1", "COMPLETED", None)).poll(mk_reading("t2", "RUNNING", None));
    assert_eq!(play.orders(), []);
    play.later(1.0).poll(mk_reading("t2", "COMPLETED", None));
    assert_eq!(play.orders(), [("t1", "completed")]);
    let counts: Vec<bool> = play.writes().last().unwrap().tasks.iter().map(|t| t.counts).collect();
    assert_eq!(counts, [false, true, true]);
}

#[test]
fn a_task_on_an_unknown_device_does_not_count_where_devices_matter() {
    let mut rules = mk_rules(Role::Producer, ReleasePolicy::Running);
    rules.follow = Follow::Qpu;
    let mut play = Play::new(rules);
    let mut reading = mk_reading("t", "RUNNING", None);
    reading.device = None;
    play.gang().read(reading.clone()).poll(reading);
    assert_eq!(play.orders(), []);
}

#[test]
fn not_found_after_the_submission_is_no_news() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t"));
    let lines = play.lines().len();
    for _ in 0..5 {
        play.later(30.0).see(Seen::Read(
            "t".into(),
            play_now(),
            Err(mk_failure(FailureKind::NotFound)),
        ));
    }
    assert_eq!(play.lines().len(), lines);
    assert_eq!(play.problem(), None);
    play.later(200.0);
    assert!(play.problem().unwrap().contains("does not know task …/t"));
}

/// The time that a failed look was asked for does not matter.
fn play_now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

#[test]
fn refused_credentials_are_a_problem_at_once_and_heal() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(Seen::Announced { resource: None, id: "t".into() });
    play.see(Seen::Read("t".into(), play_now(), Err(mk_failure(FailureKind::NoCredentials))));
    let problem = play.writes().last().unwrap().problem.clone().unwrap();
    assert!(problem.contains("no AWS credentials") && problem.contains("gates stay shut"));
    for _ in 0..50 {
        play.later(90.0);
        play.see(Seen::Read("t".into(), play_now(), Err(mk_failure(FailureKind::Denied))));
    }
    assert!(play.problem().unwrap().contains("refuses the sidecar's credentials"));
    assert!(play.looks("t") > 40, "it is tried on and on");
    assert_eq!(play.orders(), []);
    let told = play.lines().iter().filter(|l| l.contains("could not be read")).count();
    assert_eq!(told, 2, "one line for each kind");
    play.later(90.0).read(mk_reading("t", "RUNNING", None));
    assert_eq!(play.writes().last().unwrap().problem, None);
    assert_eq!(play.orders(), [("t", "running")]);
}

#[test]
fn a_short_silence_of_the_vendor_is_no_problem() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t"));
    play.see(Seen::Read("t".into(), play_now(), Err(mk_failure(FailureKind::Away))));
    play.later(59.0);
    assert_eq!(play.problem(), None);
    play.later(2.0);
    assert!(play.problem().unwrap().contains("has not told about task …/t since"));
}

#[test]
fn words_of_tomorrow_are_told_once_and_waited_on() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t"));
    for _ in 0..20 {
        play.later(30.0).poll(mk_reading("t", "PONDERING", Some("1")));
    }
    assert_eq!(play.lines().iter().filter(|l| l.contains("PONDERING")).count(), 1);
    assert!(next_due(&play.state).is_some());
}

#[test]
fn an_older_look_never_replaces_a_newer_one_and_an_end_is_final() {
    let mut play = Play::producer(ReleasePolicy::Completed);
    play.gang().see(submitted("t"));
    let asked = play.now;
    play.later(3.0).poll(mk_reading("t", "RUNNING", None));
    play.see(Seen::Read("t".into(), asked, Ok(mk_reading("t", "QUEUED", Some("1")))));
    assert_eq!(play.state.tasks[0].reading.state, TaskState::Running);
    play.later(1.0).poll(mk_reading("t", "COMPLETED", None));
    play.later(1.0).poll(mk_reading("t", "RUNNING", None));
    assert_eq!(play.state.tasks[0].reading.state, TaskState::Completed);
}

#[test]
fn a_program_that_polls_spares_our_own_looks() {
    let mut play = Play::producer(ReleasePolicy::Completed);
    play.gang().see(submitted("t")).device(online());
    let start = play.now;
    for round in 0..600 {
        let position = (300 - round / 2).max(1).to_string();
        // The tap lets a poll through whenever its own interval is over.
        let interval = sluice_tap::interval::until_next(
            sluice_shared::task::Position::of(Some(&position)),
            Duration::try_from(play.now.duration_since(start)).unwrap(),
            1.0,
        );
        play.poll(mk_reading("t", "QUEUED", Some(&position)));
        play.later(interval.as_secs_f64() + 0.5);
    }
    assert_eq!(play.looks("t"), 0);
    play.later(30.0);
    assert_eq!(play.looks("t"), 1, "it went silent");
}

#[test]
fn a_program_that_does_not_ask_for_the_place_has_it_looked_up() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t")).device(online());
    play.later(2.0).read(mk_reading("t", "QUEUED", Some("2")));
    for _ in 0..10 {
        play.later(0.5).poll(mk_reading("t", "QUEUED", None));
    }
    assert_eq!(play.state.tasks[0].reading.position.as_deref(), Some("2"));
    assert!(play.looks("t") > 1);
}

#[test]
fn eight_days_in_the_queue_cost_few_looks_and_little_talk() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t"));
    let end = after(play.now, Duration::from_hours(8 * 24));
    let mut looks = 0;
    while play.now < end {
        play.now = next_due(&play.state).unwrap().max(after(play.now, Duration::from_millis(5)));
        play.see(Seen::Time);
        for step in std::mem::take(&mut play.steps) {
            match step {
                Step::Read { .. } => {
                    looks += 1;
                    play.read(mk_reading("t", "QUEUED", Some(">2000")));
                }
                Step::ReadDevice { .. } => {
                    looks += 1;
                    play.device(online());
                }
                Step::Say(_) | Step::Write(_) => {}
            }
        }
    }
    assert!(looks > 1000 && looks < 10_000, "{looks} looks");
    play.read(mk_reading("t", "RUNNING", None));
    assert_eq!(play.orders(), [("t", "running")]);
}

#[test]
fn the_gates_are_reported_open_once_with_the_time_it_took() {
    let mut play = Play::producer(ReleasePolicy::Running);
    play.gang().see(submitted("t")).poll(mk_reading("t", "RUNNING", None));
    let mut gang = mk_gang(play.writes().last().map(|w| (*w).clone()));
    gang.phase = Some(Phase::Releasing);
    gang.consumers = Some(Consumers { expected: 7, gated: 3, released: 4 });
    gang.by = Some(OrderReason::PolicyMet);
    play.later(0.05).see(Seen::Gang(Some(gang.clone())));
    gang.phase = Some(Phase::Released);
    gang.consumers = Some(Consumers { expected: 7, gated: 0, released: 7 });
    play.later(0.034).see(Seen::Gang(Some(gang.clone()))).see(Seen::Gang(Some(gang)));
    let open: Vec<_> = play.lines().into_iter().filter(|l| l.starts_with("gates open")).collect();
    assert_eq!(open, ["gates open: 7/7 in 84 ms"]);
    play.see(submitted("t2"));
    assert!(play.lines().iter().any(|l| l.contains("after the release")));
}

#[test]
fn an_order_without_effect_is_told() {
    let mut play = Play::producer(ReleasePolicy::Running);
    play.gang().see(submitted("t")).poll(mk_reading("t", "RUNNING", None));
    play.later(31.0).later(31.0);
    let told: Vec<_> = play.lines().into_iter().filter(|l| l.contains("still shut")).collect();
    assert_eq!(told.len(), 1);
}

#[test]
fn a_missing_gang_and_a_silent_program_are_told_once() {
    let mut play = Play::producer(ReleasePolicy::Front);
    for _ in 0..30 {
        play.later(60.0);
    }
    let lines = play.lines();
    assert_eq!(lines.iter().filter(|l| l.contains("keeper runs")).count(), 1, "{lines:?}");
    assert_eq!(lines.iter().filter(|l| l.contains("/v1/tasks")).count(), 1, "{lines:?}");
}

#[test]
fn a_gang_made_again_gets_everything_again() {
    let mut play = Play::producer(ReleasePolicy::Running);
    play.gang().see(submitted("t")).poll(mk_reading("t", "RUNNING", None));
    let before = play.writes().len();
    play.see(Seen::Gang(None)).later(5.0);
    assert_eq!(play.writes().len(), before, "there is nothing to write to");
    play.see(Seen::Gang(Some(GangSeen { uid: "g-2".into(), ..GangSeen::default() })));
    assert_eq!(play.writes().len(), before + 1);
    assert_eq!(play.writes().last().unwrap().order.as_ref().unwrap().task_id, "t");
}

#[test]
fn what_people_do_not_see_is_not_written() {
    let mut play = Play::producer(ReleasePolicy::Completed);
    play.gang().see(submitted("t"));
    for _ in 0..10 {
        play.later(5.0).poll(mk_reading("t", "QUEUED", Some("14")));
    }
    let positions = play.writes().iter().filter(|w| w.tasks[0].position.is_some()).count();
    assert_eq!(positions, 1);
}

#[test]
fn the_list_is_bounded_and_folded_tasks_still_count() {
    let mut rules = mk_rules(Role::Producer, ReleasePolicy::Completed);
    rules.needed = 90;
    let mut play = Play::new(rules);
    play.gang();
    for index in 0..100 {
        play.poll(mk_reading(&format!("live-{index}"), "QUEUED", Some("9")));
    }
    for index in 0..89 {
        play.poll(mk_reading(&format!("done-{index}"), "COMPLETED", None));
    }
    assert_eq!(play.orders(), []);
    play.poll(mk_reading("last", "COMPLETED", None));
    assert_eq!(play.orders(), [("done-0", "completed")]);
    let status = play.writes().last().copied().unwrap().clone();
    assert!(status.tasks.len() <= MAX_TASKS);
    assert!(status.folded.unwrap().completed > 80);
    // A late echo of the list brings no folded task back.
    let tasks = play.state.tasks.len();
    let echo = play.writes()[100].clone();
    play.see(Seen::Gang(Some(mk_gang(Some(echo)))));
    assert_eq!(play.state.tasks.len(), tasks);
}

#[test]
fn a_new_worker_takes_over_tasks_and_order() {
    let mut old = Play::producer(ReleasePolicy::Front);
    old.gang().see(submitted("t1")).device(online());
    old.poll(mk_reading("t1", "QUEUED", Some("1")));
    let written = (*old.writes().last().unwrap()).clone();
    let mut new = Play::producer(ReleasePolicy::Front);
    // The tap of the new worker saw a task before the gang was read.
    new.see(submitted("t2"));
    new.see(Seen::Gang(Some(mk_gang(Some(written.clone())))));
    assert_eq!(new.state.order, written.order);
    let status = (*new.writes().last().unwrap()).clone();
    let ids: Vec<_> = status.tasks.iter().map(|t| t.id.as_str()).collect();
    assert_eq!(ids, ["t1", "t2"]);
    assert_eq!(status.tasks[0].digest.as_deref(), Some("d1"));
    assert_eq!(status.tasks[0].incarnation.as_deref(), Some("pod-1/0"));
    assert!(new.looks("t1") == 1, "it is looked at at once");
    new.device(online()).later(1.0).read(mk_reading("t1", "RUNNING", None));
    new.poll(mk_reading("t2", "RUNNING", None));
    assert_eq!(new.orders(), [("t1", "front")]);
}

#[test]
fn the_last_line_names_what_is_still_alive() {
    let mut play = Play::producer(ReleasePolicy::Front);
    assert!(report::farewell(&play.state, &BTreeSet::new()).contains("no task was seen"));
    play.poll(mk_reading("arn:x/834b21ed-1", "QUEUED", Some("14")));
    let line = report::farewell(&play.state, &BTreeSet::new());
    assert!(line.contains("arn:x/834b21ed-1 QUEUED position 14 on iqm Garnet"), "{line}");
}

#[test]
fn throttling_that_comes_and_goes_is_told_once_an_hour() {
    let mut play = Play::producer(ReleasePolicy::Completed);
    play.gang().see(submitted("t"));
    for _ in 0..130 {
        let at = play.now;
        let throttled = Err(mk_failure(FailureKind::Throttled));
        play.later(30.0).see(Seen::Read("t".into(), at, throttled));
        play.later(30.0).read(mk_reading("t", "QUEUED", Some("40")));
    }
    let told = play.lines().iter().filter(|line| line.contains("throttles")).count();
    assert_eq!(told, 3, "{:?}", play.lines());
}

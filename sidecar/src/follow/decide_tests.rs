//! What orders a release, and what does not.

use sluice_shared::policy::{Follow, ReleasePolicy};
use sluice_shared::role::Role;

use super::play::{GARNET, Play, SV1, mk_failure, mk_reading, mk_rules, online, submitted};
use crate::follow::state::{Seen, Step};
use crate::vendor::{DeviceReading, FailureKind, Reading};

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

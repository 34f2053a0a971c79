//! The gang: what is written into it, what is read from it, and what people are told.

use std::collections::BTreeSet;

use sluice_shared::gang::{Consumers, MAX_TASKS, OrderReason, Phase};
use sluice_shared::policy::ReleasePolicy;
use sluice_shared::role::Role;

use super::play::{Play, mk_gang, mk_reading, mk_rules, online, submitted};
use crate::follow::report;
use crate::follow::state::{GangSeen, Seen};

#[test]
fn nothing_is_written_before_the_gang_was_read() {
    let mut play = Play::producer(ReleasePolicy::Running);
    play.see(submitted("t")).poll(mk_reading("t", "RUNNING", None)).later(5.0);
    assert!(play.writes().is_empty());
    play.gang();
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

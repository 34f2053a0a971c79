//! Policies with a place, the program's own word, several tasks, and which of them count.

use sluice_shared::policy::{Follow, ReleasePolicy};
use sluice_shared::role::Role;

use super::play::{GARNET, Play, SV1, mk_gang, mk_reading, mk_rules, online, submitted};
use super::*;
use crate::follow::manual::{Answer, answer};
use crate::follow::plan::next_due;
use crate::vendor::DeviceReading;

fn mk_policy(text: &str) -> ReleasePolicy {
    text.parse().unwrap()
}

fn ask(play: &mut Play, id: &str) {
    play.see(Seen::ReleaseAsked { id: id.into() });
}

#[test]
fn a_place_orders_when_it_is_reached_and_not_before() {
    let mut play = Play::producer(mk_policy("position<=5"));
    play.gang().see(submitted("t")).device(online());
    for position in [Some("9"), Some("6"), Some(">2000"), Some("None"), None] {
        play.later(1.0).poll(mk_reading("t", "QUEUED", position));
    }
    assert_eq!(play.orders(), []);
    play.later(1.0).poll(mk_reading("t", "QUEUED", Some("4")));
    assert_eq!(play.orders(), [("t", "position 4")]);
    let lines = play.lines().join("\n");
    assert!(lines.contains("position 4; the policy is position<=5"), "{lines}");
}

#[test]
fn later_states_satisfy_a_place_and_failures_do_not() {
    let rows = [
        ("RUNNING", Some("running")),
        ("COMPLETED", Some("completed")),
        ("FAILED", None),
        ("CANCELLED", None),
        ("PONDERING", None),
    ];
    for (word, how) in rows {
        let mut play = Play::producer(mk_policy("position<=5"));
        play.gang().see(submitted("t")).device(online()).poll(mk_reading("t", word, Some("1")));
        let expected: Vec<_> = how.map(|how| ("t", how)).into_iter().collect();
        assert_eq!(play.orders(), expected, "{word}");
    }
}

#[test]
fn a_place_is_not_believed_while_the_device_does_not_run_tasks() {
    let mut play = Play::producer(mk_policy("position<=5"));
    play.gang().see(submitted("t")).poll(mk_reading("t", "QUEUED", Some("3")));
    assert_eq!(play.orders(), [], "the device is not read yet");
    play.device(DeviceReading {
        status: "OFFLINE".into(),
        priority_queue: Some(0),
        ..DeviceReading::default()
    });
    play.device(DeviceReading { priority_queue: Some(4), ..online() });
    assert_eq!(play.orders(), []);
    let lines = play.lines().join("\n");
    assert!(lines.contains("position 3, but iqm Garnet is OFFLINE"), "{lines}");
    assert!(lines.contains("position 3 on iqm Garnet, but 4 priority tasks ahead"), "{lines}");
    play.device(DeviceReading { priority_queue: Some(2), ..online() });
    assert_eq!(play.orders(), [("t", "position 5")]);
}

#[test]
fn near_its_place_a_task_and_its_device_are_looked_at_as_if_near_the_front() {
    let due = |policy: &str, position: &str| {
        let mut play = Play::producer(mk_policy(policy));
        // Far from any news, so that the place alone decides on the next look.
        play.gang().see(submitted("t")).later(100_000.0);
        play.device(online()).poll(mk_reading("t", "QUEUED", Some(position)));
        play.steps.clear();
        let next = next_due(&play.state).unwrap();
        let device = play.state.devices[&GARNET.into()].reading.is_some();
        assert!(device, "the device is known");
        elapsed(play.now, next).as_millis()
    };
    assert_eq!(due("position<=100", "101"), due("front", "2"));
    assert_eq!(due("position<=100", "400"), due("front", "301"));
    assert!(due("front", "101") > 2 * due("front", "2"));
}

#[test]
fn only_the_programs_word_opens_under_manual() {
    let mut play = Play::producer(ReleasePolicy::Manual);
    play.gang().see(submitted("t1")).device(online());
    play.poll(mk_reading("t1", "QUEUED", Some("1"))).later(1.0);
    play.poll(mk_reading("t1", "RUNNING", None)).later(1.0);
    play.poll(mk_reading("t1", "COMPLETED", None));
    play.see(submitted("t2")).later(3600.0);
    assert_eq!(play.orders(), []);
    ask(&mut play, "t2");
    assert_eq!(play.orders(), [("t2", "manual")]);
    // Asked for again, nothing changes.
    ask(&mut play, "t1");
    assert_eq!(play.orders(), [("t2", "manual")]);
    let lines = play.lines().join("\n");
    assert!(lines.contains("the program asked; the policy is manual"), "{lines}");
}

#[test]
fn a_word_before_the_gang_is_kept_and_one_for_a_failed_task_is_not_taken_twice() {
    let mut play = Play::producer(ReleasePolicy::Manual);
    play.see(submitted("t1"));
    ask(&mut play, "t1");
    assert_eq!(play.orders(), []);
    play.gang();
    assert_eq!(play.orders(), [("t1", "manual")]);
    play.later(1.0).poll(mk_reading("t1", "FAILED", None)).see(submitted("t2")).later(60.0);
    assert!(!play.state.order_stands());
    assert_eq!(play.orders(), [("t1", "manual")], "the program has to ask anew");
    ask(&mut play, "t2");
    assert_eq!(play.orders(), [("t1", "manual"), ("t2", "manual")]);
}

#[test]
fn a_word_under_another_policy_opens_nothing() {
    let mut play = Play::producer(ReleasePolicy::Completed);
    play.gang().see(submitted("t"));
    ask(&mut play, "t");
    play.later(60.0);
    assert_eq!(play.orders(), []);
}

#[test]
fn an_order_is_kept_when_the_gang_holds_it() {
    let mut play = Play::producer(ReleasePolicy::Manual);
    play.gang().see(submitted("t"));
    ask(&mut play, "t");
    assert_eq!(play.state.order_kept(), None);
    let written = play.writes().last().map(|w| (*w).clone());
    play.see(Seen::Gang(Some(mk_gang(written))));
    assert_eq!(play.state.order_kept(), Some("t"));
}

#[test]
fn the_table_of_answers() {
    let told = |policy: &str, follow: Follow, tasks: &[(&str, &str, &str)]| {
        let mut rules = mk_rules(Role::Producer, mk_policy(policy));
        rules.follow = follow;
        let mut play = Play::new(rules);
        play.gang();
        for (id, device, state) in tasks {
            let mut reading = mk_reading(id, state, None);
            reading.device = Some((*device).into());
            play.poll(reading);
        }
        play.state
    };
    let any = |tasks: &[_]| told("manual", Follow::Any, tasks);
    let take = |id: &str| Answer::Take(id.into());
    assert_eq!(answer(&any(&[("a", GARNET, "QUEUED")]), None), take("a"));
    let two = any(&[("a", GARNET, "FAILED"), ("b", GARNET, "QUEUED"), ("c", GARNET, "RUNNING")]);
    assert_eq!(answer(&two, None), take("b"));
    assert_eq!(answer(&two, Some("c")), take("c"));
    let qpu = told("manual", Follow::Qpu, &[("s", SV1, "COMPLETED"), ("q", GARNET, "CREATED")]);
    assert_eq!(answer(&qpu, None), take("q"));
    let refusals = [
        (answer(&two, Some("a")), "FAILED"),
        (answer(&qpu, Some("s")), "does not count"),
        (answer(&told("front", Follow::Any, &[("a", GARNET, "QUEUED")]), None), "policy front"),
    ];
    for (answer, text) in refusals {
        assert!(matches!(&answer, Answer::Refuse(m) if m.contains(text)), "{answer:?}");
    }
    let single = Play::new(mk_rules(Role::Single, ReleasePolicy::Manual)).state;
    assert!(matches!(answer(&single, None), Answer::Refuse(_)));
    for unknown in [answer(&any(&[]), None), answer(&two, Some("z"))] {
        assert!(matches!(unknown, Answer::Unknown(_)), "{unknown:?}");
    }
    // An order that stands is an answer under every policy.
    let open = told("front", Follow::Any, &[("a", GARNET, "RUNNING")]);
    assert_eq!(answer(&open, Some("z")), Answer::Already("a".into()));
}

/// The SDK sends a batch ten at a time: the next is submitted when one has its result.
#[test]
fn a_batch_of_25_in_waves_of_ten_is_met_at_its_last_task() {
    for (policy, last_but_one, met_at) in
        [("front", "24 completed, the last waits", 25), ("completed", "24 completed", 26)]
    {
        let mut rules = mk_rules(Role::Producer, mk_policy(policy));
        rules.needed = 25;
        let mut play = Play::new(rules);
        play.gang().device(online());
        let mut done_when_ordered = None;
        for done in 0..=25_usize {
            // What is done makes room for the next submissions.
            for next in play.state.tasks.len()..25.min(done + 10) {
                play.see(submitted(&format!("t{next:02}")));
            }
            play.device(online());
            if done > 0 {
                play.later(1.0).poll(mk_reading(&format!("t{:02}", done - 1), "COMPLETED", None));
            }
            if done == 24 {
                assert_eq!(play.orders(), [], "{last_but_one}");
            }
            let first = format!("t{done:02}");
            if done < 25 {
                play.poll(mk_reading(&first, "QUEUED", Some("1")));
            }
            if done_when_ordered.is_none() && !play.orders().is_empty() {
                done_when_ordered = Some(done + 1);
            }
        }
        assert_eq!(done_when_ordered, Some(met_at), "{policy}");
        assert_eq!(play.orders().first().map(|(id, _)| *id), Some("t00"), "the first of the batch");
    }
}

#[test]
fn a_sanity_run_on_a_simulator_releases_only_where_every_device_counts() {
    let rows = [
        (Follow::Any, None, true),
        (Follow::Qpu, None, false),
        (Follow::Device, Some("Garnet"), false),
        (Follow::Device, Some(GARNET), false),
        (Follow::Device, None, true),
    ];
    for (follow, backend, by_simulator) in rows {
        let mut rules = mk_rules(Role::Producer, ReleasePolicy::Front);
        rules.follow = follow;
        rules.backend = backend.map(str::to_owned);
        let mut play = Play::new(rules);
        let mut sanity = mk_reading("s", "COMPLETED", None);
        sanity.device = Some(SV1.into());
        play.gang().poll(sanity);
        assert_eq!(!play.orders().is_empty(), by_simulator, "{follow:?} {backend:?}");
        play.later(1.0).see(submitted("q")).device(online());
        play.poll(mk_reading("q", "QUEUED", Some("1")));
        let expected = if by_simulator { ("s", "completed") } else { ("q", "front") };
        assert_eq!(play.orders(), [expected], "{follow:?} {backend:?}");
    }
}

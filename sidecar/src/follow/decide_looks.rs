//! Looks at the vendor: when they are made, what fails, what they are worth.

use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::policy::ReleasePolicy;
use sluice_shared::task::TaskState;

use super::play::{Play, mk_failure, mk_reading, online, submitted};
use crate::follow::plan::next_due;
use crate::follow::state::{Seen, Step};
use crate::follow::timing::after;
use crate::vendor::FailureKind;

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

//! Credentials that end while a task waits.

use sluice_shared::policy::ReleasePolicy;

use super::play::{GARNET, Play, mk_failure, mk_reading, submitted};
use super::*;
use crate::vendor::FailureKind;

fn look(play: &mut Play, kind: FailureKind) {
    let at = play.now;
    play.see(Seen::Read("t".into(), at, Err(mk_failure(kind))));
}

#[test]
fn keys_that_ended_are_told_keep_the_gates_shut_and_are_forgotten_once_renewed() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(submitted("t")).poll(mk_reading("t", "QUEUED", Some("2")));
    play.see(Seen::TapProblem(Some("requests are held".into())));
    look(&mut play, FailureKind::Expired);
    let problem = play.writes().last().unwrap().problem.clone().unwrap();
    for part in ["credentials have ended", "gates stay shut", "what the vendor says"] {
        assert!(problem.contains(part), "{problem}");
    }
    for _ in 0..200 {
        play.later(30.0);
        look(&mut play, FailureKind::Expired);
    }
    assert_eq!(play.orders(), []);
    let told = play.lines().iter().filter(|l| l.contains("could not be read")).count();
    assert_eq!(told, 1, "once in all that time");

    let at = play.later(30.0).now;
    play.see(Seen::Read("t".into(), at, Ok(mk_reading("t", "RUNNING", None))));
    assert_eq!(play.writes().last().unwrap().problem, None, "that of the tap is over too");
    assert!(play.lines().iter().any(|l| l.contains("hold again") && l.contains("100 min")));
    assert_eq!(play.orders(), [("t", "running")]);
}

#[test]
fn a_device_that_cannot_be_read_for_lack_of_keys_decides_nothing() {
    for kind in [FailureKind::Expired, FailureKind::NoCredentials] {
        let mut play = Play::producer(ReleasePolicy::Front);
        play.gang().see(submitted("t")).poll(mk_reading("t", "QUEUED", Some("1")));
        play.see(Seen::DeviceRead(GARNET.into(), Err(mk_failure(kind))));
        assert_eq!(play.orders(), [], "{kind:?}: position 1 alone does not count");
    }
}

#[test]
fn what_may_keep_a_silent_program_from_the_tap_is_said_again() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.state.rules.hints = vec!["the profile asks for FIPS hosts".into()];
    play.gang().later(599.0);
    assert!(play.lines().iter().all(|l| !l.contains("FIPS")));
    play.later(2.0).later(600.0);
    let told = play.lines().iter().filter(|l| l.contains("FIPS")).count();
    assert_eq!(told, 1, "{:?}", play.lines());
}

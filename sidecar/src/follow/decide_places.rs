//! Tasks at resources of QRMI: what is judged and said where a vendor tells less than Braket.

use sluice_shared::policy::ReleasePolicy;
use sluice_shared::resource::Resource;
use sluice_shared::role::Role;

use super::play::{Play, mk_failure, mk_gang, mk_reading, mk_rules};
use crate::follow::passing::{Submitted, Waiting};
use crate::follow::state::{DeviceId, Seen, Step};
use crate::vendor::{DeviceReading, FailureKind, Reading};

const IBM: &str = "ibm-quantum-compute-service/ibm_fez";
const GARNET: &str = "iqm-server/garnet";

fn at(text: &str) -> Resource {
    text.parse().unwrap()
}

fn reading(resource: &str, state: &str, position: Option<&str>) -> Reading {
    let resource = at(resource);
    Reading {
        device: Some(resource.name.clone()),
        resource: Some(resource),
        ..mk_reading("t", state, position)
    }
}

fn device(resource: &str, status: &str, queue: Option<&str>) -> Seen {
    let resource = at(resource);
    let id = DeviceId { name: resource.name.clone(), resource: Some(resource) };
    let queue = queue.map(str::to_owned);
    let reading = DeviceReading { status: status.into(), queue, ..DeviceReading::default() };
    Seen::DeviceRead(id, Ok(reading))
}

#[test]
fn the_length_of_the_queue_is_a_hint_where_no_place_is_told() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().poll(reading(IBM, "QUEUED", None));
    play.see(device(IBM, "ONLINE", Some("4")));
    let said = "task …/t QUEUED on ibm_fez, no position told, in its queue: 4";
    assert_eq!(play.lines().last(), Some(&said));
    assert_eq!(play.orders(), [], "a short queue is no front");
    play.later(1.0).poll(reading(IBM, "RUNNING", None));
    assert_eq!(play.orders(), [("t", "running")]);
}

#[test]
fn what_stands_for_a_place_that_is_not_told() {
    for (place, said) in [
        ("pasqal-cloud/FRESNEL", "QUEUED on FRESNEL, neither a position nor the queue is told"),
        ("alice-bob-felis/emu", "QUEUED on emu, neither a position nor the queue is told"),
        // These are looked up.
        (IBM, "QUEUED on ibm_fez"),
        (GARNET, "QUEUED on garnet"),
    ] {
        let mut play = Play::producer(ReleasePolicy::Front);
        play.gang().poll(reading(place, "QUEUED", None));
        assert_eq!(play.lines().last(), Some(&&*format!("task …/t {said}")));
    }
}

#[test]
fn a_run_that_does_not_prove_the_qpu_is_called_so_when_it_opens_the_gates() {
    for (place, why) in [
        (IBM, "running, though the QPU may come to it later; the policy is front"),
        (GARNET, "running; the policy is front"),
    ] {
        let mut play = Play::producer(ReleasePolicy::Front);
        play.gang().poll(reading(place, "RUNNING", None));
        let said = format!("release ordered for task …/t: {why}");
        assert!(play.lines().contains(&&*said), "{:?}", play.lines());
        assert_eq!(play.orders(), [("t", "running")]);
    }
}

#[test]
fn a_policy_with_a_place_is_met_by_the_run_where_no_place_is_told() {
    let mut play = Play::producer("position<=5".parse().unwrap());
    play.gang().poll(reading(IBM, "QUEUED", None)).later(3600.0);
    assert_eq!(play.orders(), []);
    let told = play.lines().iter().filter(|l| l.contains("tells no position")).count();
    assert_eq!(told, 1);
    play.poll(reading(IBM, "RUNNING", None));
    assert_eq!(play.orders(), [("t", "running")]);
}

#[test]
fn a_device_that_may_not_be_read_is_worth_a_word_only_where_it_decides() {
    for (place, position, lines) in [(IBM, None, 0), (GARNET, Some("1"), 1)] {
        let mut play = Play::producer(ReleasePolicy::Front);
        play.gang().poll(reading(place, "QUEUED", position));
        let id = DeviceId { name: at(place).name, resource: Some(at(place)) };
        play.see(Seen::DeviceRead(id, Err(mk_failure(FailureKind::Denied))));
        let told = play.lines().iter().filter(|l| l.contains("cannot be read")).count();
        assert_eq!(told, lines, "{place}: {:?}", play.lines());
    }
}

#[test]
fn two_resources_may_call_their_devices_by_one_name() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().poll(reading(GARNET, "QUEUED", Some("1")));
    play.see(device("pasqal-cloud/garnet", "ONLINE", None));
    assert_eq!(play.orders(), [], "the other machine works");
    play.see(device(GARNET, "not healthy", None));
    assert_eq!(play.lines().last(), Some(&"task …/t QUEUED position 1, but garnet is not healthy"));
    play.see(device(GARNET, "ONLINE", None));
    assert_eq!(play.orders(), [("t", "front")]);
}

#[test]
fn looks_go_to_the_resource_that_has_the_task_also_in_the_next_worker() {
    let mut play = Play::producer(ReleasePolicy::Front);
    let garnet = at(GARNET);
    play.gang().see(Seen::Announced { id: "t".into(), resource: Some(garnet.clone()) });
    let read = Step::Read { id: "t".into(), resource: Some(garnet.clone()) };
    assert!(play.steps.contains(&read), "{:?}", play.steps);
    let status = play.writes().last().copied().cloned().unwrap();
    assert_eq!(status.tasks[0].resource, Some(garnet));
    let mut next = Play::new(mk_rules(Role::Producer, ReleasePolicy::Front));
    next.see(Seen::Gang(Some(mk_gang(Some(status)))));
    assert!(next.steps.contains(&read), "{:?}", next.steps);
}

#[test]
fn failures_at_a_resource_do_not_speak_of_aws() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(Seen::Announced { id: "t".into(), resource: Some(at(GARNET)) });
    let now = play.now;
    play.see(Seen::Read("t".into(), now, Err(mk_failure(FailureKind::Denied))));
    let problem = play.writes().last().unwrap().problem.clone().unwrap();
    assert!(problem.contains("iqm-server/garnet refuses the credentials"), "{problem}");
    assert!(!problem.contains("AWS") && !problem.contains("braket"), "{problem}");
}

const SYSTEM: &str = "ibm-quantum-system/fake_lagos";

/// IBM Quantum System does not take it yet.
fn at_the_door() -> Seen {
    Seen::Waits(Waiting {
        id: "t".into(),
        device: Some("fake_lagos".into()),
        reason: "all lanes are busy".into(),
        resource: Some(at(SYSTEM)),
    })
}

/// It takes it.
fn taken() -> Seen {
    Seen::Submitted(Submitted {
        id: "t".into(),
        device: Some("fake_lagos".into()),
        shots: None,
        digest: Some("d".into()),
        client_token: None,
        resource: Some(at(SYSTEM)),
    })
}

#[test]
fn a_task_at_the_door_waits_and_runs_when_it_is_taken() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang();
    for _ in 0..3 {
        play.later(60.0).see(at_the_door());
    }
    assert_eq!(play.orders(), []);
    let reads = play.steps.iter().filter(|step| matches!(step, Step::Read { .. })).count();
    assert_eq!(reads, 0, "the vendor does not know it yet");
    let told = play.lines().iter().filter(|l| l.contains("all lanes are busy")).count();
    assert_eq!(told, 1, "{:?}", play.lines());
    play.see(taken());
    assert_eq!(play.orders(), [("t", "running")]);
}

#[test]
fn lanes_that_are_busy_for_an_hour_are_waited_for_in_few_words() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang();
    // The client tries again after some seconds, now shorter, now longer; once it is gone for ten
    // minutes, as long as a network may be.
    let mut left: u32 = 3_600;
    for pause in (1..).map(|n: u32| if n == 50 { 600 } else { 1 + n * 7 % 60 }) {
        if pause > left {
            break;
        }
        left -= pause;
        play.later(pause.into()).see(at_the_door());
    }
    assert_eq!(play.orders(), []);
    let lines = play.lines().len();
    assert!((1..=20).contains(&lines), "{:#?}", play.lines());
    play.see(taken());
    assert_eq!(play.orders(), [("t", "running")]);
}

#[test]
fn what_an_earlier_worker_read_orders_nothing_before_it_is_seen_again() {
    let mut rules = mk_rules(Role::Producer, ReleasePolicy::Running);
    rules.needed = 2;
    let mut old = Play::new(rules.clone());
    old.gang().poll(reading(IBM, "RUNNING", None));
    let status = old.writes().last().copied().cloned().unwrap();
    let mut new = Play::new(rules);
    new.see(Seen::Gang(Some(mk_gang(Some(status)))));
    let other = Reading { id: "other".into(), ..reading(IBM, "RUNNING", None) };
    new.later(1.0).poll(other.clone());
    assert_eq!(new.orders(), [], "the first one may have failed since");
    new.later(1.0).poll(reading(IBM, "RUNNING", None));
    assert_eq!(new.orders(), [("t", "running")]);
}

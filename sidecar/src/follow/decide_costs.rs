//! What tasks cost, as it is told and written.

use sluice_shared::policy::{Mismatch, ReleasePolicy};
use sluice_shared::price::Usd;

use super::play::{GARNET, Play, SV1, mk_gang, mk_reading, mk_rules};
use super::*;
use crate::follow::passing::Submitted;

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn sent(id: &str, device: &str, shots: u64) -> Seen {
    Seen::Submitted(Submitted {
        resource: None,
        id: id.into(),
        device: Some(device.into()),
        shots: Some(shots),
        digest: None,
        client_token: None,
    })
}

fn status(play: &Play) -> sluice_shared::gang::VendorStatus {
    report::vendor_status(&play.state, play.now)
}

#[test]
fn prices_add_up_and_tasks_without_a_result_cost_nothing() {
    let mut play = Play::producer(ReleasePolicy::Front);
    assert_eq!(status(&play).cost, None);
    play.gang().see(sent("a", GARNET, 1000)).see(sent("b", GARNET, 100));
    let cost = status(&play).cost.unwrap();
    assert_eq!((cost.total, cost.metered, cost.unpriced), (usd("2.195"), 0, 0));
    play.later(1.0).poll(mk_reading("a", "FAILED", None));
    assert_eq!(status(&play).cost.unwrap().total, usd("0.445"));
    assert_eq!(status(&play).tasks[0].cost, Some(usd("0")));
    // Charged by the minute, or by a price that nobody has written down: listed, not guessed.
    play.see(sent("c", SV1, 10)).see(sent("d", "arn:aws:braket:us-east-1::device/qpu/new/One", 10));
    let cost = status(&play).cost.unwrap();
    assert_eq!((cost.total, cost.metered, cost.unpriced), (usd("0.445"), 1, 1));
    let lines = play.lines().join("\n");
    assert!(lines.contains("1000 shots, 1.75 USD by list price; 1.75 USD so far"), "{lines}");
    assert!(lines.contains("no list price of new One is known"), "{lines}");
}

#[test]
fn the_price_is_told_once_and_survives_a_restart_of_the_sidecar() {
    let mut play = Play::producer(ReleasePolicy::Front);
    play.gang().see(sent("a", GARNET, 1000)).see(sent("a", GARNET, 1000));
    let told = |play: &Play| play.lines().iter().filter(|l| l.contains("USD")).count();
    assert_eq!(told(&play), 1);
    let written = status(&play);
    let mut next = Play::producer(ReleasePolicy::Front);
    next.see(Seen::Gang(Some(mk_gang(Some(written.clone())))));
    assert_eq!(status(&next).cost, written.cost);
    assert_eq!(told(&next), 0);
}

#[test]
fn tasks_that_leave_the_list_stay_in_the_sum() {
    let mut play = Play::producer(ReleasePolicy::Manual);
    play.gang();
    for n in 0..150 {
        let id = format!("t{n}");
        play.see(sent(&id, GARNET, 100)).later(1.0).poll(mk_reading(&id, "COMPLETED", None));
    }
    let status = status(&play);
    assert!(status.tasks.len() < 150);
    assert_eq!(status.cost.unwrap().total, usd("0.445").times(150));
}

#[test]
fn another_qpu_than_the_backend_is_told_and_a_sanity_run_is_not() {
    let mut rules = mk_rules(Role::Producer, ReleasePolicy::Front);
    rules.backend = Some("emerald".into());
    let mut play = Play::new(rules);
    play.gang().see(sent("a", SV1, 10));
    assert!(!play.lines().join("\n").contains("backend"));
    play.see(sent("b", GARNET, 10));
    let lines = play.lines().join("\n");
    assert!(lines.contains("is on iqm Garnet, but the chosen backend is emerald"), "{lines}");
    assert!(!Mismatch::is_elsewhere(GARNET, "garnet"));
}

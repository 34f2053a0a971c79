//! The end of a worker while a task is live: the gang's fate says what becomes of the task.

use std::time::Duration;

use aws_credential_types::Credentials;
use serde_json::json;
use sluice_shared::role::Role;
use sluice_shared::stamp::Stamp;
use sluice_sidecar::ending::PATIENCE;
use sluice_sidecar::ending::act::LONGEST;
use sluice_vendors::{Action, Fault, Running, Stage};
use tokio::time::Instant;

use crate::await_some;
use crate::cluster::{Cluster, Kind};
use crate::worker::{GARNET, Polling, Sidecar, emulator, submit};

fn start(vendor: &Running, cluster: &Cluster, stamp: &Stamp) -> Sidecar {
    let keys = Credentials::new("AKIDEXAMPLE", "secret", None, None, "sidecar");
    Sidecar::that_may_cancel(vendor, cluster, Role::Producer, stamp, keys)
}

/// A sidecar with one task in the vendor's queue and in the gang.
async fn with_task(stamp: &Stamp) -> (Running, Cluster, Sidecar, String) {
    let (vendor, cluster) = (emulator(5).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let sidecar = start(&vendor, &cluster, stamp);
    let id = submit(&sidecar.tap_url(), GARNET).await;
    await_some("the task in the gang", async || cluster.vendor()?.tasks.first().cloned()).await;
    (vendor, cluster, sidecar, id)
}

fn stamp() -> Stamp {
    Stamp { size: 8, ..Stamp::default() }
}

fn cancels(vendor: &Running) -> usize {
    vendor.journal().iter().filter(|e| e.operation == "CancelQuantumTask").count()
}

async fn await_gone(sidecar: &mut Sidecar) {
    sidecar.shown.wait_for(|s| s.gang.is_none()).await.unwrap();
}

#[tokio::test]
async fn a_gang_that_goes_with_the_pod_has_its_task_cancelled() {
    let (vendor, cluster, sidecar, id) = with_task(&stamp()).await;
    // The pod is told first, the gang goes a moment later.
    let going = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.delete_gang();
    };
    tokio::join!(sidecar.end_within(LONGEST), going);
    let state = vendor.task(&id).unwrap().state;
    assert!(state.starts_with("CANCELL"), "{state}");
}

#[tokio::test]
async fn a_gang_that_went_while_the_program_took_its_time_cancels_at_once() {
    let (vendor, cluster, mut sidecar, id) = with_task(&stamp()).await;
    cluster.delete_gang();
    await_gone(&mut sidecar).await;
    sidecar.shown.wait_for(|s| format!("{:?}", s.fate).contains("Some(true)")).await.unwrap();
    // The kubelet gives a sidecar two seconds when the program has used up the pod's.
    sidecar.end().await;
    let state = vendor.task(&id).unwrap().state;
    assert!(state.starts_with("CANCELL"), "{state}");
}

#[tokio::test]
async fn a_gang_that_stays_keeps_its_task() {
    let (vendor, _cluster, sidecar, id) = with_task(&stamp()).await;
    let told = Instant::now();
    sidecar.end_within(LONGEST).await;
    assert!(told.elapsed() >= PATIENCE);
    assert_eq!((vendor.task(&id).unwrap().state.as_str(), cancels(&vendor)), ("QUEUED", 0));
}

#[tokio::test]
async fn an_uninstall_cancels_nothing() {
    for kind in [Kind::Going, Kind::Gone] {
        let (vendor, cluster, mut sidecar, id) = with_task(&stamp()).await;
        cluster.delete_type(kind);
        await_gone(&mut sidecar).await;
        sidecar.end_within(LONGEST).await;
        assert_eq!((vendor.task(&id).unwrap().state.as_str(), cancels(&vendor)), ("QUEUED", 0));
    }
}

#[tokio::test]
async fn a_silent_api_server_cancels_nothing() {
    let (vendor, cluster, mut sidecar, id) = with_task(&stamp()).await;
    cluster.refuse("types", 100, 403, "no discovery");
    cluster.delete_gang();
    await_gone(&mut sidecar).await;
    sidecar.end_within(LONGEST).await;
    assert_eq!((vendor.task(&id).unwrap().state.as_str(), cancels(&vendor)), ("QUEUED", 0));
}

#[tokio::test]
async fn a_gang_that_is_made_again_keeps_its_task() {
    let (vendor, cluster, mut sidecar, id) = with_task(&stamp()).await;
    cluster.delete_gang();
    await_gone(&mut sidecar).await;
    cluster.create_gang("g-2");
    sidecar.shown.wait_for(|s| s.gang.as_deref() == Some("g-2")).await.unwrap();
    sidecar.end_within(LONGEST).await;
    assert_eq!((vendor.task(&id).unwrap().state.as_str(), cancels(&vendor)), ("QUEUED", 0));
}

#[tokio::test]
async fn what_was_never_seen_or_is_not_wanted_ends_at_once() {
    let off = Stamp { cancel_on_delete: false, ..stamp() };
    let (vendor, cluster, mut sidecar, id) = with_task(&off).await;
    cluster.delete_gang();
    await_gone(&mut sidecar).await;
    sidecar.end().await;
    assert_eq!((vendor.task(&id).unwrap().state.as_str(), cancels(&vendor)), ("QUEUED", 0));
    // Forbidden from the start: nothing is known of the gang.
    cluster.create_gang("g-1");
    cluster.refuse("list", 1000, 403, "quantumgangs is forbidden");
    let mut sidecar = start(&vendor, &cluster, &stamp());
    sidecar.announce(&json!({"id": id})).await;
    sidecar.shown.wait_for(|s| s.task(&id).is_some_and(|t| t.observed_at.is_some())).await.unwrap();
    sidecar.end().await;
    assert_eq!((vendor.task(&id).unwrap().state.as_str(), cancels(&vendor)), ("QUEUED", 0));
}

#[tokio::test]
async fn only_tasks_of_the_program_are_cancelled() {
    let (vendor, cluster, mut sidecar, own) = with_task(&stamp()).await;
    let foreign = submit(&vendor.braket_url(), GARNET).await;
    let announced = submit(&vendor.braket_url(), GARNET).await;
    let _polling = Polling::start(sidecar.tap_url(), foreign.clone());
    sidecar.announce(&json!({"id": announced})).await;
    sidecar.shown.wait_for(|s| s.tasks.len() == 3).await.unwrap();
    cluster.delete_gang();
    await_gone(&mut sidecar).await;
    sidecar.end_within(LONGEST).await;
    let states = [&own, &announced, &foreign].map(|id| vendor.task(id).unwrap().state);
    assert!(states[0].starts_with("CANCELL") && states[1].starts_with("CANCELL"), "{states:?}");
    assert_eq!(states[2], "QUEUED");
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_left() {
    let error = |code: &str, retry_after: Option<&str>| Action::Error {
        code: code.into(),
        status: None,
        message: "as asked".into(),
        retry_after: retry_after.map(str::to_owned),
        when: Stage::Before,
    };
    let rows = [
        (error("ThrottlingException", None), 2, "CANCELL", 3),
        (error("InternalServiceException", None), 1, "CANCELL", 2),
        (Action::Close { when: Stage::After }, 1, "CANCELL", 2),
        (error("ConflictException", None), 1, "QUEUED", 1),
        (error("AccessDeniedException", None), 1, "QUEUED", 1),
        // Longer than there is time.
        (error("ThrottlingException", Some("60")), 1, "QUEUED", 1),
    ];
    let tries = rows.map(|(action, times, state, calls)| async move {
        let (vendor, cluster, mut sidecar, id) = with_task(&stamp()).await;
        vendor.add_fault(Fault::next(times, "CancelQuantumTask", action.clone()));
        cluster.delete_gang();
        await_gone(&mut sidecar).await;
        sidecar.end_within(LONGEST).await;
        let found = vendor.task(&id).unwrap().state;
        assert!(found.starts_with(state), "{found} after {action:?}");
        assert_eq!(cancels(&vendor), calls, "{action:?}");
    });
    futures::future::join_all(tries).await;
}

#[tokio::test]
async fn a_batch_is_cancelled_within_the_quota() {
    // Equal tasks of one run; what they might be mistaken for is not asked here.
    let stamp = Stamp { resume: false, ..stamp() };
    let (vendor, cluster, mut sidecar, _) = with_task(&stamp).await;
    // 20 at once and 2 a second are allowed.
    for _ in 1..25 {
        submit(&sidecar.tap_url(), GARNET).await;
    }
    sidecar.shown.wait_for(|s| s.tasks.len() == 25).await.unwrap();
    cluster.delete_gang();
    await_gone(&mut sidecar).await;
    sidecar.end_within(LONGEST).await;
    let states: Vec<_> = vendor.tasks().into_iter().map(|t| t.state).collect();
    assert!(states.iter().all(|s| s.starts_with("CANCELL")), "{states:?}");
}

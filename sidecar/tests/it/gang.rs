//! Writer and observer against the double of the API server.

use std::time::Duration;

use serde_json::json;
use sluice_shared::gang::{Task, VendorStatus};
use sluice_sidecar::follow::state::Seen;
use sluice_sidecar::gang::api;
use sluice_sidecar::gang::observer::{Name, observe};
use sluice_sidecar::gang::writer::write;
use tokio::sync::{mpsc, watch};

use crate::await_some;
use crate::cluster::{Cluster, GANG};

fn mk_name() -> Name {
    Name { gang: GANG.into(), namespace: "ns".into(), pod_uid: "pod-uid-1".into() }
}

fn mk_status(position: &str) -> VendorStatus {
    let task = Task {
        id: "t".into(),
        state: "QUEUED".into(),
        position: Some(position.into()),
        ..Task::default()
    };
    VendorStatus { tasks: vec![task], ..VendorStatus::default() }
}

fn mk_order(status: VendorStatus) -> VendorStatus {
    let order = json!({"reason": "front", "taskId": "t", "at": "2026-11-29T16:02:00.000000Z"});
    VendorStatus { order: Some(serde_json::from_value(order).unwrap()), ..status }
}

async fn position(cluster: &Cluster, position: &str) {
    await_some("the write lands", async || {
        let vendor = cluster.vendor()?;
        (vendor.tasks.first()?.position.as_deref() == Some(position)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn writes_keep_a_floor_but_an_order_goes_at_once() {
    let cluster = Cluster::start().await;
    cluster.create_gang("g-1");
    let wanted = watch::Sender::new(None);
    tokio::spawn(write(api(cluster.client(), "ns"), mk_name(), wanted.subscribe()));
    wanted.send_replace(Some(mk_status("9")));
    position(&cluster, "9").await;
    for place in (2..=8).rev() {
        wanted.send_replace(Some(mk_status(&place.to_string())));
        tokio::task::yield_now().await;
    }
    position(&cluster, "2").await;
    let patches = cluster.patches();
    assert_eq!(patches.len(), 2, "the newest counts");
    assert!(patches[1].0 - patches[0].0 >= Duration::from_millis(950));
    let ordered = tokio::time::Instant::now();
    wanted.send_replace(Some(mk_order(mk_status("1"))));
    position(&cluster, "1").await;
    let patches = cluster.patches();
    assert!(patches[2].0 - ordered < Duration::from_millis(900), "an order does not wait");
    assert!(cluster.vendor().unwrap().order.is_some());
}

#[tokio::test]
async fn refused_writes_are_repeated_with_the_newest_status() {
    let cluster = Cluster::start().await;
    cluster.create_gang("g-1");
    for (code, message) in [
        (401, "Unauthorized"),
        (403, "quantumgangs is forbidden"),
        (404, "not found"),
        (409, "conflict"),
        (422, "ValidatingAdmissionPolicy 'p' denied request"),
        (500, "etcd is away"),
    ] {
        cluster.refuse("patch", 1, code, message);
    }
    let wanted = watch::Sender::new(None);
    tokio::spawn(write(api(cluster.client(), "ns"), mk_name(), wanted.subscribe()));
    wanted.send_replace(Some(mk_status("9")));
    await_some("a first refusal", async || (cluster.tries() > 0).then_some(())).await;
    wanted.send_replace(Some(mk_status("3")));
    position(&cluster, "3").await;
    assert_eq!(cluster.tries(), 7);
    assert_eq!(cluster.patches().len(), 1);
}

#[tokio::test]
async fn what_is_gone_is_taken_back() {
    let cluster = Cluster::start().await;
    cluster.create_gang("g-1");
    cluster.set_status(json!({"phase": "Queued", "vendor": {"tasks": [], "problem": "old"}}));
    let wanted = watch::Sender::new(None);
    let writer = tokio::spawn(write(api(cluster.client(), "ns"), mk_name(), wanted.subscribe()));
    wanted.send_replace(Some(mk_status("9")));
    // The last status is written although nobody wants more.
    drop(wanted);
    writer.await.unwrap();
    assert_eq!(cluster.vendor().unwrap(), mk_status("9"));
}

#[tokio::test]
async fn the_gang_is_seen_when_rights_and_object_come_late() {
    let cluster = Cluster::start().await;
    cluster.refuse("list", 2, 403, "quantumgangs is forbidden");
    let (sender, mut seen) = mpsc::channel(8);
    tokio::spawn(observe(api(cluster.client(), "ns"), mk_name(), sender));
    let Some(Seen::Gang(None)) = seen.recv().await else { panic!("there is no gang yet") };
    cluster.create_gang("g-1");
    let Some(Seen::Gang(Some(gang))) = seen.recv().await else { panic!("the gang is there") };
    assert_eq!((gang.uid.as_str(), gang.vendor), ("g-1", None));
    cluster.set_status(json!({"vendor": {"tasks": [{"id": "t", "state": "QUEUED"}]}}));
    let Some(Seen::Gang(Some(gang))) = seen.recv().await else { panic!("the gang changed") };
    assert_eq!(gang.vendor.unwrap().tasks[0].id, "t");
}

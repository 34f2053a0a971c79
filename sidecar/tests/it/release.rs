//! Release policies of the second kind: a place in the queue, the program's own word, several
//! tasks, tasks on some devices only. The worker in this process, as in [`crate::worker`].

use aws_credential_types::Credentials;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use sluice_shared::policy::Follow;
use sluice_shared::role::Role;
use sluice_shared::stamp::Stamp;
use sluice_vendors::{DeviceChange, Pretence, Running, StateChange, Status, Window};

use crate::await_some;
use crate::cluster::Cluster;
use crate::worker::{
    GARNET, Polling, Sidecar, await_position, emulator, program, submit, submit_in, submit_over,
};

const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";

fn mk_stamp(policy: &str) -> Stamp {
    Stamp { size: 8, policy: policy.parse().unwrap(), ..Stamp::default() }
}

fn start(vendor: &Running, cluster: &Cluster, role: Role, stamp: &Stamp) -> Sidecar {
    let keys = Credentials::new("AKIDEXAMPLE", "secret", None, None, "sidecar");
    Sidecar::with_stamp(vendor, cluster, role, stamp, keys)
}

/// Has the vendor say this of a task from now on.
fn pretend(vendor: &Running, id: &str, status: &str, position: Option<&str>) {
    let position = position.map(str::to_owned);
    let pretend = Pretence { status: Some(status.into()), position, ..Pretence::default() };
    let change = StateChange { pretend: Some(pretend), ..StateChange::default() };
    vendor.change_state(id, change).unwrap();
}

/// What the program is answered when it asks to open the gates.
async fn ask(sidecar: &Sidecar, body: Option<Value>) -> (u16, Value) {
    let url = format!("http://{}/v1/release", sidecar.control);
    let request = reqwest::Client::new().post(url);
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn a_place_in_the_queue_releases() {
    let (vendor, cluster) = (emulator(5).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let sidecar = start(&vendor, &cluster, Role::Producer, &mk_stamp("position<=4"));
    let id = submit(&sidecar.tap_url(), GARNET).await;
    let _polling = Polling::start(sidecar.tap_url(), id.clone());
    await_position(&cluster, "6").await;
    vendor.step(Some("Garnet"), 1).await.unwrap();
    await_position(&cluster, "5").await;
    assert_eq!(cluster.vendor().unwrap().order, None, "not before the place");
    vendor.step(Some("Garnet"), 1).await.unwrap();
    let order = await_some("the order", async || cluster.vendor()?.order).await;
    assert_eq!((order.task_id, order.reason.as_str()), (id, "position 4"));
    sidecar.end().await;
}

#[tokio::test]
async fn a_place_does_not_count_while_the_device_is_paused() {
    let (vendor, cluster) = (emulator(2).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let turn = |status| DeviceChange { status: Some(status), ..DeviceChange::default() };
    vendor.change_device("Garnet", turn(Status::Paused)).unwrap();
    let sidecar = start(&vendor, &cluster, Role::Producer, &mk_stamp("position<=4"));
    let id = submit(&sidecar.tap_url(), GARNET).await;
    let _polling = Polling::start(sidecar.tap_url(), id.clone());
    await_some("the reason is told", async || {
        cluster.vendor()?.tasks.first()?.reason.clone().filter(|r| r.contains("PAUSED"))
    })
    .await;
    assert_eq!(cluster.vendor().unwrap().order, None);
    vendor.change_device("Garnet", turn(Status::Online)).unwrap();
    let order = await_some("the order", async || cluster.vendor()?.order).await;
    assert_eq!((order.task_id, order.reason.as_str()), (id, "position 3"));
    sidecar.end().await;
}

/// A window of two hours on every day, which begins so many hours from now.
fn mk_window(hours: i32) -> Window {
    let now = i32::from(Timestamp::now().to_zoned(TimeZone::UTC).hour());
    let hour = |more: i32| format!("{:02}:00", (now + more) % 24);
    Window {
        execution_day: "Everyday".into(),
        window_start_hour: hour(hours),
        window_end_hour: hour(hours + 2),
    }
}

#[tokio::test]
async fn position_one_is_not_the_front_before_the_devices_hours() {
    let (vendor, cluster) = (emulator(0).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let hours = |windows| DeviceChange { windows: Some(windows), ..DeviceChange::default() };
    let later = mk_window(3);
    let from = later.window_start_hour.clone();
    vendor.change_device("Garnet", hours(vec![later.clone()])).unwrap();
    let sidecar = start(&vendor, &cluster, Role::Producer, &mk_stamp("front"));
    let id = submit(&sidecar.tap_url(), GARNET).await;
    let _polling = Polling::start(sidecar.tap_url(), id.clone());
    let told =
        await_some("the reason is told", async || cluster.vendor()?.tasks.first()?.reason.clone())
            .await;
    assert!(told.starts_with("iqm Garnet is outside its window until "), "{told}");
    assert!(told.ends_with(&format!("{from} UTC")), "{told}, and not {from}");
    assert_eq!(cluster.vendor().unwrap().order, None);
    vendor.change_device("Garnet", hours(vec![later, mk_window(0)])).unwrap();
    let order = await_some("the order", async || cluster.vendor()?.order).await;
    assert_eq!((order.task_id, order.reason.as_str()), (id, "front"));
    assert_eq!(cluster.vendor().unwrap().tasks[0].reason, None);
    sidecar.end().await;
}

#[tokio::test]
async fn the_program_opens_the_gates_by_its_word_alone() {
    let (vendor, cluster) = (emulator(0).await, Cluster::start().await);
    cluster.create_gang("g-1");
    cluster.keep();
    let mut sidecar = start(&vendor, &cluster, Role::Producer, &mk_stamp("manual"));
    let (status, answer) = ask(&sidecar, None).await;
    assert_eq!(status, 409, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("no task is known"), "{answer}");
    let rows = [
        (json!({"id": "834b21ed"}), 400, "arn:aws:braket"),
        (json!({"task": "x"}), 422, "or no body at all"),
        (json!([1]), 422, "or no body at all"),
        (
            json!({"id": "arn:aws:braket:eu-north-1:123456789012:quantum-task/none"}),
            409,
            "announce",
        ),
    ];
    for (body, expected, text) in rows {
        let (status, answer) = ask(&sidecar, Some(body)).await;
        assert_eq!(status, expected, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{answer}");
    }
    let client = program(&sidecar.tap_url());
    let first = submit_over(&client, GARNET).await;
    let second = submit_over(&client, GARNET).await;
    pretend(&vendor, &first, "COMPLETED", None);
    await_some("the first task has its result", async || {
        let tasks = cluster.vendor()?.tasks;
        tasks.iter().any(|t| t.id == first && t.state == "COMPLETED").then_some(())
    })
    .await;
    assert_eq!(cluster.vendor().unwrap().order, None, "no state releases");
    let (status, answer) = ask(&sidecar, Some(json!({"id": second}))).await;
    assert_eq!((status, &answer["id"]), (202, &json!(second)));
    // Answered when it cannot be lost any more.
    let order = cluster.vendor().unwrap().order.unwrap();
    assert_eq!((order.task_id.as_str(), order.reason.as_str()), (second.as_str(), "manual"));
    assert_eq!(ask(&sidecar, None).await.0, 200);
    sidecar.shown.wait_for(|s| s.open).await.unwrap();
    sidecar.end().await;
    // A later worker knows it too.
    let sidecar = start(&vendor, &cluster, Role::Producer, &mk_stamp("manual"));
    let (status, answer) = await_some("the later worker has read the gang", async || {
        let answer = ask(&sidecar, None).await;
        (answer.0 == 200).then_some(answer)
    })
    .await;
    assert_eq!((status, &answer["id"]), (200, &json!(second)));
    sidecar.end().await;
}

#[tokio::test]
async fn asked_in_the_moment_of_the_submission_and_where_it_may_not_be() {
    let (vendor, cluster) = (emulator(5).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let sidecar = start(&vendor, &cluster, Role::Producer, &mk_stamp("manual"));
    let id = submit(&sidecar.tap_url(), GARNET).await;
    let (status, answer) = ask(&sidecar, None).await;
    assert_eq!((status, &answer["id"]), (202, &json!(id)), "{answer}");
    sidecar.end().await;

    let cluster = Cluster::start().await;
    cluster.create_gang("g-2");
    for (role, policy, text) in
        [(Role::Producer, "front", "release: manual"), (Role::Single, "manual", "nothing to open")]
    {
        let sidecar = start(&vendor, &cluster, role, &mk_stamp(policy));
        let (status, answer) = ask(&sidecar, None).await;
        assert_eq!(status, 409, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{answer}");
        sidecar.end().await;
    }
}

#[tokio::test]
async fn a_batch_of_25_in_waves_of_ten_is_released_at_its_last_task() {
    let (vendor, cluster) = (emulator(0).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let stamp = Stamp { tasks: 25, ..mk_stamp("front") };
    let sidecar = start(&vendor, &cluster, Role::Producer, &stamp);
    let client = program(&sidecar.tap_url());
    let mut ids = Vec::new();
    for wave in [10, 10, 5] {
        for _ in 0..wave {
            ids.push(submit_over(&client, GARNET).await);
        }
        if ids.len() == 25 {
            break;
        }
        // The SDK sends the next when these have their results.
        for id in &ids {
            pretend(&vendor, id, "COMPLETED", None);
        }
        await_some("the wave has its results", async || {
            let tasks = cluster.vendor()?.tasks;
            let done = tasks.iter().all(|t| t.state == "COMPLETED");
            (tasks.len() == ids.len() && done).then_some(())
        })
        .await;
        assert_eq!(cluster.vendor().unwrap().order, None, "{} of 25", ids.len());
    }
    for id in &ids[20..24] {
        pretend(&vendor, id, "RUNNING", None);
    }
    pretend(&vendor, &ids[24], "QUEUED", Some("2"));
    await_some("24 run or have run, the last waits", async || {
        let tasks = cluster.vendor()?.tasks;
        let run = tasks.iter().filter(|t| t.state != "QUEUED" && t.state != "CREATED").count();
        (run == 24 && tasks.get(24)?.position.as_deref() == Some("2")).then_some(())
    })
    .await;
    assert_eq!(cluster.vendor().unwrap().order, None, "24 of 25");
    pretend(&vendor, &ids[24], "QUEUED", Some("1"));
    let order = await_some("the order", async || cluster.vendor()?.order).await;
    assert_eq!(order.task_id, ids[0], "the first of the batch");
    sidecar.end().await;
}

#[tokio::test]
async fn a_sanity_run_on_a_simulator_does_not_release_what_follows_the_qpu() {
    for (follow, backend) in [(Follow::Qpu, None), (Follow::Device, Some("Garnet"))] {
        let (vendor, cluster) = (emulator(1).await, Cluster::start().await);
        cluster.create_gang("g-1");
        let stamp =
            Stamp { follow, backend: backend.map(str::to_owned), ..mk_stamp("position<=1") };
        let sidecar = start(&vendor, &cluster, Role::Producer, &stamp);
        let sanity = submit_in("us-east-1", &sidecar.tap_url(), SV1).await;
        pretend(&vendor, &sanity, "COMPLETED", None);
        await_some("the sanity run has its result", async || {
            (cluster.vendor()?.tasks.first()?.state == "COMPLETED").then_some(())
        })
        .await;
        let id = submit(&sidecar.tap_url(), GARNET).await;
        let _polling = Polling::start(sidecar.tap_url(), id.clone());
        await_some("the task waits behind another", async || {
            (cluster.vendor()?.tasks.get(1)?.position.as_deref() == Some("2")).then_some(())
        })
        .await;
        assert_eq!(cluster.vendor().unwrap().order, None, "{follow:?}");
        vendor.step(Some("Garnet"), 1).await.unwrap();
        let order = await_some("the order", async || cluster.vendor()?.order).await;
        assert_eq!((order.task_id, order.reason.as_str()), (id, "front"), "{follow:?}");
        sidecar.end().await;
    }
}

//! The worker in this process, between the vendor emulator and the double of the API server.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_braket::Client;
use aws_sdk_braket::config::{BehaviorVersion, Region};
use aws_sdk_braket::types::QuantumTaskAdditionalAttributeName::QueueInfo;
use serde_json::{Value, json};
use sluice_shared::policy::ReleasePolicy;
use sluice_shared::role::Role;
use sluice_shared::stamp::Stamp;
use sluice_sidecar::app::{Sockets, Worker};
use sluice_sidecar::follow::state::State;
use sluice_sidecar::vendor::credentials::Renewed;
use sluice_vendors::{
    Action, Ahead, Config, Emulator, Fault, Pretence, Running, Stage, StateChange,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::{await_some, mk_config};

pub(crate) const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

/// The program's client: its own keys, the endpoint from its environment.
pub(crate) fn program(url: &str) -> Client {
    program_in("eu-north-1", url)
}

fn program_in(region: &'static str, url: &str) -> Client {
    let config = aws_sdk_braket::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(region))
        .credentials_provider(Credentials::new("AKIDEXAMPLE", "secret", None, None, "program"))
        .endpoint_url(url)
        .build();
    Client::from_conf(config)
}

/// Submits a program and returns the ARN.
pub(crate) async fn submit(url: &str, device: &str) -> String {
    submit_in("eu-north-1", url, device).await
}

/// The same in another region.
pub(crate) async fn submit_in(region: &'static str, url: &str, device: &str) -> String {
    submit_over(&program_in(region, url), device).await
}

/// The same over the connections of a client.
pub(crate) async fn submit_over(client: &Client, device: &str) -> String {
    let action = json!({
        "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
        "source": "OPENQASM 3.0; qubit[1] q; bit[1] b; h q[0]; b[0] = measure q[0];",
        "inputs": {},
    });
    let answer = client
        .create_quantum_task()
        .device_arn(device)
        .shots(10)
        .output_s3_bucket("amazon-braket-x")
        .output_s3_key_prefix("tasks")
        .action(action.to_string())
        .send()
        .await
        .unwrap();
    answer.quantum_task_arn
}

/// Polls like an SDK that waits for the result, until dropped.
pub(crate) struct Polling(JoinHandle<()>);

impl Polling {
    pub(crate) fn start(url: String, id: String) -> Self {
        Self(tokio::spawn(async move {
            let client = program(&url);
            loop {
                let call = client
                    .get_quantum_task()
                    .quantum_task_arn(&id)
                    .additional_attribute_names(QueueInfo);
                // A worker that is away refuses nothing; what it answers is its own matter.
                let _ = call.send().await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }))
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) struct Sidecar {
    pub(crate) control: SocketAddr,
    tap: SocketAddr,
    pub(crate) shown: watch::Receiver<Arc<State>>,
    stop: CancellationToken,
    ended: JoinHandle<anyhow::Result<()>>,
}

impl Sidecar {
    fn start(vendor: &Running, cluster: &Cluster, role: Role, policy: ReleasePolicy) -> Self {
        Self::with_keys(vendor, cluster, role, policy, "AKIDEXAMPLE", "secret")
    }

    fn with_keys(
        vendor: &Running,
        cluster: &Cluster,
        role: Role,
        policy: ReleasePolicy,
        id: &str,
        secret: &str,
    ) -> Self {
        let stamp = Stamp { size: 8, policy, ..Stamp::default() };
        Self::with_stamp(
            vendor,
            cluster,
            role,
            &stamp,
            Credentials::new(id, secret, None, None, "sidecar"),
        )
    }

    /// With live tasks left alone: most tests end a worker in the middle, and mean no more by it.
    pub(crate) fn with_stamp(
        vendor: &Running,
        cluster: &Cluster,
        role: Role,
        stamp: &Stamp,
        keys: Credentials,
    ) -> Self {
        let stamp = Stamp { cancel_on_delete: false, ..stamp.clone() };
        Self::that_may_cancel(vendor, cluster, role, &stamp, keys)
    }

    pub(crate) fn that_may_cancel(
        vendor: &Running,
        cluster: &Cluster,
        role: Role,
        stamp: &Stamp,
        keys: Credentials,
    ) -> Self {
        let config = mk_config(role, stamp, &vendor.braket_url());
        let control = TcpListener::bind("127.0.0.1:0").unwrap();
        let tap = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = (control.local_addr().unwrap(), tap.local_addr().unwrap());
        let sockets = Sockets { control, tap: Some(tap) };
        let keys = Renewed::fixed(keys);
        let client = Some(cluster.client());
        let worker = Worker::with_credentials(config, sockets, client, keys).unwrap();
        let (shown, stop) = (worker.shown(), CancellationToken::new());
        let ended = tokio::spawn(worker.run(stop.clone()));
        Self { control: addresses.0, tap: addresses.1, shown, stop, ended }
    }

    pub(crate) fn tap_url(&self) -> String {
        format!("http://{}", self.tap)
    }

    pub(crate) async fn announce(&self, body: &Value) -> (u16, Value) {
        let url = format!("http://{}/v1/tasks", self.control);
        let answer = reqwest::Client::new().post(url).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn end(self) {
        self.end_within(Duration::from_secs(2)).await;
    }

    /// Tells it to end; it must have ended in time.
    pub(crate) async fn end_within(self, limit: Duration) {
        self.stop.cancel();
        tokio::time::timeout(limit, self.ended).await.unwrap().unwrap().unwrap();
    }
}

pub(crate) async fn emulator(ahead: u64) -> Running {
    let config = Config::for_testing().by_hand(Ahead { normal: ahead, priority: 0 });
    Emulator::start(config).await.unwrap()
}

pub(crate) async fn await_position(cluster: &Cluster, position: &str) {
    await_some(&format!("position {position} in the gang"), async || {
        let vendor = cluster.vendor()?;
        (vendor.tasks.first()?.position.as_deref() == Some(position)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_submission_through_the_tap_releases_the_gang_at_the_front() {
    let (vendor, cluster) = (emulator(2).await, Cluster::start().await);
    cluster.keep();
    let mut sidecar = Sidecar::start(&vendor, &cluster, Role::Producer, ReleasePolicy::Front);
    let url = sidecar.tap_url();
    let submission = tokio::spawn(async move { submit(&url, GARNET).await });
    // The keeper makes the gang after the submission: it waits until it can be written down.
    sidecar.shown.wait_for(|s| s.ledger.waiting() == 1).await.unwrap();
    assert_eq!(vendor.tasks().len(), 0);
    cluster.create_gang("g-1");
    let id = submission.await.unwrap();
    let _polling = Polling::start(sidecar.tap_url(), id.clone());
    await_position(&cluster, "3").await;
    let task = cluster.vendor().unwrap().tasks.remove(0);
    assert_eq!((task.id.as_str(), task.device.as_str()), (id.as_str(), GARNET));
    assert!(task.digest.is_some() && task.client_token.is_some() && task.submitted_at.is_some());
    vendor.step(Some("Garnet"), 1).await.unwrap();
    await_position(&cluster, "2").await;
    assert_eq!(cluster.vendor().unwrap().order, None, "not before the front");
    vendor.step(Some("Garnet"), 1).await.unwrap();
    sidecar.shown.wait_for(|s| s.open).await.unwrap();
    let status = cluster.vendor().unwrap();
    let order = status.order.unwrap();
    assert_eq!((order.task_id.as_str(), order.reason.as_str()), (id.as_str(), "front"));
    assert!(status.tasks[0].front);
    let state: Value = reqwest::get(format!("http://{}/v1/state", sidecar.control))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(state["gates"]["open"], true);
    assert_eq!(state["vendor"]["order"]["taskId"], id.as_str());
    sidecar.end().await;
}

#[tokio::test]
async fn a_new_worker_goes_on_where_the_old_one_was() {
    let (vendor, cluster) = (emulator(2).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let old = Sidecar::start(&vendor, &cluster, Role::Producer, ReleasePolicy::Front);
    let id = submit(&old.tap_url(), GARNET).await;
    await_some("the task in the gang", async || cluster.vendor()?.tasks.first().cloned()).await;
    old.end().await;
    let mut new = Sidecar::start(&vendor, &cluster, Role::Producer, ReleasePolicy::Front);
    // Nobody polls: the new worker looks itself.
    await_position(&cluster, "3").await;
    let task = cluster.vendor().unwrap().tasks.remove(0);
    assert!(task.digest.is_some() && task.client_token.is_some(), "{task:?}");
    vendor.step(Some("Garnet"), 2).await.unwrap();
    let order = await_some("the order", async || cluster.vendor()?.order).await;
    assert_eq!(order.task_id, id);
    new.end().await;
    cluster.keep();
    new = Sidecar::start(&vendor, &cluster, Role::Producer, ReleasePolicy::Front);
    new.shown.wait_for(|s| s.order.is_some()).await.unwrap();
    vendor.step(Some("Garnet"), 1).await.unwrap();
    await_some("the next state", async || {
        (cluster.vendor()?.tasks[0].state == "RUNNING").then_some(())
    })
    .await;
    assert_eq!(cluster.vendor().unwrap().order, Some(order), "the same order");
    new.end().await;
}

#[tokio::test]
async fn a_task_that_was_forgotten_is_found_by_the_programs_polls() {
    let (vendor, cluster) = (emulator(2).await, Cluster::start().await);
    cluster.create_gang("g-1");
    // Submitted while a worker died before it could write.
    let id = submit(&vendor.braket_url(), GARNET).await;
    let sidecar = Sidecar::start(&vendor, &cluster, Role::Producer, ReleasePolicy::Front);
    let _polling = Polling::start(sidecar.tap_url(), id.clone());
    await_position(&cluster, "3").await;
    assert_eq!(cluster.vendor().unwrap().tasks[0].id, id);
    sidecar.end().await;
}

#[tokio::test]
async fn announcements_are_checked_and_followed() {
    let (vendor, cluster) = (emulator(0).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let id = submit(&vendor.braket_url(), GARNET).await;
    let mut sidecar = Sidecar::start(&vendor, &cluster, Role::Producer, ReleasePolicy::Front);
    let rows = [
        (json!({"id": "834b21ed"}), 400, "arn:aws:braket:<region>"),
        (json!({"task": id}), 422, "send {\"id\""),
        (json!([]), 422, "send {\"id\""),
    ];
    for (body, status, text) in rows {
        let (found, answer) = sidecar.announce(&body).await;
        assert_eq!(found, status, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{answer}");
    }
    let (status, answer) = sidecar.announce(&json!({"id": id})).await;
    assert_eq!((status, &answer["followed"]), (202, &json!(true)));
    sidecar.shown.wait_for(|s| s.task(&id).is_some()).await.unwrap();
    assert_eq!(sidecar.announce(&json!({"id": id})).await.0, 200);
    // No line at all before it: the first look finds it at the front.
    let order = await_some("the order", async || cluster.vendor()?.order).await;
    assert_eq!(order.reason, "front");
    let text = reqwest::get(format!("http://{}/nothing", sidecar.control)).await.unwrap();
    assert_eq!(text.status().as_u16(), 404);
    sidecar.end().await;
}

#[tokio::test]
async fn a_single_reports_and_orders_nothing() {
    let (vendor, cluster) = (emulator(0).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let sidecar = Sidecar::start(&vendor, &cluster, Role::Single, ReleasePolicy::Front);
    let id = submit(&sidecar.tap_url(), GARNET).await;
    let pretend = Some(Pretence { status: Some("COMPLETED".into()), ..Pretence::default() });
    vendor.change_state(&id, StateChange { pretend, ..StateChange::default() }).unwrap();
    await_some("the end in the gang", async || {
        (cluster.vendor()?.tasks.first()?.state == "COMPLETED").then_some(())
    })
    .await;
    assert_eq!(cluster.vendor().unwrap().order, None);
    sidecar.end().await;
}

#[tokio::test]
async fn refused_credentials_keep_the_gates_shut_and_are_told() {
    let (vendor, cluster) = (emulator(0).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let id = submit(&vendor.braket_url(), GARNET).await;
    let (role, policy) = (Role::Producer, ReleasePolicy::Front);
    let sidecar =
        Sidecar::with_keys(&vendor, &cluster, role, policy, "AKIDNORIGHTS", "no-rights-secret");
    sidecar.announce(&json!({"id": id})).await;
    let problem = await_some("the problem", async || cluster.vendor()?.problem).await;
    assert!(problem.contains("refuses the sidecar's credentials"), "{problem}");
    assert!(!problem.contains("secret"), "{problem}");
    assert_eq!(cluster.vendor().unwrap().order, None);
    // The program's requests are signed with other keys, so they are refused with both names.
    let refused = program(&sidecar.tap_url()).get_quantum_task().quantum_task_arn(&id).send().await;
    let text = format!("{:?}", refused.unwrap_err());
    assert!(text.contains("AKIDNORIGHTS") && text.contains("AKIDEXAMPLE"), "{text}");
    sidecar.end().await;
}

#[tokio::test]
async fn it_ends_in_time_while_the_vendor_hangs() {
    let (vendor, cluster) = (emulator(5).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let mut sidecar = Sidecar::start(&vendor, &cluster, Role::Producer, ReleasePolicy::Front);
    let id = submit(&sidecar.tap_url(), GARNET).await;
    vendor.add_fault(Fault::next(
        1000,
        "GetQuantumTask",
        Action::Hang { ms: 60_000, when: Stage::Before },
    ));
    let _polling = Polling::start(sidecar.tap_url(), id.clone());
    sidecar.shown.wait_for(|s| s.task(&id).is_some()).await.unwrap();
    await_some("a request hangs", async || {
        vendor.journal().iter().any(|e| e.operation == "GetQuantumTask").then_some(())
    })
    .await;
    let told = Instant::now();
    sidecar.end().await;
    assert!(told.elapsed() < Duration::from_secs(2));
}

//! Not paying twice, as processes: workers are killed at each point between intent, forwarding,
//! acceptance and record, containers are started again, pods are replaced. The vendor counts.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use sluice_shared::names;
use sluice_shared::stamp::Stamp;
use sluice_vendors::{Action, Ahead, Config, Emulator, Fault, Running as Vendor, Stage};
use tokio::task::JoinHandle;

use crate::await_some;
use crate::cluster::Cluster;
use crate::parent::{Running, command};
use crate::worker::{GARNET, submit};

struct Scene {
    vendor: Vendor,
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Self {
        let config = Config::for_testing().by_hand(Ahead { normal: 5, priority: 0 });
        let scene = Self {
            vendor: Emulator::start(config).await.unwrap(),
            cluster: Cluster::start().await,
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(scene.folder.path().join("kube"), scene.cluster.kubeconfig()).unwrap();
        scene.cluster.create_gang("g-1");
        scene
    }

    async fn sidecar(&self, pod_uid: &str, stamp: &Stamp) -> Running {
        let mut command = command();
        command
            .env(names::ENV_POD_UID, pod_uid)
            .env(names::ENV_STAMP, stamp.to_annotation())
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", self.vendor.braket_url())
            .env("KUBECONFIG", self.folder.path().join("kube"))
            .env("SLUICE_LOG", "info");
        Running::of(command).await
    }

    /// Tasks at the vendor.
    fn tasks(&self) -> usize {
        self.vendor.tasks().len()
    }

    fn created(&self) -> usize {
        self.vendor.journal().iter().filter(|e| e.operation == "CreateQuantumTask").count()
    }

    fn hang(&self, when: Stage) {
        let action = Action::Hang { ms: 60_000, when };
        self.vendor.add_fault(Fault::next(1, "CreateQuantumTask", action));
    }

    async fn recorded(&self, tasks: usize) {
        await_some("the tasks in the gang", async || {
            let vendor = self.cluster.vendor()?;
            (vendor.tasks.len() == tasks && vendor.intents.is_empty()).then_some(())
        })
        .await;
    }
}

fn submission(running: &Running) -> JoinHandle<String> {
    let url = running.tap_url();
    tokio::spawn(async move { submit(&url, GARNET).await })
}

/// The same as a program that ends with it: its connections are closed when this returns.
async fn whole_program(running: &Running) -> String {
    let url = running.tap_url();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(submit(&url, GARNET))
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn kill_worker(running: &Running) {
    kill_process(running.worker().unwrap(), Signal::KILL).unwrap();
}

fn next_pod(end: &str) -> Value {
    json!({"pod": "maxcut-0-fghij", "uid": "pod-uid-2",
           "previous": {"uid": "pod-uid-1", "end": end}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_at_any_point_costs_no_second_task() {
    for when in [None, Some(Stage::Before), Some(Stage::After)] {
        let scene = Scene::start().await;
        match when {
            Some(when) => scene.hang(when),
            // Killed before the intent is written.
            None => scene.cluster.refuse("patch", 1_000, 500, "etcd is gone"),
        }
        let running = scene.sidecar("pod-uid-1", &Stamp::default()).await;
        let submission = submission(&running);
        if when.is_some() {
            await_some("the request at the vendor", async || (scene.created() == 1).then_some(()))
                .await;
            assert_eq!(scene.cluster.vendor().unwrap().intents.len(), 1, "written before");
        } else {
            await_some("a try to write", async || (scene.cluster.tries() > 0).then_some(())).await;
            assert_eq!(scene.created(), 0, "nothing is sent before it is written down");
        }
        kill_worker(&running);
        scene.cluster.heal();
        // The program's client repeats the request under its token.
        let id = submission.await.unwrap();
        scene.recorded(1).await;
        assert_eq!(scene.tasks(), 1, "{when:?}");
        // Killed after the record: it is there for the next worker.
        kill_worker(&running);
        await_some("another worker", async || running.ready().await.then_some(())).await;
        scene.recorded(1).await;
        assert_eq!(scene.cluster.vendor().unwrap().tasks[0].id, id);
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_lost_at_any_point_costs_no_second_task() {
    for when in [Some(Stage::Before), Some(Stage::After), None] {
        let scene = Scene::start().await;
        if let Some(when) = when {
            scene.hang(when);
        }
        let mut lost = scene.sidecar("pod-uid-1", &Stamp::default()).await;
        let first = submission(&lost);
        if when.is_some() {
            await_some("the request at the vendor", async || (scene.created() == 1).then_some(()))
                .await;
        } else {
            scene.recorded(1).await;
        }
        // Program and sidecar go together.
        first.abort();
        lost.kill().await;
        scene.cluster.set_producer(next_pod("Disrupted"));
        let running = scene.sidecar("pod-uid-2", &Stamp::default()).await;
        // Proves that it is one run, so that nothing has to wait for the keeper.
        let program = running.connect();
        let id = submission(&running).await.unwrap();
        scene.recorded(1).await;
        assert_eq!(scene.tasks(), 1, "{when:?}");
        let task = scene.cluster.vendor().unwrap().tasks.remove(0);
        assert_eq!((task.id, task.incarnation.as_deref()), (id.clone(), Some("pod-uid-2/0")));
        // A second one of the same run is wanted.
        assert_ne!(submission(&running).await.unwrap(), id);
        assert_eq!(scene.tasks(), 2);
        drop(program);
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_started_again_gets_its_task_and_another_program_a_new_one() {
    let scene = Scene::start().await;
    let running = scene.sidecar("pod-uid-1", &Stamp::default()).await;
    let first = whole_program(&running).await;
    scene.recorded(1).await;
    let again = submission(&running);
    // Its connection is new, so it waits for the keeper's word.
    tokio::task::yield_now().await;
    scene.cluster.set_producer(json!({"pod": "p", "uid": "pod-uid-1", "restarts": 1}));
    assert_eq!(again.await.unwrap(), first);
    assert_eq!(scene.tasks(), 1);
    scene.cluster.set_producer(json!({"pod": "p", "uid": "pod-uid-1", "restarts": 2}));
    // Another device: not the same submission.
    let other = "arn:aws:braket:eu-north-1::device/qpu/iqm/Emerald";
    let second = submit(&running.tap_url(), other).await;
    assert_ne!(second, first);
    let (_, log) = running.end().await;
    assert!(log.contains("a new task is paid for") && log.contains(&first), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resume_off_submits_anew_and_writes_no_intent() {
    let scene = Scene::start().await;
    let off = Stamp { resume: false, ..Stamp::default() };
    let mut lost = scene.sidecar("pod-uid-1", &off).await;
    let first = submission(&lost).await.unwrap();
    scene.recorded(1).await;
    lost.kill().await;
    scene.cluster.set_producer(next_pod("Disrupted"));
    let running = scene.sidecar("pod-uid-2", &off).await;
    assert_ne!(submission(&running).await.unwrap(), first);
    assert_eq!(scene.tasks(), 2);
    let intents = |patch: &Value| patch["status"]["vendor"]["intents"].is_array();
    assert!(!scene.cluster.patches().iter().any(|(_, patch)| intents(patch)));
    tokio::time::timeout(Duration::from_secs(10), running.end()).await.unwrap();
}

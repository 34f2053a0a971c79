//! The real binary: parent, worker and probe as processes. Every process is ended by its own id.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sluice_shared::names;
use sluice_shared::role::Role;
use sluice_shared::stamp::Stamp;
use sluice_vendors::{Ahead, Emulator};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::cluster::Cluster;
use crate::worker::{GARNET, submit};
use crate::{PATIENCE, await_some, mk_pod};

const BINARY: &str = env!("CARGO_BIN_EXE_sluice-sidecar");

pub(crate) fn command() -> Command {
    let pod = mk_pod(Role::Producer, &Stamp { size: 8, ..Stamp::default() }, "http://127.0.0.1:9");
    let mut command = Command::new(BINARY);
    command
        .env_clear()
        .env(names::ENV_POD_NAME, pod.pod_name.unwrap())
        .env(names::ENV_POD_UID, pod.pod_uid.unwrap())
        .env(names::ENV_NAMESPACE, pod.namespace.unwrap())
        .env(names::ENV_GANG, pod.gang.unwrap())
        .env(names::ENV_STAMP, pod.stamp.unwrap())
        .env(names::ENV_SIDECAR_ROLE, pod.role.unwrap())
        .env("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", "http://127.0.0.1:9")
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "canary-of-a-secret")
        .env("SLUICE_CONTROL_PORT", "0")
        .env("SLUICE_TAP_PORT", "0")
        .env("SLUICE_LOG", "trace")
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

pub(crate) struct Running {
    parent: Child,
    pub(crate) control: SocketAddr,
    pub(crate) tap: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Running {
    async fn start() -> Self {
        Self::of(command()).await
    }

    /// A connection of a program that lives on.
    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.tap).unwrap()
    }

    /// Ends it without a word, as a lost node does.
    pub(crate) async fn kill(&mut self) {
        kill_process(self.pid(), Signal::KILL).unwrap();
        self.parent.wait().await.unwrap();
    }

    pub(crate) async fn of(mut command: Command) -> Self {
        let mut parent = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(parent.stderr.take().unwrap()).lines();
        let written = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let (control, tap) = await_some("the addresses in the log", async || {
            let log = log.lock().unwrap();
            let line = log.lines().find(|l| l.contains("listening on "))?;
            let mut found = line.split([' ', ',']).filter_map(|w| w.parse::<SocketAddr>().ok());
            Some((found.next()?, found.next()?))
        })
        .await;
        Self { parent, control, tap, log }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.parent.id().unwrap()).unwrap()).unwrap()
    }

    pub(crate) fn worker(&self) -> Option<Pid> {
        let parent = self.pid().as_raw_nonzero();
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children = std::fs::read_to_string(path).ok()?;
        Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
    }

    pub(crate) fn tap_url(&self) -> String {
        format!("http://{}", self.tap)
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) async fn ready(&self) -> bool {
        let port = self.control.port().to_string();
        let mut probe = Command::new(BINARY);
        probe.env_clear().args(["ready", "--control-port", &port]);
        probe.output().await.unwrap().status.success()
    }

    /// Tells it to end and returns how long that took.
    pub(crate) async fn end(mut self) -> (Duration, String) {
        let told = Instant::now();
        kill_process(self.pid(), Signal::TERM).unwrap();
        let status = tokio::time::timeout(PATIENCE, self.parent.wait()).await;
        assert!(status.unwrap().unwrap().success(), "{}", self.log());
        let took = told.elapsed();
        let log = await_some("the last line", async || {
            let log = self.log();
            log.contains("ending;").then_some(log)
        })
        .await;
        (took, log)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_is_replaced_and_no_connection_is_refused() {
    let running = Running::start().await;
    await_some("ready", async || running.ready().await.then_some(())).await;
    let (control, tap) = (running.control, running.tap);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let hammer = std::thread::spawn(move || {
        let (mut tries, mut refused) = (0, Vec::new());
        while stopped.try_recv().is_err() {
            for address in [control, tap] {
                tries += 1;
                if let Err(error) = TcpStream::connect(address) {
                    refused.push(error.to_string());
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        (tries, refused)
    });
    let mut workers = BTreeSet::new();
    for round in 0..5 {
        let worker = await_some("a worker", async || running.worker()).await;
        assert!(workers.insert(worker.as_raw_nonzero()), "a new process each time");
        let killed = Instant::now();
        kill_process(worker, Signal::KILL).unwrap();
        await_some("another worker", async || running.worker().filter(|w| *w != worker).map(drop))
            .await;
        let took = killed.elapsed();
        // The first pauses of a crash loop are nothing; then they grow.
        assert!(round > 0 || took < Duration::from_secs(1), "{took:?}");
        // A request is held until the new worker answers.
        let url = format!("http://{control}/livez");
        let answer = reqwest::Client::builder()
            .timeout(Duration::from_secs(20))
            .build()
            .unwrap()
            .get(url)
            .send()
            .await;
        assert_eq!(answer.unwrap().text().await.unwrap(), "ok\n");
    }
    stop.send(()).unwrap();
    let (tries, refused) = hammer.join().unwrap();
    assert!(tries > 50, "{tries}");
    assert_eq!(refused, Vec::<String>::new());
    let (took, log) = running.end().await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(log.contains("the worker ended (signal 9)"), "{log}");
    assert!(!log.contains("canary"), "a secret in the log");
}

/// Keys of a profile file that is mounted from a Secret.
fn write_profile(path: &Path, id: &str, secret: &str, token: Option<&str>) {
    let token = token.map(|t| format!("aws_session_token = {t}\n")).unwrap_or_default();
    let text =
        format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n{token}");
    // As the kubelet does it: a new file takes the name.
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_keys_keep_the_gates_shut_until_the_mounted_file_has_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (profile, kubeconfig) = (folder.path().join("credentials"), folder.path().join("kube"));
    write_profile(&profile, "ASIAEXPIRED", "expired-secret", Some("expired-token"));
    let config = sluice_vendors::Config::for_testing().by_hand(Ahead::default());
    let (vendor, cluster) = (Emulator::start(config).await.unwrap(), Cluster::start().await);
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    cluster.create_gang("g-1");
    let mut command = command();
    command
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY")
        .env("AWS_SHARED_CREDENTIALS_FILE", &profile)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", vendor.braket_url())
        .env("KUBECONFIG", &kubeconfig);
    let running = Running::of(command).await;
    let id = submit(&vendor.braket_url(), GARNET).await;
    let told = reqwest::Client::new()
        .post(format!("http://{}/v1/tasks", running.control))
        .json(&serde_json::json!({"id": id}))
        .send()
        .await
        .unwrap();
    assert_eq!(told.status().as_u16(), 202);
    let problem = await_some("the problem", async || cluster.vendor()?.problem).await;
    assert!(problem.contains("ExpiredToken") && problem.contains("gates stay shut"), "{problem}");
    assert_eq!(cluster.vendor().unwrap().order, None);
    write_profile(&profile, "AKIDEXAMPLE", "secret", None);
    let order = await_some("the order", async || cluster.vendor()?.order).await;
    assert_eq!(order.task_id, id);
    await_some("no problem", async || cluster.vendor()?.problem.is_none().then_some(())).await;
    let (_, log) = running.end().await;
    assert!(log.contains("still live at the vendor"), "{log}");
    assert!(
        !log.contains("expired-token") && !log.contains("expired-secret"),
        "a secret in the log"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_outlives_its_parent() {
    let mut running = Running::start().await;
    await_some("ready", async || running.ready().await.then_some(())).await;
    let worker = running.worker().unwrap();
    kill_process(running.pid(), Signal::KILL).unwrap();
    running.parent.wait().await.unwrap();
    await_some("the worker's end", async || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", worker.as_raw_nonzero()));
        // An orphan may stay a zombie where nobody reaps.
        stat.map_or(true, |s| s.contains(") Z")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_is_not_ready_and_holds_nothing_up() {
    let mut running = Running::start().await;
    await_some("ready", async || running.ready().await.then_some(())).await;
    kill_process(running.worker().unwrap(), Signal::STOP).unwrap();
    assert!(!running.ready().await);
    let told = Instant::now();
    kill_process(running.pid(), Signal::TERM).unwrap();
    let status = tokio::time::timeout(Duration::from_secs(10), running.parent.wait()).await;
    assert!(status.unwrap().unwrap().success());
    let took = told.elapsed();
    assert!(took >= Duration::from_millis(1900), "it was given time: {took:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert!(running.log().contains("did not end in time"), "{}", running.log());
}

#[tokio::test]
async fn what_cannot_work_is_said_and_ends() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut in_use = command();
    in_use.env("SLUICE_CONTROL_PORT", &port);
    let mut nameless = command();
    nameless.env_remove(names::ENV_POD_UID);
    let mut stampless = command();
    stampless.env(names::ENV_STAMP, "{}");
    let mut orphan = command();
    orphan.arg("worker");
    let rows = [
        (in_use, "cannot be listened on"),
        (nameless, "SLUICE_POD_UID is not set"),
        (stampless, "SLUICE_STAMP cannot be used"),
        (orphan, "started by its parent"),
    ];
    for (mut command, text) in rows {
        let output = command.output().await.unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && log.contains(text), "{log}");
    }
    let probe = Command::new(BINARY).env_clear().args(["ready", "--control-port", "9"]).output();
    let output = probe.await.unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing listens on 127.0.0.1:9"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_a_live_task_is_given_the_time_to_cancel_it() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kube");
    let config = sluice_vendors::Config::for_testing().by_hand(Ahead { normal: 3, priority: 0 });
    let (vendor, cluster) = (Emulator::start(config).await.unwrap(), Cluster::start().await);
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    cluster.create_gang("g-1");
    let mut command = command();
    command
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", vendor.braket_url())
        .env("KUBECONFIG", &kubeconfig);
    let running = Running::of(command).await;
    let id = submit(&format!("http://{}", running.tap), GARNET).await;
    await_some("the task in the gang", async || cluster.vendor()?.tasks.first().cloned()).await;
    // The gang goes when a worker without a live task would have been killed.
    let going = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        cluster.delete_gang();
    };
    let ((took, log), ()) = tokio::join!(running.end(), going);
    assert!(took > Duration::from_millis(2500), "{took:?}");
    assert!(log.contains("the Job was deleted: cancelling 1 live task(s)"), "{log}");
    assert!(log.contains("1 task(s) cancelled, none is live") && log.contains(&id), "{log}");
    assert!(vendor.task(&id).unwrap().state.starts_with("CANCELL"));
}

//! A whole cluster: it starts, runs real containers, survives faults, and leaves nothing behind.

#![expect(clippy::expect_used, reason = "helpers of a test")]

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod, Service},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use sluice_lab::{
    FAKE_TAINT, Lab, Options, PythonEnv, TempNs, await_condition, await_list, await_value, cache,
    images, process, python_env,
};

const LIMIT: Duration = Duration::from_mins(1);
const PATIENCE: Duration = Duration::from_mins(15);

/// Asks the API server through its Service, a program of the host at the node's address, and an
/// address of the outside; then waits for a file.
const PROGRAM: &str = r#"
import json, os, pathlib, socket, ssl, time, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
token = pathlib.Path(account + "token").read_text()
context = ssl.create_default_context(cafile=account + "ca.crt")
request = urllib.request.Request(
    "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + "/version",
    headers={"Authorization": "Bearer " + token},
)
version = json.load(urllib.request.urlopen(request, context=context, timeout=10))
print("index", os.environ["JOB_COMPLETION_INDEX"], "api", version["gitVersion"], flush=True)
host, port = os.environ["HOST_PROGRAM"].split(":")
with socket.create_connection((host, int(port)), timeout=10) as connection:
    print("host says", connection.recv(100).decode(), flush=True)
try:
    socket.create_connection(("198.51.100.1", 80), timeout=10)
    print("outside answered", flush=True)
except TimeoutError:
    print("outside timed out", flush=True)
except OSError:
    print("outside refused", flush=True)
while not pathlib.Path("/tmp/go").exists():
    time.sleep(0.1)
print("done", flush=True)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_lives_and_leaves_nothing() {
    // Not a temporary folder: the logs of a failed run are wanted.
    let state = cache::root().expect("cache").join("lab-test");
    let options = || Options {
        dir: Some(state.clone()),
        features: vec!["WorkloadWithJob".into()],
        patience: PATIENCE,
        ..Options::default()
    };
    // Also clears what an earlier run of this test left, so that before and after compare.
    let python = tokio::task::spawn_blocking(python_env).await.expect("thread").expect("python");
    let lab = Lab::up(options()).await.expect("up");
    lab.down().await.expect("down");
    let before = machine();

    let lab = Lab::up(options()).await.expect("up");
    lab.load_test_images(Some(&python)).await.expect("images");
    let ns = lab.namespace("story").await.expect("namespace");
    Box::pin(runs_a_job(&lab, &ns, &python)).await;
    serves_pods(&lab, &ns).await;
    pulls_nothing(&lab, &ns).await;
    survives_faults(&lab, &ns).await;
    plays_nodes(&lab, &ns).await;
    writes_down_a_failure(&lab).await;
    refuses_a_second(&state).await;

    // A crash: every component is killed while a container runs.
    let stuck = pod("stuck", &json!({}));
    let pods: Api<Pod> = Api::namespaced(lab.kube(), ns.name());
    pods.create(&PostParams::default(), &stuck).await.expect("pod");
    await_condition(&pods, "stuck", "the pod runs", LIMIT, is_running).await.expect("running");
    for component in [
        "kubelet",
        "containerd",
        "kube-proxy",
        "kube-scheduler",
        "kube-controller-manager",
        "kwok",
        "kube-apiserver",
        "etcd",
    ] {
        lab.kill(component).await.expect(component);
    }
    assert!(!process::naming(&state).is_empty(), "the shim of the pod should live on");
    let again = Lab::up(options()).await.expect("up after a crash");
    // Its namespace went with the old cluster; nothing is to be written down.
    std::mem::forget(ns);

    again.down().await.expect("down");
    let left = process::naming(&state);
    assert!(left.is_empty(), "processes are left: {left:?}");
    let names: Vec<String> = std::fs::read_dir(&state)
        .expect("state")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["logs"], "only the logs stay");
    assert_eq!(machine(), before, "the machine is as it was");
}

async fn runs_a_job(lab: &Lab, ns: &TempNs, python: &PythonEnv) {
    let listener = TcpListener::bind((lab.node_address(), 0)).expect("listener");
    let address = listener.local_addr().expect("address").to_string();
    let greeter = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut connection, _) = listener.accept().expect("a pod");
            connection.write_all(b"welcome").expect("greeting");
            connection.shutdown(std::net::Shutdown::Write).expect("end");
            // Until the pod has read it all and closed.
            let _ = connection.read(&mut [0]);
        }
    });
    let jobs: Api<Job> = Api::namespaced(lab.kube(), ns.name());
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": "pair"},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "volumes": python.volumes(),
                "containers": [{
                    "name": "main",
                    "image": images::PYTHON_IMAGE,
                    "args": ["-c", PROGRAM],
                    "env": [{"name": "HOST_PROGRAM", "value": address}],
                    "volumeMounts": python.mounts(),
                    "securityContext": {"runAsNonRoot": true},
                }],
            }},
        },
    }))
    .expect("job");
    jobs.create(&PostParams::default(), &job).await.expect("created");
    let pods: Api<Pod> = Api::namespaced(lab.kube(), ns.name());
    let of_job = ListParams::default().labels("batch.kubernetes.io/job-name=pair");
    let both = await_list(&pods, &of_job, "both pods run", LIMIT, |pods| {
        pods.len() == 2 && pods.iter().all(is_running)
    })
    .await
    .expect("running");
    for pod in &both {
        let name = pod.name_any();
        let log = await_value("the pod has asked all", LIMIT, async || {
            let log = lab.logs(ns.name(), &name, "main").await.map_err(|e| e.chain())?;
            if log.contains("outside") { Ok(log) } else { Err(log) }
        })
        .await
        .expect("log");
        let index = &pod.labels()["batch.kubernetes.io/job-completion-index"];
        let version = lab.release().version;
        assert_eq!(
            log.lines().collect::<Vec<_>>(),
            [
                format!("index {index} api v{version}").as_str(),
                "host says welcome",
                "outside refused"
            ]
        );
        let failed = lab.exec(ns.name(), &name, "main", &["ls", "/none"]).await.expect("exec");
        assert!(!failed.success && failed.stderr.contains("/none"), "{failed:?}");
        let who = lab.exec(ns.name(), &name, "main", &["id", "-u"]).await.expect("exec");
        assert_eq!(who.stdout.trim(), sluice_lab::USER.to_string());
        let go = lab.exec(ns.name(), &name, "main", &["touch", "/tmp/go"]).await.expect("exec");
        assert!(go.success, "{go:?}");
    }
    await_condition(&jobs, "pair", "the Job is complete", LIMIT, |job: &Job| {
        job.status.as_ref().and_then(|status| status.succeeded) == Some(2)
    })
    .await
    .expect("complete");
    greeter.join().expect("both pods were greeted");
}

/// A pod reaches a Service, even one that leads back to itself; names are refused without delay.
async fn serves_pods(lab: &Lab, ns: &TempNs) {
    let serving = json!({"containers": [{
        "name": "main",
        "image": images::TOOLS_IMAGE,
        "args": ["-c", "while :; do echo welcome | nc -l -p 8080; done"],
    }]});
    let mut server = pod("server", &serving);
    server.labels_mut().insert("app".into(), "server".into());
    let pods: Api<Pod> = Api::namespaced(lab.kube(), ns.name());
    pods.create(&PostParams::default(), &server).await.expect("pod");
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "server"},
        "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }))
    .expect("service");
    let services: Api<Service> = Api::namespaced(lab.kube(), ns.name());
    let service = services.create(&PostParams::default(), &service).await.expect("service");
    let address = service.spec.and_then(|spec| spec.cluster_ip).expect("address");
    await_condition(&pods, "server", "the pod runs", LIMIT, is_running).await.expect("running");
    let ask = format!("nc -w 3 {address} 80 </dev/null");
    await_value("the Service answers", LIMIT, async || {
        let answer = lab.exec(ns.name(), "server", "main", &["sh", "-c", &ask]).await;
        match answer.map_err(|e| e.chain())? {
            answer if answer.stdout.trim() == "welcome" => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    })
    .await
    .expect("answer");
    let begun = Instant::now();
    let name = ["curl", "-sS", "http://name.example/"];
    let lookup = lab.exec(ns.name(), "server", "main", &name).await.expect("exec");
    assert!(!lookup.success && lookup.stderr.contains("resolve host"), "{lookup:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "a resolver waits 5 s for a silent server");
}

/// An image that was not loaded is an error that says so; nothing leaves the machine for it.
async fn pulls_nothing(lab: &Lab, ns: &TempNs) {
    let foreign =
        json!({"containers": [{"name": "main", "image": "registry.example/never/loaded:1"}]});
    let pods: Api<Pod> = Api::namespaced(lab.kube(), ns.name());
    pods.create(&PostParams::default(), &pod("foreign", &foreign)).await.expect("pod");
    let of_pod = ListParams::default().fields("involvedObject.name=foreign,reason=Failed");
    let events: Api<Event> = Api::namespaced(lab.kube(), ns.name());
    await_list(&events, &of_pod, "the pull failed for want of a registry", LIMIT, |events| {
        let mut messages = events.iter().filter_map(|event| event.message.as_deref());
        messages.any(|message| message.contains("127.0.0.1:9"))
    })
    .await
    .expect("event");
    pods.delete("foreign", &DeleteParams::default()).await.expect("deleted");
}

async fn survives_faults(lab: &Lab, ns: &TempNs) {
    assert!(lab.process("dockerd").is_err());
    let pods: Api<Pod> = Api::namespaced(lab.kube(), ns.name());
    lab.kill("kube-scheduler").await.expect("killed");
    assert!(lab.process("kube-scheduler").is_err());
    pods.create(&PostParams::default(), &pod("late", &json!({}))).await.expect("pod");
    lab.start("kube-scheduler").await.expect("started");
    await_condition(&pods, "late", "the pod runs", LIMIT, is_running).await.expect("running");
    assert!(lab.start("kube-scheduler").await.is_err(), "it runs already");

    lab.stop("kube-apiserver").await.expect("stopped");
    assert!(pods.get("late").await.is_err());
    lab.start("kube-apiserver").await.expect("started");
    await_value("the pod is known", LIMIT, async || {
        pods.get("late").await.map(drop).map_err(|e| e.to_string())
    })
    .await
    .expect("known");

    // An account without any rights is refused: the token is what counts.
    let token = lab.service_account_token(ns.name(), "default").await.expect("token");
    let nobody = lab.client_as(&token).await.expect("client");
    let refused = Api::<Pod>::namespaced(nobody, ns.name()).get("late").await;
    let text = refused.expect_err("no rights").to_string();
    assert!(text.contains(&format!("system:serviceaccount:{}:default", ns.name())), "{text}");
}

async fn plays_nodes(lab: &Lab, ns: &TempNs) {
    lab.add_fake_nodes(3).await.expect("nodes");
    let pods: Api<Pod> = Api::namespaced(lab.kube(), ns.name());
    let far = pod(
        "far",
        &json!({
            "nodeSelector": {"type": "kwok"},
            "tolerations": [{"key": FAKE_TAINT, "operator": "Exists"}],
        }),
    );
    pods.create(&PostParams::default(), &far).await.expect("pod");
    let far = await_condition(&pods, "far", "the pod runs", LIMIT, is_running).await.expect("runs");
    let node = far.spec.and_then(|spec| spec.node_name).expect("node");
    assert!(node.starts_with("fake-"), "{node}");
}

async fn writes_down_a_failure(lab: &Lab) {
    let ns = lab.namespace("failing").await.expect("namespace");
    let pods: Api<Pod> = Api::namespaced(lab.kube(), ns.name());
    pods.create(&PostParams::default(), &pod("clue", &json!({}))).await.expect("pod");
    await_value("the clue is in the log", LIMIT, async || {
        let log = lab.logs(ns.name(), "clue", "main").await.map_err(|e| e.chain())?;
        if log.contains("hello") { Ok(()) } else { Err(log) }
    })
    .await
    .expect("log");
    let folder = ns.dump_folder().to_owned();
    drop(ns);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    assert!(read("clue.main.log").contains("hello"));
    assert!(read("pods.yaml").contains("name: clue"));
    assert!(read("events.yaml").contains("Scheduled"));
}

async fn refuses_a_second(running: &Path) {
    let other = tempfile::tempdir().expect("dir");
    let options = Options { dir: Some(other.path().to_owned()), ..Options::default() };
    let text = Lab::up(options).await.expect_err("one at a time").to_string();
    assert!(text.contains(&running.display().to_string()), "{text}");
    assert!(text.contains("lab down --dir"), "{text}");
    let attached = Lab::attach(Some(running)).await.expect("attached");
    attached.kube().apiserver_version().await.expect("answers");
}

fn pod(name: &str, more: &serde_json::Value) -> Pod {
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "main",
            "image": images::TOOLS_IMAGE,
            "args": ["-c", "echo hello; sleep 3600"],
        }],
    });
    for (key, value) in more.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("pod")
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// What a cluster changes on a machine.
fn machine() -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    let mut note = |kind: &str, text: &str| {
        facts.extend(text.lines().map(|line| format!("{kind}: {line}")));
    };
    let links = std::fs::read_dir("/sys/class/net").expect("links");
    for link in links {
        note("link", &link.expect("link").file_name().to_string_lossy());
    }
    note("mount", &std::fs::read_to_string("/proc/self/mountinfo").expect("mounts"));
    let tables = Command::new("nft").args(["list", "tables"]).output().expect("nft");
    note("table", &String::from_utf8_lossy(&tables.stdout));
    let routes = Command::new("ip").args(["route"]).output().expect("ip");
    note("route", &String::from_utf8_lossy(&routes.stdout));
    for setting in ["net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic"] {
        let value = std::fs::read_to_string(Path::new("/proc/sys").join(setting)).expect(setting);
        note(setting, &value);
    }
    for folder in ["/run/containerd/s", "/var/lib/cni/results", "/var/log/containers"] {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            note(folder, &entry.expect("entry").file_name().to_string_lossy());
        }
    }
    for cgroup in ["/sys/fs/cgroup/k8s.io", "/sys/fs/cgroup/memory/k8s.io"] {
        if Path::new(cgroup).exists() {
            note("cgroup", cgroup);
        }
    }
    facts
}

//! The vendors of QRMI behind a whole sidecar, as processes: what a program sends through the tap
//! is found, followed with the sidecar's own looks, and released at the vendor's front.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use sluice_shared::gang::{Order, Task};
use sluice_shared::names;
use sluice_shared::stamp::Stamp;
use sluice_vendors::rest::machine::Status;
use sluice_vendors::{
    Action, Ahead, Busy, Config, Emulator, Fault, Forced, MachineChange, Running as Vendor,
    Service, Stage,
};

use crate::await_some;
use crate::cluster::Cluster;
use crate::parent::{Running, command};

const TEAM: (&str, &str) = ("team", "team-key");

/// One vendor as its clients use it.
#[derive(Debug, Clone, Copy)]
struct Row {
    service: Service,
    /// Type and name of the resource.
    resource: &'static str,
    /// The machine at the emulator.
    machine: &'static str,
    submit: fn() -> (&'static str, Value),
    /// Where the id is in the answer.
    id: &'static str,
    /// How the order says that the vendor is at the front.
    front: &'static str,
}

const IQM: Row = Row {
    service: Service::Iqm,
    resource: "iqm-server/garnet",
    machine: "iqm/garnet",
    submit: || {
        let measure = json!({"name": "measure", "locus": ["QB1"], "args": {"key": "m"}});
        let circuit = json!({"name": "one", "instructions": [measure]});
        ("/api/v1/jobs/garnet/circuit?tag=mine", json!({"circuits": [circuit], "shots": 10}))
    },
    id: "/id",
    front: "front",
};
const COMPUTE: Row = Row {
    service: Service::IbmQuantumComputeService,
    resource: "ibm-quantum-compute-service/ibm_lagos",
    machine: "ibm-quantum-compute-service/ibm_lagos",
    submit: || {
        let program = "OPENQASM 3.0; include \"stdgates.inc\"; bit[1] c; sx $0; c[0] = measure $0;";
        let params = json!({"pubs": [[program, null, 10]], "version": 2, "support_qiskit": false});
        ("/jobs", json!({"program_id": "sampler", "backend": "ibm_lagos", "params": params}))
    },
    id: "/id",
    front: "running",
};
const PASQAL: Row = Row {
    service: Service::Pasqal,
    resource: "pasqal-cloud/FRESNEL",
    machine: "pasqal/FRESNEL",
    submit: || {
        let body = json!({"sequence_builder": "{}", "device_type": "FRESNEL",
                          "project_id": "project", "jobs": [{"runs": 10}]});
        ("/core-fast/api/v1/batches", body)
    },
    id: "/data/id",
    front: "running",
};
const FELIS: Row = Row {
    service: Service::Felis,
    resource: "alice-bob-felis/emu",
    machine: "felis/EMU:1Q:LESCANNE_2020",
    submit: || {
        let body = json!({"inputDataFormat": "HUMAN_QIR", "outputDataFormat": "HISTOGRAM",
                          "target": "EMU:1Q:LESCANNE_2020", "inputParams": {"nbShots": 10}});
        ("/v1/jobs/", body)
    },
    id: "/id",
    front: "running",
};

struct Scene {
    vendor: Vendor,
    cluster: Cluster,
    folder: tempfile::TempDir,
    row: Row,
    http: reqwest::Client,
}

impl Scene {
    async fn start(row: Row, ahead: u64) -> Self {
        let mut config = Config::for_testing().by_hand(Ahead { normal: ahead, priority: 0 });
        config.qrmi.long_poll_ms = 200;
        let scene = Self {
            vendor: Emulator::start(config).await.unwrap(),
            cluster: Cluster::start().await,
            folder: tempfile::tempdir().unwrap(),
            row,
            http: reqwest::Client::new(),
        };
        std::fs::write(scene.folder.path().join("kube"), scene.cluster.kubeconfig()).unwrap();
        scene.cluster.create_gang("g-1");
        scene
    }

    async fn sidecar(&self, change: impl Fn(&str, String) -> Option<String>) -> Running {
        let stamp = Stamp { size: 3, ..Stamp::default() };
        let name = self.row.resource.split_once('/').unwrap().1;
        let mut command = command();
        command
            .env(names::ENV_STAMP, stamp.to_annotation())
            .env(names::ENV_SIDECAR_ROLE, "producer")
            .env(names::ENV_RESOURCES, json!([self.row.resource]).to_string())
            .env("KUBECONFIG", self.folder.path().join("kube"))
            .env("SLUICE_LOG", "info");
        for (key, value) in self.vendor.qrmi_environment(self.row.service, name, TEAM.0, TEAM.1) {
            let own =
                ["_ISA_ENDPOINT", "_QCS_ENDPOINT", "_QS_ENDPOINT", "_BASE_URL", "_BASE_ENDPOINT"];
            let is_own = own.iter().any(|end| key.ends_with(end));
            if let Some(value) = change(&key, value) {
                let key = if is_own { format!("SLUICE_UPSTREAM_{key}") } else { key };
                command.env(key, value);
            }
        }
        Running::of(command).await
    }

    /// The program's own right, as its client has it.
    async fn right(&self) -> String {
        let url = self.vendor.url_of(self.row.service);
        let bought = |request: reqwest::RequestBuilder| async {
            let answer: Value = request.send().await.unwrap().json().await.unwrap();
            format!("Bearer {}", answer["access_token"].as_str().unwrap())
        };
        match self.row.service {
            Service::Iqm => format!("Bearer {}", TEAM.1),
            Service::Felis => {
                let name = self.row.resource.split_once('/').unwrap().1;
                let all = self.vendor.qrmi_environment(Service::Felis, name, TEAM.0, TEAM.1);
                format!("Basic {}", all.iter().find(|(k, _)| k.ends_with("API_KEY")).unwrap().1)
            }
            Service::Pasqal => {
                let fields = json!({"client_id": TEAM.0, "client_secret": TEAM.1});
                bought(self.http.post(format!("{url}/oauth/token")).json(&fields)).await
            }
            _ => {
                let form = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey\
                            &apikey=team-key";
                bought(self.http.post(format!("{url}/identity/token")).body(form)).await
            }
        }
    }

    async fn send(&self, sidecar: &Running, path: &str, body: &Value) -> reqwest::Response {
        let url = format!("{}/{}{path}", sidecar.tap_url(), self.row.resource);
        let request = self.http.post(url).header("authorization", self.right().await).json(body);
        request.send().await.unwrap()
    }

    /// Submits as the program does, and returns the id.
    async fn submit(&self, sidecar: &Running) -> String {
        let (path, body) = (self.row.submit)();
        let answer = self.send(sidecar, path, &body).await;
        assert!(answer.status().is_success(), "{answer:?}");
        let answer: Value = answer.json().await.unwrap();
        let id = answer.pointer(self.row.id).unwrap().as_str().unwrap().to_owned();
        if self.row.service == Service::Felis {
            self.send(sidecar, &format!("/v1/jobs/{id}/input"), &json!({})).await;
        }
        id
    }

    async fn task(&self, what: &str, fits: impl Fn(&Task) -> bool) -> Task {
        await_some(what, async || self.cluster.vendor()?.tasks.into_iter().find(&fits)).await
    }

    async fn order(&self) -> Order {
        await_some("the order", async || self.cluster.vendor()?.order).await
    }

    fn ordered(&self) -> bool {
        self.cluster.vendor().is_some_and(|vendor| vendor.order.is_some())
    }

    async fn step(&self, times: u32) {
        self.vendor.step(Some(self.row.machine), times).await.unwrap();
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the form of a change")]
fn as_it_is(_: &str, value: String) -> Option<String> {
    Some(value)
}

async fn found_followed_and_released(row: Row) {
    let scene = Scene::start(row, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    let id = scene.submit(&sidecar).await;
    let task = scene.task("the task waits", |task| task.state == "QUEUED").await;
    assert_eq!(task.id, id);
    assert_eq!(task.resource.map(|r| r.to_string()).as_deref(), Some(row.resource));
    assert!(!scene.ordered(), "{row:?}");
    scene.step(3).await;
    let order = scene.order().await;
    assert_eq!((order.task_id, order.reason.as_str()), (id, row.front), "{row:?}");
    let (_, log) = sidecar.end().await;
    assert!(!log.contains(TEAM.1), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn iqm_is_followed_to_its_front() {
    let scene = Scene::start(IQM, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    let id = scene.submit(&sidecar).await;
    scene.task("its place", |task| task.position.as_deref() == Some("3")).await;
    scene.step(1).await;
    scene.task("its place", |task| task.position.as_deref() == Some("2")).await;
    assert!(!scene.ordered());
    scene.step(1).await;
    let order = scene.order().await;
    assert_eq!((order.task_id, order.reason.as_str()), (id, IQM.front));
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ibm_pasqal_and_felis_are_followed_until_they_run() {
    tokio::join!(
        found_followed_and_released(COMPUTE),
        found_followed_and_released(PASQAL),
        found_followed_and_released(FELIS),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_lanes_are_the_queue_of_ibm_quantum_system() {
    const SYSTEM: Row = Row {
        service: Service::IbmQuantumSystem,
        resource: "ibm-quantum-system/fake_lagos",
        machine: "ibm-quantum-system/fake_lagos",
        submit: || ("/v1/jobs", Value::Null),
        id: "/id",
        front: "running",
    };
    let scene = Scene::start(SYSTEM, 0).await;
    let busy = |lanes| MachineChange {
        busy: Some(Busy { lanes, ms: None, from: None }),
        ..MachineChange::default()
    };
    scene.vendor.change_machine(SYSTEM.machine, busy(100)).unwrap();
    let sidecar = scene.sidecar(as_it_is).await;
    let id = "834b21ed-0000-4000-8000-000000000000";
    let body = json!({"id": id, "backend": "fake_lagos", "program_id": "sampler",
                      "timeout_secs": 600, "storage": {}});
    for _ in 0..3 {
        let answer = scene.send(&sidecar, "/v1/jobs", &body).await;
        assert_eq!(answer.status().as_u16(), 429, "the client's own loop is the wait");
    }
    let task = scene.task("the task waits", |task| task.state == "QUEUED").await;
    assert_eq!((task.id.as_str(), task.reason.as_deref()), (id, Some("all lanes are busy")));
    assert!(!scene.ordered());
    scene.vendor.change_machine(SYSTEM.machine, busy(0)).unwrap();
    // The answer to the one that is taken is lost; the tap sends it again under its id.
    let create = "ibm-quantum-system:CreateJob";
    scene.vendor.add_fault(Fault::next(1, create, Action::Close { when: Stage::After }));
    assert_eq!(scene.send(&sidecar, "/v1/jobs", &body).await.status().as_u16(), 204);
    let order = scene.order().await;
    assert_eq!((order.task_id.as_str(), order.reason.as_str()), (id, SYSTEM.front));
    assert_eq!(scene.vendor.jobs().len(), 1);
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_that_cannot_be_repeated_closes_the_connection() {
    let scene = Scene::start(IQM, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    scene.vendor.add_fault(Fault::next(1, "iqm:SubmitJob", Action::Close { when: Stage::After }));
    let (path, body) = (IQM.submit)();
    let url = format!("{}/{}{path}", sidecar.tap_url(), IQM.resource);
    let sent = scene.http.post(url).bearer_auth(TEAM.1).json(&body).send().await;
    assert!(sent.is_err(), "{sent:?}");
    assert_eq!(scene.vendor.jobs().len(), 1, "it was made once, and not again");
    let (_, log) = sidecar.end().await;
    assert!(log.contains("the answer to a submission was lost"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_told_and_the_gates_stay_shut_until_it_is_renewed() {
    let scene = Scene::start(COMPUTE, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    scene.submit(&sidecar).await;
    scene.task("the task waits", |task| task.state == "QUEUED").await;
    // Tokens end before their time: another one is bought, nobody has to do anything.
    scene.vendor.end_tokens();
    scene.step(3).await;
    scene.order().await;
    sidecar.end().await;

    let scene = Scene::start(IQM, 2).await;
    let wrong = |key: &str, value: String| {
        Some(if key.ends_with("_TOKEN") { "wrong-key".to_owned() } else { value })
    };
    let sidecar = scene.sidecar(wrong).await;
    scene.submit(&sidecar).await;
    let problem = await_some("the problem", async || scene.cluster.vendor()?.problem).await;
    assert!(problem.contains("iqm-server/garnet refuses the credentials"), "{problem}");
    assert!(problem.contains("the gates stay shut"), "{problem}");
    scene.step(2).await;
    assert!(!scene.ordered());
    let (_, log) = sidecar.end().await;
    assert!(!log.contains("wrong-key"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_token_service_refuses_is_named_and_never_shown() {
    let scene = Scene::start(COMPUTE, 2).await;
    let wrong = |key: &str, value: String| {
        Some(if key.ends_with("_APIKEY") { "sekrit-key".to_owned() } else { value })
    };
    let sidecar = scene.sidecar(wrong).await;
    scene.submit(&sidecar).await;
    let problem = await_some("the problem", async || scene.cluster.vendor()?.problem).await;
    assert!(problem.contains("the token service of ibm-quantum-compute-service"), "{problem}");
    scene.step(3).await;
    assert!(!scene.ordered(), "{problem}");
    let (_, log) = sidecar.end().await;
    assert!(!log.contains("sekrit"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_bought_once_and_not_at_every_look() {
    let scene = Scene::start(PASQAL, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    for _ in 0..3 {
        scene.submit(&sidecar).await;
    }
    let bought = || {
        let count = |entry: &&sluice_vendors::Entry| entry.operation == "pasqal:GetToken";
        scene.vendor.journal().iter().filter(count).count()
    };
    let own = bought();
    let looks = || {
        let count = |entry: &&sluice_vendors::Entry| entry.operation == "pasqal:GetBatch";
        scene.vendor.journal().iter().filter(count).count()
    };
    await_some("many looks", async || (looks() >= 6).then_some(())).await;
    // The program buys one for each request of this test; the sidecar one for all of its looks.
    assert!(bought() <= own + 1, "{} tokens for {} looks", bought() - own, looks());
    scene.vendor.end_tokens();
    let before = bought();
    scene.step(3).await;
    scene.order().await;
    assert!(bought() - before <= 2, "{} tokens after the loss", bought() - before);
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_offline_keeps_the_first_in_line_from_the_front() {
    let scene = Scene::start(IQM, 0).await;
    let status = |status| MachineChange { status: Some(status), ..MachineChange::default() };
    scene.vendor.change_machine(IQM.machine, status(Status::Offline)).unwrap();
    let sidecar = scene.sidecar(as_it_is).await;
    scene.submit(&sidecar).await;
    let held = scene.task("why it is held", |task| task.reason.is_some()).await;
    assert_eq!(held.reason.as_deref(), Some("garnet is not healthy"));
    assert!(!held.front && !scene.ordered());
    scene.vendor.change_machine(IQM.machine, status(Status::Online)).unwrap();
    assert_eq!(scene.order().await.reason, "front");
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_nobody_has_seen_is_neither_front_nor_failed() {
    let scene = Scene::start(IQM, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    let id = scene.submit(&sidecar).await;
    let body = json!({"id": id, "status": "pondering", "queue_position": 1});
    let odd = Action::Answer {
        status: 200,
        content_type: "application/json".into(),
        body: body.to_string(),
        when: Stage::Before,
    };
    scene.vendor.add_fault(Fault::next(2, "iqm:GetJob", odd));
    let task = scene.task("the word", |task| task.state == "pondering").await;
    assert!(!task.front && !scene.ordered());
    scene.task("its place", |task| task.position.as_deref() == Some("3")).await;
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_job_has_its_task_cancelled_at_every_vendor() {
    let cancelled = async |row: Row| {
        let scene = Scene::start(row, 2).await;
        let sidecar = scene.sidecar(as_it_is).await;
        scene.submit(&sidecar).await;
        scene.task("the task waits", |task| task.state == "QUEUED").await;
        scene.cluster.delete_gang();
        let (_, log) = sidecar.end().await;
        assert_eq!(scene.vendor.jobs()[0].state, "CANCELLED", "{row:?}: {log}");
    };
    tokio::join!(cancelled(IQM), cancelled(COMPUTE), cancelled(PASQAL), cancelled(FELIS));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_comes_next_knows_where_the_task_is() {
    let scene = Scene::start(IQM, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    let id = scene.submit(&sidecar).await;
    scene.task("its place", |task| task.position.as_deref() == Some("3")).await;
    kill_process(sidecar.worker().unwrap(), Signal::KILL).unwrap();
    scene.step(1).await;
    let task = scene.task("its place", |task| task.position.as_deref() == Some("2")).await;
    assert_eq!(task.resource.map(|r| r.to_string()).as_deref(), Some(IQM.resource));
    scene.step(1).await;
    assert_eq!(scene.order().await.task_id, id);
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_without_credentials_uses_the_programs_own() {
    let scene = Scene::start(IQM, 2).await;
    let without = |key: &str, value: String| (!key.ends_with("_TOKEN")).then_some(value);
    let sidecar = scene.sidecar(without).await;
    let id = scene.submit(&sidecar).await;
    scene.task("its place", |task| task.position.as_deref() == Some("3")).await;
    scene.step(2).await;
    assert_eq!(scene.order().await.task_id, id);
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_points_nowhere_is_answered_with_what_is_wrong() {
    let scene = Scene::start(IQM, 2).await;
    let nowhere = |key: &str, value: String| {
        Some(if key.ends_with("_ISA_ENDPOINT") { "nowhere".to_owned() } else { value })
    };
    let sidecar = scene.sidecar(nowhere).await;
    let (path, body) = (IQM.submit)();
    let answer = scene.send(&sidecar, path, &body).await;
    assert_eq!(answer.status().as_u16(), 502);
    let answer: Value = answer.json().await.unwrap();
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("garnet_QRMI_IQM_ISA_ENDPOINT"), "{message}");
    let url = format!("{}/iqm-server/emerald/api/v1/jobs/x", sidecar.tap_url());
    let other = scene.http.get(url).send().await.unwrap();
    assert_eq!(other.status().as_u16(), 404);
    let text = other.text().await.unwrap();
    assert!(text.contains("it has: iqm-server/garnet"), "{text}");
    let (_, log) = sidecar.end().await;
    assert!(log.contains("garnet_QRMI_IQM_ISA_ENDPOINT"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_told_never_closed_and_its_end_says_why_a_job_was_cancelled() {
    let scene = Scene::start(COMPUTE, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    let open = json!({"backend": "ibm_lagos", "mode": "dedicated", "max_ttl": 600});
    let answer: Value = scene.send(&sidecar, "/sessions", &open).await.json().await.unwrap();
    let session = answer["id"].as_str().unwrap().to_owned();
    let (path, mut body) = (COMPUTE.submit)();
    body["session_id"] = json!(session);
    let answer: Value = scene.send(&sidecar, path, &body).await.json().await.unwrap();
    let id = answer["id"].as_str().unwrap();
    let task = scene.task("its session", |task| task.session.is_some()).await;
    assert_eq!(task.session.as_deref(), Some(session.as_str()));
    scene.vendor.force_job(id, Forced::Cancelled, "session x was closed").unwrap();
    let task = scene.task("its end", |task| task.state == "CANCELLED").await;
    assert_eq!(task.reason.as_deref(), Some("session x was closed"));
    let (_, log) = sidecar.end().await;
    assert!(
        log.contains(&format!("the program left open, and that end by themselves: {session}")),
        "{log}"
    );
    let closes =
        scene.vendor.journal().iter().any(|entry| entry.operation.contains("CloseSession"));
    assert!(!closes, "Sluice opened no session, so it closes none");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announced_task_is_followed_where_it_is() {
    let scene = Scene::start(IQM, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    let (path, body) = (IQM.submit)();
    let url = format!("{}{path}", scene.vendor.url_of(Service::Iqm));
    let made = scene.http.post(url).bearer_auth(TEAM.1).json(&body).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let id = made["id"].as_str().unwrap();
    let url = format!("http://{}/v1/tasks", sidecar.control);
    let announce = async |body: Value| {
        let answer = scene.http.post(&url).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (status, answer) = announce(json!({"id": id, "resource": "iqm-server/emerald"})).await;
    assert_eq!(status, 400);
    assert!(answer["message"].as_str().unwrap().contains("this pod has: iqm-server/garnet"));
    let (status, answer) = announce(json!({"id": "x y"})).await;
    assert_eq!(status, 400, "{answer}");
    let (status, answer) = announce(json!({"id": id})).await;
    assert_eq!((status, answer["resource"].as_str()), (202, Some("iqm-server/garnet")));
    scene.task("its place", |task| task.position.as_deref() == Some("3")).await;
    scene.step(2).await;
    assert_eq!(scene.order().await.task_id, id);
    sidecar.end().await;
}

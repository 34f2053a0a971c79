//! The vendors of QRMI behind a whole sidecar, as processes: what a program sends through the tap
//! is found, followed with the sidecar's own looks, and released at the vendor's front.

mod again;
mod rights;
mod scene;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use sluice_vendors::rest::machine::Status;
use sluice_vendors::{Action, Busy, Fault, Forced, MachineChange, Service, Stage};

use self::scene::{COMPUTE, FELIS, IQM, PASQAL, Row, Scene, TEAM, as_it_is};

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

//! IBM Quantum Compute Service, judged by IBM's own client, qiskit-ibm-runtime.

use serde_json::{Value, json};
use sluice_vendors::{Action, Ahead, Config, Fault, Forced, Running, Stage};

use crate::caller::{Caller, interpreter};
use crate::python::without_simulator;

const NAME: &str = "ibm-quantum-compute-service/ibm_lagos";

fn config() -> Config {
    Config::for_testing().by_hand(Ahead { normal: 1, priority: 0 })
}

fn client(vendor: &Running, key: &str) -> Caller {
    Caller::start(interpreter(), "ibm_runtime_calls.py", vendor.qiskit_environment(key))
}

async fn submit(client: &mut Caller, call: Value) -> String {
    client.ask(call).await.as_str().expect("an id").to_owned()
}

async fn run(client: &mut Caller) -> String {
    submit(client, json!({ "call": "run", "shots": 10 })).await
}

async fn run_in(client: &mut Caller, session: &str) -> String {
    submit(client, json!({ "call": "run", "shots": 10, "session": session })).await
}

/// The state of a job that this client submitted, in its own word.
async fn state(client: &mut Caller, id: &str) -> String {
    submit(client, json!({ "call": "status", "job": id })).await
}

/// A job as it is found by its id alone.
async fn fetched(client: &mut Caller, id: &str) -> Value {
    client.ask(json!({ "call": "fetch", "job": id })).await
}

/// Everything that the client asked for is an operation of the emulator, and succeeded.
fn check_served(vendor: &Running) {
    let counts = vendor.counts();
    let served = |name: &String| name.ends_with(" 200") || name.ends_with(" 204");
    assert!(counts.keys().all(served), "{counts:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_is_translated_for_the_machine_runs_and_is_counted() {
    let vendor = without_simulator(config().with_qiskit_python(interpreter())).await;
    let mut client = client(&vendor, "team-key");
    let machine = client.ask(json!({ "call": "describe" })).await;
    assert_eq!((&machine["name"], &machine["qubits"]), (&json!("ibm_lagos"), &json!(7)));
    assert_eq!(machine["gates"], json!(["cx", "delay", "id", "measure", "reset", "rz", "sx", "x"]));
    assert_eq!((&machine["operational"], &machine["pending"]), (&json!(true), &json!(1)));
    assert_eq!(machine["t1"], 1.2e-4);

    let call = json!({ "call": "run", "shots": 10, "tags": ["mine"] });
    let id = submit(&mut client, call).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(state(&mut client, &id).await);
        vendor.step(Some(NAME), 1).await.unwrap();
    }
    assert_eq!(seen, ["QUEUED", "QUEUED", "RUNNING"]);
    assert_eq!(state(&mut client, &id).await, "DONE");
    let counts = client.ask(json!({ "call": "counts", "job": id })).await;
    let counts = counts.as_object().expect("counts by bits");
    assert_eq!(counts.values().filter_map(Value::as_u64).sum::<u64>(), 10);
    assert!(counts.keys().all(|bits| ["00", "11"].contains(&bits.as_str())), "{counts:?}");

    let job = fetched(&mut client, &id).await;
    assert_eq!((&job["status"], &job["backend"]), (&json!("DONE"), &json!("ibm_lagos")));
    assert_eq!((&job["tags"], &job["circuits"]), (&json!(["mine"]), &json!(1)));
    assert!(job["usage"].as_u64().is_some_and(|seconds| seconds >= 1), "{job}");
    let usage = client.ask(json!({ "call": "usage" })).await;
    assert_eq!(usage["usage_consumed_seconds"], job["usage"]);
    client.ask(json!({ "call": "tag", "job": id, "tags": ["ours"] })).await;
    let mut list =
        async |filters: Value| client.ask(json!({ "call": "list", "filters": filters })).await;
    assert_eq!(list(json!({ "job_tags": ["ours"], "pending": false })).await, json!([id]));
    assert_eq!(list(json!({ "job_tags": ["mine"] })).await, json!([]));
    check_served(&vendor);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_cancelled_or_failed_says_so() {
    let vendor = without_simulator(config()).await;
    let mut client = client(&vendor, "team-key");
    let stopped = run(&mut client).await;
    client.ask(json!({ "call": "cancel", "job": stopped })).await;
    assert_eq!(fetched(&mut client, &stopped).await["status"], "CANCELLED");
    let counts = |id: &str| json!({ "call": "counts", "job": id });
    let told = client.refused(counts(&stopped)).await;
    assert!(
        told.starts_with("RuntimeInvalidStateError") && told.contains("was cancelled"),
        "{told}"
    );
    let told = client.refused(json!({ "call": "cancel", "job": stopped })).await;
    assert!(told.starts_with("RuntimeInvalidStateError"), "{told}");
    assert!(told.contains("Job cannot be cancelled") && told.contains("409"), "{told}");

    let failed = run(&mut client).await;
    vendor.force_job(&failed, Forced::Failed, "the fridge is warm").unwrap();
    assert_eq!(state(&mut client, &failed).await, "ERROR");
    let told = client.refused(counts(&failed)).await;
    assert!(told.starts_with("RuntimeJobFailureError"), "{told}");
    assert!(told.contains("the fridge is warm"), "{told}");

    // This emulator has no Python with Qiskit.
    let unread = run(&mut client).await;
    vendor.step(Some(NAME), 4).await.unwrap();
    let job = fetched(&mut client, &unread).await;
    assert_eq!(job["status"], "ERROR");
    assert!(job["why"].as_str().is_some_and(|why| why.contains("SLUICE_QISKIT_PYTHON")), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gives_priority_and_what_waits_ends_with_it() {
    let vendor = without_simulator(config().with_qiskit_python(interpreter())).await;
    let (mut inside, mut outside) = (client(&vendor, "team-key"), client(&vendor, "other-key"));
    let session = submit(&mut inside, json!({ "call": "open" })).await;
    let asked = json!({ "call": "session_status", "session": session });
    assert_eq!(inside.ask(asked.clone()).await, "Pending");
    let first = run_in(&mut inside, &session).await;
    vendor.step(Some(NAME), 2).await.unwrap();
    assert_eq!(state(&mut inside, &first).await, "RUNNING");
    assert_eq!(inside.ask(asked.clone()).await, "In progress, accepting new jobs");

    // A job outside came earlier and stands behind foreign work; the session's goes before it.
    let waits = run(&mut outside).await;
    let second = run_in(&mut inside, &session).await;
    vendor.step(Some(NAME), 1).await.unwrap();
    assert_eq!(state(&mut inside, &first).await, "DONE");
    assert_eq!(state(&mut inside, &second).await, "RUNNING");
    assert_eq!(state(&mut outside, &waits).await, "QUEUED");

    let third = run_in(&mut inside, &session).await;
    inside.ask(json!({ "call": "cancel_session", "session": session })).await;
    assert_eq!(inside.ask(asked).await, "Closed");
    assert_eq!(state(&mut inside, &third).await, "CANCELLED");
    assert_eq!(state(&mut inside, &second).await, "RUNNING");
    assert_eq!(state(&mut outside, &waits).await, "QUEUED");
    let cancelled = vendor.jobs().into_iter().find(|job| job.id == third).unwrap();
    let reason = format!("session {session} was closed by its user");
    assert_eq!((cancelled.group, cancelled.reason), (Some(session), Some(reason)));
    check_served(&vendor);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_only_closed_lets_its_jobs_run() {
    let vendor = without_simulator(config().with_qiskit_python(interpreter())).await;
    let mut client = client(&vendor, "team-key");
    let session = submit(&mut client, json!({ "call": "open" })).await;
    let id = run_in(&mut client, &session).await;
    client.ask(json!({ "call": "close_session", "session": session })).await;
    assert_eq!(state(&mut client, &id).await, "QUEUED");
    vendor.step(Some(NAME), 2).await.unwrap();
    let asked = json!({ "call": "session_status", "session": session });
    assert_eq!(client.ask(asked.clone()).await, "In progress, not accepting new jobs");
    vendor.step(Some(NAME), 1).await.unwrap();
    assert_eq!(state(&mut client, &id).await, "DONE");
    assert_eq!(client.ask(asked).await, "Closed");
    assert_eq!(fetched(&mut client, &id).await["session"], session);
    check_served(&vendor);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_the_rate_are_checked_and_errors_of_the_server_are_tried_again() {
    let vendor = without_simulator(config()).await;
    // The client keeps a refused key to itself: it warns, and finds no machine.
    let warned = client(&vendor, "wrong-key").ask(json!({ "call": "sign_in" })).await;
    assert!(warned.to_string().contains("Provided API key could not be found"), "{warned}");
    let service = "ibm-quantum-compute-service";
    assert!(vendor.counts().contains_key(&format!("{service}:ListBackends 401")));

    let mut client = client(&vendor, "team-key");
    let create = format!("{service}:CreateJob");
    let bad_gateway = Action::Answer {
        status: 502,
        content_type: "text/html".to_owned(),
        body: String::new(),
        when: Stage::After,
    };
    vendor.add_fault(Fault::next(1, &create, bad_gateway));
    let id = run(&mut client).await;
    // The job of the answer that was lost is not known to the client.
    assert_eq!(vendor.jobs().len(), 2);
    for _ in 0..3 {
        run(&mut client).await;
    }
    let told = client.refused(json!({ "call": "run", "shots": 10 })).await;
    assert!(told.starts_with("IBMRuntimeError: 'Failed to run program"), "{told}");
    assert!(told.contains("429 Client Error") && told.contains("5 jobs per minute"), "{told}");
    assert_eq!(vendor.jobs().len(), 5);

    assert!(vendor.revoke_key("team"));
    let told = client.refused(json!({ "call": "status", "job": id })).await;
    assert!(told.starts_with("IBMNotAuthorizedError"), "{told}");
}

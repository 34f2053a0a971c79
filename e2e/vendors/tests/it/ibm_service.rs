//! IBM Quantum Compute Service, judged by QRMI.

use serde_json::{Value, json};
use sluice_vendors::{Action, Ahead, Config, Fault, Forced, Running, Service, Stage};

use crate::python::{emulator, without_simulator};
use crate::qrmi::Qrmi;

const NAME: &str = "ibm-quantum-compute-service/ibm_lagos";

fn config() -> Config {
    Config::for_testing().by_hand(Ahead { normal: 1, priority: 0 })
}

fn client(vendor: &Running, key: &str) -> Qrmi {
    let kind = "IBMQuantumComputeService";
    Qrmi::start(vendor, Service::IbmQuantumComputeService, "ibm_lagos", kind, ("team", key))
}

/// Both bits end alike, whichever way.
fn payload() -> Value {
    let source = "OPENQASM 3.0; include \"stdgates.inc\"; bit[2] c; rz(pi/2) $0; sx $0; \
                  rz(pi/2) $0; cx $0, $1; c[0] = measure $0; c[1] = measure $1;";
    let input = json!({ "pubs": [[source, null, 50]], "version": 2, "support_qiskit": false });
    json!({ "payload": "QiskitPrimitive", "input": input.to_string(), "program_id": "sampler" })
}

/// What the vendor's API answers to the team.
async fn asked(vendor: &Running, path: &str) -> Value {
    let url = vendor.url_of(Service::IbmQuantumComputeService);
    let http = reqwest::Client::new();
    let form = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey=team-key";
    let token = http.post(format!("{url}/identity/token")).body(form).send().await.unwrap();
    let token: Value = token.json().await.unwrap();
    let get = http.get(format!("{url}/api/v1{path}"));
    let answer = get.bearer_auth(token["access_token"].as_str().unwrap()).send().await.unwrap();
    answer.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_queued_runs_and_gives_its_result() {
    let vendor = emulator(config()).await;
    let mut client = client(&vendor, "team-key");
    let status = client.ask("status", json!([])).await;
    assert_eq!(
        status["status"].as_str().unwrap().to_lowercase().rsplit('.').next(),
        Some("online")
    );
    let id = client.submit(&payload()).await;
    let length = asked(&vendor, "/backends/ibm_lagos/status").await["length_queue"].clone();
    assert_eq!(length, 2);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(client.state(&id).await);
        vendor.step(Some(NAME), 1).await.unwrap();
    }
    assert_eq!(seen, ["Queued", "Queued", "Running"]);
    assert_eq!(client.state(&id).await, "Completed");
    let result = client.ask("task_result", json!([id])).await;
    let result: Value = serde_json::from_str(result.as_str().unwrap()).unwrap();
    let samples = result["results"][0]["data"]["c"]["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 50);
    assert!(samples.iter().all(|sample| *sample == "0x0" || *sample == "0x3"), "{samples:?}");

    let stopped = client.submit(&payload()).await;
    client.ask("task_stop", json!([stopped])).await;
    assert_eq!(client.state(&stopped).await, "Cancelled");
    let failed = client.submit(&payload()).await;
    vendor.force_job(&failed, Forced::Failed, "the fridge is warm").unwrap();
    assert_eq!(client.state(&failed).await, "Failed");
    let list = async |query: &str| asked(&vendor, &format!("/jobs?{query}")).await["count"].clone();
    assert_eq!(list("pending=true").await, 0);
    assert_eq!(list("pending=false&backend=ibm_lagos").await, 3);
    assert_eq!(list("tags=mine").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gives_priority_and_its_end_cancels_its_jobs() {
    let vendor = emulator(config()).await;
    let mut inside = client(&vendor, "team-key");
    let session = inside.ask("acquire", json!([])).await;
    let session = session.as_str().unwrap().to_owned();
    let state = async || asked(&vendor, &format!("/sessions/{session}")).await["state"].clone();
    assert_eq!(state().await, "open");
    let first = inside.submit(&payload()).await;
    vendor.step(Some(NAME), 2).await.unwrap();
    assert_eq!((inside.state(&first).await, state().await), ("Running".into(), json!("active")));

    // A job outside came earlier and stands behind foreign work; the session's goes before it.
    let mut outside = client(&vendor, "other-key");
    let waits = outside.submit(&payload()).await;
    let second = inside.submit(&payload()).await;
    vendor.step(Some(NAME), 1).await.unwrap();
    assert_eq!(inside.state(&first).await, "Completed");
    assert_eq!(inside.state(&second).await, "Running");
    assert_eq!(outside.state(&waits).await, "Queued");

    let third = inside.submit(&payload()).await;
    inside.ask("release", json!([session])).await;
    assert_eq!(state().await, "closed");
    assert_eq!(inside.state(&third).await, "Cancelled");
    let reason = asked(&vendor, &format!("/jobs/{third}")).await["state"]["reason"].clone();
    assert_eq!(reason, format!("session {session} was closed by its user"));
    assert_eq!(outside.state(&waits).await, "Queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_the_rate_are_checked_and_faults_strike() {
    let vendor = without_simulator(config()).await;
    let refused = client(&vendor, "wrong-key").call("task_start", payload()).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(vendor.jobs(), []);
    let create = "ibm-quantum-compute-service:CreateJob";
    assert_eq!(vendor.counts().get(&format!("{create} 401")), Some(&1));

    let mut client = client(&vendor, "team-key");
    vendor.add_fault(Fault::next(1, create, Action::Close { when: Stage::After }));
    assert!(client.call("task_start", payload()).await.is_err());
    assert_eq!(vendor.jobs().len(), 1, "the answer was lost, the job was made");
    for _ in 0..4 {
        client.submit(&payload()).await;
    }
    assert!(client.call("task_start", payload()).await.is_err());
    assert_eq!(vendor.counts().get(&format!("{create} 429")), Some(&1));
    assert_eq!(vendor.jobs().len(), 5);
}

//! IBM Quantum System, judged by QRMI.

use std::time::Duration;

use serde_json::{Value, json};
use sluice_vendors::{
    Action, Ahead, Busy, Config, Fault, Machine, MachineChange, Running, Service, Stage,
};

use crate::python::{emulator, without_simulator};
use crate::qrmi::Qrmi;

const NAME: &str = "ibm-quantum-system/fake_lagos";
const LIMIT: Duration = Duration::from_secs(30);

fn config() -> Config {
    let mut config = Config::for_testing().by_hand(Ahead::default());
    let system = |machine: &&mut Machine| machine.service == Service::IbmQuantumSystem;
    config.qrmi.machines.iter_mut().find(system).unwrap().pace.capacity = 1;
    config
}

fn with_bucket(vendor: Running) -> Running {
    vendor.add_bucket("123456789012", "qrmi");
    vendor
}

fn client(vendor: &Running, key: &str) -> Qrmi {
    let kind = "IBMQuantumSystem";
    Qrmi::start(vendor, Service::IbmQuantumSystem, "fake_lagos", kind, ("team", key))
}

/// Both bits end alike, whichever way.
fn payload() -> Value {
    let source = "OPENQASM 3.0; include \"stdgates.inc\"; bit[2] c; rz(pi/2) $0; sx $0; \
                  rz(pi/2) $0; cx $0, $1; c[0] = measure $0; c[1] = measure $1;";
    let input = json!({ "pubs": [[source, null, 50]], "version": 2, "support_qiskit": false });
    json!({ "payload": "QiskitPrimitive", "input": input.to_string(), "program_id": "sampler" })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_lane_is_the_wait_and_the_acceptance_is_the_front() {
    let vendor = with_bucket(emulator(config()).await);
    let mut first = client(&vendor, "team-key");
    assert_eq!(first.ask("is_accessible", json!([])).await, true);
    let id = first.submit(&payload()).await;
    assert_eq!(first.state(&id).await, "Running");

    let mut second = client(&vendor, "team-key");
    second.send("task_start", payload()).await;
    let create = "ibm-quantum-system:CreateJob";
    let refused = |vendor: &sluice_vendors::Steering| {
        vendor.counts().get(&format!("{create} 429")).is_some_and(|count| *count >= 1)
    };
    assert!(vendor.until(LIMIT, refused).await, "{:?}", vendor.counts());

    vendor.step(Some(NAME), 1).await.unwrap();
    assert_eq!(first.state(&id).await, "Completed");
    let result = first.ask("task_result", json!([id])).await;
    let result: Value = serde_json::from_str(result.as_str().unwrap()).unwrap();
    let samples = result["results"][0]["data"]["c"]["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 50);
    assert!(samples.iter().all(|sample| *sample == "0x0" || *sample == "0x3"), "{samples:?}");

    // A job that has ended holds its lane until it is deleted.
    assert_eq!(vendor.jobs().len(), 1);
    first.ask("task_stop", json!([id])).await;
    let accepted = second.told().await.unwrap();
    assert_eq!(vendor.jobs()[0].id, accepted.as_str().unwrap());
    assert_eq!(second.state(accepted.as_str().unwrap()).await, "Running");
    second.ask("task_stop", json!([accepted])).await;
    assert_eq!(vendor.jobs(), []);
    let codes: Vec<_> = vendor
        .journal()
        .into_iter()
        .filter(|entry| entry.operation == create && entry.status == Some(429))
        .map(|entry| entry.answer.unwrap().body.contains("\"1232\""))
        .collect();
    assert!(codes.iter().all(|right| *right));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_work_and_reservations_keep_jobs_out() {
    let vendor = with_bucket(without_simulator(config()).await);
    let change = |change| vendor.change_machine(NAME, change).unwrap();
    let busy = Busy { lanes: 1, ms: Some(3_600_000), from: None };
    change(MachineChange { busy: Some(busy), ..MachineChange::default() });
    let mut client = client(&vendor, "team-key");
    client.send("task_start", payload()).await;
    let told = |status: u16| {
        move |vendor: &sluice_vendors::Steering| {
            let name = format!("ibm-quantum-system:CreateJob {status}");
            vendor.counts().contains_key(&name)
        }
    };
    assert!(vendor.until(LIMIT, told(429)).await);
    change(MachineChange {
        busy: Some(Busy::default()),
        reserved: Some(true),
        ..MachineChange::default()
    });
    assert!(vendor.until(LIMIT, told(423)).await);
    change(MachineChange { reserved: Some(false), ..MachineChange::default() });
    let id = client.told().await.unwrap();
    assert_eq!(client.state(id.as_str().unwrap()).await, "Running");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_tokens_are_checked_and_a_lost_answer_is_a_conflict() {
    let vendor = with_bucket(without_simulator(config()).await);
    let (_, text) = client(&vendor, "wrong-key").call("task_start", payload()).await.unwrap_err();
    assert!(text.contains("API key could not be found"), "{text}");
    assert_eq!(vendor.counts().get("ibm-quantum-system:GetToken 400"), Some(&1));

    let mut client = client(&vendor, "team-key");
    let lost = Action::Error {
        code: "1200".into(),
        status: Some(503),
        message: "lost".into(),
        retry_after: None,
        when: Stage::After,
    };
    vendor.add_fault(Fault::next(1, "ibm-quantum-system:CreateJob", lost));
    // The client repeats the submission by itself, and its lane is taken by the first.
    let (_, text) = client.call("task_start", payload()).await.unwrap_err();
    assert!(text.contains("1231"), "{text}");
    let id = vendor.jobs()[0].id.clone();
    // A token that ended is bought again without a word.
    vendor.end_tokens();
    assert_eq!(client.state(&id).await, "Running");
    let counts = vendor.counts();
    assert_eq!(counts.get("ibm-quantum-system:GetToken 200"), Some(&2));
    assert_eq!(counts.get("ibm-quantum-system:GetJob 401"), Some(&1));
}

//! Pasqal Cloud, judged by QRMI and by Pasqal's own client.

use serde_json::{Value, json};
use sluice_vendors::{Action, Ahead, Config, Fault, MachineChange, Running, Service, Stage};

use crate::caller::{Caller, interpreter};
use crate::python::without_simulator;
use crate::qrmi::Qrmi;

const NAME: &str = "pasqal/EMU_FREE";

async fn vendor() -> Running {
    without_simulator(Config::for_testing().by_hand(Ahead { normal: 1, priority: 0 })).await
}

fn client(vendor: &Running, key: &str) -> Qrmi {
    Qrmi::start(vendor, Service::Pasqal, "EMU_FREE", "PasqalCloud", ("team", key))
}

fn payload() -> Value {
    let sequence = json!({ "register": [{ "name": "q0" }, { "name": "q1" }] }).to_string();
    json!({ "payload": "PasqalCloud", "sequence": sequence, "job_runs": 40 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_pending_runs_and_is_done() {
    let vendor = vendor().await;
    let mut client = client(&vendor, "team-key");
    client.ask("status", json!([])).await;
    let id = client.submit(&payload()).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(client.state(&id).await);
        vendor.step(Some(NAME), 1).await.unwrap();
    }
    assert_eq!(seen, ["Queued", "Queued", "Running"]);
    assert_eq!(client.state(&id).await, "Completed");
    let result = client.ask("task_result", json!([id])).await;
    let result: Value = serde_json::from_str(result.as_str().unwrap()).unwrap();
    let counter = result["counter"].as_object().unwrap();
    assert_eq!(counter.values().filter_map(Value::as_u64).sum::<u64>(), 40);
    assert!(counter.keys().all(|bits| bits.len() == 2), "{counter:?}");

    let stopped = client.submit(&payload()).await;
    client.ask("task_stop", json!([stopped])).await;
    assert_eq!(client.state(&stopped).await, "Cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_checked_and_faults_strike() {
    let vendor = vendor().await;
    assert!(client(&vendor, "wrong-key").call("task_start", payload()).await.is_err());
    assert_eq!(vendor.counts().get("pasqal:GetToken 401"), Some(&1));
    let mut client = client(&vendor, "team-key");
    let lost = Action::Close { when: Stage::After };
    vendor.add_fault(Fault::next(1, "pasqal:CreateBatch", lost));
    assert!(client.call("task_start", payload()).await.is_err());
    assert_eq!(vendor.jobs().len(), 1, "the answer was lost, the batch was made");
}

/// Pasqal's own client, with the key of the account `team`, right or wrong.
fn own_client(vendor: &Running, key: &str) -> Caller {
    let account = vendor.qrmi_environment(Service::Pasqal, "EMU_FREE", "team", key);
    Caller::start(interpreter(), "pasqal_calls.py", account)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_batch_keeps_the_machine_until_it_is_closed() {
    let vendor = vendor().await;
    let mut client = own_client(&vendor, "team-key");
    let call = json!({ "call": "create", "runs": 40, "open": true });
    let id = client.ask(call).await.as_str().unwrap().to_owned();
    let ask = |call: &str| json!({ "call": call, "batch": id, "runs": 30 });
    let shown = |status: &str, open: bool, jobs: &[&str]| json!({ "status": status, "open": open, "jobs": jobs });
    assert_eq!(client.ask(ask("show")).await, shown("PENDING", true, &["PENDING"]));
    vendor.step(Some(NAME), 3).await.unwrap();
    assert_eq!(client.ask(ask("show")).await, shown("RUNNING", true, &["DONE"]));
    // Many come between its first job and its second.
    let crowd = MachineChange { add_ahead: Some(500), ..MachineChange::default() };
    vendor.change_machine(NAME, crowd).unwrap();
    assert_eq!(client.ask(ask("add")).await, shown("RUNNING", true, &["DONE", "PENDING"]));
    vendor.step(Some(NAME), 4).await.unwrap();
    assert_eq!(client.ask(ask("show")).await, shown("RUNNING", true, &["DONE", "DONE"]));
    assert_eq!(client.ask(ask("close")).await, shown("DONE", false, &["DONE", "DONE"]));
    let told = client.refused(ask("add")).await;
    assert!(told.starts_with("JobCreationError"), "{told}");

    let results = client.ask(ask("results")).await;
    let counts = |n: usize| results[n].as_object().unwrap().values().filter_map(Value::as_u64);
    assert_eq!([0, 1].map(|n| counts(n).sum::<u64>()), [40, 30]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pasqal_s_own_client_cancels_and_is_refused() {
    let vendor = vendor().await;
    let mut client = own_client(&vendor, "team-key");
    let call = json!({ "call": "create", "runs": 40, "open": false });
    let id = client.ask(call.clone()).await;
    let ended = client.ask(json!({ "call": "cancel", "batch": id })).await;
    assert_eq!(ended, json!({ "status": "CANCELED", "open": false, "jobs": ["CANCELED"] }));
    let refused = own_client(&vendor, "wrong-key").refused(call).await;
    assert!(refused.starts_with("TokenProviderError"), "{refused}");
}

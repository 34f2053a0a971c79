//! Pasqal Cloud, judged by QRMI.

use serde_json::{Value, json};
use sluice_vendors::{Action, Ahead, Config, Fault, Running, Service, Stage};

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

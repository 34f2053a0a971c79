//! A whole session of amazon-braket-sdk.

use serde_json::{Value, json};
use sluice_vendors::{Ahead, Config, DeviceChange, Mode, Pace};

use crate::python::{check_model, emulator, run};

const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

fn total(counts: &Value) -> u64 {
    counts.as_object().expect("counts").values().filter_map(Value::as_u64).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_runs_batches_cancels_attaches_and_searches() {
    let vendor = emulator(Config::for_testing()).await;
    let still = DeviceChange {
        pace: Some(Pace { mode: Mode::Manual, created_ms: 0, ..Pace::default() }),
        ahead: Some(Ahead { normal: 6, priority: 0 }),
        ..DeviceChange::default()
    };
    vendor.change_device("Emerald", still).unwrap();

    let seen = run("sdk.py", &vendor, &Value::Null).await;

    for (arn, device) in seen["devices"].as_object().unwrap() {
        assert_eq!(device["status"], "ONLINE", "{arn}");
        assert_eq!(device["available"], true, "{arn}");
        assert!(device["actions"].to_string().contains("braket.ir.openqasm.program"), "{arn}");
    }
    let schemas: Vec<_> = seen["devices"]
        .as_object()
        .unwrap()
        .values()
        .map(|device| device["schema"].as_str().unwrap())
        .collect();
    for schema in ["IqmDeviceCapabilities", "RigettiDeviceCapabilities", "IonqDeviceCapabilities"] {
        assert!(schemas.contains(&schema), "{schema} in {schemas:?}");
    }
    // The results are computed: a Bell pair agrees with itself, a certain flip is certain.
    assert_eq!(total(&seen["bell"]), 100);
    assert!(seen["bell"].as_object().unwrap().keys().all(|bits| bits == "00" || bits == "11"));
    assert_eq!(seen["noisy"], json!({ "0": 10 }));
    for name in ["exact", "amplitude"] {
        let exact = seen[name].as_array().unwrap();
        assert!(exact.iter().all(|p| (p.as_f64().unwrap() - 0.5).abs() < 1e-9), "{exact:?}");
    }
    assert_eq!(seen["after"][0], "COMPLETED");
    assert_eq!(seen["after"][1], Value::Null);
    assert_eq!(
        seen["after"][2],
        "Task is in COMPLETED status. AmazonBraket does not show queue position for this status."
    );
    assert_eq!(seen["batch"], json!([20, 20, 20]));
    assert_eq!(seen["queued"], json!(["QUEUED", "7"]));
    assert_eq!(seen["attached"], json!(["COMPLETED", true]));
    assert_eq!(seen["bad"][0], Value::Null);
    assert_eq!(seen["bad"][1], "FAILED");
    assert!(!seen["bad"][2].as_str().unwrap().is_empty());
    // The search gives the batch, newest first, in pages of two.
    let pages = seen["pages"].as_array().unwrap();
    let sizes: Vec<_> = pages.iter().map(|page| page.as_array().unwrap().len()).collect();
    assert_eq!(sizes, [2, 1]);
    let mut found: Vec<_> =
        pages.iter().flat_map(|page| page.as_array().unwrap()).map(|task| &task["arn"]).collect();
    let mut batch: Vec<_> = seen["batch_ids"].as_array().unwrap().iter().collect();
    found.sort_by_key(ToString::to_string);
    batch.sort_by_key(ToString::to_string);
    assert_eq!(found, batch);
    assert_eq!(pages[0][0]["tags"], json!({ "batch": "1" }));
    // Plain boto3 names no schemas in its User-Agent.
    assert_eq!(seen["plain_actions"], json!([]));
    assert_eq!(seen["no_queue_info"], false);
    assert_eq!(seen["found"].as_array().unwrap().len(), 2);
    assert!(seen["found"].as_array().unwrap().contains(&json!(GARNET)));

    let cancelled = vendor.task(seen["cancelled"].as_str().unwrap()).unwrap();
    assert!(cancelled.state.starts_with("CANCELL"), "{}", cancelled.state);
    let first = vendor.task(seen["first"].as_str().unwrap()).unwrap();
    assert_eq!(first.state, "COMPLETED");

    let journal = vendor.journal();
    let creation =
        journal.iter().find(|entry| entry.operation == "CreateQuantumTask").expect("a submission");
    assert_eq!(creation.task_arn.as_deref(), seen["first"].as_str());
    assert_eq!(creation.principal.as_deref(), Some("arn:aws:iam::123456789012:user/alice"));
    assert_eq!(creation.region.as_deref(), Some("us-east-1"));
    assert!(creation.client_token.is_some());
    assert!(creation.user_agent.contains("BraketSchemas/"));

    let checked = check_model(&vendor).await;
    for name in ["CreateQuantumTask 201", "GetQuantumTask 200", "SearchQuantumTasks 200"] {
        assert!(checked[name].as_u64() > Some(0), "{name} in {checked}");
    }
    vendor.stop().await;
}

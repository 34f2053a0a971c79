//! Felis of Alice & Bob, judged by QRMI and by Alice & Bob's own client.

use serde_json::{Value, json};
use sluice_vendors::{Action, Ahead, Config, Fault, Running, Service, Stage};

use crate::alice_bob::alice;
use crate::python::without_simulator;
use crate::qrmi::Qrmi;

const NAME: &str = "felis/EMU:1Q:LESCANNE_2020";

async fn vendor() -> Running {
    without_simulator(Config::for_testing().by_hand(Ahead { normal: 1, priority: 0 })).await
}

fn client(vendor: &Running, key: &str) -> Qrmi {
    let resource = "ab_emu_1q_lescanne_2020";
    Qrmi::start(vendor, Service::Felis, resource, "AliceBobFelis", ("team", key))
}

fn payload() -> Value {
    let source = "call void @__quantum__qis__mz__body(%Qubit* null, %Result* null)";
    json!({ "payload": "AliceBobFelis", "human_qir": source, "input_params": "{\"nbShots\": 30}" })
}

/// The events of a job, from the API itself.
async fn events(vendor: &Running, id: &str) -> Vec<String> {
    let url = format!("{}/v1/jobs/{id}", vendor.url_of(Service::Felis));
    let get = reqwest::Client::new().get(url).basic_auth("team", Some("team-key"));
    let job: Value = get.send().await.unwrap().json().await.unwrap();
    let events = job["events"].as_array().unwrap();
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_tells_its_events_and_compiling_is_not_executing() {
    let vendor = vendor().await;
    let mut client = client(&vendor, "team-key");
    let id = client.submit(&payload()).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let last = events(&vendor, &id).await.pop().unwrap();
        seen.push((last, client.state(&id).await, vendor.jobs()[0].state.clone()));
        vendor.step(Some(NAME), 1).await.unwrap();
    }
    let row = |event: &str, client: &str, truth: &str| {
        (event.to_owned(), client.to_owned(), truth.to_owned())
    };
    assert_eq!(
        seen,
        [
            row("INPUT_READY", "Queued", "WAITING"),
            // The client says that it runs; it does not.
            row("COMPILING", "Running", "WAITING"),
            row("EXECUTING", "Running", "RUNNING"),
            row("SUCCEEDED", "Completed", "COMPLETED"),
        ]
    );
    let told = events(&vendor, &id).await;
    assert_eq!(told.first().map(String::as_str), Some("CREATED"));
    let output = client.ask("task_result", json!([id])).await;
    let counts = output.as_str().unwrap().lines().filter_map(|row| row.split_once(','));
    assert_eq!(counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum::<u64>(), 30);

    let stopped = client.submit(&payload()).await;
    client.ask("task_stop", json!([stopped])).await;
    assert_eq!(client.state(&stopped).await, "Cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_checked_and_a_job_without_input_does_not_wait_in_line() {
    let vendor = vendor().await;
    assert!(client(&vendor, "wrong-key").call("task_start", payload()).await.is_err());
    assert_eq!(vendor.counts().get("felis:CreateJob 401"), Some(&1));
    let mut client = client(&vendor, "team-key");
    let lost = Action::Close { when: Stage::Before };
    vendor.add_fault(Fault::next(1, "felis:UploadInput", lost));
    assert!(client.call("task_start", payload()).await.is_err());
    assert_eq!(vendor.counts().get("felis:CreateJob 200"), Some(&1));
    assert_eq!(vendor.jobs(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_vendors_own_client_runs_a_circuit_and_reads_states_and_counts() {
    let vendor = vendor().await;
    let mut client = alice(&vendor, "team-key");
    let id = client.ask(json!({ "call": "run", "shots": 30 })).await;
    let id = id.as_str().expect("an id").to_owned();
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(client.ask(json!({ "call": "status", "job": id })).await);
        vendor.step(Some(NAME), 1).await.unwrap();
    }
    // To this client compiling is no running.
    assert_eq!(seen, ["QUEUED", "VALIDATING", "RUNNING", "DONE"]);
    let counts = client.ask(json!({ "call": "counts", "job": id })).await;
    let counts = counts.as_object().expect("counts by bits");
    assert_eq!(counts.values().filter_map(Value::as_u64).sum::<u64>(), 30);
    assert!(counts.keys().all(|bits| ["0", "1"].contains(&bits.as_str())), "{counts:?}");

    let stopped = client.ask(json!({ "call": "run", "shots": 1 })).await;
    client.ask(json!({ "call": "cancel", "job": stopped })).await;
    assert_eq!(client.ask(json!({ "call": "status", "job": stopped })).await, "CANCELLED");
    let run = json!({ "call": "run", "shots": 1 });
    let refused = alice(&vendor, "wrong-key").refused(run).await;
    assert!(refused.contains("not valid"), "{refused}");
}

//! The control API over HTTP.

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use sluice_vendors::{Ahead, Config, Running};

use crate::python::{Call, call, emulator, error, submission};

const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

async fn ask(vendor: &Running, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let url = format!("{}{path}", vendor.control_url());
    let mut request = Client::new().request(method, url);
    if body != Value::Null {
        request = request.json(&body);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status();
    (status, answer.json().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_steered_over_http() {
    let ahead = Ahead { normal: 2, priority: 0 };
    let vendor = emulator(Config::for_testing().by_hand(ahead)).await;
    let get = async |path: &str| ask(&vendor, Method::GET, path, Value::Null).await.1;
    let post = async |path: &str, body: Value| ask(&vendor, Method::POST, path, body).await;
    let put = async |path: &str, body: Value| ask(&vendor, Method::PUT, path, body).await;

    assert_eq!(get("/healthz").await["status"], "ok");
    let create = |token: &str| {
        Call::braket("create_quantum_task", submission(GARNET, token)).region("eu-north-1")
    };
    let fault = json!({
        "operation": "CreateQuantumTask",
        "action": { "do": "error", "code": "ThrottlingException" },
    });
    assert_eq!(post("/faults", fault).await.0, StatusCode::NO_CONTENT);
    assert_eq!(get("/faults").await.as_array().unwrap().len(), 1);
    let told = call(&vendor, &[create("t"), create("t")]).await;
    assert_eq!(told[0], error("ThrottlingException", 429));
    let id = told[1].arn().rsplit('/').next().unwrap().to_owned();
    let task = format!("/tasks/{id}");

    assert_eq!(get(&task).await["position"], 3);
    let (status, _) = post("/step", json!({ "device": "garnet", "times": 2 })).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get(&task).await["position"], 1);
    assert_eq!(post("/step", Value::Null).await.0, StatusCode::NO_CONTENT);
    assert_eq!(get(&task).await["state"], "RUNNING");
    let (status, _) = post(&format!("{task}/state"), json!({ "state": "CANCELLED" })).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get("/tasks").await[0]["state"], "CANCELLED");
    let (status, told) = post(&format!("{task}/state"), json!({ "state": "RUNNING" })).await;
    assert_eq!(status, StatusCode::CONFLICT, "{told}");

    let (status, device) = put("/devices/Garnet", json!({ "status": "PAUSED" })).await;
    assert_eq!((status, &device["status"]), (StatusCode::OK, &json!("PAUSED")));
    let (status, told) = put("/devices/Nothing", json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(told["error"].as_str().unwrap().contains("GET /devices"));
    let (status, _) = put("/devices/Garnet", json!({ "colour": "red" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);

    let journal = get("/journal?operation=CreateQuantumTask").await;
    let statuses: Vec<_> =
        journal.as_array().unwrap().iter().map(|entry| entry["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(429), Some(201)]);
    assert_eq!(get("/counts").await["CreateQuantumTask 201"], 1);

    assert_eq!(post("/reset", Value::Null).await.0, StatusCode::NO_CONTENT);
    assert_eq!(get("/tasks").await, json!([]));
    assert_eq!(get("/journal").await, json!([]));
    assert!(get("/devices").await.to_string().contains("\"ONLINE\""));
}

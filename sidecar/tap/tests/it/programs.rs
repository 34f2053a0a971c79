//! Real programs: amazon-braket-sdk and boto3, with nothing changed but their environment.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_tap::TapEvent;
use sluice_vendors::{Action, Config, DeviceChange, Fault, Mode, Pace, Running, Stage};
use tokio::process::Command;

use crate::bench::{Bench, Setup, asked, emulator, free_address, interpreter};

async fn run(name: &str, vendor: &Running, bench: &Bench, more: &[(&str, &str)]) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name);
    let mut command = Command::new(interpreter());
    command
        .arg(&program)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(vendor.environment())
        // What the webhook sets.
        .env("AWS_ENDPOINT_URL_BRAKET", bench.url())
        .env("BRAKET_ENDPOINT", bench.url())
        .env("AMZN_BRAKET_OUT_S3_BUCKET", "amazon-braket-x")
        .envs(more.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_mins(3), command.output())
        .await
        .unwrap_or_else(|_| panic!("{name} takes too long"))
        .expect("the interpreter starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed:\n{errors}\n{:#?}", vendor.counts());
    serde_json::from_slice(&output.stdout).expect("JSON from the program")
}

fn total(counts: &Value) -> u64 {
    counts.as_object().expect("counts").values().filter_map(Value::as_u64).sum()
}

fn fault(code: &str) -> Action {
    Action::Error {
        code: code.to_owned(),
        status: Some(503),
        message: "away".to_owned(),
        retry_after: None,
        when: Stage::Before,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_braket_sdk_runs_unchanged_through_trouble() {
    let vendor = emulator(Config::for_testing()).await;
    let line = DeviceChange {
        pace: Some(Pace { mode: Mode::Auto, step_ms: 700, ..Pace::default() }),
        ahead: Some(sluice_vendors::Ahead { normal: 4, priority: 0 }),
        ..DeviceChange::default()
    };
    vendor.change_device("Garnet", line).unwrap();
    // The first submission's answer is lost, some polls meet a vendor that is away.
    vendor.add_fault(Fault::next(1, "CreateQuantumTask", Action::Close { when: Stage::After }));
    vendor.add_fault(Fault::next(3, "GetQuantumTask", fault("ServiceUnavailableException")));
    let bench = Setup::to(&vendor.braket_url()).start().await;

    let seen = run("session.py", &vendor, &bench, &[]).await;

    assert_eq!(total(&seen["run"]), 100);
    assert!(seen["run"].as_object().unwrap().keys().all(|bits| bits == "00" || bits == "11"));
    assert_eq!(seen["batch"], json!([20, 20, 20]));
    assert_eq!(total(&seen["qpu"]), 30);
    assert_eq!(seen["boto3"]["status"], "COMPLETED");
    let cancelled = seen["cancelled"].as_str().unwrap();
    assert!(["CANCELLING", "CANCELLED"].contains(&cancelled), "{cancelled}");
    // One task each, although one submission was sent twice.
    let ids: Vec<_> =
        seen["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let mut made: Vec<_> = vendor.tasks().into_iter().map(|task| task.arn).collect();
    made.reverse();
    let mut sorted = (ids.iter().map(ToString::to_string).collect::<Vec<_>>(), made.clone());
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1);

    // What was read on the way names the same tasks, and the line as it moved.
    let mut submitted = Vec::new();
    let mut places = Vec::new();
    for event in bench.end().await {
        match event {
            TapEvent::Submitted { task_id, .. } => submitted.push(task_id),
            TapEvent::Polled { facts, .. } => places.extend(facts.position_text),
            TapEvent::Refused { message, .. } => panic!("{message}"),
            _ => {}
        }
    }
    submitted.sort();
    assert_eq!(submitted, sorted.1);
    assert!(places.iter().any(|place| place == "None"), "{places:?}");
    let numbers = places.iter().filter(|place| place.parse::<u32>().is_ok()).count();
    assert!(numbers >= 2, "{places:?}");
    // Its User-Agent is kept: without it the vendor hides the OpenQASM action.
    let agents = vendor.journal().into_iter().filter(|entry| entry.operation == "GetDevice");
    assert!(agents.map(|entry| entry.user_agent).all(|agent| agent.contains("BraketSchemas/")));
    assert!(asked(&vendor, "GetDevice") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn boto3_reads_the_answers_that_the_tap_gives_itself() {
    let vendor = emulator(Config::for_testing()).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    let other = [("AWS_ACCESS_KEY_ID", "AKIDOTHER"), ("AWS_SECRET_ACCESS_KEY", "other-secret")];
    let seen = run("refused.py", &vendor, &bench, &other).await;
    assert_eq!((&seen["code"], &seen["status"]), (&json!("AccessDeniedException"), &json!(403)));
    assert_eq!(seen["retries"], 0, "a refusal is final");
    let message = seen["message"].as_str().unwrap();
    for part in ["AKIDOTHER", "AKIDEXAMPLE", "discovery: announce"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(vendor.tasks().is_empty());

    // A vendor that stays away: botocore repeats the submission by itself, with its token.
    let mut setup = Setup::to(&format!("http://{}", free_address().await));
    setup.config.hold = Duration::from_millis(200);
    let bench = setup.start().await;
    let twice = [("AWS_RETRY_MODE", "standard"), ("AWS_MAX_ATTEMPTS", "2")];
    let seen = run("refused.py", &vendor, &bench, &twice).await;
    assert_eq!((&seen["status"], &seen["retries"]), (&json!(503), &json!(1)));
    let tokens: Vec<_> = bench
        .end()
        .await
        .into_iter()
        .filter_map(|event| match event {
            TapEvent::Submitting { submission, .. } => submission.client_token,
            _ => None,
        })
        .collect();
    assert_eq!(tokens.len(), 2);
    assert_eq!(tokens[0], tokens[1]);
}

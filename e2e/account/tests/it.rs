//! `check-account` as its user runs it, at the emulator.

#![allow(clippy::unwrap_used, reason = "a test fails where a value is missing")]

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use sluice_vendors::{Action, Ahead, Config, Emulator, Fault, Running, Stage};
use tokio::process::Command;

const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

async fn emulator() -> Running {
    // Built on the first run, which blocks.
    let python = tokio::task::block_in_place(|| sluice_lab::python_env().unwrap().python());
    let mut config = Config::for_testing().with_python(python);
    for device in &mut config.devices {
        device.ahead = Ahead { normal: 2, priority: 0 };
        device.pace.step_ms = 700;
        device.pace.running_ms = 700;
    }
    Emulator::start(config).await.unwrap()
}

async fn check(vendor: &Running, folder: &Path, args: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_check-account"))
        .args(["--bucket", "amazon-braket-x", "-o", "json", "--report", "report.md"])
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("AWS_ACCESS_KEY_ID", "ASIASESSION")
        .env("AWS_SECRET_ACCESS_KEY", "session-secret")
        .env("AWS_SESSION_TOKEN", "session-token")
        .env("AWS_ENDPOINT_URL_BRAKET", vendor.braket_url())
        .stdin(Stdio::null())
        .output();
    tokio::time::timeout(Duration::from_mins(2), run).await.unwrap().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn verdicts(report: &Value) -> Vec<(String, String)> {
    let findings = report["findings"].as_array().unwrap();
    let word = |f: &Value, name: &str| f[name].as_str().unwrap().to_owned();
    findings.iter().map(|f| (word(f, "question"), word(f, "verdict"))).collect()
}

fn created(vendor: &Running) -> usize {
    vendor.journal().iter().filter(|e| e.operation == "CreateQuantumTask").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_as_documented_passes_and_the_report_holds_no_secret() {
    let (vendor, folder) = (emulator().await, tempfile::tempdir().unwrap());
    let run = check(&vendor, folder.path(), &["--yes", "--qpu", GARNET]).await;
    let (out, progress) = (text(&run.stdout), text(&run.stderr));
    assert!(run.status.success(), "{progress}\n{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let verdicts = verdicts(&report);
    assert_eq!(verdicts.len(), 10, "{verdicts:?}");
    assert!(verdicts.iter().all(|(_, verdict)| verdict == "expected"), "{verdicts:?}");
    // One task for the repeated token, one to cancel, one on the QPU.
    assert_eq!(vendor.tasks().len(), 3);
    // The price comes first.
    assert!(
        progress.starts_with("2 small tasks on SV1 in us-east-1: about 0.0075 USD"),
        "{progress}"
    );
    assert!(progress.contains("1 task of 10 shots on iqm Garnet: 0.3145 USD"), "{progress}");
    let file = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(file.contains("QUEUED, position 1"), "{file}");
    for secret in ["session-secret", "session-token", "ASIASESSION", "123456789012"] {
        for (what, text) in [("report", &file), ("json", &out), ("progress", &progress)] {
            assert!(!text.contains(secret), "{secret} in the {what}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_submitted_without_a_yes() {
    let (vendor, folder) = (emulator().await, tempfile::tempdir().unwrap());
    let run = check(&vendor, folder.path(), &[]).await;
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("nothing was submitted"), "{}", text(&run.stderr));
    assert_eq!(vendor.journal().len(), 0);
    // No price, no question.
    let device = "arn:aws:braket:eu-north-1::device/qpu/new/Machine";
    let run = check(&vendor, folder.path(), &["--yes", "--qpu", device]).await;
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("no price"), "{}", text(&run.stderr));
    assert_eq!(vendor.journal().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_that_differs_is_reported_and_the_rest_is_still_checked() {
    let (vendor, folder) = (emulator().await, tempfile::tempdir().unwrap());
    let denied = Action::Error {
        code: "AccessDeniedException".to_owned(),
        status: None,
        message: "User: arn:aws:iam::123456789012:user/erin is not authorized".to_owned(),
        retry_after: None,
        when: Stage::Before,
    };
    vendor.add_fault(Fault::next(1, "SearchQuantumTasks", denied));
    let odd = Action::Error {
        code: "ValidationException".to_owned(),
        status: None,
        message: "the task has ended".to_owned(),
        retry_after: None,
        when: Stage::Before,
    };
    // Both cancels of the item: the first is not seen, so the item ends there.
    vendor.add_fault(Fault::next(1, "CancelQuantumTask", odd));
    let run = check(&vendor, folder.path(), &["--yes"]).await;
    assert_eq!(run.status.code(), Some(2), "{}", text(&run.stderr));
    let report: Value = serde_json::from_str(&text(&run.stdout)).unwrap();
    let unseen: Vec<_> =
        verdicts(&report).into_iter().filter(|(_, v)| v == "unseen").map(|(q, _)| q).collect();
    assert_eq!(unseen.len(), 2, "{unseen:?}");
    assert!(unseen[0].starts_with("A search") && unseen[1].starts_with("A task is cancelled"));
    assert_eq!(created(&vendor), 4, "the items after the first fault were checked");
    let file = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(file.contains("AccessDeniedException") && !file.contains("123456789012"), "{file}");
}

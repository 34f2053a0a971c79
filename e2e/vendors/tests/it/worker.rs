//! The worker that computes programs dies, or is not there.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sluice_vendors::{Config, Emulator, Health, Running};

use crate::python::{Call, bell, call, interpreter, submission};

const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";

async fn ended(vendor: &Running, arn: &str) -> sluice_vendors::TaskView {
    let task = || vendor.task(arn).expect("the task exists");
    let limit = Duration::from_mins(1);
    assert!(vendor.until(limit, |_| task().ended.is_some()).await, "{:?}", vendor.health());
    task()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_with_a_program_is_started_again() {
    assert!(bell().contains("OPENQASM"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("python");
    let mark = folder.path().join("died");
    // The first start answers that it is ready and ends when a program comes.
    let script = format!(
        "#!/bin/sh\nif [ -e {mark} ]; then exec {python} \"$@\"; fi\n\
         touch {mark}; echo '{{\"ready\": true}}'; read line; echo killed >&2; exit 9\n",
        mark = mark.display(),
        python = interpreter().display(),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let vendor =
        Emulator::start(Config::for_testing().with_python(&program)).await.expect("free ports");
    let create = Call::braket("create_quantum_task", submission(SV1, "t"));
    let arn = call(&vendor, &[create]).await[0].arn();
    let task = ended(&vendor, &arn).await;
    assert_eq!((task.state.as_str(), task.failure), ("COMPLETED", None));
    assert!(mark.exists());
    assert_eq!(vendor.health(), Health::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_interpreter_tasks_fail_and_say_why() {
    let config = Config::for_testing().with_python("/nowhere/python");
    let vendor = Emulator::start(config).await.expect("free ports");
    let create = Call::braket("create_quantum_task", submission(SV1, "t"));
    let arn = call(&vendor, &[create]).await[0].arn();
    let task = ended(&vendor, &arn).await;
    assert_eq!(task.state, "FAILED");
    assert!(task.failure.unwrap().contains("SLUICE_PYTHON"));
}

//! Real programs of the Amazon Braket SDK that send equal circuits, through a whole worker.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_credential_types::Credentials;
use serde_json::json;
use sluice_shared::role::Role;
use sluice_shared::stamp::Stamp;
use sluice_vendors::{Ahead, Config, DeviceChange, Emulator, Mode, Pace, Running};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::worker::Sidecar;

async fn ids_of(how: &str, count: usize, vendor: &Running, sidecar: &Sidecar) -> Vec<String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/equal.py");
    let mut command = Command::new(sluice_lab::python_env().unwrap().python());
    command
        .arg(program)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(vendor.environment())
        .env("AWS_ENDPOINT_URL_BRAKET", sidecar.tap_url())
        .env("BRAKET_ENDPOINT", sidecar.tap_url())
        .env("AMZN_BRAKET_OUT_S3_BUCKET", "amazon-braket-x")
        .env("HOW", how)
        .env("COUNT", count.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_mins(3), command.output());
    let output = output.await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Counts how often a submission waited for the keeper's word or for a look at a task.
fn waits(sidecar: &Sidecar) -> Arc<AtomicUsize> {
    let (mut shown, waits) = (sidecar.shown.clone(), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&waits);
    tokio::spawn(async move {
        while shown.changed().await.is_ok() {
            if shown.borrow_and_update().ledger.waiting() > 0 {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    waits
}

async fn bench() -> (Running, Cluster, Sidecar) {
    let config = Config::for_testing()
        .by_hand(Ahead { normal: 5, priority: 0 })
        .with_python(sluice_lab::python_env().unwrap().python());
    let (vendor, cluster) = (Emulator::start(config).await.unwrap(), Cluster::start().await);
    cluster.create_gang("g-1");
    let keys = Credentials::new("AKIDEXAMPLE", "secret", None, None, "sidecar");
    let sidecar = Sidecar::with_stamp(&vendor, &cluster, Role::Single, &Stamp::default(), keys);
    (vendor, cluster, sidecar)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_25_equal_circuits_makes_25_tasks_and_never_waits() {
    let (vendor, _cluster, sidecar) = bench().await;
    let fast = DeviceChange {
        pace: Some(Pace { mode: Mode::Auto, step_ms: 20, ..Pace::default() }),
        ahead: Some(Ahead::default()),
        ..DeviceChange::default()
    };
    vendor.change_device("Garnet", fast).unwrap();
    let waits = waits(&sidecar);
    let ids: BTreeSet<_> = ids_of("batch", 25, &vendor, &sidecar).await.into_iter().collect();
    assert_eq!((ids.len(), vendor.tasks().len()), (25, 25));
    assert_eq!(waits.load(Ordering::SeqCst), 0);
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_equal_circuits_does_not_wait_and_is_taken_up_task_by_task() {
    let (vendor, cluster, sidecar) = bench().await;
    let waits = waits(&sidecar);
    let first = ids_of("loop", 4, &vendor, &sidecar).await;
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(waits.load(Ordering::SeqCst), 0);
    // The container is started again: the same four, in order, and then a fifth.
    cluster.set_producer(json!({"pod": "p", "uid": "pod-uid-1", "restarts": 1}));
    let second = ids_of("loop", 5, &vendor, &sidecar).await;
    assert_eq!(second[..4], first);
    assert_eq!(vendor.tasks().len(), 5);
    assert!(!first.contains(&second[4]));
    sidecar.end().await;
}

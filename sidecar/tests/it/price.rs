//! A ceiling and a backend that are kept: what the program sees, and what the gang tells.

use aws_credential_types::Credentials;
use aws_sdk_braket::error::ProvideErrorMetadata;
use serde_json::json;
use sluice_shared::policy::Mismatch;
use sluice_shared::role::Role;
use sluice_shared::stamp::Stamp;

use crate::await_some;
use crate::cluster::Cluster;
use crate::worker::{GARNET, Sidecar, emulator, program};

const EMERALD: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Emerald";

/// Submits a program of so many shots, and says what came of it.
async fn send(url: &str, device: &str, shots: i64) -> Result<String, (String, String)> {
    let action = json!({
        "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
        "source": "OPENQASM 3.0; qubit[1] q; bit[1] b; h q[0]; b[0] = measure q[0];",
        "inputs": {},
    });
    let call = program(url)
        .create_quantum_task()
        .device_arn(device)
        .shots(shots)
        .output_s3_bucket("amazon-braket-x")
        .output_s3_key_prefix("tasks")
        .action(action.to_string());
    match call.send().await {
        Ok(made) => Ok(made.quantum_task_arn),
        Err(error) => Err((
            error.code().unwrap_or_default().to_owned(),
            error.message().unwrap_or_default().to_owned(),
        )),
    }
}

#[tokio::test]
async fn what_is_over_the_ceiling_or_elsewhere_is_not_sent_and_the_gang_says_so() {
    let (vendor, cluster) = (emulator(3).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let stamp = Stamp {
        size: 8,
        backend: Some("garnet".into()),
        mismatch: Mismatch::Refuse,
        max_cost: "2.00".parse().ok(),
        ..Stamp::default()
    };
    let keys = || Credentials::new("AKIDEXAMPLE", "secret", None, None, "sidecar");
    let sidecar = Sidecar::with_stamp(&vendor, &cluster, Role::Producer, &stamp, keys());
    let url = sidecar.tap_url();
    send(&url, GARNET, 1000).await.unwrap();
    let created = || vendor.journal().iter().filter(|e| e.operation == "CreateQuantumTask").count();
    for (device, shots, says) in [
        (GARNET, 1000, "costs 1.75 USD by list price, 1.75 USD of at most 2.00 USD"),
        (EMERALD, 1, "the chosen backend is garnet"),
    ] {
        let (code, message) = send(&url, device, shots).await.unwrap_err();
        assert_eq!(code, "ServiceQuotaExceededException");
        assert!(message.contains(says) && message.contains("Nothing was sent"), "{message}");
        await_some("the refusal in the gang", async || {
            cluster.vendor()?.problem.filter(|problem| problem.contains(says))
        })
        .await;
        assert_eq!(created(), 1);
    }
    let cost = cluster.vendor().unwrap().cost.unwrap();
    assert_eq!((cost.total.to_string().as_str(), cost.max), ("1.75 USD", stamp.max_cost));
    sidecar.end().await;

    // Another worker of the same gang knows what was spent.
    let sidecar = Sidecar::with_stamp(&vendor, &cluster, Role::Producer, &stamp, keys());
    let url = sidecar.tap_url();
    assert!(send(&url, GARNET, 1000).await.is_err());
    assert_eq!(created(), 1);
    // 25 cents are left: too little for the price of a task.
    assert!(send(&url, GARNET, 1).await.is_err());
    sidecar.end().await;
}

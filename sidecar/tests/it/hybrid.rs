//! Hybrid jobs: their tasks are named, and a job that the program makes is told of.

use aws_credential_types::Credentials;
use aws_sdk_braket::types::{
    AlgorithmSpecification, DeviceConfig, InstanceConfig, InstanceType, JobOutputDataConfig,
    ScriptModeConfig,
};
use serde_json::json;
use sluice_shared::role::Role;
use sluice_shared::stamp::Stamp;

use crate::await_some;
use crate::cluster::Cluster;
use crate::worker::{GARNET, Sidecar, emulator, program};

#[tokio::test]
async fn a_hybrid_job_is_told_of_and_its_tasks_are_named() {
    let (vendor, cluster) = (emulator(3).await, Cluster::start().await);
    cluster.create_gang("g-1");
    let keys = Credentials::new("AKIDEXAMPLE", "secret", None, None, "sidecar");
    let stamp = Stamp { size: 8, ..Stamp::default() };
    let sidecar = Sidecar::with_stamp(&vendor, &cluster, Role::Producer, &stamp, keys);
    let client = program(&sidecar.tap_url());
    let script = ScriptModeConfig::builder().s3_uri("s3://b/code.tar.gz").entry_point("code:main");
    let made = client
        .create_job()
        .job_name("qaoa-7")
        .role_arn("arn:aws:iam::123456789012:role/AmazonBraketJobs")
        .algorithm_specification(
            AlgorithmSpecification::builder().script_mode_config(script.build().unwrap()).build(),
        )
        .output_data_config(JobOutputDataConfig::builder().s3_path("s3://b/o").build().unwrap())
        .instance_config(
            InstanceConfig::builder()
                .instance_type(InstanceType::MlM5Large)
                .volume_size_in_gb(30)
                .build()
                .unwrap(),
        )
        .device_config(DeviceConfig::builder().device(GARNET).build().unwrap())
        .send()
        .await
        .unwrap();
    let arn = made.job_arn();
    assert_eq!(arn, "arn:aws:braket:eu-north-1:123456789012:job/qaoa-7");
    let problem = await_some("the problem", async || cluster.vendor()?.problem).await;
    assert!(problem.contains("the hybrid job qaoa-7") && problem.contains("announce"), "{problem}");
    let job = client.get_job().job_arn(arn).send().await.unwrap();
    assert_eq!((job.job_name(), job.status().as_str()), ("qaoa-7", "RUNNING"));
    // What the vendor's own container does with the token that it is given.
    let action = json!({
        "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
        "source": "OPENQASM 3.0; qubit[1] q; bit[1] b; h q[0]; b[0] = measure q[0];",
    });
    let task = program(&vendor.braket_url())
        .create_quantum_task()
        .device_arn(GARNET)
        .shots(10)
        .output_s3_bucket("amazon-braket-x")
        .output_s3_key_prefix("tasks")
        .action(action.to_string())
        .job_token(vendor.job_token(arn).unwrap())
        .send()
        .await
        .unwrap();
    sidecar.announce(&json!({"id": task.quantum_task_arn()})).await;
    let shown = await_some("the task in the gang", async || {
        cluster.vendor()?.tasks.first().filter(|t| t.job.is_some()).cloned()
    })
    .await;
    assert_eq!(shown.job.as_deref(), Some(arn));
    assert_eq!((shown.state.as_str(), shown.priority_ahead), ("QUEUED", None));
    sidecar.end().await;
}

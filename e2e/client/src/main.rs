//! The fan-out with the AWS SDK for Rust: the producer submits, consumers follow the id they are
//! given, and both end when the task has ended.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aws_config::BehaviorVersion;
use aws_sdk_braket::Client;
use aws_sdk_braket::types::QuantumTaskAdditionalAttributeName::QueueInfo;
use aws_sdk_braket::types::QuantumTaskStatus;

/// Two qubits, entangled and measured.
const PROGRAM: &str = r#"{"braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"}, "source": "OPENQASM 3.0; qubit[2] q; bit[2] b; h q[0]; cnot q[0], q[1]; b = measure q;", "inputs": {}}"#;
const BETWEEN_POLLS: Duration = Duration::from_millis(300);

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "a program whose output is its log")]
async fn main() -> Result<()> {
    let client = Client::new(&aws_config::load_defaults(BehaviorVersion::latest()).await);
    let role = env::var("FLUENCE_COORDINATION_ROLE").context("FLUENCE_COORDINATION_ROLE")?;
    let task = if role == "producer" { submit(&client).await? } else { given()? };
    println!("{role} follows {task}");
    loop {
        // As the Braket SDK does, the place in the queue is asked for too.
        let poll = client.get_quantum_task().quantum_task_arn(&task);
        let seen = poll.additional_attribute_names(QueueInfo).send().await?;
        match seen.status() {
            QuantumTaskStatus::Completed => break,
            QuantumTaskStatus::Failed | QuantumTaskStatus::Cancelled => {
                bail!("{task} ended as {}", seen.status())
            }
            _ => tokio::time::sleep(BETWEEN_POLLS).await,
        }
    }
    println!("{role} done with {task}");
    Ok(())
}

async fn submit(client: &Client) -> Result<String> {
    let submitted = client
        .create_quantum_task()
        .device_arn(env::var("DEVICE").context("DEVICE")?)
        .shots(20)
        .output_s3_bucket(env::var("AMZN_BRAKET_OUT_S3_BUCKET").context("the bucket")?)
        .output_s3_key_prefix("tasks")
        .action(PROGRAM)
        .send()
        .await?;
    Ok(submitted.quantum_task_arn().to_owned())
}

fn given() -> Result<String> {
    env::var("FLUENCE_QUANTUM_JOB_ID").context("FLUENCE_QUANTUM_JOB_ID")
}

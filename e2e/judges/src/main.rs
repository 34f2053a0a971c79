//! The judge in Rust: the AWS SDK with nothing but its environment.

use std::io::Write;

use anyhow::Context;
use aws_config::BehaviorVersion;
use aws_sdk_braket::types::{QuantumTaskAdditionalAttributeName, QuantumTaskStatus};
use serde_json::{Value, json};

const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";
const PROGRAM: &str = r#"{"braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"}, "source": "OPENQASM 3.0; bit[1] b; qubit[1] q; h q[0]; b[0] = measure q[0];", "inputs": {}}"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let turn = match submit().await {
        Ok(turn) => turn,
        Err(error) => json!({ "error": "SdkError", "message": format!("{error:#}") }),
    };
    let versions = json!({ "aws-sdk-braket": aws_sdk_braket::meta::PKG_VERSION });
    let seen = json!({ "versions": versions, "turns": [turn] });
    writeln!(std::io::stdout().lock(), "{seen}").context("could not print what was seen")
}

async fn submit() -> anyhow::Result<Value> {
    let config = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let client = aws_sdk_braket::Client::new(&config);
    let made = client
        .create_quantum_task()
        .device_arn(SV1)
        .shots(10)
        .action(PROGRAM)
        .output_s3_bucket("amazon-braket-x")
        .output_s3_key_prefix("judges")
        .send()
        .await
        .context("could not submit")?;
    let task = made.quantum_task_arn;
    loop {
        let seen = client
            .get_quantum_task()
            .quantum_task_arn(&task)
            .additional_attribute_names(QuantumTaskAdditionalAttributeName::QueueInfo)
            .send()
            .await
            .context("could not ask for the task")?;
        match seen.status {
            QuantumTaskStatus::Completed => return Ok(json!({ "task": task })),
            QuantumTaskStatus::Failed | QuantumTaskStatus::Cancelled => {
                anyhow::bail!("the task ended as {}", seen.status)
            }
            _ => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
        }
    }
}

//! The items, in the order in which they are checked.

mod identity;
mod queue;
mod task;

use anyhow::Result;
use aws_sdk_braket::Client;
use aws_sdk_braket::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_braket::operation::create_quantum_task::CreateQuantumTaskError;
use jiff::Timestamp;

use crate::args::Args;
use crate::program::{PREFIX, PROGRAM, Program};
use crate::report::{Finding, Report, Verdict};

/// Checks everything; what one item sees does not stop the next.
///
/// # Errors
/// When nobody reads the progress any more.
pub(crate) async fn check_all(
    program: &Program,
    args: &Args,
    report: &mut Report,
    say: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let start = Timestamp::now();
    say(&report.add(identity::signed_again(program).await))?;
    say(&report.add(identity::impostor(program).await))?;
    say(&report.add(queue::device(program).await))?;
    let (finding, submitted) = task::submitted(program, args).await;
    say(&report.add(finding))?;
    let Some(submitted) = submitted else { return Ok(()) };
    say(&report.add(task::same_token(program, args, &submitted).await))?;
    say(&report.add(task::token_of_another(program, args, &submitted).await))?;
    say(&report.add(queue::followed(program, &submitted.arn).await))?;
    say(&report.add(task::found_again(program, &submitted.arn, start).await))?;
    say(&report.add(task::cancelled(program, args).await))?;
    if let Some(qpu) = &args.qpu {
        let finding = queue::of_qpu(program, args, qpu, say).await;
        say(&report.add(finding))?;
    }
    Ok(())
}

/// A submission that the vendor took.
pub(crate) struct Submitted {
    /// ARN of the task.
    pub arn: String,
    /// Its client token.
    pub token: String,
}

/// Submits the program.
pub(crate) async fn submit(
    client: &Client,
    args: &Args,
    device: &str,
    shots: u32,
    token: &str,
) -> Result<String, SdkError<CreateQuantumTaskError>> {
    let made = client
        .create_quantum_task()
        .client_token(token)
        .device_arn(device)
        .shots(i64::from(shots))
        .action(PROGRAM)
        .output_s3_bucket(&args.bucket)
        .output_s3_key_prefix(PREFIX)
        .send()
        .await?;
    Ok(made.quantum_task_arn)
}

/// A new client token.
pub(crate) fn token() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// What the vendor said when it refused.
pub(crate) fn refusal<E, R>(error: &SdkError<E, R>) -> String
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        // Nothing came back that can be read: the innermost cause says why.
        (None, _) => {
            let mut last: &dyn std::error::Error = error;
            while let Some(source) = last.source() {
                last = source;
            }
            format!("no answer of the vendor: {last}")
        }
    }
}

/// A finding.
pub(crate) fn finding(question: &'static str, verdict: Verdict, seen: Vec<String>) -> Finding {
    Finding { question, verdict, seen }
}

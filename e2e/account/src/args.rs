//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Check at Amazon Braket, with your own keys, what Sluice relies on.
///
/// Keys, profile and endpoint are taken as every AWS program takes them: AWS_PROFILE,
/// AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_BRAKET and so on. Needed rights: braket:CreateQuantumTask,
/// GetQuantumTask, CancelQuantumTask, SearchQuantumTasks, GetDevice, and s3:PutObject on the bucket.
#[derive(Debug, Clone, Parser)]
#[command(name = "check-account", verbatim_doc_comment)]
#[expect(clippy::doc_markdown, reason = "shown in a terminal")]
pub(crate) struct Args {
    /// S3 bucket for results, in the region; its name begins with amazon-braket-
    #[arg(long)]
    pub bucket: String,
    /// Region of the simulator SV1
    #[arg(long, default_value = "us-east-1")]
    pub region: String,
    /// ARN of a QPU whose queue is watched too; its task is cancelled before it runs if possible
    #[arg(long)]
    pub qpu: Option<String>,
    /// Shots of the QPU's task
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub shots: u32,
    /// How long the QPU's queue is watched, in minutes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub watch: u32,
    /// Agree to the price without being asked
    #[arg(long)]
    pub yes: bool,
    /// File of the report
    #[arg(long, default_value = "check-account.md")]
    pub report: PathBuf,
    /// Print the report as JSON too
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Progress, for people.
    Text,
    /// The report on standard output, for machines.
    Json,
}

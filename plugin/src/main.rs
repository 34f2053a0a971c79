//! The program: provider, arguments, run.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Parser;
use kubectl_sluice::args::{Args, Command, Form, Series};
use kubectl_sluice::rows::{Row, rows};
use kubectl_sluice::{cluster, picture};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("another TLS provider is installed"))?;
    match args.command {
        Command::Series(series) => print(&series).await,
    }
}

async fn print(series: &Series) -> Result<()> {
    let gangs = cluster::gangs(&series.place, series.name.as_deref()).await?;
    let rows: Vec<Row> = gangs.iter().flat_map(rows).collect();
    if rows.is_empty() {
        eprintln!("no series: no task of these gangs was seen in a queue yet");
    }
    let text = match series.output {
        Form::Text => picture::of(&rows),
        Form::Csv => kubectl_sluice::rows::csv(&rows),
        Form::Json => kubectl_sluice::rows::json(&rows)?,
    };
    // A reader that has seen enough, such as head, is no error.
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

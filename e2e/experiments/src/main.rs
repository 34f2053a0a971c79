//! `bench`: measures, prints a table and writes `target/bench.jsonl`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use sluice_experiments::report::{Lines, line, table};
use sluice_experiments::row::Row;
use sluice_experiments::{admission, release};

/// Measures admission and release against their floors.
#[derive(Debug, Parser)]
#[command(about)]
struct Args {
    /// How the rows are printed.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Measure only this.
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// One JSON line a row.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Reviews over TLS; needs no cluster.
    Admission,
    /// Gates on the local cluster; needs root.
    Release,
}

fn main() -> Result<()> {
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let args = Args::parse();
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(run(&args))
}

async fn run(args: &Args) -> Result<()> {
    let wanted = |part| args.only.is_none_or(|only| only == part);
    let path = results();
    let mut lines = Lines::begin(&path)?;
    let mut rows: Vec<Row> = Vec::new();
    let mut take = |row: Row| -> Result<()> {
        lines.add(&row)?;
        rows.push(row);
        Ok(())
    };
    let mut measured = Ok(());
    if wanted(Part::Admission) {
        measured = admission::measure(&mut take).await.context("admission could not be measured");
    }
    if measured.is_ok() && wanted(Part::Release) {
        measured = release::measure(&mut take).await.context("release could not be measured");
    }
    // What was measured before a failure is shown all the same.
    print(args.output, &rows).context("cannot print the results")?;
    tell_place(&path, rows.len());
    measured
}

fn print(output: Output, rows: &[Row]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => rows.iter().try_for_each(|row| line(&mut out, row)),
        // The convention of no-color.org: any value but the empty one.
        Output::Table => {
            let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
            writeln!(out, "{}", table(rows, plain))
        }
    }
}

/// Says on the error stream where the rows are, so that the output stays data.
fn tell_place(path: &Path, rows: usize) {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let _ = writeln!(io::stderr(), "{rows} rows are in {}", path.display());
}

/// In the checkout, whatever folder cargo builds in.
fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench.jsonl")
}

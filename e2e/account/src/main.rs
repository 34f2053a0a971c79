//! Checks at the real vendor what could only be read, or tried on emulators, without an account.
//!
//! ```text
//!  holder's keys ─▶ price, yes? ─▶ program ─ SDK ─▶ tap ─▶ Amazon Braket
//!                                     └──── SDK, direct ──────▲
//!                                     items, one after the other ─▶ report without secrets
//! ```

mod args;
mod item;
mod price;
mod program;
mod report;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::args::{Args, Output};
use crate::program::Program;
use crate::report::Report;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        // The report says which items differ.
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every item was as expected.
async fn run(args: Args) -> Result<bool> {
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    say(&price::notice(&args)?)?;
    agree(&args)?;
    let program = Program::start(&args).await?;
    let mut report = Report::new(&args);
    item::check_all(&program, &args, &mut report, &mut |line| say(line)).await?;
    std::fs::write(&args.report, report.markdown())
        .with_context(|| format!("{} cannot be written", args.report.display()))?;
    if args.output == Output::Json {
        let json = serde_json::to_string_pretty(&report).context("the report is no JSON")?;
        writeln!(std::io::stdout().lock(), "{json}")?;
    }
    say(&format!("{}; the report is in {}", report.sum(), args.report.display()))?;
    Ok(report.is_good())
}

/// Progress goes to the error stream, so that `-o json` stays clean.
fn say(line: &str) -> Result<()> {
    writeln!(std::io::stderr().lock(), "{line}").context("nobody reads the progress")
}

/// Nothing that costs happens before a yes.
fn agree(args: &Args) -> Result<()> {
    if args.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        bail!("nothing was submitted: there is no terminal to ask on; say --yes to agree");
    }
    say("Submit? Write yes to go on.")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("no answer could be read")?;
    if answer.trim() != "yes" {
        bail!("nothing was submitted");
    }
    Ok(())
}

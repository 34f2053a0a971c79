//! The webhook of Sluice.

use std::process::ExitCode;

use clap::Parser;
use sluice_webhook::app;
use sluice_webhook::args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        Some(Command::Crd) => app::print_crd(),
        Some(Command::Serve) | None => app::serve(&args),
    };
    done.map_or_else(app::report, |()| ExitCode::SUCCESS)
}

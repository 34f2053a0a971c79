//! The sidecar's binary: parent, worker and startup probe.

use std::process::ExitCode;

use clap::Parser;
use rustls::crypto::aws_lc_rs;
use sluice_sidecar::{app, args::Args};

fn main() -> ExitCode {
    // An error means that a provider is installed already, which is as good.
    let _ = aws_lc_rs::default_provider().install_default();
    app::run(Args::parse())
}

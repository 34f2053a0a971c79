//! The emulator as a program.

use anyhow::Context;
use clap::Parser;
use sluice_vendors::Emulator;
use sluice_vendors::args::VendorsArgs;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let config = VendorsArgs::parse().config()?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let running = Emulator::start(config).await?;
    tracing::info!(
        vendor = running.braket_url(),
        control = running.control_url(),
        "the vendor emulator answers"
    );
    tokio::select! {
        _ = terminated.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot watch for SIGINT")?,
    }
    running.stop().await;
    Ok(())
}

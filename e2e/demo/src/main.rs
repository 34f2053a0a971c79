//! The demo: an 8-pod Job waits at the vendor and is released, then the same Job runs ungated.
//!
//! Everything is real but the vendor: API server, kubelet, containers, the Amazon Braket SDK. The
//! vendor is the emulator, whose line moves by time and whose results are computed.

mod arm;
mod comparison;
mod screen;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use sluice_lab::Options;
use sluice_stories::world::World;
use sluice_vendors::{Ahead, Mode};

use crate::arm::{Arm, Gating};
use crate::screen::Screen;

/// Watch an 8-pod quantum Job wait, be released and finish, beside the same Job ungated.
#[derive(Debug, Parser)]
struct Args {
    /// Foreign tasks in the vendor's queue before ours.
    #[arg(long, default_value_t = 6)]
    queue: u64,
    /// Seconds until the queue moves by one place.
    #[arg(long, default_value_t = 3.0)]
    step: f64,
    /// Seconds that the task runs.
    #[arg(long, default_value_t = 6.0)]
    running: f64,
    /// Form of the comparison on standard output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Leave the cluster up at the end.
    #[arg(long)]
    keep: bool,
}

/// Form of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Output {
    /// A table for people.
    #[default]
    Table,
    /// One JSON object.
    Json,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("another TLS provider is installed");
        return ExitCode::FAILURE;
    }
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the demo failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let screen = Screen::new();
    screen.title("A whole cluster on this machine, and Sluice in it");
    let world = World::bare(Options { detached: args.keep, ..Options::default() }).await?;
    let shown = async {
        world.install().await?;
        show(args, &world, &screen).await
    }
    .await;
    if args.keep {
        screen.note(&format!(
            "the cluster stays up: export KUBECONFIG={}; end it with `make down`",
            world.lab().kubeconfig().display()
        ));
    } else {
        world.lab().clone().down().await.context("the cluster did not stop cleanly")?;
    }
    // The last line is what the program was for.
    screen.result(&shown?);
    Ok(())
}

/// Runs both arms and prints the comparison; gives the answer of the program.
async fn show(args: &Args, world: &World, screen: &Screen) -> Result<String> {
    let millis = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0)).as_millis();
    let (step, running) = (millis(args.step), millis(args.running));
    let mut results = Vec::new();
    for gating in [Gating::Gated, Gating::Ungated] {
        screen.title(gating.title());
        let stage = world
            .stage_with("demo", |mut config| {
                for device in &mut config.devices {
                    device.pace.mode = Mode::Auto;
                    device.pace.step_ms = u64::try_from(step).unwrap_or(u64::MAX);
                    device.pace.running_ms = u64::try_from(running).unwrap_or(u64::MAX);
                    device.ahead = Ahead { normal: args.queue, priority: 0 };
                }
                config
            })
            .await?;
        let result = Arm { stage: &stage, screen, gating }.run().await?;
        stage.strike().await?;
        results.push(result);
    }
    screen.title("Side by side");
    comparison::print(&results, args.output)?;
    Ok(results.first().map(|r| r.answer.clone()).unwrap_or_default())
}

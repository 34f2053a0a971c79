//! The program `lab`: the local cluster from the command line.

mod args;

use std::{io::Write, process::ExitCode, time::Duration};

use anyhow::Context;
use args::{Action, LabArgs, Place};
use clap::Parser;
use sluice_lab::{Image, Lab, Options, install};

#[tokio::main]
async fn main() -> ExitCode {
    match run(LabArgs::parse().action).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Build { kubernetes } => {
            let kubectl = sluice_lab::build(kubernetes)?.path("kubectl");
            say(&kubectl.parent().unwrap_or(&kubectl).display().to_string())?;
        }
        Action::Python => say(&sluice_lab::python_env()?.python().display().to_string())?,
        Action::Up { place, kubernetes, kwok_nodes, features, wait } => {
            let options = Options {
                dir: place.dir,
                release: kubernetes,
                features,
                fake_nodes: kwok_nodes,
                detached: true,
                patience: Duration::from_secs(wait),
            };
            let dir = options.dir.clone();
            let lab = tokio::select! {
                lab = Lab::up(options) => lab?,
                signal = tokio::signal::ctrl_c() => {
                    signal.context("could not watch for the interrupt key")?;
                    eprintln!("interrupted: stopping what was started");
                    sluice_lab::down(dir.as_deref()).await?;
                    return Ok(ExitCode::FAILURE);
                }
            };
            say(&format!("export KUBECONFIG={}", lab.kubeconfig().display()))?;
        }
        Action::Down { place } => sluice_lab::down(place.dir.as_deref()).await?,
        Action::Status { place } => return status(&place),
        Action::Image { place, name, files, entrypoint } => {
            let first = files.first().map(|(place, _)| place.display().to_string());
            let entrypoint =
                if entrypoint.is_empty() { first.into_iter().collect() } else { entrypoint };
            let image = Image { name, files, entrypoint, ..Image::default() };
            attach(&place).await?.load_image(&image).await?;
        }
        Action::Images { place } => {
            let python = tokio::task::spawn_blocking(sluice_lab::python_env).await??;
            attach(&place).await?.load_test_images(Some(&python)).await?;
        }
        Action::Install { place, kustomization, webhook_image, sidecar_image } => {
            let usual = install::ProductImages::default();
            let images = install::ProductImages {
                webhook: webhook_image.unwrap_or(usual.webhook),
                sidecar: sidecar_image.unwrap_or(usual.sidecar),
            };
            install::install(&attach(&place).await?, &images, &kustomization).await?;
        }
        Action::Kubectl { place, rest } => {
            let lab = attach(&place).await?;
            let status = std::process::Command::new(lab.kubectl())
                .env("KUBECONFIG", lab.kubeconfig())
                .args(rest)
                .status()
                .context("could not run kubectl")?;
            return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn attach(place: &Place) -> sluice_lab::Result<Lab> {
    Lab::attach(place.dir.as_deref()).await
}

/// Shows what runs; succeeds if anything does.
fn status(place: &Place) -> anyhow::Result<ExitCode> {
    let parts = sluice_lab::status(place.dir.as_deref())?;
    let mut running = false;
    for (name, process) in parts {
        running |= process.is_some();
        let state =
            process.map_or_else(|| "not running".to_owned(), |it| format!("process {}", it.pid));
        say(&format!("{name:<24} {state}"))?;
    }
    Ok(if running { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a line of data.
fn say(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").context("could not print")
}

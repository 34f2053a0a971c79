//! A cluster with Sluice in it, built for speed.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use sluice_lab::install::{ProductImages, apply};
use sluice_lab::{Lab, Options, TempNs, await_condition, images};

use super::{LIMIT, client};

const SYSTEM: &str = "sluice-system";
const WEBHOOK: &str = "sluice-webhook";
/// How long another cluster of this machine may take to go.
const PATIENCE: Duration = Duration::from_mins(30);
/// Lines of a log that are shown when something failed.
const LINES: usize = 40;

/// A cluster with Sluice in it.
pub(super) struct Cluster {
    lab: Lab,
}

impl Cluster {
    /// Builds the webhook, starts a cluster and installs Sluice. No image of the sidecar: no pod
    /// of this measurement gets a node.
    pub(super) async fn up() -> Result<Self> {
        let profile = std::env::var("SLUICE_PROFILE").unwrap_or_default();
        ensure!(
            profile == "release",
            "SLUICE_PROFILE is {profile:?}, so the keeper would be built without optimisation; run \
             `make bench`, or set SLUICE_PROFILE=release"
        );
        // Before the cluster, which others may be waiting for.
        let built = tokio::task::spawn_blocking(|| images::cargo_build(&[WEBHOOK])).await??;
        let binary = built.first().context("cargo built no webhook")?;
        let lab = Lab::up(Options { patience: PATIENCE, ..Options::default() }).await?;
        lab.load_image(&images::program(&ProductImages::default().webhook, binary)).await?;
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/overlays/lab");
        apply(&lab, &manifests).await?;
        let cluster = Self { lab };
        let deployments: Api<Deployment> = Api::namespaced(cluster.client(), SYSTEM);
        let ready = await_condition(&deployments, WEBHOOK, "every replica is ready", LIMIT, |d| {
            let wanted = d.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
            d.status.as_ref().is_some_and(|s| s.ready_replicas == Some(wanted))
        });
        if let Err(error) = ready.await {
            return Err(anyhow::Error::from(error).context(cluster.log().await));
        }
        Ok(cluster)
    }

    /// The administrator's client.
    pub(super) fn client(&self) -> Client {
        self.lab.kube()
    }

    /// A client for the floor.
    pub(super) async fn prompt_client(&self) -> Result<Client> {
        client::prompt(&self.lab.kubeconfig()).await
    }

    /// A namespace for all rounds.
    pub(super) async fn namespace(&self) -> Result<TempNs> {
        Ok(self.lab.namespace("bench").await?)
    }

    /// The end of what the webhooks and keepers said.
    pub(super) async fn log(&self) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client(), SYSTEM);
        let mut text = String::from("what the webhook said last:");
        for pod in pods.list(&ListParams::default()).await.map(|l| l.items).unwrap_or_default() {
            let name = pod.name_any();
            let log = self.lab.logs(SYSTEM, &name, "webhook").await;
            let log = log.unwrap_or_else(|e| e.to_string());
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
            let _ = write!(text, "\n--- {name}\n{end}");
        }
        text
    }

    /// Stops it.
    pub(super) async fn down(self) -> Result<()> {
        Ok(self.lab.down().await?)
    }
}

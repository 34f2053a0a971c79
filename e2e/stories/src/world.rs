//! The cluster with Sluice in it, shared by all stories.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use sluice_lab::install::{ProductImages, apply, load_product};
use sluice_lab::{Lab, Options, PythonEnv, await_condition, await_value, python_env};
use sluice_shared::names;
use sluice_vendors::{Config, Device};

use crate::stage::Stage;

/// Namespace of Sluice itself.
pub const SYSTEM: &str = "sluice-system";
/// Name of the Deployment.
pub const WEBHOOK: &str = "sluice-webhook";

/// The cluster with Sluice in it.
#[derive(Debug)]
pub struct World {
    lab: Lab,
    python: PythonEnv,
}

/// The folder of the checkout.
#[must_use]
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl World {
    /// Starts the cluster and loads all images, without installing Sluice.
    ///
    /// # Errors
    /// If something cannot be built or does not start.
    pub async fn bare(options: Options) -> Result<Self> {
        let python = tokio::task::spawn_blocking(python_env).await??;
        let lab = Lab::up(options).await?;
        lab.load_test_images(Some(&python)).await?;
        load_product(&lab, &ProductImages::default()).await?;
        Ok(Self { lab, python })
    }

    /// Applies the manifests as a user would, and waits until Sluice is ready.
    ///
    /// # Errors
    /// If an object is refused, or the webhook does not become ready.
    pub async fn install(&self) -> Result<()> {
        apply(&self.lab, &checkout().join("manifests/overlays/lab")).await?;
        self.ready(Duration::from_secs(90)).await?;
        self.trusted(Duration::from_secs(90)).await
    }

    /// Waits until the API server trusts the webhook: a configuration that was just created has no
    /// CA bundle until a replica publishes it.
    async fn trusted(&self, limit: Duration) -> Result<()> {
        let job: Job = serde_json::from_value(json!({
            "metadata": {"generateName": "probe-"},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "c", "image": "none",
                    "resources": {"limits": {names::QPU_RESOURCE: "1"}},
                }],
            }}},
        }))?;
        let jobs: Api<Job> = Api::namespaced(self.kube(), "default");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        await_value("the webhook is asked and trusted", limit, async || {
            match jobs.create(&dry, &job).await {
                Ok(made) if made.labels().contains_key(names::JOB_LABEL) => Ok(()),
                Ok(_) => Err("the webhook was not asked".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await?;
        Ok(())
    }

    /// Waits until every replica of the webhook is ready.
    ///
    /// # Errors
    /// If that takes longer than `limit`.
    pub async fn ready(&self, limit: Duration) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.kube(), SYSTEM);
        await_condition(&deployments, WEBHOOK, "every replica is ready", limit, |d| {
            let wanted = d.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
            d.status.as_ref().is_some_and(|s| {
                s.ready_replicas == Some(wanted)
                    && s.updated_replicas == Some(wanted)
                    && s.observed_generation == d.metadata.generation
            })
        })
        .await?;
        Ok(())
    }

    /// How many replicas the webhook shall have.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn scale(&self, replicas: u32) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.kube(), SYSTEM);
        let patch = json!({"spec": {"replicas": replicas}});
        deployments.patch(WEBHOOK, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// The lab.
    #[must_use]
    pub const fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The Python of the programs.
    #[must_use]
    pub const fn python(&self) -> &PythonEnv {
        &self.python
    }

    /// The administrator's client.
    #[must_use]
    pub fn kube(&self) -> Client {
        self.lab.kube()
    }

    /// A namespace and a vendor for one story. Lines move by hand.
    ///
    /// # Errors
    /// If one of them cannot be made.
    pub async fn stage(&self, name: &str) -> Result<Stage<'_>> {
        self.stage_with(name, |config| config.by_hand(sluice_vendors::Ahead::default())).await
    }

    /// The same with a vendor of one's own making.
    ///
    /// # Errors
    /// If one of them cannot be made.
    pub async fn stage_with(
        &self,
        name: &str,
        vendor: impl FnOnce(Config) -> Config,
    ) -> Result<Stage<'_>> {
        // On the node's address, where pods reach it; the port is free.
        let mut config = Config::for_testing().with_python(self.python.python());
        config.listen = SocketAddr::from((self.lab.node_address(), 0));
        Stage::set(self, name, vendor(config)).await.with_context(|| format!("stage {name}"))
    }

    /// Writes down what the webhooks and keepers said, for a story that failed.
    ///
    /// # Errors
    /// If their pods cannot be listed.
    pub async fn system_log(&self) -> Result<String> {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.kube(), SYSTEM);
        let mut text = String::new();
        for pod in pods.list(&ListParams::default()).await?.items {
            let name = pod.metadata.name.unwrap_or_default();
            let log =
                self.lab.logs(SYSTEM, &name, "webhook").await.unwrap_or_else(|e| e.to_string());
            let _ = writeln!(text, "--- {name}\n{log}");
        }
        Ok(text)
    }
}

/// A device of the emulator by the last part of its ARN.
#[must_use]
pub fn device<'a>(config: &'a mut Config, name: &str) -> Option<&'a mut Device> {
    config.devices.iter_mut().find(|d| d.arn.ends_with(name))
}

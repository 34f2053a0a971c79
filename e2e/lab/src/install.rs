//! Installing the product into the cluster, as a user would: its images and its manifests.

use std::{path::Path, process::Command};

use crate::{
    archive::Image,
    command::{blocking, run_async},
    error::Result,
    images,
    lab::Lab,
    progress::Step,
};

/// The images of the product: names with tags, as the lab's overlay of the manifests has them.
/// Each starts its one program, `/sluice-webhook` or `/sluice-sidecar`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductImages {
    /// Of the webhook and keeper.
    pub webhook: String,
    /// Of the sidecar.
    pub sidecar: String,
}

impl Default for ProductImages {
    fn default() -> Self {
        Self {
            webhook: "sluice.local/sluice-webhook:lab".to_owned(),
            sidecar: "sluice.local/sluice-sidecar:lab".to_owned(),
        }
    }
}

/// Builds the programs, loads them as images, and applies a folder with a kustomization.
///
/// # Errors
/// If a build fails, or the API server refuses an object.
pub async fn install(lab: &Lab, images: &ProductImages, kustomization: &Path) -> Result<()> {
    load_product(lab, images).await?;
    apply(lab, kustomization).await
}

/// Builds `sluice-webhook` and `sluice-sidecar` and loads them as images.
///
/// # Errors
/// If a build fails or an image cannot be loaded.
pub async fn load_product(lab: &Lab, names: &ProductImages) -> Result<()> {
    let step = Step::begin("building the product", true);
    let binaries = blocking(|| images::cargo_build(&["sluice-webhook", "sluice-sidecar"])).await?;
    step.done();
    let step = Step::begin("loading the product's images", false);
    for (name, binary) in [&names.webhook, &names.sidecar].into_iter().zip(&binaries) {
        lab.load_image(&images::program(name, binary)).await?;
    }
    step.done();
    Ok(())
}

/// Applies a folder with a kustomization, as `kubectl apply -k` does.
///
/// # Errors
/// If the API server refuses an object; the message is kubectl's.
pub async fn apply(lab: &Lab, kustomization: &Path) -> Result<()> {
    let step = Step::begin(format!("applying {}", kustomization.display()), false);
    let mut kubectl = Command::new(lab.kubectl());
    kubectl
        .arg("--kubeconfig")
        .arg(lab.kubeconfig())
        .args(["apply", "--server-side", "--request-timeout=60s", "-k"])
        .arg(kustomization);
    run_async(kubectl).await?;
    step.done();
    Ok(())
}

impl Lab {
    /// Loads the images that tests use: tools, and Python if an environment is given.
    ///
    /// # Errors
    /// If an image cannot be loaded.
    pub async fn load_test_images(&self, python: Option<&crate::PythonEnv>) -> Result<()> {
        let mut wanted: Vec<Image> = vec![images::tools()];
        wanted.extend(python.map(images::python));
        for image in &wanted {
            self.load_image(image).await?;
        }
        Ok(())
    }
}

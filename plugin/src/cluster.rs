//! Gangs, as the API server has them.

use anyhow::{Context, Result, bail};
use kube::api::ListParams;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config, ResourceExt};
use sluice_shared::gang::QuantumGang;

use crate::args::Place;

/// Gangs in one answer of the API server: series are long.
const PAGE: u32 = 200;

/// The gangs of a place, or the one of that name or of the Job of that name.
///
/// # Errors
/// Without a kubeconfig, when the API server refuses, or when nothing has that name.
pub async fn gangs(place: &Place, name: Option<&str>) -> Result<Vec<QuantumGang>> {
    let config = match &place.context {
        None => Config::infer().await.context("no cluster: set KUBECONFIG")?,
        Some(context) => {
            let options = KubeConfigOptions {
                context: Some(context.clone()),
                ..KubeConfigOptions::default()
            };
            Config::from_kubeconfig(&options).await.with_context(|| format!("context {context}"))?
        }
    };
    let client = Client::try_from(config)?;
    let api: Api<QuantumGang> = match &place.namespace {
        _ if place.all_namespaces => Api::all(client),
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::default_namespaced(client),
    };
    let mut found = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list(&page).await.context("the gangs cannot be listed")?;
        found.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    let Some(name) = name else { return Ok(found) };
    found.retain(|gang| gang.name_any() == name || gang.spec.owner.name == name);
    if found.is_empty() {
        bail!("no gang and no quantum Job is called {name}; `kubectl get qg -A` lists the gangs");
    }
    Ok(found)
}

//! The floor: the same patches for the same number of pods, sent by a plain client.

use std::time::Instant;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use sluice_shared::{gate, names};

use super::cluster::Cluster;
use super::gang::TASK;
use super::gates::{GateWatch, Opened};
use super::jobs::{Waiting, draft};

/// As many as the keeper has.
const IN_FLIGHT: usize = 64;

/// Opens the gates of one plain Job. The time counts from the first patch.
pub(super) async fn release(
    cluster: &Cluster,
    client: &Client,
    namespace: &str,
    consumers: u32,
) -> Result<Opened> {
    let gates = json!({"schedulingGates": [{"name": names::GATE}]});
    let draft = draft("bare", consumers, &json!({}), &gates);
    let waiting = Waiting::create(cluster, namespace, draft, consumers).await?;
    let watch = GateWatch::start(&waiting).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let tasks = [TASK.to_owned()];
    let params = PatchParams::default();
    let start = Instant::now();
    stream::iter(&waiting.pods)
        .map(async |pod| {
            let uid = pod.uid().context("a pod has no uid")?;
            let patch = Patch::Strategic(gate::release_patch(&uid, names::GATE, &tasks));
            // As the keeper asks: for the short answer.
            pods.patch_metadata(&pod.name_any(), &params, &patch).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    let opened = watch.opened(start).await?;
    waiting.remove().await?;
    Ok(opened)
}

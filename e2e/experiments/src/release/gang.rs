//! The product's arm: the order is written on a gang, and the keeper opens the gates.

use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use sluice_lab::await_condition;
use sluice_shared::gang::QuantumGang;
use sluice_shared::{names, naming};

use super::LIMIT;
use super::cluster::Cluster;
use super::gates::{GateWatch, Opened};
use super::jobs::{Waiting, draft};

/// The task that the order names.
pub(super) const TASK: &str = "arn:aws:braket:eu-north-1:000000000000:quantum-task/834b21ed";

/// How a gang was released.
pub(super) struct Released {
    /// What the watch saw.
    pub(super) opened: Opened,
    /// When the keeper had decided to follow the order, by its own word; zero when that was before
    /// the answer to the order.
    pub(super) taken_up: Duration,
}

/// Releases one gang. The time counts from the answer to the order.
pub(super) async fn release(
    cluster: &Cluster,
    namespace: &str,
    consumers: u32,
) -> Result<Released> {
    let qpu = json!({"resources": {"limits": {names::QPU_RESOURCE: "1"}}});
    let draft = draft("gang", consumers + 1, &qpu, &json!({}));
    let waiting = Waiting::create(cluster, namespace, draft, consumers).await?;
    let uid = waiting.job.uid().unwrap_or_default();
    let name = naming::gang_name(&waiting.job.name_any(), &uid, None);
    let gangs: Api<QuantumGang> = Api::namespaced(cluster.client(), namespace);
    let counted = |gang: &QuantumGang| {
        let status = gang.status.as_ref();
        let counts = status.and_then(|s| s.consumers);
        status.is_some_and(|s| s.producer.is_some())
            && counts.is_some_and(|c| c.gated == consumers && c.expected == consumers)
    };
    await_condition(&gangs, &name, "the keeper has counted the gang", LIMIT, counted).await?;

    let watch = GateWatch::start(&waiting).await?;
    // As the sidecar writes it.
    let order = json!({"status": {"vendor": {
        "tasks": [{"id": TASK, "device": "Garnet", "state": "QUEUED", "position": "1",
                   "front": true, "counts": true}],
        "order": {"reason": "front", "taskId": TASK, "at": Timestamp::now().to_string()},
    }}});
    gangs.patch_status(&name, &PatchParams::default(), &Patch::Merge(&order)).await?;
    let (start, ordered) = (Instant::now(), Timestamp::now());
    let opened = watch.opened(start).await?;
    let status = gangs.get(&name).await?.status.unwrap_or_default();
    let taken_up = status.order.map_or(ordered, |o| o.at.0).duration_since(ordered);
    waiting.remove().await?;
    Ok(Released { opened, taken_up: taken_up.try_into().unwrap_or_default() })
}

//! Nodes without machines, played by kwok, for trials of scale.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::{
    components::Component,
    error::{Error, Result},
    lab::Lab,
    progress::Step,
    startup::is_ready,
    wait::await_list,
};

/// The taint of the nodes without machines: a pod that should go there tolerates it.
pub const FAKE_TAINT: &str = "kwok.x-k8s.io/node";
/// The label of the nodes without machines, with the value `kwok`.
pub const FAKE_LABEL: &str = "type";

impl Lab {
    /// Adds nodes without machines, `fake-0` and on, and starts kwok if it does not run. Pods
    /// that tolerate the taint [`FAKE_TAINT`] and select `type: kwok` land there.
    ///
    /// # Errors
    /// If the nodes do not become ready within two minutes.
    pub async fn add_fake_nodes(&self, count: u32) -> Result<()> {
        if self.process(Component::Kwok.name()).is_err() {
            self.start(Component::Kwok.name()).await?;
        }
        let step = Step::begin(format!("adding {count} nodes without machines"), false);
        let nodes: Api<Node> = Api::all(self.kube());
        let selection = ListParams::default().labels(&format!("{FAKE_LABEL}=kwok"));
        let there = nodes.list(&selection).await.map_err(Error::kube("list nodes"))?.items.len();
        stream::iter(there..there + count as usize)
            .map(|number| {
                let nodes = nodes.clone();
                async move {
                    let node = fake_node(number)?;
                    let made = nodes.create(&PostParams::default(), &node).await;
                    made.map(drop).map_err(Error::kube(format!("create the node fake-{number}")))
                }
            })
            .buffer_unordered(16)
            .try_collect::<()>()
            .await?;
        let all = there + count as usize;
        let limit = Duration::from_mins(2);
        await_list(&nodes, &selection, "the fake nodes are ready", limit, |nodes| {
            nodes.iter().filter(|node| is_ready(node)).count() >= all
        })
        .await?;
        step.done();
        Ok(())
    }
}

fn fake_node(number: usize) -> Result<Node> {
    let name = format!("fake-{number}");
    let room = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                FAKE_LABEL: "kwok",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
            },
        },
        "spec": {"taints": [{"key": FAKE_TAINT, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room},
    });
    serde_json::from_value(node)
        .map_err(|e| Error::Invalid(format!("the node {name} cannot be written: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fake_node_keeps_ordinary_pods_away() {
        let node = fake_node(3).expect("node");
        let taints = node.spec.and_then(|spec| spec.taints).expect("taints");
        assert_eq!(taints[0].effect, "NoSchedule");
        assert_eq!(node.metadata.name.as_deref(), Some("fake-3"));
    }
}

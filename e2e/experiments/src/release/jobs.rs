//! The Jobs of both arms, and their pods.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use sluice_lab::{await_gone, await_list};
use sluice_shared::{gate, names};

use super::LIMIT;
use super::cluster::Cluster;

/// A scheduler that does not exist.
const NOBODY: &str = "sluice-bench-nobody";
/// A Job is at rest when its pods have not changed for so long: its controller has counted them.
const REST: Duration = Duration::from_millis(1500);

/// A Job whose pods wait behind the gate.
pub(super) struct Waiting {
    /// The Job.
    pub(super) job: Job,
    /// The pods with the gate.
    pub(super) pods: Vec<Pod>,
    api: Api<Pod>,
    jobs: Api<Job>,
}

/// An Indexed Job of `pods` pods; `spec` is merged into the template's.
pub(super) fn draft(name: &str, pods: u32, container: &Value, spec: &Value) -> Value {
    let mut draft = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": format!("{name}-")},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "template": {"spec": {
                "schedulerName": NOBODY,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "program",
                    "image": sluice_lab::images::TOOLS_IMAGE,
                    "command": ["/bin/sleep", "1"],
                }],
            }},
        },
    });
    let template = &mut draft["spec"]["template"]["spec"];
    merge(&mut template["containers"][0], container);
    merge(template, spec);
    draft
}

fn merge(to: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        to[key] = value.clone();
    }
}

impl Waiting {
    /// Creates a Job and waits until `gated` of its pods are held and all of it is at rest.
    pub(super) async fn create(
        cluster: &Cluster,
        namespace: &str,
        draft: Value,
        gated: u32,
    ) -> Result<Self> {
        let jobs: Api<Job> = Api::namespaced(cluster.client(), namespace);
        let api: Api<Pod> = Api::namespaced(cluster.client(), namespace);
        let draft: Job = serde_json::from_value(draft).context("the draft is no Job")?;
        let job = jobs.create(&PostParams::default(), &draft).await?;
        let selection = selection(&job);
        let list = ListParams::default().labels(&selection);
        let held = |pods: &[Pod]| {
            let held = pods.iter().filter(|p| gate::holds(p, names::GATE)).count();
            u32::try_from(held) == Ok(gated)
        };
        await_list(&api, &list, "the pods wait behind their gates", LIMIT, held).await?;
        rest(&api, &selection).await?;
        let mut pods = api.list(&list).await?.items;
        pods.retain(|p| gate::holds(p, names::GATE));
        Ok(Self { job, pods, api, jobs })
    }

    /// The pods of the namespace.
    pub(super) fn api(&self) -> &Api<Pod> {
        &self.api
    }

    /// Selects the pods of the Job.
    pub(super) fn selection(&self) -> String {
        selection(&self.job)
    }

    /// Deletes the Job and waits until its pods are gone.
    pub(super) async fn remove(self) -> Result<()> {
        let name = self.job.name_any();
        self.jobs.delete(&name, &DeleteParams::background()).await?;
        let list = ListParams::default().labels(&self.selection());
        self.api.delete_collection(&DeleteParams::background().grace_period(0), &list).await?;
        await_gone(&self.jobs, &name, LIMIT).await?;
        await_list(&self.api, &list, "the pods are gone", LIMIT, <[Pod]>::is_empty).await?;
        Ok(())
    }
}

fn selection(job: &Job) -> String {
    format!("{}={}", names::JOB_NAME, job.name_any())
}

/// Waits until a watch has been silent for [`REST`].
async fn rest(api: &Api<Pod>, selection: &str) -> Result<()> {
    let version = api.list_metadata(&ListParams::default().labels(selection).limit(1)).await?;
    let version = version.metadata.resource_version.unwrap_or_default();
    let params = WatchParams::default().labels(selection);
    let mut events = std::pin::pin!(api.watch_metadata(&params, &version).await?);
    let silence = async {
        while let Ok(event) = tokio::time::timeout(REST, events.next()).await {
            event.context("the watch of pods ended")??;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(LIMIT, silence).await.context("the pods do not come to rest")?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_arms_differ_only_in_what_they_say() {
        let plain = draft("plain", 3, &json!({}), &json!({"schedulingGates": [{"name": "g"}]}));
        let quantum = draft("plain", 3, &json!({"resources": {"limits": {"q": "1"}}}), &json!({}));
        let spec = |draft: &Value| draft["spec"]["template"]["spec"].clone();
        let (mut plain, mut quantum) = (spec(&plain), spec(&quantum));
        assert_eq!(plain["schedulingGates"].take()[0]["name"], "g");
        assert_eq!(quantum["containers"][0]["resources"].take()["limits"]["q"], "1");
        plain.as_object_mut().unwrap().remove("schedulingGates");
        quantum["containers"][0].as_object_mut().unwrap().remove("resources");
        assert_eq!(plain, quantum);
    }
}

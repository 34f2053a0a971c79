//! Jobs, pods and sidecars as the stories need them, and keepers to watch at work.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use sluice_keeper::{KeeperConfig, KeeperError, Metrics};
use sluice_lab::{FAKE_LABEL, FAKE_TAINT, Lab, await_condition, await_value};
use sluice_shared::gang::QuantumGang;
use sluice_shared::names;
use sluice_shared::naming::gang_name;
use sluice_shared::stamp::{Mode, Stamp};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Time for something that takes less than a second on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// A task at the vendor.
pub(crate) const TASK: &str =
    "arn:aws:braket:eu-north-1:123456789012:quantum-task/834b21ed-0000-4000-8000-000000000000";
/// Another one.
pub(crate) const OTHER: &str =
    "arn:aws:braket:eu-north-1:123456789012:quantum-task/9c0ffee0-0000-4000-8000-000000000000";

/// What an administrator installs: the type of gangs and the role of the sidecars.
pub(crate) async fn install(lab: &Lab) -> Result<()> {
    let params = PatchParams::apply("story").force();
    let types = Api::<CustomResourceDefinition>::all(lab.kube());
    let crd = QuantumGang::crd();
    let name = crd.metadata.name.clone().context("the type has a name")?;
    types.patch(&name, &params, &Patch::Apply(&crd)).await?;
    await_condition(&types, &name, "the type is established", SOON, |crd| {
        let conditions = crd.status.iter().flat_map(|s| s.conditions.iter().flatten());
        conditions.into_iter().any(|c| c.type_ == "Established" && c.status == "True")
    })
    .await?;
    let roles = Api::<ClusterRole>::all(lab.kube());
    let role: ClusterRole = serde_json::from_value(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": names::GANG_ROLE},
        "rules": [{
            "apiGroups": [names::GROUP], "resources": ["quantumgangs"], "verbs": ["get"],
        }],
    }))?;
    roles.patch(names::GANG_ROLE, &params, &Patch::Apply(&role)).await?;
    Ok(())
}

/// A keeper that runs in this process.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), KeeperError>>,
}

impl Running {
    /// Starts a keeper with this client. Its Lease is in `namespace`.
    pub(crate) fn start(client: Client, namespace: &str, identity: &str) -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let config = KeeperConfig::new(namespace, identity);
        let stop = CancellationToken::new();
        let task = tokio::spawn(sluice_keeper::run(client, config, metrics, stop.clone()));
        Self { stop, task }
    }

    /// Has it end in good order.
    pub(crate) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        Ok(self.task.await??)
    }

    /// Ends it without a chance to give up its Lease.
    pub(crate) async fn crash(self) {
        self.task.abort();
        // The error says that it was aborted.
        let _ = self.task.await;
    }
}

/// One Job with its pods in one namespace.
pub(crate) struct Stage {
    pub client: Client,
    pub namespace: String,
    pub job: Job,
    /// Whether consumers find a node once they are released.
    pub placeable: bool,
    stamp: Stamp,
}

impl Stage {
    /// Makes a Job of `size` pods that nobody but the story manages.
    pub(crate) async fn set(
        client: Client,
        namespace: &str,
        name: &str,
        size: u32,
    ) -> Result<Self> {
        Self::with(client, namespace, name, Stamp { size, ..Stamp::default() }).await
    }

    /// The same with a stamp of its own.
    pub(crate) async fn with(
        client: Client,
        namespace: &str,
        name: &str,
        stamp: Stamp,
    ) -> Result<Self> {
        let job: Job = serde_json::from_value(json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name,
                "labels": {names::JOB_LABEL: names::JOB_LABEL_VALUE},
            },
            "spec": {
                "managedBy": "example.com/story", "backoffLimitPerIndex": 1,
                "parallelism": stamp.size, "completions": stamp.size, "completionMode": "Indexed",
                "template": {
                    "metadata": {"annotations": {names::STAMP: stamp.to_annotation()}},
                    "spec": pod_spec(false),
                },
            },
        }))?;
        let jobs = Api::<Job>::namespaced(client.clone(), namespace);
        let job = jobs.create(&PostParams::default(), &job).await?;
        Ok(Self { client, namespace: namespace.to_owned(), job, placeable: false, stamp })
    }

    pub(crate) fn job_name(&self) -> &str {
        self.job.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn job_uid(&self) -> &str {
        self.job.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The name of the gang, and of its `PodGroup`.
    pub(crate) fn gang_name(&self) -> String {
        gang_name(self.job_name(), self.job_uid(), None)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn gangs(&self) -> Api<QuantumGang> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes the pods of these indexes, shaped as the webhook shapes them.
    pub(crate) async fn enter(&self, indexes: impl IntoIterator<Item = u32>) -> Result<()> {
        for index in indexes {
            self.enter_with(index, &[names::GATE]).await?;
        }
        Ok(())
    }

    /// The same for one index, with these gates if it is a consumer. Gives the pod's name.
    pub(crate) async fn enter_with(&self, index: u32, gates: &[&str]) -> Result<String> {
        let role = sluice_shared::role::Role::of(&self.stamp, Some(index));
        let mut spec = pod_spec(self.placeable && !role.has_sidecar());
        if !role.has_sidecar() {
            let gates: Vec<Value> = gates.iter().map(|g| json!({"name": g})).collect();
            spec["schedulingGates"] = gates.into();
            spec["schedulingGroup"] = json!({"podGroupName": self.gang_name()});
        }
        let pod: Pod = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": format!("{}-{index}-", self.job_name()),
                "labels": {
                    names::ROLE: role.as_str(),
                    names::JOB_UID: self.job_uid(), names::JOB_NAME: self.job_name(),
                },
                "annotations": {
                    names::COMPLETION_INDEX: index.to_string(),
                    names::STAMP: self.stamp.to_annotation(),
                },
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "controller": true,
                    "name": self.job_name(), "uid": self.job_uid(),
                }],
            },
            "spec": spec,
        }))?;
        let made = self.pods().create(&PostParams::default(), &pod).await?;
        made.metadata.name.context("a pod has a name")
    }

    /// Removes the pod at once, without a grace period.
    pub(crate) async fn leave(&self, pod: &str) -> Result<()> {
        self.pods().delete(pod, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    /// The pods of an index.
    pub(crate) async fn of_index(&self, index: u32) -> Result<Vec<Pod>> {
        let pods = self.pods().list(&ListParams::default().labels(names::ROLE)).await?;
        let same = |p: &Pod| annotation(p, names::COMPLETION_INDEX) == Some(index.to_string());
        Ok(pods.items.into_iter().filter(same).collect())
    }

    /// Writes `status.vendor`, as the sidecar does.
    pub(crate) async fn vendor(&self, tasks: &[(&str, &str)], order: Option<&str>) -> Result<()> {
        let now = Timestamp::now();
        let task = |(id, state): &(&str, &str)| {
            json!({
                "id": id, "device": "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet",
                "state": state, "counts": true, "submittedAt": now, "observedAt": now,
            })
        };
        let tasks: Vec<Value> = tasks.iter().map(task).collect();
        let at = jiff::fmt::temporal::DateTimePrinter::new().precision(Some(6));
        let order = order
            .map(|id| json!({"reason": "front", "taskId": id, "at": at.timestamp_to_string(&now)}));
        let patch = json!({"status": {"vendor": {"tasks": tasks, "order": order}}});
        let params = PatchParams::default();
        self.gangs().patch_status(&self.gang_name(), &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Waits for the gang to be in a state.
    pub(crate) async fn await_gang(
        &self,
        what: &str,
        condition: impl Fn(&QuantumGang) -> bool,
    ) -> Result<QuantumGang> {
        Ok(await_condition(&self.gangs(), &self.gang_name(), what, SOON, condition).await?)
    }

    /// Waits until our gate is off these pods, or all consumers.
    pub(crate) async fn await_open(&self, what: &str, limit: Duration) -> Result<Vec<Pod>> {
        let selection = ListParams::default().labels(&format!("{}=consumer", names::ROLE));
        let open = |pods: &[Pod]| pods.iter().all(|p| !gates(p).contains(&names::GATE.to_owned()));
        Ok(sluice_lab::await_list(&self.pods(), &selection, what, limit, open).await?)
    }

    /// Waits for an Event with this reason about this object, and gives how many there are.
    pub(crate) async fn await_event(&self, uid: &str, reason: &str) -> Result<Event> {
        let events = Api::<Event>::namespaced(self.client.clone(), &self.namespace);
        let what = format!("an Event {reason}");
        let found = await_value(&what, SOON, async || {
            let list = events.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
            let about = |e: &Event| {
                let regarding = e.regarding.as_ref().and_then(|r| r.uid.as_deref());
                regarding == Some(uid) && e.reason.as_deref() == Some(reason)
            };
            let mut matching = list.items.into_iter().filter(about);
            match (matching.next(), matching.next()) {
                (Some(event), None) => Ok(event),
                (first, second) => Err(format!("{first:?}, {second:?}")),
            }
        })
        .await?;
        Ok(found)
    }
}

/// The names of a pod's gates.
pub(crate) fn gates(pod: &Pod) -> Vec<String> {
    let gates = pod.spec.iter().flat_map(|s| s.scheduling_gates.iter().flatten());
    gates.map(|g| g.name.clone()).collect()
}

/// An annotation of a pod.
pub(crate) fn annotation(pod: &Pod, name: &str) -> Option<String> {
    pod.metadata.annotations.as_ref().and_then(|a: &BTreeMap<_, _>| a.get(name)).cloned()
}

/// A stamp for pods that work alone.
pub(crate) fn alone(size: u32) -> Stamp {
    Stamp { mode: Mode::Independent, size, ..Stamp::default() }
}

/// A pod that runs on nodes without machines, or one that never finds a node.
pub(crate) fn pod_spec(placeable: bool) -> Value {
    json!({
        "restartPolicy": "Never",
        "nodeSelector": {FAKE_LABEL: if placeable { "kwok" } else { "none" }},
        "tolerations": [{"key": FAKE_TAINT, "operator": "Exists"}],
        "containers": [{"name": "c", "image": "example.com/none"}],
    })
}

//! One namespace and one vendor: the stage of one story.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sluice_lab::{PythonEnv, TempNs, await_condition, await_value};
use sluice_shared::gang::QuantumGang;
use sluice_shared::{names, naming};
use sluice_vendors::{Config, Emulator, Running, TaskView};

use crate::job::{ACCOUNT, BUCKET, Draft, GARNET, PROGRAM};
use crate::world::World;

/// The longest that a story waits for one thing. Generous: the machine may be slow.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Name of the `ConfigMap` with the programs.
const PROGRAMS: &str = "programs";
/// Name of the Secret with the vendor's keys.
pub const KEYS: &str = "aws";

/// One namespace and one vendor.
#[derive(Debug)]
pub struct Stage<'w> {
    /// The cluster.
    pub world: &'w World,
    /// The vendor.
    pub vendor: Running,
    namespace: TempNs,
}

impl<'w> Stage<'w> {
    pub(crate) async fn set(world: &'w World, name: &str, config: Config) -> Result<Self> {
        let vendor = Emulator::start(config).await?;
        vendor.add_bucket(ACCOUNT, BUCKET);
        let namespace = world.lab().namespace(name).await?;
        let stage = Self { world, vendor, namespace };
        let programs: Api<ConfigMap> = stage.api();
        let map = serde_json::from_value(json!({
            "metadata": {"name": PROGRAMS},
            "data": {
                "fanout.py": include_str!("../programs/fanout.py"),
                "again.py": include_str!("../programs/again.py"),
                "alone.py": include_str!("../programs/alone.py"),
                "patient.py": include_str!("../programs/patient.py"),
                "announcer.py": include_str!("../programs/announcer.py"),
                "quiet.py": include_str!("../programs/quiet.py"),
                "stranger.py": include_str!("../programs/stranger.py"),
                "single-evaluation.py":
                    include_str!("../../../examples/single-evaluation/program.py"),
                "variational-loop.py":
                    include_str!("../../../examples/variational-loop/program.py"),
                "batch.py": include_str!("../../../examples/batch/program.py"),
                "fan-out.py": include_str!("../../../examples/fan-out/program.py"),
                "session-loop.py": include_str!("../../../examples/qrmi/session_loop.py"),
                "qrmi-quiet.py": include_str!("../programs/qrmi_quiet.py"),
                "qrmi-fan-out.py": include_str!("../../../examples/qrmi/program.py"),
            },
        }))?;
        programs.create(&PostParams::default(), &map).await?;
        let secrets: Api<Secret> = stage.api();
        let keys: Value = stage
            .vendor
            .environment()
            .into_iter()
            .filter(|(name, _)| name.starts_with("AWS_ACCESS") || name.starts_with("AWS_SECRET"))
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let secret =
            serde_json::from_value(json!({"metadata": {"name": KEYS}, "stringData": keys}))?;
        secrets.create(&PostParams::default(), &secret).await?;
        Ok(stage)
    }

    /// An API of the namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), self.namespace())
    }

    /// The administrator's client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.world.kube()
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.name()
    }

    /// A Job of `pods` pods that run one of the programs with Python, with the vendor's keys from
    /// a Secret and everything else from plain environment.
    #[must_use]
    pub fn draft(&self, name: &str, pods: u32, program: &str) -> Draft {
        self.draft_with(self.world.python(), name, pods, program)
    }

    /// The same with another Python.
    #[must_use]
    pub fn draft_with(&self, python: &PythonEnv, name: &str, pods: u32, program: &str) -> Draft {
        let mut mounts = python.mounts();
        let mut volumes = python.volumes();
        if let (Some(mounts), Some(volumes)) = (mounts.as_array_mut(), volumes.as_array_mut()) {
            mounts.push(json!({"name": PROGRAMS, "mountPath": "/programs"}));
            volumes.push(json!({"name": PROGRAMS, "configMap": {"name": PROGRAMS}}));
        }
        let container = json!({
            "image": sluice_lab::images::PYTHON_IMAGE,
            "command": [python.python(), format!("/programs/{program}")],
            "env": self.environment(),
            "envFrom": [{"secretRef": {"name": KEYS}}],
            "volumeMounts": mounts,
        });
        Draft::new(name, pods, &container, &volumes)
    }

    /// A Job of `pods` pods that run a shell command and no Python.
    #[must_use]
    pub fn shell(&self, name: &str, pods: u32, command: &str) -> Draft {
        let container = json!({
            "image": sluice_lab::images::TOOLS_IMAGE,
            "command": ["/bin/sh", "-c", command],
            "env": self.environment(),
            "envFrom": [{"secretRef": {"name": KEYS}}],
        });
        Draft::new(name, pods, &container, &json!([]))
    }

    fn environment(&self) -> Value {
        let mut list: Vec<Value> = self
            .vendor
            .environment()
            .into_iter()
            .filter(|(name, _)| !name.starts_with("AWS_ACCESS") && !name.starts_with("AWS_SECRET"))
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        list.push(json!({"name": "AMZN_BRAKET_OUT_S3_BUCKET", "value": BUCKET}));
        list.push(json!({"name": "DEVICE", "value": GARNET}));
        list.into()
    }

    /// Creates the Job of a draft.
    ///
    /// # Errors
    /// If it is refused; the message is the API server's.
    pub async fn submit(&self, draft: &Draft) -> Result<Job> {
        let job: Job = serde_json::from_value(draft.job())?;
        Ok(self.api::<Job>().create(&PostParams::default(), &job).await?)
    }

    /// The message with which the Job of a draft is refused.
    ///
    /// # Errors
    /// If it is not refused.
    pub async fn refused(&self, draft: &Draft) -> Result<String> {
        match self.submit(draft).await {
            Ok(_) => bail!("the Job {} was accepted, and should have been refused", draft.name()),
            Err(error) => Ok(error.to_string()),
        }
    }

    /// The gang of a Job, as soon as it satisfies `condition`.
    ///
    /// # Errors
    /// If that takes longer than [`LIMIT`]; the message shows the gang as last seen.
    pub async fn gang(
        &self,
        job: &Job,
        what: &str,
        condition: impl Fn(&QuantumGang) -> bool,
    ) -> Result<QuantumGang> {
        let name = naming::gang_name(&job.name_any(), &job.uid().unwrap_or_default(), None);
        self.gang_named(&name, what, condition).await
    }

    /// The same by name.
    ///
    /// # Errors
    /// As [`Stage::gang`].
    pub async fn gang_named(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&QuantumGang) -> bool,
    ) -> Result<QuantumGang> {
        Ok(await_condition(&self.api::<QuantumGang>(), name, what, LIMIT, condition).await?)
    }

    /// The pods of a Job, in the order of their indexes, as soon as they satisfy `condition`.
    ///
    /// # Errors
    /// If that takes longer than [`LIMIT`].
    pub async fn pods(
        &self,
        job: &str,
        what: &str,
        condition: impl Fn(&[Pod]) -> bool,
    ) -> Result<Vec<Pod>> {
        let selection = ListParams::default().labels(&format!("{}={job}", names::JOB_NAME));
        let pods = self.api::<Pod>();
        let found = await_value(what, LIMIT, async || match pods.list(&selection).await {
            Ok(list) => {
                let mut pods = list.items;
                pods.sort_by_key(index_of);
                if condition(&pods) { Ok(pods) } else { Err(summary(&pods)) }
            }
            Err(error) => Err(error.to_string()),
        })
        .await?;
        Ok(found)
    }

    /// Waits until a Job has ended well.
    ///
    /// # Errors
    /// If it fails, or takes longer than [`LIMIT`].
    pub async fn completed(&self, job: &str) -> Result<Job> {
        let ended = |job: &Job, kind: &str| {
            job.status
                .iter()
                .flat_map(|s| s.conditions.iter().flatten())
                .any(|c| c.type_ == kind && c.status == "True")
        };
        let job = await_condition(&self.api::<Job>(), job, "the Job ends", LIMIT, |job| {
            ended(job, "Complete") || ended(job, "Failed")
        })
        .await?;
        if ended(&job, "Failed") {
            bail!("the Job {} failed: {}", job.name_any(), json!(job.status));
        }
        Ok(job)
    }

    /// The log of a container so far.
    ///
    /// # Errors
    /// If it has not started.
    pub async fn log(&self, pod: &Pod, container: &str) -> Result<String> {
        Ok(self.world.lab().logs(self.namespace(), &pod.name_any(), container).await?)
    }

    /// The log of the program of a pod.
    ///
    /// # Errors
    /// If it has not started.
    pub async fn output(&self, pod: &Pod) -> Result<String> {
        self.log(pod, PROGRAM).await
    }

    /// Waits until the sidecar's log of a pod holds `text`, and returns the log.
    ///
    /// # Errors
    /// If that takes longer than [`LIMIT`].
    pub async fn sidecar_says(&self, pod: &Pod, text: &str) -> Result<String> {
        let what = format!("the sidecar says {text:?}");
        let log = await_value(&what, LIMIT, async || {
            match self.log(pod, names::SIDECAR_CONTAINER).await {
                Ok(log) if log.contains(text) => Ok(log),
                Ok(log) => Err(log),
                Err(error) => Err(format!("{error:#}")),
            }
        })
        .await?;
        Ok(log)
    }

    /// Waits for an Event with `reason` about an object of that name, and returns its note.
    ///
    /// # Errors
    /// If that takes longer than [`LIMIT`].
    pub async fn event(&self, about: &str, reason: &str) -> Result<String> {
        let what = format!("an Event {reason} about {about}");
        let note = await_value(&what, LIMIT, async || match self.all_events(about).await {
            Ok(all) => {
                let found = all.iter().find(|(r, _)| r == reason).map(|(_, note)| note.clone());
                found.ok_or_else(|| format!("{all:?}"))
            }
            Err(error) => Err(error.to_string()),
        })
        .await?;
        Ok(note)
    }

    /// The notes of all Events with `reason` about an object of that name, so far.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub async fn events(&self, about: &str, reason: &str) -> Result<Vec<String>> {
        let all = self.all_events(about).await?;
        Ok(all.into_iter().filter(|(r, _)| r == reason).map(|(_, note)| note).collect())
    }

    /// Reasons and notes of all Events about an object of that name.
    async fn all_events(&self, about: &str) -> Result<Vec<(String, String)>> {
        let selection = ListParams::default().fields(&format!("involvedObject.name={about}"));
        let list = self.api::<Event>().list(&selection).await?;
        let seen = |e: Event| (e.reason.unwrap_or_default(), e.message.unwrap_or_default());
        Ok(list.items.into_iter().map(seen).collect())
    }

    /// Waits until the vendor has a number of tasks, and returns them, newest first.
    ///
    /// # Errors
    /// If that takes longer than [`LIMIT`].
    pub async fn tasks(&self, count: usize) -> Result<Vec<TaskView>> {
        let what = format!("the vendor has {count} tasks");
        let tasks = await_value(&what, LIMIT, async || {
            let tasks = self.vendor.tasks();
            if tasks.len() == count { Ok(tasks) } else { Err(format!("{tasks:?}")) }
        })
        .await?;
        Ok(tasks)
    }

    /// Lets the only task of the vendor run and end.
    ///
    /// # Errors
    /// If the vendor has no such device.
    pub async fn run_task(&self) -> Result<()> {
        // One step starts it, the next ends it.
        self.vendor.step(Some("Garnet"), 2).await?;
        Ok(())
    }

    /// Patches the gang of a Job as an administrator.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn patch_gang(&self, gang: &QuantumGang, patch: Value) -> Result<QuantumGang> {
        let gangs = self.api::<QuantumGang>();
        Ok(gangs.patch(&gang.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Ends the story: the namespace and the vendor go.
    ///
    /// # Errors
    /// If the namespace does not go.
    pub async fn strike(self) -> Result<()> {
        self.namespace.delete().await.context("the namespace of the story does not go")?;
        self.vendor.stop().await;
        Ok(())
    }
}

/// The completion index of a pod.
#[must_use]
pub fn index_of(pod: &Pod) -> Option<u32> {
    pod.annotations().get(names::COMPLETION_INDEX)?.parse().ok()
}

/// Whether the pod is held by our gate.
#[must_use]
pub fn gated(pod: &Pod) -> bool {
    sluice_shared::gate::holds(pod, names::GATE)
}

/// Whether a container of the pod's program ever started.
#[must_use]
pub fn started(pod: &Pod) -> bool {
    pod.status
        .iter()
        .flat_map(|s| s.container_statuses.iter().flatten())
        .filter_map(|c| c.state.as_ref())
        .any(|s| s.running.is_some() || s.terminated.is_some())
}

/// The phase of a pod.
#[must_use]
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn summary(pods: &[Pod]) -> String {
    let line = |pod: &Pod| {
        let reasons: Vec<_> = pod
            .status
            .iter()
            .flat_map(|s| s.conditions.iter().flatten())
            .filter_map(|c| c.reason.as_deref())
            .collect();
        format!("{} {} gated={} {reasons:?}", pod.name_any(), phase(pod), gated(pod))
    };
    pods.iter().map(line).collect::<Vec<_>>().join("\n")
}

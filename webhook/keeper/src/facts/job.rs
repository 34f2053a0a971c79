//! A Job as the keeper sees it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Object;
use serde::Deserialize;
use sluice_shared::names;
use sluice_shared::stamp::{Stamp, StampError};

use super::indexes::Indexes;
use super::{Place, kept_by_place};

/// The Job on the wire, without what nobody reads.
pub(crate) type RawJob = Object<RawJobSpec, RawJobStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawJobSpec {
    parallelism: Option<u32>,
    completions: Option<u32>,
    suspend: Option<bool>,
    managed_by: Option<String>,
    #[serde(default)]
    template: RawTemplate,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawTemplate {
    #[serde(default)]
    metadata: RawTemplateMeta,
    #[serde(default)]
    spec: RawTemplateSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawTemplateMeta {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTemplateSpec {
    #[serde(default)]
    containers: Vec<RawContainer>,
    #[serde(default)]
    init_containers: Vec<RawContainer>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawContainer {
    #[serde(default)]
    resources: RawResources,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawResources {
    #[serde(default)]
    requests: BTreeMap<String, String>,
    #[serde(default)]
    limits: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawJobStatus {
    #[serde(default)]
    conditions: Vec<RawJobCondition>,
    completed_indexes: Option<String>,
    failed_indexes: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawJobCondition {
    r#type: String,
    status: String,
}

/// How a Job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Complete,
    Failed,
}

/// A Job that carries our label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobSeen {
    pub place: Place,
    /// What the Job webhook decided; `None` when the template has no stamp.
    pub stamp: Option<Result<Stamp, StampError>>,
    pub parallelism: u32,
    /// `None` for a Job without a fixed number of completions.
    pub completions: Option<u32>,
    pub suspended: bool,
    pub end: Option<JobEnd>,
    pub succeeded: Indexes,
    pub failed: Indexes,
    pub deleting: bool,
    /// Whether its pods and its gang are deleted before it: see [`takes_along`].
    pub takes_along: bool,
}

kept_by_place!(JobSeen);

/// Whether an object is being deleted with all that it owns first (`--cascade=foreground`).
pub(crate) fn takes_along(meta: &ObjectMeta) -> bool {
    let mut finalizers = meta.finalizers.iter().flatten();
    meta.deletion_timestamp.is_some() && finalizers.any(|f| f == "foregroundDeletion")
}

impl JobSeen {
    /// Reads a Job.
    pub(crate) fn of(raw: &RawJob) -> Self {
        let status = raw.status.clone().unwrap_or_default();
        let indexes = |text: &Option<String>| Indexes::parse(text.as_deref().unwrap_or_default());
        let stamp = raw.spec.template.metadata.annotations.get(names::STAMP);
        Self {
            place: Place::of(&raw.metadata),
            stamp: stamp.map(|text| Stamp::parse(text)),
            parallelism: raw.spec.parallelism.unwrap_or(1),
            completions: raw.spec.completions,
            suspended: raw.spec.suspend.unwrap_or(false),
            end: end_of(&status),
            succeeded: indexes(&status.completed_indexes),
            failed: indexes(&status.failed_indexes),
            deleting: raw.metadata.deletion_timestamp.is_some(),
            takes_along: takes_along(&raw.metadata),
        }
    }

    /// The stamp, if there is one that this build can read.
    pub(crate) fn readable_stamp(&self) -> Option<&Stamp> {
        self.stamp.as_ref().and_then(|s| s.as_ref().ok())
    }

    /// Whether the Job still works: neither ended nor being deleted.
    pub(crate) const fn lives(&self) -> bool {
        self.end.is_none() && !self.deleting
    }
}

fn end_of(status: &RawJobStatus) -> Option<JobEnd> {
    let is = |kind: &str| status.conditions.iter().any(|c| c.r#type == kind && c.status == "True");
    if is("Complete") {
        Some(JobEnd::Complete)
    } else if is("Failed") {
        Some(JobEnd::Failed)
    } else {
        None
    }
}

/// A Job without our label that asks for a quantum processor: nobody stamped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StrayJob {
    pub place: Place,
}

impl StrayJob {
    /// Reads a Job without our label; `None` when it is not ours to speak of: not quantum, ended,
    /// or run by another controller, which the webhook leaves alone on purpose.
    pub(crate) fn of(raw: &RawJob) -> Option<Self> {
        let foreign =
            raw.spec.managed_by.as_deref().is_some_and(|m| m != "kubernetes.io/job-controller");
        let ended = raw.status.as_ref().is_some_and(|s| end_of(s).is_some());
        let leaving = raw.metadata.deletion_timestamp.is_some();
        if foreign || ended || leaving || !asks_for_qpu(&raw.spec.template.spec) {
            return None;
        }
        Some(Self { place: Place::of(&raw.metadata) })
    }
}

fn asks_for_qpu(spec: &RawTemplateSpec) -> bool {
    let asks = |list: &BTreeMap<String, String>| {
        list.get(names::QPU_RESOURCE).is_some_and(|quantity| quantity != "0")
    };
    spec.containers
        .iter()
        .chain(&spec.init_containers)
        .any(|c| asks(&c.resources.requests) || asks(&c.resources.limits))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mk_job(spec: &Value, status: &Value) -> RawJob {
        serde_json::from_value(json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": spec, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_job_is_read() {
        let stamp = Stamp { size: 8, ..Stamp::default() };
        let raw = mk_job(
            &json!({
                "parallelism": 8, "completions": 8, "suspend": true,
                "template": {
                    "metadata": {"annotations": {names::STAMP: stamp.to_annotation()}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            }),
            &json!({
                "completedIndexes": "0,2", "failedIndexes": "3",
                "conditions": [{"type": "Failed", "status": "True"}],
            }),
        );
        let job = JobSeen::of(&raw);
        assert_eq!(job.readable_stamp(), Some(&stamp));
        assert_eq!((job.parallelism, job.completions, job.suspended), (8, Some(8), true));
        assert_eq!(job.end, Some(JobEnd::Failed));
        assert!(job.succeeded.contains(0) && job.failed.contains(3));
        assert_eq!(job.place.version, 7);
    }

    #[test]
    fn strays_are_quantum_jobs_that_work() {
        let quantum = |quantity: &str| {
            json!({"template": {"spec": {"containers": [
                {"name": "c", "resources": {"limits": {names::QPU_RESOURCE: quantity}}},
            ]}}})
        };
        let mut managed = quantum("1");
        managed["managedBy"] = "kueue.x-k8s.io/multikueue".into();
        let ended = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let rows = [
            ("quantum", quantum("1"), json!({}), true),
            ("quantity 0", quantum("0"), json!({}), false),
            ("not quantum", json!({"template": {"spec": {"containers": []}}}), json!({}), false),
            ("no template", json!({}), json!({}), false),
            ("managed elsewhere", managed, json!({}), false),
            ("ended", quantum("1"), ended, false),
        ];
        for (name, spec, status, stray) in rows {
            assert_eq!(StrayJob::of(&mk_job(&spec, &status)).is_some(), stray, "{name}");
        }
    }
}

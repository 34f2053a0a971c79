//! Pods: do what the stamp says.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use sluice_shared::names;
use sluice_shared::naming::gang_name;
use sluice_shared::role::Role;
use sluice_shared::stamp::{Mode, Stamp};

use crate::ask::{Annotations, Ask};
use crate::config::Config;
use crate::quantum::{self, Requests};
use crate::reason::Reason;
use crate::served::Served;
use crate::shape::{self, env};
use crate::warning::Warning;

/// Annotation of Kubernetes: the container that a person means who names none.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// A pod as it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaped {
    /// The pod.
    pub pod: Pod,
    /// Its role.
    pub role: Role,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// What the shapes need to know of a pod besides the pod itself.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// What the Job webhook decided.
    pub stamp: Stamp,
    /// The role that follows from it.
    pub role: Role,
    /// Name of the gang; `None` for a bare pod, whose own name and uid decide and do not exist
    /// yet.
    pub gang: Option<String>,
    /// The pod has no Job, so its own annotations decide and it carries the stamp itself.
    pub bare: bool,
    /// The containers whose programs submit. Never empty.
    pub qpu_containers: Vec<String>,
    /// The configuration.
    pub config: &'a Config,
    /// What the cluster serves.
    pub served: Served,
}

/// The pod as it should be; `None` when it is not ours.
///
/// # Errors
/// When the pod contradicts itself or cannot be what it asks to be.
pub fn shaped(pod: &Pod, config: &Config, served: Served) -> Result<Option<Shaped>, Reason> {
    let mut warnings = Vec::new();
    let Some(facts) = facts(pod, config, served, &mut warnings)? else { return Ok(None) };
    let mut pod = pod.clone();
    match facts.role {
        Role::Consumer => shape::consumer::shape(&mut pod, &facts, &mut warnings),
        Role::Producer | Role::Single => shape::producer::shape(&mut pod, &facts, &mut warnings)?,
    }
    Ok(Some(Shaped { pod, role: facts.role, warnings }))
}

fn facts<'a>(
    pod: &Pod,
    config: &'a Config,
    served: Served,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Facts<'a>>, Reason> {
    let Some(spec) = pod.spec.as_ref().filter(|s| !s.containers.is_empty()) else {
        return Ok(None);
    };
    let none = Annotations::new();
    let annotations = pod.metadata.annotations.as_ref().unwrap_or(&none);
    let has_role = pod.metadata.labels.as_ref().is_some_and(|l| l.contains_key(names::ROLE));
    let requests = Requests::of(spec);
    let recorded = quantum::recorded(pod);
    let job = job_of(pod);
    let stamp = match (job, annotations.get(names::STAMP)) {
        (Some(_), Some(text)) => Stamp::parse(text)?,
        // Created before Sluice was ready: shaping it now would make a second producer.
        (Some(_), None) if !has_role => return Ok(None),
        (Some(_), None) => return Err(Reason::Mark(names::ROLE)),
        (None, _) => {
            let observed = annotations.get(names::OBSERVE).is_some_and(|v| v == "true");
            if !requests.any() && recorded.is_empty() && !observed {
                return match (has_role, annotations.contains_key(names::STAMP)) {
                    (true, _) => Err(Reason::Mark(names::ROLE)),
                    (_, true) => Err(Reason::Mark(names::STAMP)),
                    _ => Ok(None),
                };
            }
            bare(annotations, config, warnings)?
        }
    };
    check(spec, &requests)?;
    let index = job.and(index_of(annotations).transpose()?);
    let role = Role::of(&stamp, index);
    let index_of_gang = index.filter(|_| stamp.mode == Mode::Independent);
    let gang = job.map(|job| gang_name(&job.name, &job.uid, index_of_gang));
    Ok(Some(Facts {
        stamp,
        role,
        gang,
        bare: job.is_none(),
        qpu_containers: qpu_containers(spec, &requests, &recorded, annotations),
        config,
        served,
    }))
}

/// The stamp of a pod without a Job: its own annotations say all there is.
fn bare(
    annotations: &Annotations,
    config: &Config,
    warnings: &mut Vec<Warning>,
) -> Result<Stamp, Reason> {
    let (ask, unknown) = Ask::read(annotations)?;
    warnings.extend(unknown);
    if ask.coordination == Some(Mode::Shared) {
        warnings.push(Warning::BareShared);
    }
    if ask.cancel_on_delete == Some(true) {
        warnings.push(Warning::BareCancel);
    }
    Ok(Stamp {
        mode: Mode::Independent,
        size: 1,
        policy: ask.release.unwrap_or_default(),
        tasks: ask.tasks.unwrap_or(1),
        follow: ask.follow(),
        discovery: ask.discovery,
        // The deletion of a pod by its owner and its eviction look the same.
        cancel_on_delete: false,
        resume: !ask.no_resume,
        backend: ask.backend,
        mismatch: ask.mismatch,
        max_cost: ask.max_cost,
        gate: config.gate.clone(),
        ..Stamp::default()
    })
}

/// What no quantum pod may have.
///
/// # Errors
/// The first thing that it has.
pub(crate) fn check(spec: &PodSpec, requests: &Requests) -> Result<(), Reason> {
    if let Some(init) = &requests.init {
        return Err(Reason::InitRequest(init.clone()));
    }
    let by_os = spec.os.as_ref().is_some_and(|os| os.name.eq_ignore_ascii_case("windows"));
    let by_node = spec
        .node_selector
        .as_ref()
        .and_then(|s| s.get("kubernetes.io/os"))
        .is_some_and(|os| os.eq_ignore_ascii_case("windows"));
    if by_os || by_node {
        return Err(Reason::Windows);
    }
    if spec.containers.iter().any(|c| c.name == names::SIDECAR_CONTAINER) {
        return Err(Reason::NameTaken);
    }
    Ok(())
}

/// The Job that made the pod.
fn job_of(pod: &Pod) -> Option<&OwnerReference> {
    pod.metadata
        .owner_references
        .iter()
        .flatten()
        .find(|o| o.kind == "Job" && o.api_version.starts_with("batch/"))
}

fn index_of(annotations: &Annotations) -> Option<Result<u32, Reason>> {
    annotations
        .get(names::COMPLETION_INDEX)
        .map(|text| text.parse().map_err(|_| Reason::Index(text.clone())))
}

/// Those that request a qpu, or did before it was taken off. A pod that is only observed has none:
/// then the one that an earlier call connected, the one that the pod calls its default, the first.
/// Meshes put their proxy first, before or after us.
pub(crate) fn qpu_containers(
    spec: &PodSpec,
    requests: &Requests,
    recorded: &[(String, String)],
    annotations: &Annotations,
) -> Vec<String> {
    let marked = |c: &&Container| {
        [requests.containers.as_slice(), recorded].concat().iter().any(|(name, _)| *name == c.name)
    };
    let mut names: Vec<String> =
        spec.containers.iter().filter(marked).map(|c| c.name.clone()).collect();
    if names.is_empty() {
        let connected = |c: &&Container| {
            env::literal(c.env.as_deref().unwrap_or_default(), names::ENV_URL).is_some()
        };
        let default = annotations.get(DEFAULT_CONTAINER);
        let all = &spec.containers;
        let chosen = all
            .iter()
            .find(connected)
            .or_else(|| all.iter().find(|c| Some(&c.name) == default))
            .or_else(|| all.first());
        names.extend(chosen.map(|c| c.name.clone()));
    }
    names
}

//! Jobs: decide once, stamp the template.

pub mod size;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSpec;
use sluice_shared::names;
use sluice_shared::policy::ReleasePolicy;
use sluice_shared::stamp::{Discovery, Mode, Stamp};

use crate::ask::{self, Annotations, Ask};
use crate::config::Config;
use crate::pod;
use crate::quantum::Requests;
use crate::reason::Reason;
use crate::shape::{producer, tap};
use crate::warning::Warning;
use size::{Counts, Name, Size};

/// Consumers that may poll for one result without exceeding the vendor's quota: of 100 that did,
/// 86 died.
const MOST_POLLING: u32 = 32;
/// Waits at vendors last longer than this often enough to warn of a shorter deadline, seconds.
const PLAUSIBLE_WAIT: i64 = 24 * 60 * 60;
/// The controller of ordinary Jobs.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";
/// `spec.completionMode` of Jobs whose pods have indexes.
const INDEXED: &str = "Indexed";

/// What was decided about a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The stamp of its template.
    pub stamp: Stamp,
    /// Our annotations of Job and template, for the template.
    pub annotations: Annotations,
    /// The Job must become `Indexed`.
    pub convert: bool,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// Whether pods run at the same time that cannot be told apart: they share one gang, so nobody
/// knows whose run is whose.
fn are_alike(counts: Counts) -> bool {
    !counts.indexed && counts.parallelism.is_some_and(|p| p > 1)
}

/// Decides about a Job; `None` when it is not ours.
///
/// # Errors
/// When the Job asks for something that cannot be done.
pub fn decide(job: &Job, config: &Config) -> Result<Option<Decision>, Reason> {
    let Some(spec) = job.spec.as_ref() else { return Ok(None) };
    let Some(pod_spec) = spec.template.spec.as_ref() else { return Ok(None) };
    // A foreign controller (MultiKueue) runs the Job elsewhere: there it is admitted again.
    if spec.managed_by.as_deref().is_some_and(|m| m != JOB_CONTROLLER) {
        return Ok(None);
    }
    let none = Annotations::new();
    let on_job = job.metadata.annotations.as_ref().unwrap_or(&none);
    let template = spec.template.metadata.as_ref();
    let on_template = template.and_then(|m| m.annotations.as_ref()).unwrap_or(&none);
    let annotations = ask::merged(on_job, on_template)?;
    let requests = Requests::of(pod_spec);
    if !requests.any() {
        match ask::claim(&annotations) {
            Some(_) if annotations.get(names::OBSERVE).is_some_and(|v| v == "true") => {}
            Some(key) => return Err(Reason::NotQuantum(key.to_owned())),
            // Its pods would do what the stamp says, and nobody has checked what it says.
            None if on_template.contains_key(names::STAMP) => {
                return Err(Reason::Mark(names::STAMP));
            }
            None => return Ok(None),
        }
    }
    let has_label = |name: &str| {
        [job.metadata.labels.as_ref(), template.and_then(|m| m.labels.as_ref())]
            .into_iter()
            .flatten()
            .any(|l| l.contains_key(name))
    };
    if template.and_then(|m| m.labels.as_ref()).is_some_and(|l| l.contains_key(names::ROLE)) {
        return Err(Reason::Mark(names::ROLE));
    }
    pod::check(pod_spec, &requests)?;
    // Only pods get the sidecar, templates never have it: this is a container of the user's.
    if pod_spec.init_containers.iter().flatten().any(|c| c.name == names::SIDECAR_CONTAINER) {
        return Err(Reason::NameTaken);
    }

    let (ask, mut warnings) = Ask::read(&annotations)?;
    let (mode, by_default) = mode_of(&ask, has_label(names::FLUENCE_GROUP), config.default_mode);
    let counts = Counts {
        parallelism: spec.parallelism,
        completions: spec.completions,
        indexed: spec.completion_mode.as_deref() == Some(INDEXED),
    };
    let name = match (&job.metadata.name, &job.metadata.generate_name) {
        (Some(name), _) if !name.is_empty() => Name::Given(name),
        (_, generate) => Name::Generated(generate.as_deref().unwrap_or_default()),
    };
    let Size { size, convert, one_at_a_time } = size::of(mode, counts, name)?;
    check_group_size(&ask, size, counts)?;

    let nameless = mode == Mode::Independent && !convert && are_alike(counts);
    let mut stamp = Stamp {
        mode,
        size,
        policy: ask.release.unwrap_or_default(),
        tasks: ask.tasks.unwrap_or(1),
        follow: ask.follow(),
        discovery: ask.discovery,
        cancel_on_delete: ask.cancel_on_delete.unwrap_or(true),
        resume: !ask.no_resume && !nameless,
        backend: ask.backend.clone(),
        mismatch: ask.mismatch,
        max_cost: ask.max_cost,
        gate: config.gate.clone(),
        ..Stamp::default()
    };
    let consumers = stamp.consumers();
    if let Some(node) = pod_spec.node_name.as_ref().filter(|n| consumers > 0 && !n.is_empty()) {
        return Err(Reason::NodeName(node.clone()));
    }
    if by_default && mode == Mode::Shared && consumers > 0 {
        warnings.push(Warning::DefaultShared { size });
    }
    if convert {
        warnings.push(Warning::Indexed);
    }
    if mode == Mode::Shared && one_at_a_time {
        warnings.push(Warning::OneAtATime);
    }
    // Whoever starts before the result polls for it.
    let early = matches!(stamp.policy, ReleasePolicy::Front | ReleasePolicy::Position(_));
    if consumers > MOST_POLLING && early {
        stamp.policy = ReleasePolicy::Completed;
        warnings.push(Warning::ManyConsumers(consumers));
    }
    if stamp.policy == ReleasePolicy::Manual && ask.tasks.is_some() {
        warnings.push(Warning::TasksWithManual);
    }
    if annotations.contains_key(names::MISMATCH) && stamp.backend.is_none() {
        warnings.push(Warning::MismatchWithoutBackend);
    }
    if let Some(deadline) = spec.active_deadline_seconds.filter(|d| *d < PLAUSIBLE_WAIT) {
        warnings.push(Warning::Deadline(deadline));
    }
    if consumers > 0 && spec.success_policy.is_some() {
        warnings.push(Warning::SuccessPolicy);
    }
    warnings.extend(foreign_scheduler(pod_spec).filter(|_| consumers > 0));
    let untapped = untapped(pod_spec, &requests, on_template, ask.discovery)?;
    warnings.extend(about_tap(untapped, ask.discovery, stamp.max_cost.is_some()));
    warnings.extend(about_resources(pod_spec, &requests, on_template));
    Ok(Some(Decision { stamp, annotations, convert, warnings }))
}

/// The mode, and whether nobody asked for it.
fn mode_of(ask: &Ask, in_fluence_form: bool, default: Mode) -> (Mode, bool) {
    match ask.coordination {
        _ if ask.observe => (Mode::Independent, false),
        Some(mode) => (mode, false),
        // A Job written for Fluence keeps what Fluence does with it.
        None if in_fluence_form => (Mode::Independent, false),
        None => (default, true),
    }
}

fn check_group_size(ask: &Ask, size: u32, counts: Counts) -> Result<(), Reason> {
    match ask.group_size {
        Some(said)
            if said != size
                && i64::from(said) != counts.completions.map_or(i64::from(size), i64::from) =>
        {
            Err(Reason::GroupSize { said, size })
        }
        _ => Ok(()),
    }
}

fn foreign_scheduler(spec: &PodSpec) -> Option<Warning> {
    spec.scheduler_name
        .as_ref()
        .filter(|s| !["", "default-scheduler", names::FLUENCE_SCHEDULER].contains(&s.as_str()))
        .map(|s| Warning::Scheduler(s.clone()))
}

/// Why the program cannot be tapped, if it should be and cannot.
///
/// # Errors
/// When the user insists on the tap.
fn untapped(
    spec: &PodSpec,
    requests: &Requests,
    annotations: &Annotations,
    discovery: Discovery,
) -> Result<Option<tap::Obstacle>, Reason> {
    let containers = pod::qpu_containers(spec, requests, &[], annotations);
    let containers: Vec<&str> = containers.iter().map(String::as_str).collect();
    match (discovery, tap::obstacle(spec, &containers)) {
        (Discovery::Announce, _) => Ok(None),
        (Discovery::Tap, Some(why)) => Err(Reason::Untappable(why)),
        (_, why) => Ok(why),
    }
}

fn about_tap(untapped: Option<tap::Obstacle>, by: Discovery, has_ceiling: bool) -> Vec<Warning> {
    let passes = untapped.is_some() || by == Discovery::Announce;
    let ceiling = (has_ceiling && passes).then_some(Warning::CeilingNotTapped);
    ceiling.into_iter().chain(untapped.map(Warning::NotTapped)).collect()
}

fn about_resources(spec: &PodSpec, requests: &Requests, asked: &Annotations) -> Vec<Warning> {
    let containers = pod::qpu_containers(spec, requests, &[], asked);
    let containers: Vec<&str> = containers.iter().map(String::as_str).collect();
    producer::about_resources(spec, &containers)
}

/// The Job with the decision written into it.
#[must_use]
pub fn stamped(mut job: Job, decision: &Decision) -> Job {
    job.metadata
        .labels
        .get_or_insert_default()
        .insert(names::JOB_LABEL.to_owned(), names::JOB_LABEL_VALUE.to_owned());
    if let Some(spec) = job.spec.as_mut() {
        if decision.convert {
            spec.completion_mode = Some(INDEXED.to_owned());
        }
        let annotations =
            spec.template.metadata.get_or_insert_default().annotations.get_or_insert_default();
        annotations.extend(decision.annotations.clone());
        annotations.insert(names::STAMP.to_owned(), decision.stamp.to_annotation());
    }
    job
}

//! Producers and singles: they run at once, and the sidecar runs beside them.

use k8s_openapi::api::core::v1::{Container, LocalObjectReference, Pod, PodSpec};
use sluice_shared::names;
use sluice_shared::stamp::Discovery;

use super::resources::Remark;
use super::{credentials, env, label, resources, sidecar, tap, tell_backend, tell_role};
use crate::pod::Facts;
use crate::quantum;
use crate::reason::Reason;
use crate::warning::Warning;

/// Annotations that keep autoscalers and the descheduler from moving the pod.
const STAY: [(&str, &str); 3] = [
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
];

/// Makes the pod a producer or a single.
///
/// # Errors
/// When the user insists on the tap and it is impossible.
pub fn shape(pod: &mut Pod, facts: &Facts<'_>, warnings: &mut Vec<Warning>) -> Result<(), Reason> {
    let Some(spec) = pod.spec.as_ref() else { return Ok(()) };
    let names: Vec<&str> = facts.qpu_containers.iter().map(String::as_str).collect();
    let obstacle = match (facts.stamp.discovery, tap::obstacle(spec, &names)) {
        (Discovery::Announce, _) => None,
        (Discovery::Tap, Some(why)) => return Err(Reason::Untappable(why)),
        (_, why) => why,
    };
    let is_tapped = facts.stamp.discovery != Discovery::Announce && obstacle.is_none();
    let why = obstacle.as_ref().map(ToString::to_string);
    warnings.extend(obstacle.map(Warning::NotTapped));
    warnings.extend(files_in_image(sidecar::followed(spec, &names)));
    warnings.extend(about_resources(spec, &names));

    label(pod, facts.role);
    annotate(pod, facts, why.as_deref());
    if !keeps_qpu(pod, facts) {
        quantum::strip(pod);
    }
    // Built from the pod as its user wrote it, before the tap goes in.
    let built = pod.spec.as_ref().and_then(|spec| sidecar::container(spec, facts, why.as_deref()));
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let Some(spec) = pod.spec.as_mut() else { return Ok(()) };
    // A group of the Job controller would wait for consumers that wait for this pod.
    spec.scheduling_group = None;
    let earlier = sidecar::environment(spec);
    // Only then the endpoints in the program are ours and not the user's.
    let was_tapped = facts.stamp.discovery != Discovery::Announce
        && !earlier.is_empty()
        && env::get(&earlier, names::ENV_NOT_TAPPED).is_none();
    sidecar::add(spec, built);
    let program = sidecar::followed(spec, &names).cloned().unwrap_or_default();
    pull_secrets(&mut spec.image_pull_secrets, &facts.config.sidecar.pull_secrets);
    for container in &mut spec.containers {
        tell_role(container, facts.role, warnings);
        tell_backend(container, facts.stamp.backend.as_deref(), &annotations);
        if facts.qpu_containers.contains(&container.name) {
            if is_tapped {
                tap::point(container, &program);
            } else if was_tapped {
                tap::unpoint(container, &earlier);
            }
            let entries = container.env.get_or_insert_default();
            env::set(entries, env::value(names::ENV_URL, tap::control_url()));
        }
    }
    Ok(())
}

/// Files that the sidecar needs of the program's container and cannot have.
fn files_in_image(program: Option<&Container>) -> Vec<Warning> {
    let files = program.map(credentials::in_the_image).unwrap_or_default();
    let container = program.map(|c| c.name.clone()).unwrap_or_default();
    files
        .into_iter()
        .map(|(variable, file)| Warning::FileInImage {
            container: container.clone(),
            variable,
            file,
        })
        .collect()
}

/// What is worth a word about the resources of the containers that ask for the qpu.
#[must_use]
pub fn about_resources(spec: &PodSpec, containers: &[&str]) -> Vec<Warning> {
    let asks = |c: &&Container| containers.contains(&c.name.as_str());
    let Some(program) = sidecar::followed(spec, containers) else { return Vec::new() };
    let about = |c: &Container| {
        let container = c.name.clone();
        let (_, elsewhere) = resources::split(c, program);
        let elsewhere = elsewhere.into_iter().map(|reached| Remark::Elsewhere {
            resource: reached.resource,
            program: program.name.clone(),
        });
        resources::remarks(c)
            .into_iter()
            .chain(elsewhere)
            .map(move |remark| Warning::Resource { container: container.clone(), remark })
    };
    spec.containers.iter().filter(asks).flat_map(about).collect()
}

fn annotate(pod: &mut Pod, facts: &Facts<'_>, why: Option<&str>) {
    let annotations = pod.metadata.annotations.get_or_insert_default();
    for (key, value) in STAY {
        annotations.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    // The pods of a Job have it from the template, perhaps with fields of a newer Sluice.
    if facts.bare {
        annotations.insert(names::STAMP.to_owned(), facts.stamp.to_annotation());
    }
    match why {
        Some(why) => annotations.insert(names::NOT_TAPPED.to_owned(), why.to_owned()),
        None => annotations.remove(names::NOT_TAPPED),
    };
}

/// Whether somebody in the cluster understands the request.
fn keeps_qpu(pod: &Pod, facts: &Facts<'_>) -> bool {
    let scheduler = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref());
    facts.config.keep_qpu || scheduler == Some(names::FLUENCE_SCHEDULER)
}

fn pull_secrets(list: &mut Option<Vec<LocalObjectReference>>, wanted: &[String]) {
    for name in wanted {
        let list = list.get_or_insert_default();
        if list.iter().all(|s| s.name != *name) {
            list.push(LocalObjectReference { name: name.clone() });
        }
    }
}

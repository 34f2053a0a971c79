//! The sidecar as a container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile,
    EnvVar, ExecAction, KeyToPath, ObjectFieldSelector, PodSpec, Probe, ProjectedVolumeSource,
    ResourceRequirements, SeccompProfile, SecurityContext, ServiceAccountTokenProjection, Volume,
    VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sluice_shared::names;

use super::{credentials, env, resources};
use crate::pod::Facts;

/// Path of the sidecar's program in its image.
const PROGRAM: &str = "/sluice-sidecar";
/// User of the sidecar, unless the program's container names one whose files it must read.
const USER: i64 = 65_532;
/// Lifetime of the sidecar's token, seconds. The kubelet renews it. Not 3607, the number of the
/// pod's default token: the API server makes a year of that.
const TOKEN_SECONDS: i64 = 3_600;
/// Mode of files in our volume: the API server's default, written out.
const FILE_MODE: i32 = 0o644;
/// How often a second the listener is asked for before the sidecar is given up, seconds.
const START_SECONDS: i32 = 120;

/// The container whose program a pod's sidecar follows: the first of those that ask for the qpu.
#[must_use]
pub fn followed<'a>(spec: &'a PodSpec, containers: &[impl AsRef<str>]) -> Option<&'a Container> {
    let name = containers.first()?.as_ref();
    spec.containers.iter().find(|c| c.name == name)
}

/// The sidecar of a pod, built from the container whose program it follows.
#[must_use]
pub fn container(spec: &PodSpec, facts: &Facts<'_>, not_tapped: Option<&str>) -> Option<Container> {
    let program = followed(spec, &facts.qpu_containers)?;
    let copied = credentials::of(program, spec);
    let config = &facts.config.sidecar;
    let mut entries = identity(facts, &program.name, not_tapped);
    let reached: Vec<_> = resources::of(program).into_iter().map(|r| r.resource).collect();
    if !reached.is_empty() {
        // A list of texts always has a JSON form.
        let list = serde_json::to_string(&reached).unwrap_or_default();
        entries.push(env::value(names::ENV_RESOURCES, list));
    }
    entries.extend(copied.env);
    let mut mounts = vec![VolumeMount {
        name: names::TOKEN_VOLUME.to_owned(),
        mount_path: names::TOKEN_MOUNT.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }];
    mounts.extend(copied.mounts);
    let amounts: BTreeMap<String, Quantity> =
        config.resources.iter().map(|(n, q)| (n.clone(), Quantity(q.clone()))).collect();
    Some(Container {
        name: names::SIDECAR_CONTAINER.to_owned(),
        image: Some(config.image.clone()),
        image_pull_policy: Some(config.pull_policy.clone()),
        restart_policy: Some("Always".to_owned()),
        env: Some(entries),
        env_from: Some(copied.env_from).filter(|s| !s.is_empty()),
        volume_mounts: Some(mounts),
        startup_probe: Some(probe()),
        resources: Some(ResourceRequirements {
            requests: Some(amounts.clone()),
            limits: Some(amounts),
            ..ResourceRequirements::default()
        }),
        security_context: Some(security(spec, program)),
        ..Container::default()
    })
}

/// What the sidecar must know of itself.
fn identity(facts: &Facts<'_>, program: &str, not_tapped: Option<&str>) -> Vec<EnvVar> {
    let mut entries = vec![
        env::field(names::ENV_POD_NAME, "metadata.name"),
        env::field(names::ENV_POD_UID, "metadata.uid"),
        env::field(names::ENV_NAMESPACE, "metadata.namespace"),
        env::annotation(names::ENV_STAMP, names::STAMP),
        env::value(names::ENV_SIDECAR_ROLE, facts.role.as_str()),
        env::value(names::ENV_QPU_CONTAINER, program),
    ];
    entries.extend(facts.gang.as_ref().map(|gang| env::value(names::ENV_GANG, gang)));
    entries.extend(not_tapped.map(|why| env::value(names::ENV_NOT_TAPPED, why)));
    entries
}

/// The barrier before the program: the listener is up. It asks neither vendor nor API. Defaults
/// are written out, because the API server would add them and a second look would differ.
fn probe() -> Probe {
    Probe {
        exec: Some(ExecAction { command: Some(vec![PROGRAM.to_owned(), "ready".to_owned()]) }),
        period_seconds: Some(1),
        timeout_seconds: Some(1),
        success_threshold: Some(1),
        failure_threshold: Some(START_SECONDS),
        ..Probe::default()
    }
}

/// All fields of the restricted profile. A user that the program's container names is taken over
/// unless it is root: credential files may be readable for that user alone.
fn security(spec: &PodSpec, program: &Container) -> SecurityContext {
    let own = program.security_context.as_ref();
    let pod = spec.security_context.as_ref();
    let user = own.and_then(|s| s.run_as_user).or_else(|| pod.and_then(|s| s.run_as_user));
    let group = own.and_then(|s| s.run_as_group).or_else(|| pod.and_then(|s| s.run_as_group));
    let user = user.filter(|u| *u > 0);
    SecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(user.unwrap_or(USER)),
        run_as_group: user.and(group).filter(|g| *g > 0),
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..SecurityContext::default()
    }
}

/// The environment of the sidecar that an earlier call put into the pod.
#[must_use]
pub fn environment(spec: &PodSpec) -> Vec<EnvVar> {
    let mut all = spec.init_containers.iter().flatten();
    let ours = all.find(|c| c.name == names::SIDECAR_CONTAINER);
    ours.and_then(|c| c.env.clone()).unwrap_or_default()
}

/// Puts the sidecar into the pod, or repairs the one that is there.
pub fn add(spec: &mut PodSpec, built: Option<Container>) {
    let Some(wanted) = built else { return };
    let volumes = spec.volumes.get_or_insert_default();
    if volumes.iter().all(|v| v.name != names::TOKEN_VOLUME) {
        volumes.push(token_volume());
    }
    let list = spec.init_containers.get_or_insert_default();
    match list.iter_mut().find(|c| c.name == names::SIDECAR_CONTAINER) {
        Some(existing) => repair(existing, wanted),
        // Last, so that networks and identities of other sidecars are up before it.
        None => list.push(wanted),
    }
}

/// Our own token, short-lived, for the sidecar alone.
fn token_volume() -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            path: "token".to_owned(),
            expiration_seconds: Some(TOKEN_SECONDS),
            audience: None,
        }),
        ..VolumeProjection::default()
    };
    let authority = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: "kube-root-ca.crt".to_owned(),
            items: Some(vec![KeyToPath {
                key: "ca.crt".to_owned(),
                path: "ca.crt".to_owned(),
                mode: None,
            }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    let namespace = VolumeProjection {
        downward_api: Some(DownwardAPIProjection {
            items: Some(vec![DownwardAPIVolumeFile {
                path: "namespace".to_owned(),
                field_ref: Some(ObjectFieldSelector {
                    api_version: Some("v1".to_owned()),
                    field_path: "metadata.namespace".to_owned(),
                }),
                ..DownwardAPIVolumeFile::default()
            }]),
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name: names::TOKEN_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(FILE_MODE),
            sources: Some(vec![token, authority, namespace]),
        }),
        ..Volume::default()
    }
}

/// Restores what makes the container our sidecar. What others added to it stays: identity
/// webhooks add environment and mounts, administrators users and bounds.
fn repair(existing: &mut Container, wanted: Container) {
    existing.image = wanted.image;
    existing.command = wanted.command;
    existing.args = wanted.args;
    existing.restart_policy = wanted.restart_policy;
    existing.startup_probe = wanted.startup_probe;
    fill(&mut existing.image_pull_policy, wanted.image_pull_policy);
    let entries = existing.env.get_or_insert_default();
    if env::get(wanted.env.as_deref().unwrap_or_default(), names::ENV_NOT_TAPPED).is_none() {
        entries.retain(|e| e.name != names::ENV_NOT_TAPPED);
    }
    for variable in wanted.env.into_iter().flatten() {
        // Identity is ours and must be right; the rest was copied, and others may know better.
        let is_identity = variable.name.starts_with("SLUICE_")
            && !variable.name.starts_with(names::ENV_UPSTREAM_PREFIX);
        if is_identity {
            env::set(entries, variable);
        } else {
            env::add(entries, variable);
        }
    }
    for source in wanted.env_from.into_iter().flatten() {
        let sources = existing.env_from.get_or_insert_default();
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    for mount in wanted.volume_mounts.into_iter().flatten() {
        let mounts = existing.volume_mounts.get_or_insert_default();
        if mounts.iter().all(|m| m.mount_path != mount.mount_path) {
            mounts.push(mount);
        }
    }
    let resources = existing.resources.get_or_insert_default();
    if let Some(wanted) = wanted.resources {
        fill(&mut resources.requests, wanted.requests);
        fill(&mut resources.limits, wanted.limits);
    }
    let security = existing.security_context.get_or_insert_default();
    if let Some(wanted) = wanted.security_context {
        fill(&mut security.run_as_non_root, wanted.run_as_non_root);
        fill(&mut security.run_as_user, wanted.run_as_user);
        fill(&mut security.run_as_group, wanted.run_as_group);
        fill(&mut security.allow_privilege_escalation, wanted.allow_privilege_escalation);
        fill(&mut security.read_only_root_filesystem, wanted.read_only_root_filesystem);
        fill(&mut security.capabilities, wanted.capabilities);
        fill(&mut security.seccomp_profile, wanted.seccomp_profile);
    }
}

fn fill<T>(field: &mut Option<T>, wanted: Option<T>) {
    if field.is_none() {
        *field = wanted;
    }
}

//! The tap: whether the program can be pointed at the sidecar, and how.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};
use sluice_shared::names;
use sluice_shared::resource::Service;

use super::resources::Reached;
use super::{env, resources};

/// Variables by which the Braket SDKs are pointed at the tap.
const ENDPOINTS: [&str; 2] = [names::ENV_AWS_ENDPOINT_URL_BRAKET, names::ENV_BRAKET_ENDPOINT];
/// Every variable from which a Braket SDK takes its endpoint.
pub(super) const UPSTREAMS: [&str; 3] =
    [names::ENV_BRAKET_ENDPOINT, names::ENV_AWS_ENDPOINT_URL_BRAKET, names::ENV_AWS_ENDPOINT_URL];
/// Variables that name hosts reached without a proxy. Programs read either spelling.
pub(super) const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// Variables that send requests through a proxy.
const PROXY: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// Our host, in both forms that programs write.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "localhost"];
/// Settings that change the host of the vendor, so that the endpoint variable is refused or
/// ignored by the SDK.
const HOST_SETTINGS: [&str; 3] =
    ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"];

/// Where the tap listens, as the program sees it.
#[must_use]
pub fn url() -> String {
    format!("http://127.0.0.1:{}", names::TAP_PORT)
}

/// Whether an entry points its program at the tap.
pub(super) fn is_own(entry: &EnvVar) -> bool {
    let is_endpoint =
        ENDPOINTS.contains(&entry.name.as_str()) || Service::of_endpoint(&entry.name).is_some();
    let rest = entry.value.as_deref().and_then(|value| value.strip_prefix(&url()));
    is_endpoint && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where announcements are taken.
#[must_use]
pub fn control_url() -> String {
    format!("http://127.0.0.1:{}", names::CONTROL_PORT)
}

/// Whether a list of hosts without proxy is one that [`point`] makes from nothing.
pub(super) fn is_own_bypass(value: &str) -> bool {
    value == LOOPBACK.join(",") || unseen().iter().any(|(_, own)| value == own)
}

/// Our list beside one that may come from `envFrom`, in either spelling. The first takes up both,
/// the second takes up the first. What a reference does not find stays as it is written, and no
/// host has such a name.
fn unseen() -> [(&'static str, String); 2] {
    let [upper, lower] = NO_PROXY;
    let loopback = LOOPBACK.join(",");
    [
        (lower, format!("$({lower}),$({upper}),{loopback}")),
        (upper, format!("$({lower}),{loopback}")),
    ]
}

/// Why a program cannot be tapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Loopback is the node's.
    HostNetwork,
    /// The SDK would not use the endpoint that it is given.
    HostSetting {
        /// The container.
        container: String,
        /// The variable.
        variable: &'static str,
    },
    /// A port of ours is taken.
    Port {
        /// The container.
        container: String,
        /// The port.
        port: i32,
    },
    /// `NO_PROXY` cannot be extended.
    NoProxyReference {
        /// The container.
        container: String,
        /// The variable.
        variable: &'static str,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostNetwork => f.write_str(
                "hostNetwork makes loopback the node's, where anybody could submit; drop \
                 hostNetwork, or announce the task",
            )?,
            Self::HostSetting { container, variable } => write!(
                f,
                "{variable} in container {container:?} keeps the SDK from the sidecar; unset it, \
                 or announce the task"
            )?,
            Self::Port { container, port } => write!(
                f,
                "container {container:?} uses port {port}, which the sidecar needs; use another, \
                 or announce the task"
            )?,
            Self::NoProxyReference { container, variable } => write!(
                f,
                "{variable} in container {container:?} is a reference and cannot be extended; \
                 give it a value with 127.0.0.1, or announce the task"
            )?,
        }
        write!(f, " (POST $SLUICE_URL/v1/tasks)")
    }
}

/// Why the programs of `containers` cannot be tapped, if they cannot.
#[must_use]
pub fn obstacle(spec: &PodSpec, containers: &[&str]) -> Option<Obstacle> {
    if spec.host_network == Some(true) {
        return Some(Obstacle::HostNetwork);
    }
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let taken = all
        .filter(|c| c.name != names::SIDECAR_CONTAINER)
        .flat_map(|c| c.ports.iter().flatten().map(move |p| (c, p.container_port)))
        .find(|(_, port)| [names::TAP_PORT, names::CONTROL_PORT].map(i32::from).contains(port));
    if let Some((container, port)) = taken {
        return Some(Obstacle::Port { container: container.name.clone(), port });
    }
    spec.containers.iter().filter(|c| containers.contains(&c.name.as_str())).find_map(obstacle_in)
}

fn obstacle_in(container: &Container) -> Option<Obstacle> {
    let entries = container.env.as_deref().unwrap_or_default();
    let on = |name: &&&str| {
        env::literal(entries, name).is_some_and(|v| v.trim().eq_ignore_ascii_case("true"))
    };
    if let Some(variable) = HOST_SETTINGS.iter().find(on) {
        return Some(Obstacle::HostSetting { container: container.name.clone(), variable });
    }
    let refers = |name: &&&str| env::get(entries, name).is_some_and(|e| e.value_from.is_some());
    NO_PROXY
        .iter()
        .find(refers)
        .map(|variable| Obstacle::NoProxyReference { container: container.name.clone(), variable })
}

/// Points the program of a container at the tap. `program`: the container that the sidecar follows, as
/// it was before.
pub fn point(container: &mut Container, program: &Container) {
    let has_sources = container.env_from.as_ref().is_some_and(|s| !s.is_empty());
    let (reached, _) = resources::split(container, program);
    let is_only = resources::of(program).len() == 1;
    let entries = container.env.get_or_insert_default();
    for name in ENDPOINTS {
        env::set(entries, env::value(name, url()));
    }
    for Reached { resource, variables } in &reached {
        for name in variables {
            env::set(entries, env::value(name, resources::url(resource, is_only)));
        }
    }
    bypass_proxy(entries, has_sources);
}

/// Gives the program back the endpoints that it had: another webhook has made the tap impossible
/// after an earlier call of ours. What the program had is kept in `sidecar`.
pub fn unpoint(container: &mut Container, sidecar: &[EnvVar]) {
    let Some(entries) = container.env.as_mut() else { return };
    let ours: Vec<String> = entries.iter().filter(|e| is_own(e)).map(|e| e.name.clone()).collect();
    for name in ours {
        match env::get(sidecar, &format!("{}{name}", names::ENV_UPSTREAM_PREFIX)) {
            Some(old) => env::set(entries, EnvVar { name, ..old.clone() }),
            None => entries.retain(|e| e.name != name),
        }
    }
}

/// Has the program reach loopback without a proxy. A proxy from `envFrom` cannot be seen here.
fn bypass_proxy(entries: &mut Vec<EnvVar>, has_sources: bool) {
    let present: Vec<&str> =
        NO_PROXY.into_iter().filter(|n| env::get(entries, n).is_some()).collect();
    if has_sources && present.is_empty() {
        entries.extend(unseen().map(|(name, list)| env::value(name, list)));
        return;
    }
    let proxied = PROXY.iter().any(|n| env::get(entries, n).is_some());
    // A second spelling beside the user's own would hide it from programs that prefer that one.
    let targets = match present.as_slice() {
        [] if proxied => NO_PROXY.to_vec(),
        _ => present,
    };
    for name in targets {
        let old = env::literal(entries, name).unwrap_or_default();
        let listed: Vec<&str> = old.split(',').map(str::trim).filter(|h| !h.is_empty()).collect();
        if listed.contains(&"*") || LOOPBACK.iter().all(|l| listed.contains(l)) {
            continue;
        }
        let missing = LOOPBACK.into_iter().filter(|l| !listed.contains(l));
        let new: Vec<&str> = listed.iter().copied().chain(missing).collect();
        let new = env::value(name, new.join(","));
        env::set(entries, new);
    }
}

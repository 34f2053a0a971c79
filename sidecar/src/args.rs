//! The environment that the webhook gives the sidecar, read once and checked.

use clap::{Args as ClapArgs, Parser, Subcommand};
use sluice_shared::names;
use sluice_shared::naming::gang_name;
use sluice_shared::process::telemetry::LogArgs;
use sluice_shared::resource::Resource;
use sluice_shared::role::{Role, UnknownRole};
use sluice_shared::stamp::{Discovery, Stamp, StampError};
use sluice_tap::{Endpoint, EndpointError, Hosts, Roots, Route, Upstream};

use crate::vendor::settings::Settings;

/// Follows the quantum task of the pod's program and orders the release of its gang.
///
/// Everything comes from the environment that the webhook writes; there is nothing to set by hand.
#[derive(Debug, Parser)]
#[command(name = "sluice-sidecar", version)]
pub struct Args {
    /// What to be; without it: the parent, which owns the sockets and keeps a worker running.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
    /// The ports.
    #[command(flatten)]
    pub ports: PortArgs,
    /// The pod.
    #[command(flatten)]
    pub pod: PodArgs,
}

/// The other programs in this binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Do the work; started by the parent, which hands over the sockets.
    #[command(hide = true)]
    Worker,
    /// Exit 0 when the sidecar serves: the startup probe.
    Ready,
}

/// Loopback ports.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub struct PortArgs {
    /// Loopback port of announcements and state.
    #[arg(long, env = "SLUICE_CONTROL_PORT", default_value_t = names::CONTROL_PORT, global = true)]
    pub control_port: u16,
    /// Loopback port of the Braket tap.
    #[arg(long, env = "SLUICE_TAP_PORT", default_value_t = names::TAP_PORT, global = true)]
    pub tap_port: u16,
}

/// What the webhook writes into the sidecar's environment.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct PodArgs {
    /// Name of the pod.
    #[arg(long, env = names::ENV_POD_NAME)]
    pub pod_name: Option<String>,
    /// Uid of the pod.
    #[arg(long, env = names::ENV_POD_UID)]
    pub pod_uid: Option<String>,
    /// Namespace of the pod.
    #[arg(long, env = names::ENV_NAMESPACE)]
    pub namespace: Option<String>,
    /// Name of the gang; a bare pod derives it.
    #[arg(long, env = names::ENV_GANG)]
    pub gang: Option<String>,
    /// What the Job webhook decided, as JSON.
    #[arg(long, env = names::ENV_STAMP)]
    pub stamp: Option<String>,
    /// `producer` or `single`.
    #[arg(long, env = names::ENV_SIDECAR_ROLE)]
    pub role: Option<String>,
    /// Why the program is not tapped.
    #[arg(long, env = names::ENV_NOT_TAPPED)]
    pub not_tapped: Option<String>,
    /// The user's own `BRAKET_ENDPOINT`.
    #[arg(long, env = "SLUICE_UPSTREAM_BRAKET_ENDPOINT")]
    pub upstream_braket_endpoint: Option<String>,
    /// The user's own `AWS_ENDPOINT_URL_BRAKET`.
    #[arg(long, env = "SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET")]
    pub upstream_aws_endpoint_url_braket: Option<String>,
    /// The user's own `AWS_ENDPOINT_URL`.
    #[arg(long, env = "SLUICE_UPSTREAM_AWS_ENDPOINT_URL")]
    pub upstream_aws_endpoint_url: Option<String>,
    /// The user's region, for the token service.
    #[arg(long, env = "AWS_REGION")]
    pub region: Option<String>,
    /// The same in the older word.
    #[arg(long, env = "AWS_DEFAULT_REGION")]
    pub default_region: Option<String>,
}

/// The environment, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Name of the pod.
    pub pod_name: String,
    /// Uid of the pod.
    pub pod_uid: String,
    /// Namespace of pod and gang.
    pub namespace: String,
    /// Name of the gang.
    pub gang: String,
    /// What was decided for the gang.
    pub stamp: Stamp,
    /// The pod's part.
    pub role: Role,
    /// Why the tap is not served, if it is not.
    pub not_tapped: Option<String>,
    /// The user's own Braket endpoint, if there is one.
    pub endpoint: Option<String>,
    /// The same for the tap.
    pub upstream: Upstream,
    /// The resources of QRMI that the program can reach.
    pub resources: Vec<Route>,
    /// Region where the token service is asked.
    pub region: Option<String>,
    /// Which hosts of the vendor the sidecar itself asks.
    pub hosts: Hosts,
    /// Whom to trust as the vendor.
    pub roots: Roots,
    /// Why the program may not get along with the tap: for people, each with what to do.
    pub hints: Vec<String>,
    /// Loopback port of announcements.
    pub control_port: u16,
    /// Loopback port of the tap.
    pub tap_port: u16,
}

/// Why the environment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A variable is missing.
    #[error("{0} is not set; the Sluice webhook sets it: was this container added by hand?")]
    Missing(&'static str),
    /// The stamp cannot be read.
    #[error("{name} cannot be used", name = names::ENV_STAMP)]
    Stamp(#[from] StampError),
    /// The role is unknown.
    #[error("{name} cannot be used", name = names::ENV_SIDECAR_ROLE)]
    Role(#[from] UnknownRole),
    /// A consumer carries no sidecar.
    #[error("{name} is consumer, but a consumer carries no sidecar", name = names::ENV_SIDECAR_ROLE)]
    Consumer,
    /// The endpoint cannot be read.
    #[error("the variable {variable} of the program cannot be used")]
    Endpoint {
        /// The user's variable.
        variable: &'static str,
        /// Why.
        source: EndpointError,
    },
    /// Both sockets on one port.
    #[error("the tap and the announcements cannot share port {0}; set SLUICE_TAP_PORT")]
    OnePort(u16),
}

impl Config {
    /// Checks the environment.
    ///
    /// # Errors
    /// Names the first variable that cannot be used.
    pub fn of(pod: PodArgs, ports: PortArgs) -> Result<Self, ConfigError> {
        let pod_name = required(pod.pod_name, names::ENV_POD_NAME)?;
        let pod_uid = required(pod.pod_uid, names::ENV_POD_UID)?;
        let namespace = required(pod.namespace, names::ENV_NAMESPACE)?;
        let stamp = Stamp::parse(&required(pod.stamp, names::ENV_STAMP)?)?;
        let role: Role = required(pod.role, names::ENV_SIDECAR_ROLE)?.parse()?;
        if role == Role::Consumer {
            return Err(ConfigError::Consumer);
        }
        if ports.control_port == ports.tap_port && ports.tap_port != 0 {
            return Err(ConfigError::OnePort(ports.tap_port));
        }
        let gang = given(pod.gang).unwrap_or_else(|| gang_name(&pod_name, &pod_uid, None));
        // Strongest first, as the SDKs have it.
        let endpoint = [
            (names::ENV_BRAKET_ENDPOINT, given(pod.upstream_braket_endpoint)),
            (names::ENV_AWS_ENDPOINT_URL_BRAKET, given(pod.upstream_aws_endpoint_url_braket)),
            (names::ENV_AWS_ENDPOINT_URL, given(pod.upstream_aws_endpoint_url)),
        ]
        .into_iter()
        .find_map(|(variable, value)| value.map(|value| (variable, value)));
        let upstream = match &endpoint {
            None => Upstream::default(),
            Some((variable, value)) => Upstream::Url(
                Endpoint::parse(value)
                    .map_err(|source| ConfigError::Endpoint { variable, source })?,
            ),
        };
        let by_announcement = (stamp.discovery == Discovery::Announce)
            .then(|| format!("the annotation {} is announce", names::DISCOVERY));
        Ok(Self {
            not_tapped: given(pod.not_tapped).or(by_announcement),
            endpoint: endpoint.map(|(_, value)| value),
            upstream,
            resources: Vec::new(),
            region: given(pod.region).or(given(pod.default_region)),
            hosts: Hosts::default(),
            roots: Roots::default(),
            hints: Vec::new(),
            control_port: ports.control_port,
            tap_port: ports.tap_port,
            pod_name,
            pod_uid,
            namespace,
            gang,
            stamp,
            role,
        })
    }
}

impl Config {
    /// The same with the resources of the program. `list` is what the webhook found, as JSON;
    /// `variable` reads the environment. What cannot be used becomes a hint, and an answer to who
    /// uses it: the other resources still work.
    #[must_use]
    pub fn with_resources(
        mut self,
        list: Option<String>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let Some(list) = given(list) else { return self };
        match serde_json::from_str::<Vec<Resource>>(&list) {
            Ok(all) => {
                self.resources =
                    all.into_iter().map(|resource| route(resource, variable)).collect();
            }
            Err(error) => {
                self.hints.push(format!("{} cannot be used: {error}", names::ENV_RESOURCES));
            }
        }
        for Route { endpoint, .. } in &self.resources {
            self.hints.extend(endpoint.as_ref().err().cloned());
        }
        self
    }

    /// The same with what the program's AWS settings say. Endpoints of the environment go before
    /// those of a profile.
    #[must_use]
    pub fn with(mut self, settings: &Settings) -> Self {
        if self.not_tapped.is_none() {
            self.hints.extend(settings.hints());
        }
        if let (None, Some(url)) = (&self.endpoint, &settings.endpoint) {
            match Endpoint::parse(url) {
                Ok(endpoint) => {
                    self.upstream = Upstream::Url(endpoint);
                    self.endpoint = Some(url.clone());
                }
                Err(error) => self.hints.push(format!(
                    "endpoint_url of the profile {:?} is left out of account: {error}",
                    settings.profile
                )),
            }
        }
        if self.endpoint.is_none() {
            self.upstream = Upstream::Regional(settings.hosts);
        }
        self.hosts = settings.hosts;
        self.roots = settings.roots();
        self
    }
}

/// Where a resource is, by the variables that the program had before the tap.
fn route(resource: Resource, variable: &dyn Fn(&str) -> Option<String>) -> Route {
    let read = |name: &String| given(variable(&format!("{}{name}", names::ENV_UPSTREAM_PREFIX)));
    let found = resource.endpoints().find_map(|name| Some((read(&name)?, name)));
    let own = format!("http://127.0.0.1:{}", names::TAP_PORT);
    let is_own = |url: &str| {
        url.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let endpoint = match (found, resource.service.row().default_endpoint) {
        (Some((url, name)), _) if is_own(&url) => {
            Err(format!("the variable {name} of the program is the sidecar's own address"))
        }
        (Some((url, name)), _) => Endpoint::parse(&url)
            .map_err(|error| format!("the variable {name} of the program: {error}")),
        (None, Some(url)) => Endpoint::parse(url).map_err(|error| error.to_string()),
        (None, None) => Err(format!(
            "no endpoint of {resource} is set; set {} to the URL of {}",
            resource.endpoints().next().unwrap_or_default(),
            resource.service.row().label
        )),
    };
    Route { resource, endpoint }
}

/// An empty variable is one that is not set.
fn given(value: Option<String>) -> Option<String> {
    value.filter(|v| !v.trim().is_empty())
}

fn required(value: Option<String>, name: &'static str) -> Result<String, ConfigError> {
    given(value).ok_or(ConfigError::Missing(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: PortArgs = PortArgs { control_port: 1, tap_port: 2 };

    fn mk_pod() -> PodArgs {
        PodArgs {
            pod_name: Some("maxcut-0-x".into()),
            pod_uid: Some("u-1".into()),
            namespace: Some("ns".into()),
            stamp: Some(Stamp::default().to_annotation()),
            role: Some("producer".into()),
            ..PodArgs::default()
        }
    }

    #[test]
    fn a_bare_pod_derives_its_gang() {
        let config = Config::of(mk_pod(), PORTS).unwrap();
        assert_eq!(config.gang, gang_name("maxcut-0-x", "u-1", None));
        let pod = PodArgs { gang: Some("maxcut-12345678".into()), ..mk_pod() };
        assert_eq!(Config::of(pod, PORTS).unwrap().gang, "maxcut-12345678");
    }

    #[test]
    fn the_strongest_endpoint_wins_and_empty_ones_do_not_count() {
        let pod = PodArgs {
            upstream_braket_endpoint: Some(String::new()),
            upstream_aws_endpoint_url_braket: Some("http://b:1".into()),
            upstream_aws_endpoint_url: Some("http://c:1".into()),
            ..mk_pod()
        };
        let config = Config::of(pod, PORTS).unwrap();
        assert_eq!(config.endpoint.as_deref(), Some("http://b:1"));
        assert_eq!(Config::of(mk_pod(), PORTS).unwrap().upstream, Upstream::default());
    }

    #[test]
    fn the_profile_names_the_endpoint_where_the_environment_names_none() {
        let hosts = Hosts { fips: true, dual_stack: false };
        let settings =
            Settings { endpoint: Some("https://p.example".into()), hosts, ..Settings::default() };
        let alone = Config::of(mk_pod(), PORTS).unwrap().with(&settings);
        assert_eq!(alone.endpoint.as_deref(), Some("https://p.example"));
        assert_eq!(alone.upstream.target("us-east-1").host, "p.example");
        let pod =
            PodArgs { upstream_aws_endpoint_url: Some("http://env.example".into()), ..mk_pod() };
        let both = Config::of(pod, PORTS).unwrap().with(&settings);
        assert_eq!(both.endpoint.as_deref(), Some("http://env.example"));
        let none = Settings { endpoint: None, ..settings };
        let regional = Config::of(mk_pod(), PORTS).unwrap().with(&none);
        assert_eq!(regional.upstream, Upstream::Regional(hosts));
        assert_eq!(regional.hints.len(), 1, "{:?}", regional.hints);
        let bad = Settings { endpoint: Some("nowhere".into()), ..Settings::default() };
        let kept = Config::of(mk_pod(), PORTS).unwrap().with(&bad);
        assert_eq!(kept.upstream, Upstream::default());
        assert!(kept.hints[0].starts_with("endpoint_url of the profile"), "{:?}", kept.hints);
    }

    #[test]
    fn every_resource_has_an_endpoint_or_a_sentence() {
        let variable = |name: &str| {
            let value = match name {
                "SLUICE_UPSTREAM_garnet_QRMI_IQM_ISA_ENDPOINT" => "https://iqm.example/x",
                "SLUICE_UPSTREAM_old_QRMI_IBM_QRS_ENDPOINT" => "https://ibm.example/api/v1",
                "SLUICE_UPSTREAM_bad_QRMI_IQM_ISA_ENDPOINT" => "nowhere",
                "SLUICE_UPSTREAM_loop_QRMI_IQM_ISA_ENDPOINT" => "http://127.0.0.1:8731",
                "SLUICE_UPSTREAM_empty_QRMI_IQM_ISA_ENDPOINT" => " ",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let list = r#"["iqm-server/garnet", "ibm-quantum-compute-service/old", "pasqal-cloud/EMU",
                       "iqm-server/bad", "iqm-server/loop", "iqm-server/empty",
                       "ibm-quantum-compute-service/qiskit"]"#;
        let config = Config::of(mk_pod(), PORTS).unwrap();
        let config = config.with_resources(Some(list.to_owned()), &variable);
        let origins: Vec<_> = config
            .resources
            .iter()
            .map(|route| route.endpoint.as_ref().map(|e| e.target().origin).map_err(|e| &**e))
            .collect();
        assert_eq!(origins[0].as_deref(), Ok("https://iqm.example"));
        assert_eq!(origins[1].as_deref(), Ok("https://ibm.example"));
        assert_eq!(origins[2].as_deref(), Ok("https://apis.pasqal.cloud"));
        assert_eq!(origins[6].as_deref(), Ok("https://quantum.cloud.ibm.com"));
        for (index, expected) in [
            (3, "bad_QRMI_IQM_ISA_ENDPOINT of the program: the endpoint \"nowhere\""),
            (4, "loop_QRMI_IQM_ISA_ENDPOINT of the program is the sidecar's own address"),
            (5, "set empty_QRMI_IQM_ISA_ENDPOINT to the URL of IQM Server"),
        ] {
            let why = origins[index].as_ref().unwrap_err();
            assert!(why.contains(expected), "{why}");
            assert!(config.hints.iter().any(|hint| hint == why), "{why}");
        }
        let odd = Config::of(mk_pod(), PORTS).unwrap();
        let odd = odd.with_resources(Some(r#"["garnet"]"#.to_owned()), &variable);
        assert!(odd.resources.is_empty() && odd.hints[0].contains("iqm-server/garnet"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let rows = [
            (PodArgs { pod_uid: None, ..mk_pod() }, "SLUICE_POD_UID is not set"),
            (PodArgs { stamp: Some("yes".into()), ..mk_pod() }, "SLUICE_STAMP cannot be used"),
            (PodArgs { role: Some("chief".into()), ..mk_pod() }, "SLUICE_ROLE cannot be used"),
            (PodArgs { role: Some("consumer".into()), ..mk_pod() }, "carries no sidecar"),
            (
                PodArgs { upstream_braket_endpoint: Some("nowhere".into()), ..mk_pod() },
                "BRAKET_ENDPOINT of the program cannot be used",
            ),
        ];
        for (pod, expected) in rows {
            let error = Config::of(pod, PORTS).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let one = PortArgs { control_port: 5, tap_port: 5 };
        assert!(Config::of(mk_pod(), one).unwrap_err().to_string().contains("port 5"));
    }

    #[test]
    fn the_names_of_upstream_variables_follow_the_contract() {
        use clap::CommandFactory;
        let command = Args::command();
        for user in [
            names::ENV_BRAKET_ENDPOINT,
            names::ENV_AWS_ENDPOINT_URL_BRAKET,
            names::ENV_AWS_ENDPOINT_URL,
        ] {
            let name = format!("{}{user}", names::ENV_UPSTREAM_PREFIX);
            assert!(
                command.get_arguments().any(|a| a.get_env() == Some(name.as_ref())),
                "{name} is not read"
            );
        }
    }
}

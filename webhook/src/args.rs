//! Flags, each with its environment variable.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, Subcommand};
use sluice_shared::names;
use sluice_shared::process::telemetry::LogArgs;
use sluice_shared::stamp::{Mode, UnknownMode};

use crate::config::{Config, Invalid, Sidecar};

/// Longest pause between two looks at the certificate: a rotation must not overtake a replica.
const SLOWEST_POLL: Duration = Duration::from_mins(1);

/// The admission webhook and the keeper of Sluice.
#[derive(Debug, Clone, Parser)]
#[command(version, about)]
pub struct Args {
    /// What to do; serves unless told otherwise.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
    /// How to serve.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve admission and run the keeper.
    Serve,
    /// Print the definition of `QuantumGang` as YAML.
    Crd,
}

/// How to serve.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeArgs {
    /// Where reviews are taken, over TLS.
    #[arg(long, env = "SLUICE_LISTEN", default_value = "[::]:8443")]
    pub listen: SocketAddr,
    /// Where probes and metrics are served.
    #[arg(long, env = "SLUICE_ADMIN_LISTEN", default_value = "[::]:8080")]
    pub admin_listen: SocketAddr,
    /// Namespace of this Deployment.
    #[arg(long, env = "SLUICE_NAMESPACE", default_value = "sluice-system")]
    pub namespace: String,
    /// Name of this pod; names it in the lease.
    #[arg(long, env = "SLUICE_POD_NAME", default_value = "sluice-webhook")]
    pub pod_name: String,
    /// Name of the Service, for the certificate.
    #[arg(long, env = "SLUICE_SERVICE", default_value = "sluice-webhook")]
    pub service: String,
    /// Name of the Secret with the certificate.
    #[arg(long, env = "SLUICE_CERTIFICATE_SECRET", default_value = "sluice-webhook-certificate")]
    pub certificate_secret: String,
    /// Name of the `MutatingWebhookConfiguration` that gets the CA bundle.
    #[arg(long, env = "SLUICE_WEBHOOK_CONFIGURATION", default_value = "sluice")]
    pub webhook_configuration: String,
    /// How often the Secret of the certificate is read.
    #[arg(long, env = "SLUICE_CERTIFICATE_POLL", default_value = "10s", value_parser = duration)]
    pub certificate_poll: Duration,
    /// How long to go on serving after the order to stop, while the cluster looks away.
    #[arg(long, env = "SLUICE_DRAIN_DELAY", default_value = "5s", value_parser = duration)]
    pub drain_delay: Duration,
    /// Run the keeper in this process.
    #[arg(long, env = "SLUICE_KEEPER", default_value_t = true, action = clap::ArgAction::Set)]
    pub keeper: bool,
    /// Image of the sidecar.
    #[arg(long, env = "SLUICE_SIDECAR_IMAGE", default_value = "")]
    pub sidecar_image: String,
    /// When the sidecar's image is pulled.
    #[arg(long, env = "SLUICE_SIDECAR_PULL_POLICY", default_value = "IfNotPresent")]
    pub sidecar_pull_policy: String,
    /// Secrets for pulling the sidecar's image, added to the pod's own.
    #[arg(long, env = "SLUICE_SIDECAR_PULL_SECRETS", value_delimiter = ',')]
    pub sidecar_pull_secrets: Vec<String>,
    /// CPU of the sidecar, request and limit.
    #[arg(long, env = "SLUICE_SIDECAR_CPU", default_value = "50m")]
    pub sidecar_cpu: String,
    /// Memory of the sidecar, request and limit.
    #[arg(long, env = "SLUICE_SIDECAR_MEMORY", default_value = "64Mi")]
    pub sidecar_memory: String,
    /// Ephemeral storage of the sidecar, request and limit.
    #[arg(long, env = "SLUICE_SIDECAR_EPHEMERAL_STORAGE", default_value = "64Mi")]
    pub sidecar_ephemeral_storage: String,
    /// The scheduling gate on consumers.
    #[arg(long, env = "SLUICE_GATE", default_value = names::GATE)]
    pub gate: String,
    /// Mode of Jobs of several pods that do not name one: `shared` or `independent`.
    #[arg(long, env = "SLUICE_DEFAULT_MODE", default_value = "shared", value_parser = mode)]
    pub default_mode: Mode,
    /// Priority class of consumers whose user set none; empty for none.
    #[arg(long, env = "SLUICE_PRIORITY_CLASS", default_value = "")]
    pub priority_class: String,
    /// Leave the qpu request on producers: something in the cluster advertises it.
    #[arg(long, env = "SLUICE_KEEP_QPU", default_value_t = false, action = clap::ArgAction::Set)]
    pub keep_qpu: bool,
}

impl ServeArgs {
    /// The configuration of admission.
    ///
    /// # Errors
    /// The first flag that cannot work.
    pub fn admission(&self) -> Result<Config, Invalid> {
        if self.certificate_poll.is_zero() || self.certificate_poll > SLOWEST_POLL {
            return Err(Invalid {
                flag: "--certificate-poll",
                value: format!("{:?}", self.certificate_poll),
                problem: "give more than nothing and at most 1m: a rotation waits 10 minutes for \
                          every replica to follow",
            });
        }
        let pair = |name: &str, quantity: &str| (name.to_owned(), quantity.to_owned());
        Config {
            sidecar: Sidecar {
                image: self.sidecar_image.clone(),
                pull_policy: self.sidecar_pull_policy.clone(),
                pull_secrets: self
                    .sidecar_pull_secrets
                    .iter()
                    .filter(|s| !s.is_empty())
                    .cloned()
                    .collect(),
                resources: vec![
                    pair("cpu", &self.sidecar_cpu),
                    pair("memory", &self.sidecar_memory),
                    pair("ephemeral-storage", &self.sidecar_ephemeral_storage),
                ],
            },
            gate: self.gate.clone(),
            default_mode: self.default_mode,
            priority_class: Some(self.priority_class.clone()).filter(|c| !c.is_empty()),
            keep_qpu: self.keep_qpu,
        }
        .validated()
    }

    /// The names under which the API server reaches the Service.
    #[must_use]
    pub fn dns_names(&self) -> Vec<String> {
        let name = format!("{}.{}.svc", self.service, self.namespace);
        vec![name.clone(), format!("{name}.cluster.local")]
    }
}

fn mode(text: &str) -> Result<Mode, UnknownMode> {
    text.parse()
}

fn duration(text: &str) -> Result<Duration, jiff::Error> {
    let span: jiff::SignedDuration = text.parse()?;
    Duration::try_from(span)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_flag_has_a_variable() {
        let command = Args::command();
        command.clone().debug_assert();
        let without: Vec<_> = command
            .get_arguments()
            .filter(|a| {
                a.get_env().is_none() && !["help", "version"].contains(&a.get_id().as_str())
            })
            .map(|a| a.get_id().to_string())
            .collect();
        assert_eq!(without, Vec::<String>::new());
    }

    #[test]
    fn a_poll_that_a_rotation_would_overtake_is_named() {
        for poll in ["0s", "11m"] {
            let args = Args::parse_from([
                "sluice-webhook",
                "--sidecar-image=i",
                &format!("--certificate-poll={poll}"),
            ]);
            assert_eq!(args.serve.admission().unwrap_err().flag, "--certificate-poll", "{poll}");
        }
        let args = Args::parse_from(["sluice-webhook", "--sidecar-image=i"]);
        assert!(args.serve.admission().is_ok());
    }

    #[test]
    fn a_missing_image_is_named() {
        let args = Args::parse_from(["sluice-webhook", "--drain-delay", "250ms"]);
        assert_eq!(args.serve.drain_delay, Duration::from_millis(250));
        assert_eq!(args.serve.admission().unwrap_err().flag, "--sidecar-image");
    }
}

//! A producer without a kubelet: sidecar and program of a pod, run as processes of this machine
//! with the environment that the webhook wrote. For stories with many gangs, since containers are
//! slow to start.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, ServiceAccount};
use kube::ResourceExt;
use kube::api::PostParams;
use kube::config::{AuthInfo, Kubeconfig};
use sluice_shared::names;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::job::PROGRAM;
use crate::stage::Stage;

/// The two processes. They are killed when this is dropped.
#[derive(Debug)]
pub struct Hosted {
    /// The sidecar.
    pub sidecar: Child,
    /// The program.
    pub program: Child,
    _files: TempDir,
}

impl Hosted {
    /// Starts both for a producer pod that no node runs: `sidecar` and `program` are binaries.
    ///
    /// # Errors
    /// If the pod is not as the webhook shapes it, or a process does not start.
    pub async fn start(
        stage: &Stage<'_>,
        pod: &Pod,
        sidecar: &Path,
        program: &Path,
    ) -> Result<Self> {
        let files = TempDir::new()?;
        let kubeconfig = files.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serde_json::to_vec(&kubeconfig_of(stage, pod).await?)?)?;
        let (control, tap) = (free_port()?, free_port()?);
        let spec = pod.spec.as_ref().context("a pod without spec")?;
        let named = |list: &[Container], name: &str| {
            list.iter().find(|c| c.name == name).map(|c| environment(c, pod))
        };
        let mut inside =
            named(spec.init_containers.as_deref().unwrap_or_default(), names::SIDECAR_CONTAINER)
                .context("no sidecar in the pod")?;
        inside.insert("KUBECONFIG".into(), kubeconfig.display().to_string());
        inside.insert("SLUICE_CONTROL_PORT".into(), control.to_string());
        inside.insert("SLUICE_TAP_PORT".into(), tap.to_string());
        let mut outside = named(&spec.containers, PROGRAM).context("no program in the pod")?;
        // The webhook points the program at the sidecar's usual ports.
        for value in outside.values_mut() {
            *value = value
                .replace(&format!("127.0.0.1:{}", names::TAP_PORT), &format!("127.0.0.1:{tap}"))
                .replace(
                    &format!("127.0.0.1:{}", names::CONTROL_PORT),
                    &format!("127.0.0.1:{control}"),
                );
        }
        let keys = stage.vendor.environment().into_iter().filter(|(name, _)| {
            name.starts_with("AWS_ACCESS_KEY") || name.starts_with("AWS_SECRET")
        });
        let keys: Vec<_> = keys.collect();
        let start = |binary: &Path, environment: BTreeMap<String, String>| {
            Command::new(binary)
                .env_clear()
                .envs(environment)
                .envs(keys.clone())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .with_context(|| format!("{} does not start", binary.display()))
        };
        let sidecar = start(sidecar, inside)?;
        let program = start(program, outside)?;
        Ok(Self { sidecar, program, _files: files })
    }
}

/// The cluster, with a token that is bound to the pod.
async fn kubeconfig_of(stage: &Stage<'_>, pod: &Pod) -> Result<Kubeconfig> {
    let bound = BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some(pod.name_any()),
        uid: pod.uid(),
    };
    let request = TokenRequest {
        spec: Some(TokenRequestSpec { bound_object_ref: Some(bound), ..Default::default() }),
        ..Default::default()
    };
    let accounts = stage.api::<ServiceAccount>();
    let answer = accounts.create_token_request("default", &PostParams::default(), &request).await?;
    let token = answer.status.and_then(|status| status.token).context("no token")?;
    let mut config = Kubeconfig::read_from(stage.world.lab().kubeconfig())?;
    for named in &mut config.auth_infos {
        named.auth_info =
            Some(AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() });
    }
    Ok(config)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The container's environment, as a kubelet would resolve it; Secrets are left out.
fn environment(container: &Container, pod: &Pod) -> BTreeMap<String, String> {
    let value = |entry: &EnvVar| {
        let field = || {
            let path = &entry.value_from.as_ref()?.field_ref.as_ref()?.field_path;
            field(pod, path)
        };
        entry.value.clone().or_else(field)
    };
    let entries = container.env.iter().flatten();
    entries.filter_map(|entry| Some((entry.name.clone(), value(entry)?))).collect()
}

/// The downward API, as far as the webhook uses it.
fn field(pod: &Pod, path: &str) -> Option<String> {
    match path {
        "metadata.name" => Some(pod.name_any()),
        "metadata.uid" => pod.uid(),
        "metadata.namespace" => pod.namespace(),
        _ => {
            let key = path.strip_prefix("metadata.annotations['")?.strip_suffix("']")?;
            pod.annotations().get(key).cloned()
        }
    }
}

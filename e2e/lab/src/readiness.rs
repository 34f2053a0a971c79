//! When a component is ready: one probe, asked again until it succeeds or time is up.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    command::{run_async, tail},
    components::Component,
    credentials::{ADMIN, server_url},
    error::{Error, Result, read},
    layout::Layout,
    network::port,
    prerequisites::find,
    process::Identity,
};

/// How long a component may take; a busy machine needs several times the usual.
const LIMIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(100);

/// The client of the probes, which trusts the cluster's certificate authority.
pub(crate) struct Probe {
    client: reqwest::Client,
    token: String,
}

impl Probe {
    pub(crate) fn of(layout: &Layout) -> Result<Self> {
        let bad = |e: reqwest::Error| Error::Invalid(format!("could not make a web client: {e}"));
        let ca = read(&layout.credential("ca.crt"))?;
        let ca = reqwest::Certificate::from_pem(ca.as_bytes()).map_err(bad)?;
        let client = reqwest::Client::builder()
            .tls_certs_only([ca])
            // A proxy of the environment has no business on the way to this machine.
            .no_proxy()
            .timeout(Duration::from_secs(5))
            .build()
            .map_err(bad)?;
        let tokens = read(&layout.credential("tokens.csv"))?;
        let token = tokens
            .lines()
            .map(|line| line.split(',').collect::<Vec<_>>())
            .find(|fields| fields.get(2) == Some(&ADMIN))
            .and_then(|fields| fields.first().map(|&token| token.to_owned()))
            .unwrap_or_default();
        Ok(Self { client, token })
    }

    /// Waits until a component is ready.
    pub(crate) async fn until_ready(
        &self,
        component: Component,
        identity: &Identity,
        layout: &Layout,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            let reason = match self.ask(component, layout).await {
                Ok(()) => return Ok(()),
                Err(reason) => reason,
            };
            let reason = if identity.is_alive() { reason } else { "it has ended".to_owned() };
            if begun.elapsed() > LIMIT || !identity.is_alive() {
                return Err(not_ready(component.name(), reason, layout));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ask(&self, component: Component, layout: &Layout) -> std::result::Result<(), String> {
        let local =
            |scheme: &str, port: u16, path: &str| format!("{scheme}://127.0.0.1:{port}{path}");
        let url = match component {
            Component::Etcd => local("http", port::ETCD, "/health"),
            Component::ApiServer => format!("{}/readyz", server_url()),
            Component::ControllerManager => local("https", port::CONTROLLER_MANAGER, "/healthz"),
            Component::Scheduler => local("https", port::SCHEDULER, "/readyz"),
            Component::Proxy => local("http", port::PROXY_HEALTH, "/healthz"),
            Component::Kubelet => local("http", port::KUBELET_HEALTH, "/healthz"),
            Component::Containerd => return containerd(layout).await,
            // Its nodes say whether it works; they are waited for where they are made.
            Component::Kwok => return Ok(()),
        };
        let mut request = self.client.get(&url);
        if component == Component::ApiServer {
            request = request.bearer_auth(&self.token);
        }
        let answer = request.send().await.map_err(|e| e.without_url().to_string())?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(format!("{url} answers {}", answer.status()))
    }
}

async fn containerd(layout: &Layout) -> std::result::Result<(), String> {
    let mut ctr = Command::new(find("ctr").unwrap_or_else(|| "ctr".into()));
    ctr.arg("--address").arg(layout.socket()).args(["--connect-timeout", "3s", "version"]);
    run_async(ctr).await.map(drop).map_err(|e| e.to_string())
}

/// The error for a component that did not become ready, with the end of its log.
pub(crate) fn not_ready(part: &str, reason: String, layout: &Layout) -> Error {
    let log = layout.log(part);
    let text = std::fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    Error::NotReady {
        part: part.to_owned(),
        limit: LIMIT,
        reason,
        log: log.display().to_string(),
        tail: tail(&text, 2000).to_owned(),
    }
}

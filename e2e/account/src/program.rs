//! The program that is checked: the AWS SDK with the holder's keys, through the tap and past it.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use aws_config::{BehaviorVersion, Region, retry::RetryConfig};
use aws_credential_types::Credentials;
use aws_sdk_braket::Client;
use aws_sdk_braket::config::SharedCredentialsProvider;
use sluice_tap::{Config, Endpoint, Tap, TapEvent, Upstream};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::args::Args;

/// The simulator that every account may use.
pub(crate) const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";
/// Where results go in the bucket.
pub(crate) const PREFIX: &str = "sluice-check-account";
/// Two qubits, entangled and measured.
pub(crate) const PROGRAM: &str = r#"{"braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"}, "source": "OPENQASM 3.0; qubit[2] q; bit[2] b; h q[0]; cnot q[0], q[1]; b = measure q;", "inputs": {}}"#;

/// Events of the tap that wait to be looked at.
const EVENTS: usize = 1024;
/// The names of an endpoint, strongest first, as the tap's users set them.
const ENDPOINTS: [&str; 3] = [
    sluice_shared::names::ENV_BRAKET_ENDPOINT,
    sluice_shared::names::ENV_AWS_ENDPOINT_URL_BRAKET,
    sluice_shared::names::ENV_AWS_ENDPOINT_URL,
];

/// Clients in the region of the check.
pub(crate) struct Program {
    provider: SharedCredentialsProvider,
    region: String,
    tap: String,
    upstream: Option<String>,
    events: Mutex<mpsc::Receiver<TapEvent>>,
    stop: CancellationToken,
}

impl Program {
    /// Finds the holder's keys and starts a tap on a free loopback port.
    ///
    /// # Errors
    /// When there are no keys, or the endpoint in the environment cannot be used.
    pub(crate) async fn start(args: &Args) -> Result<Self> {
        let config = aws_config::load_defaults(BehaviorVersion::latest()).await;
        let provider = config
            .credentials_provider()
            .context("no AWS credentials were found; set AWS_PROFILE or AWS_ACCESS_KEY_ID")?;
        let upstream = ENDPOINTS.iter().find_map(|name| std::env::var(name).ok());
        let tap_config = Config {
            upstream: match &upstream {
                Some(url) => Upstream::Url(Endpoint::parse(url)?),
                None => Upstream::default(),
            },
            ..Config::default()
        };
        let (told, events) = mpsc::channel(EVENTS);
        let tap = Tap::new(tap_config, provider.clone(), told)?;
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("the tap finds no port on loopback")?;
        let address = socket.local_addr().context("the tap has no address")?;
        let stop = CancellationToken::new();
        tokio::spawn(tap.serve(socket, stop.clone()));
        Ok(Self {
            provider,
            region: args.region.clone(),
            tap: format!("http://{address}"),
            upstream,
            events: Mutex::new(events),
            stop,
        })
    }

    /// The program as Sluice runs it: through the tap, in this region.
    pub(crate) fn tapped(&self, region: Option<&str>) -> Client {
        self.client(region, self.provider.clone(), Some(&self.tap))
    }

    /// The program without Sluice.
    pub(crate) fn direct(&self) -> Client {
        self.direct_in(None)
    }

    /// The same in this region.
    pub(crate) fn direct_in(&self, region: Option<&str>) -> Client {
        self.client(region, self.provider.clone(), self.upstream.as_deref())
    }

    /// The program with the right key id and another secret, through the tap or past it.
    ///
    /// # Errors
    /// When there are no keys.
    pub(crate) async fn impostor(&self, tapped: bool) -> Result<Client> {
        use aws_credential_types::provider::ProvideCredentials;
        let own = self.provider.provide_credentials().await.context("no AWS credentials")?;
        let session = own.session_token().map(str::to_owned);
        let other = Credentials::new(own.access_key_id(), "not-the-secret", session, None, "check");
        let endpoint = if tapped { Some(self.tap.as_str()) } else { self.upstream.as_deref() };
        Ok(self.client(None, SharedCredentialsProvider::new(other), endpoint))
    }

    /// What the tap has told since the last look.
    pub(crate) async fn told(&self) -> Vec<TapEvent> {
        let mut events = self.events.lock().await;
        std::iter::from_fn(|| events.try_recv().ok()).collect()
    }

    fn client(
        &self,
        region: Option<&str>,
        provider: SharedCredentialsProvider,
        endpoint: Option<&str>,
    ) -> Client {
        let region = region.unwrap_or(&self.region).to_owned();
        let mut config = aws_sdk_braket::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region))
            .credentials_provider(provider)
            // Each answer is looked at, the refusals too.
            .retry_config(RetryConfig::disabled());
        if let Some(endpoint) = endpoint {
            config = config.endpoint_url(endpoint);
        }
        Client::from_conf(config.build())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

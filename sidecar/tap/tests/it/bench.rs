//! An emulator, a tap before it, and clients of the tap.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_braket::Client;
use aws_sdk_braket::config::retry::RetryConfig;
use aws_sdk_braket::config::timeout::TimeoutConfig;
use aws_sdk_braket::config::{BehaviorVersion, Region};
use aws_sdk_braket::error::{ProvideErrorMetadata, SdkError};
use sluice_tap::{Config, Endpoint, Guard, Intents, Tap, TapEvent, Upstream};
use sluice_vendors::{Emulator, Running};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";
pub(crate) const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
/// Long enough for a busy machine; every wait here ends much earlier when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const PROGRAM: &str = r#"{"braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"}, "source": "OPENQASM 3.0;\nqubit[1] q;\nh q[0];\nb = measure q;", "inputs": {}}"#;

/// The interpreter with the SDK: `SLUICE_PYTHON`, else the one of the local cluster.
pub(crate) fn interpreter() -> PathBuf {
    static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();
    INTERPRETER
        .get_or_init(|| match std::env::var_os("SLUICE_PYTHON") {
            Some(path) => path.into(),
            None => sluice_lab::python_env()
                .expect("build the Python environment, or set SLUICE_PYTHON")
                .python(),
        })
        .clone()
}

pub(crate) fn user() -> Credentials {
    Credentials::new("AKIDEXAMPLE", "secret", None, None, "test")
}

pub(crate) async fn emulator(config: sluice_vendors::Config) -> Running {
    Emulator::start(config.with_python(interpreter())).await.expect("free ports on loopback")
}

/// An address on which nothing listens now.
pub(crate) async fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap()
}

/// A tap that serves.
pub(crate) struct Bench {
    pub(crate) address: SocketAddr,
    events: mpsc::Receiver<TapEvent>,
    pub(crate) stop: CancellationToken,
    pub(crate) served: JoinHandle<()>,
}

pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) credentials: Credentials,
    pub(crate) intents: Option<Arc<dyn Intents>>,
    pub(crate) guard: Option<Arc<dyn Guard>>,
    pub(crate) room: usize,
}

impl Setup {
    pub(crate) fn to(url: &str) -> Self {
        let upstream = Upstream::Url(Endpoint::parse(url).unwrap());
        Self {
            config: Config { upstream, ..Config::default() },
            credentials: user(),
            intents: None,
            guard: None,
            room: 1000,
        }
    }

    pub(crate) async fn start(self) -> Bench {
        let provider = SharedCredentialsProvider::new(self.credentials.clone());
        self.start_with(provider).await
    }

    pub(crate) async fn start_with(self, provider: SharedCredentialsProvider) -> Bench {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, events) = mpsc::channel(self.room);
        let mut tap = Tap::new(self.config, provider, sender).unwrap();
        if let Some(intents) = self.intents {
            tap = tap.with_intents(intents);
        }
        if let Some(guard) = self.guard {
            tap = tap.with_guard(guard);
        }
        let stop = CancellationToken::new();
        let served = tokio::spawn(tap.serve(listener, stop.clone()));
        Bench { address, events, stop, served }
    }
}

impl Bench {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client that makes one attempt for each call.
    pub(crate) fn client(&self, region: &'static str, credentials: Credentials) -> Client {
        let timeouts = TimeoutConfig::builder().operation_timeout(PATIENCE).build();
        let config = aws_sdk_braket::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region))
            .credentials_provider(credentials)
            .endpoint_url(self.url())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .build();
        Client::from_conf(config)
    }

    pub(crate) fn own(&self) -> Client {
        self.client("us-east-1", user())
    }

    pub(crate) async fn event(&mut self) -> TapEvent {
        within(self.events.recv()).await.expect("the tap still serves")
    }

    /// The next event that fits; those before it are of no interest.
    pub(crate) async fn event_where<T>(&mut self, fits: impl Fn(&TapEvent) -> Option<T>) -> T {
        loop {
            if let Some(found) = fits(&self.event().await) {
                return found;
            }
        }
    }

    /// Stops and returns the events that were left.
    pub(crate) async fn end(mut self) -> Vec<TapEvent> {
        self.stop.cancel();
        within(self.served).await.unwrap();
        let mut left = Vec::new();
        while let Some(event) = self.events.recv().await {
            left.push(event);
        }
        left
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// Waits until something is so; asks every few milliseconds, and not for ever.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Submits a small program; returns its ARN.
pub(crate) async fn submit(client: &Client, token: &str) -> Result<String, (u16, String, String)> {
    let sent = client
        .create_quantum_task()
        .client_token(token)
        .device_arn(SV1)
        .shots(10)
        .action(PROGRAM)
        .output_s3_bucket("amazon-braket-x")
        .output_s3_key_prefix("k")
        .send()
        .await;
    sent.map(|made| made.quantum_task_arn).map_err(|error| refusal(&error))
}

/// Status, code and message of a refused call; status 0 where there was no answer.
pub(crate) fn refusal<E: ProvideErrorMetadata + std::error::Error + 'static>(
    error: &SdkError<E>,
) -> (u16, String, String) {
    let status = error.raw_response().map_or(0, |response| response.status().as_u16());
    let code = error.code().unwrap_or_default().to_owned();
    let message = error.message().map_or_else(
        || aws_sdk_braket::error::DisplayErrorContext(error).to_string(),
        str::to_owned,
    );
    (status, code, message)
}

/// How often the vendor was asked for an operation.
pub(crate) fn asked(vendor: &Running, operation: &str) -> usize {
    vendor.journal().iter().filter(|entry| entry.operation == operation).count()
}

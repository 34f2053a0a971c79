//! The emulator, a tap before it, and what the tap told.

use std::net::Ipv4Addr;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use sluice_tap::{Config, Endpoint, Route, Tap, TapEvent, Upstream};
use sluice_vendors::{Emulator, Running};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Room for all events of a test: nothing reads them before its end.
const ROOM: usize = 10_000;

pub(crate) async fn emulator() -> Running {
    let python = crate::program::sdk().await;
    let config = sluice_vendors::Config::for_testing().with_python(python);
    Emulator::start(config).await.unwrap()
}

/// A tap that serves.
pub(crate) struct Bench {
    url: String,
    events: mpsc::Receiver<TapEvent>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Bench {
    /// A tap before a vendor.
    pub(crate) async fn before(vendor: &str) -> Self {
        Self::with_resources(vendor, Vec::new()).await
    }

    /// The same with resources of QRMI.
    pub(crate) async fn with_resources(vendor: &str, resources: Vec<Route>) -> Self {
        let upstream = Upstream::Url(Endpoint::parse(vendor).unwrap());
        let config = Config { upstream, resources, ..Config::default() };
        let user = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, events) = mpsc::channel(ROOM);
        let tap = Tap::new(config, SharedCredentialsProvider::new(user), sender).unwrap();
        let stop = CancellationToken::new();
        let served = tokio::spawn(tap.serve(listener, stop.clone()));
        Self { url, events, stop, served }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Stops and returns what it told.
    pub(crate) async fn end(mut self) -> Told {
        self.stop.cancel();
        self.served.await.unwrap();
        let mut told = Told::default();
        while let Some(event) = self.events.recv().await {
            match event {
                TapEvent::Submitted { task_id, .. } => told.submitted.push(task_id),
                TapEvent::Polled { facts, .. } => {
                    told.polled.push(facts.task_id);
                    told.places.extend(facts.position_text);
                }
                TapEvent::Refused { message, .. } => told.refused.push(message),
                _ => {}
            }
        }
        told
    }
}

/// What a tap told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// ARNs of submitted tasks.
    pub(crate) submitted: Vec<String>,
    /// ARNs of tasks that were asked for.
    pub(crate) polled: Vec<String>,
    /// Places in the queue, as the vendor words them.
    pub(crate) places: Vec<String>,
    /// Why requests were refused.
    pub(crate) refused: Vec<String>,
}

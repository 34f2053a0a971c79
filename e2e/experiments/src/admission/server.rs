//! A server of reviews as in the product, with a runtime of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum_server::tls_rustls::RustlsConfig;
use jiff::{SignedDuration, Timestamp};
use sluice_webhook::app::serve_reviews;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const HOST: &str = "sluice-webhook.sluice-system.svc";
/// Longest time for one review at the client; the API server waits half of it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A running server. It ends with its value.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    ca: String,
    stop: CancellationToken,
    /// Taken when the server ends.
    runtime: Option<Runtime>,
}

impl Server {
    /// Serves the router on a free port of loopback, over TLS, as the product serves its own.
    pub(super) async fn start(router: Router) -> Result<Self> {
        let lifetime = SignedDuration::from_hours(1);
        let issued = sluice_certs::issue(&[HOST.to_owned()], lifetime, Timestamp::now())
            .context("cannot issue the certificate of the server")?;
        let (certificate, key) = (issued.cert_pem.into_bytes(), issued.key_pem.into_bytes());
        let config = RustlsConfig::from_pem(certificate, key)
            .await
            .context("the certificate of the server cannot be read")?;
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
        listener.set_nonblocking(true).context("cannot make the socket non-blocking")?;
        let address = listener.local_addr().context("cannot read the address of the socket")?;
        let stop = CancellationToken::new();
        let runtime = Runtime::new().context("cannot start the runtime of the server")?;
        runtime.spawn(serve_reviews(listener, config, router, stop.clone()));
        Ok(Self { address, ca: issued.ca_pem, stop, runtime: Some(runtime) })
    }

    /// A client that keeps its connections. The API server speaks HTTP/1.1 to webhooks, too.
    pub(super) fn client(&self, connections: usize) -> Result<reqwest::Client> {
        let roots = reqwest::Certificate::from_pem_bundle(self.ca.as_bytes())?;
        reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .tls_certs_only(roots)
            .resolve(HOST, self.address)
            .pool_max_idle_per_host(connections)
            .timeout(TIMEOUT)
            .build()
            .context("cannot make a client")
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("https://{HOST}:{}{path}", self.address.port())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        // Waiting is not possible where this is dropped, and nothing is left to wait for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

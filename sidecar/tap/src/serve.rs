//! The server: connections of the program on a socket that somebody else owns.

use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::events::TapEvent;
use crate::forward::Forwarder;
use crate::guard::Guard;
use crate::intents::Intents;
use crate::rights::Rights;

/// Largest head of a request, in bytes. SDKs send about 2 KiB; session tokens are long.
const HEAD: usize = 64 << 10;

/// The tap, ready to serve.
pub struct Tap {
    forwarder: Forwarder,
    config: Config,
    events: mpsc::Sender<TapEvent>,
}

/// The tap cannot be built.
#[derive(Debug, thiserror::Error)]
#[error(
    "no HTTP client for the vendor can be built; check that the image has root certificates (or \
     that SSL_CERT_FILE names some) and that AWS_CA_BUNDLE and the proxy variables are readable"
)]
pub struct BuildError(#[from] reqwest::Error);

impl Tap {
    /// Builds the tap.
    ///
    /// `credentials` are asked whenever the ones before near their end; every question has its
    /// own time-out. `events` may be slow or closed: requests never wait for it.
    ///
    /// # Errors
    /// The HTTP client cannot be built: no root certificates, an odd proxy variable.
    pub fn new(
        config: Config,
        credentials: SharedCredentialsProvider,
        events: mpsc::Sender<TapEvent>,
    ) -> Result<Self, BuildError> {
        let forwarder = Forwarder::new(config.clone(), credentials)?;
        Ok(Self { forwarder, config, events })
    }

    /// Asks `intents` before each submission.
    #[must_use]
    pub fn with_intents(mut self, intents: Arc<dyn Intents>) -> Self {
        self.forwarder.set_intents(intents);
        self
    }

    /// Asks `guard` before each submission that would make a new task.
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<dyn Guard>) -> Self {
        self.forwarder.set_guard(guard);
        self
    }

    /// The rights with which the program signs in at other vendors, as they pass.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.forwarder.rights.clone()
    }

    /// Serves until `stop`, then gives running requests a short time to end.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let Self { forwarder, config, events } = self;
        let forwarder = Arc::new(forwarder);
        let handed_on = CancellationToken::new();
        let mut hand_on = {
            let (forwarder, done) = (Arc::clone(&forwarder), handed_on.clone());
            tokio::spawn(async move { forwarder.outbox.hand_on(&events, &done).await })
        };
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(config.limits.connections));
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&listener, &room) => accepted,
            };
            let Some((stream, permit)) = accepted else { continue };
            let open = forwarder.connections.opened(&stream);
            let forwarder = Arc::clone(&forwarder);
            let connection = connection(stream, forwarder, config.limits.header_time);
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                let _open = open;
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection of the program ended early");
                }
                drop(permit);
            });
        }
        forwarder.submissions.close();
        let ended = async { tokio::join!(graceful.shutdown(), forwarder.submissions.wait()) };
        if timeout(config.limits.drain, ended).await.is_err() {
            tracing::info!("requests were still running at the end of the sidecar and are closed");
        }
        handed_on.cancel();
        // The last events go out as long as somebody reads them.
        if timeout(config.limits.drain, &mut hand_on).await.is_err() {
            tracing::warn!("nobody reads the tap's events; the last ones are lost");
            hand_on.abort();
        }
    }
}

/// The next connection, within the number allowed at one time.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Small answers at once; without this a poll can take 40 ms longer.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps its delay");
            }
            Some((stream, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "no connection can be accepted; trying again");
            // Out of descriptors, most likely: give others time to close theirs.
            sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

fn connection(
    stream: TcpStream,
    forwarder: Arc<Forwarder>,
    header_time: Duration,
) -> http1::Connection<
    TokioIo<TcpStream>,
    impl hyper::service::HttpService<
        hyper::body::Incoming,
        ResBody = axum::body::Body,
        Error = crate::forward::HungUp,
        Future: Send,
    > + Send,
> {
    let service = service_fn(move |request| Arc::clone(&forwarder).answer(request));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service)
}

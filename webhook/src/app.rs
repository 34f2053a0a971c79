//! The process: binds every socket, then serves until it is told to stop.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use kube::{Client, CustomResourceExt};
use prometheus_client::registry::Registry;
use sluice_shared::gang::QuantumGang;
use sluice_shared::process::shutdown;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::args::{Args, ServeArgs};
use crate::http::{self, Admission};
use crate::metrics::Metrics;
use crate::ready::{self, Ready};
use crate::served::{self, Latest};
use crate::tls;

/// What readiness waits for here: what the cluster serves is known.
const SERVED: &str = "the list of APIs that the cluster serves";
/// How long open requests may take after the last new one was taken.
const DRAIN: Duration = Duration::from_secs(10);

/// Prints the definition of `QuantumGang`.
///
/// # Errors
/// When it cannot be written.
#[expect(clippy::print_stdout, reason = "printing is what this command is for")]
pub fn print_crd() -> anyhow::Result<()> {
    print!("{}", crd()?);
    Ok(())
}

/// The definition of `QuantumGang` as YAML.
///
/// # Errors
/// When it cannot be written as YAML.
pub fn crd() -> anyhow::Result<String> {
    let mut definition =
        serde_json::to_value(QuantumGang::crd()).context("cannot write the definition as JSON")?;
    drop_foreign_formats(&mut definition);
    serde_saphyr::to_string(&definition).context("cannot write the definition as YAML")
}

/// Drops the formats of Rust's unsigned numbers: the API server knows none of them and warns.
fn drop_foreign_formats(value: &mut serde_json::Value) {
    if let Some(map) = value.as_object_mut() {
        if map.get("format").and_then(|f| f.as_str()).is_some_and(|f| f.starts_with("uint")) {
            map.remove("format");
        }
        map.values_mut().for_each(drop_foreign_formats);
    } else if let Some(list) = value.as_array_mut() {
        list.iter_mut().for_each(drop_foreign_formats);
    }
}

/// Tells why the process ends.
#[expect(clippy::needless_pass_by_value, reason = "it takes what main has left")]
#[must_use]
pub fn report(error: anyhow::Error) -> ExitCode {
    tracing::error!("{error:#}");
    ExitCode::FAILURE
}

/// Serves until a signal.
///
/// # Errors
/// When a flag cannot work, a port is taken or the API server is not configured.
pub fn serve(args: &Args) -> anyhow::Result<()> {
    args.log.init().context("--log cannot be read")?;
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let stop = shutdown::on_signals().context("cannot listen to signals")?;
        let client = Client::try_default()
            .await
            .context("no way to the API server: run in a pod, or set KUBECONFIG")?;
        build(&args.serve, client)?.run(stop).await
    })
}

/// A process whose sockets are bound.
pub struct Bound {
    /// Where reviews are taken.
    pub address: SocketAddr,
    /// Where probes and metrics are served.
    pub admin_address: SocketAddr,
    listener: TcpListener,
    admin_listener: TcpListener,
    admission: Admission,
    registry: Registry,
    ready: Ready,
    client: Client,
    args: ServeArgs,
    keeper: sluice_keeper::Metrics,
}

/// Checks the flags and binds every socket.
///
/// # Errors
/// When a flag cannot work or a port is taken.
pub fn build(args: &ServeArgs, client: Client) -> anyhow::Result<Bound> {
    let config = args.admission()?;
    let (listener, address) = bind(args.listen, "--listen")?;
    let (admin_listener, admin_address) = bind(args.admin_listen, "--admin-listen")?;
    let mut registry = Registry::default();
    let admission = Admission {
        config: Arc::new(config),
        served: Latest::default(),
        metrics: Metrics::register(&mut registry),
    };
    let keeper = sluice_keeper::Metrics::register(&mut registry);
    let ready = Ready::default();
    for what in [tls::CERTIFICATE, tls::BUNDLE, SERVED] {
        ready.wait_for(what);
    }
    Ok(Bound {
        address,
        admin_address,
        listener,
        admin_listener,
        admission,
        registry,
        ready,
        client,
        args: args.clone(),
        keeper,
    })
}

fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let any_v6 = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let any_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    let listener = TcpListener::bind(address)
        // A kernel without IPv6 has no [::], and every address was meant.
        .or_else(|error| match error.kind() {
            ErrorKind::AddrInUse => Err(error),
            _ if any_v6 => TcpListener::bind(any_v4),
            _ => Err(error),
        })
        .with_context(|| format!("{flag}: cannot listen on {address}; is the port taken?"))?;
    listener.set_nonblocking(true).context("cannot make the socket non-blocking")?;
    let address = listener.local_addr().context("cannot read the address of the socket")?;
    Ok((listener, address))
}

impl Bound {
    /// Serves until `stop`, then drains.
    ///
    /// # Errors
    /// When a server ends by itself.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let Self { listener, admin_listener, admission, registry, ready, client, args, .. } = self;
        tracing::info!(reviews = %self.address, admin = %self.admin_address, "starting");
        // The servers outlive the order to stop: the cluster needs a moment to look away.
        let closing = CancellationToken::new();
        let admin = tokio::spawn(serve_admin(
            admin_listener,
            ready::router(ready.clone(), registry),
            closing.clone(),
        ));
        let (first, certificate) = oneshot::channel();
        let place = tls::Place {
            namespace: args.namespace.clone(),
            secret: args.certificate_secret.clone(),
            webhook_configuration: args.webhook_configuration.clone(),
            dns_names: args.dns_names(),
            poll: args.certificate_poll,
        };
        tokio::spawn(tls::follow(client.clone(), place, ready.clone(), first, closing.clone()));
        let (latest, known) = (admission.served.clone(), move || ready.done(SERVED));
        tokio::spawn(served::follow(client.clone(), latest, known, closing.clone()));
        let keeper_stop = stop.child_token();
        let keeper = args.keeper.then(|| {
            let config = sluice_keeper::KeeperConfig::new(&args.namespace, &args.pod_name);
            let (metrics, stop, closing) = (self.keeper, keeper_stop.clone(), closing.clone());
            tokio::spawn(async move {
                let ended = sluice_keeper::run(client, config, metrics, stop).await;
                if ended.is_err() {
                    // A replica without its keeper is restarted as a whole.
                    closing.cancel();
                }
                ended
            })
        });
        let delay = args.drain_delay;
        let closer = closing.clone();
        tokio::spawn(async move {
            stop.cancelled().await;
            tokio::time::sleep(delay).await;
            closer.cancel();
        });
        let served = tokio::select! {
            config = certificate => match config {
                Ok(config) => {
                    serve_reviews(listener, config, http::router(admission), closing.clone()).await
                }
                Err(_) => Ok(()),
            },
            () = closing.cancelled() => Ok(()),
        };
        closing.cancel();
        keeper_stop.cancel();
        if let Some(keeper) = keeper {
            keeper.await.context("the keeper broke")?.context("the keeper gave up")?;
        }
        admin.await.context("the admin server broke")??;
        served
    }
}

/// Serves reviews over TLS until `stop`, then lets open ones finish.
///
/// # Errors
/// When the server ends by itself.
pub async fn serve_reviews(
    listener: TcpListener,
    config: RustlsConfig,
    router: Router,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let handle = Handle::new();
    tokio::spawn(close(handle.clone(), stop));
    axum_server::from_tcp_rustls(listener, config)
        .context("cannot serve reviews")?
        .handle(handle)
        .serve(router.into_make_service())
        .await
        .context("the server of reviews ended")
}

async fn serve_admin(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let handle = Handle::new();
    tokio::spawn(close(handle.clone(), stop));
    axum_server::from_tcp(listener)
        .context("cannot serve probes and metrics")?
        .handle(handle)
        .serve(router.into_make_service())
        .await
        .context("the server of probes and metrics ended")
}

async fn close(handle: Handle<SocketAddr>, stop: CancellationToken) {
    stop.cancelled().await;
    handle.graceful_shutdown(Some(DRAIN));
}

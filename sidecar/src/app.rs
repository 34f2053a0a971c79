//! The programs of the binary, and the wiring of the worker.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Client;
use listenfd::ListenFd;
use sluice_shared::names;
use sluice_shared::process::shutdown;
use sluice_tap::{Quota, Rights, Tap, TapEvent};
use tokio::net::TcpListener as AsyncListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::args::{Args, Command, Config};
use crate::control::{self, Control};
use crate::ending::act::settle;
use crate::follow::report;
use crate::follow::state::{Rules, Seen, State};
use crate::follow::watch::{Clock, Watch};
use crate::gang::observer::{Name, observe};
use crate::gang::writer::write;
use crate::gang::{api, connect};
use crate::intake;
use crate::ledger::Ledger;
use crate::parent;
use crate::ready;
use crate::till::Till;
use crate::vendor::Vendor;
use crate::vendor::braket::Braket;
use crate::vendor::credentials::Renewed;
use crate::vendor::http;
use crate::vendor::rest::Rest;
use crate::vendor::settings::Settings;
use crate::vendor::vendors::Vendors;

/// Things seen that wait for the loop; senders wait beyond that.
const SEEN: usize = 256;
/// Time for the last write after the stop.
const LAST_WRITE: Duration = Duration::from_millis(500);

/// Runs the program that the arguments name.
#[must_use]
pub fn run(args: Args) -> ExitCode {
    if args.command == Some(Command::Ready) {
        return match ready::ask(args.ports.control_port) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&anyhow::Error::new(error)),
        };
    }
    if let Err(error) = args.log.init_with(&["kube_client=off", "kube_runtime=off"]) {
        return complain(&anyhow::Error::new(error).context("SLUICE_LOG cannot be used"));
    }
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("the sidecar cannot go on: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The kubelet shows the output of a failed probe.
fn complain(error: &anyhow::Error) -> ExitCode {
    eprintln!("{error:#}");
    ExitCode::FAILURE
}

fn serve(args: Args) -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let config =
        Config::of(args.pod, args.ports)?.with_resources(variable(names::ENV_RESOURCES), &variable);
    // One thread is enough for one program, and keeps the memory small.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(2))
        .build()
        .context("the runtime cannot be started")?;
    match args.command {
        Some(Command::Worker) => runtime.block_on(async {
            parent::die_with_it()?;
            let stop = shutdown::on_signals().context("no signal handler")?;
            let sockets = Sockets::inherited(config.not_tapped.is_none())?;
            let config = config.with(&Settings::read().await);
            let worker = Worker::build(config, sockets, None)?;
            worker.asking(parent::ask_for_time).run(stop).await
        }),
        Some(Command::Ready) | None => {
            let sockets = Sockets::bind(&config)?;
            sockets.tell();
            runtime.block_on(parent::run(&sockets))
        }
    }
}

/// The loopback sockets of the pod.
#[derive(Debug)]
pub struct Sockets {
    /// Announcements and state.
    pub control: TcpListener,
    /// The tap; absent where the program is not tapped.
    pub tap: Option<TcpListener>,
}

impl Sockets {
    /// Binds both on loopback.
    ///
    /// # Errors
    /// When a port is in use, with what to do.
    pub fn bind(config: &Config) -> Result<Self> {
        let control = bind(config.control_port, "announcements")?;
        // Nothing listens where nobody may submit: with hostNetwork loopback is the node's.
        let tap = match &config.not_tapped {
            None => Some(bind(config.tap_port, "the tap")?),
            Some(_) => None,
        };
        Ok(Self { control, tap })
    }

    fn tell(&self) {
        let address = |socket: &TcpListener| {
            socket.local_addr().map_or_else(|error| error.to_string(), |a| a.to_string())
        };
        let tap = self.tap.as_ref().map_or_else(|| "no tap".to_owned(), address);
        info!("listening on {} for announcements, {tap} for the vendors", address(&self.control));
    }

    /// Takes over what the parent handed down.
    fn inherited(tapped: bool) -> Result<Self> {
        let mut handed = ListenFd::from_env();
        let control = handed.take_tcp_listener(0)?.context(
            "no socket was handed down: the worker is started by its parent, not by hand",
        )?;
        let tap = handed.take_tcp_listener(1)?;
        if tapped && tap.is_none() {
            bail!("the tap's socket was not handed down");
        }
        Ok(Self { control, tap })
    }
}

fn bind(port: u16, what: &str) -> Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(address).with_context(|| {
        format!(
            "{address}, the port of {what}, cannot be listened on; if a container of the pod uses \
             it, move that container to another port (with hostNetwork: another pod of the node \
             may use it)"
        )
    })
}

/// The worker, wired and not yet running.
pub struct Worker {
    config: Config,
    vendors: Arc<Vendors>,
    credentials: Renewed,
    tap: Option<(Tap, AsyncListener)>,
    control: AsyncListener,
    client: Option<Client>,
    seen: (mpsc::Sender<Seen>, mpsc::Receiver<Seen>),
    events: (mpsc::Sender<TapEvent>, mpsc::Receiver<TapEvent>),
    shown: watch::Sender<Arc<State>>,
    quota: Arc<Quota>,
    clock: Clock,
    /// Asks whoever ends the worker for more time.
    ask_for_time: fn(),
}

impl Worker {
    /// Wires a worker. Without a `client` it finds the cluster itself, and tries without end.
    ///
    /// # Errors
    /// When a socket or an HTTP client cannot be used. Call it inside of a runtime.
    pub fn build(config: Config, sockets: Sockets, client: Option<Client>) -> Result<Self> {
        let http = http::client(&config.roots);
        let credentials = Renewed::from_environment(config.region.clone(), config.hosts, http);
        Self::with_credentials(config, sockets, client, credentials)
    }

    /// The same with other credentials than the environment's.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn with_credentials(
        config: Config,
        sockets: Sockets,
        client: Option<Client>,
        credentials: Renewed,
    ) -> Result<Self> {
        let events = mpsc::channel(SEEN);
        let quota = Arc::new(Quota::default());
        let seen = mpsc::channel(SEEN);
        let clock = Clock::wall();
        let shown = watch::Sender::new(Arc::new(State::new(rules(&config), clock.now())));
        let tap_config = sluice_tap::Config {
            upstream: config.upstream.clone(),
            resources: config.resources.clone(),
            roots: config.roots.clone(),
            quota: Arc::clone(&quota),
            ..sluice_tap::Config::default()
        };
        // Where nothing is reached no client is needed, and none can fail for want of root
        // certificates.
        let client_of_resources =
            (!config.resources.is_empty()).then(|| sluice_tap::client(&tap_config)).transpose()?;
        let mut rights = Rights::default();
        let tap = match sockets.tap {
            None => None,
            Some(socket) => {
                let mut tap = Tap::new(tap_config, credentials.shared(), events.0.clone())?;
                if let Some(till) = Till::of(&rules(&config), shown.subscribe()) {
                    tap = tap.with_guard(Arc::new(till));
                }
                if config.stamp.resume {
                    let ledger = Ledger::new(seen.0.clone(), shown.subscribe(), clock.clone());
                    tap = tap.with_intents(Arc::new(ledger));
                }
                rights = tap.rights();
                Some((tap, listener(socket)?))
            }
        };
        let braket = Braket::new(credentials.clone(), config.endpoint.clone())
            .through(config.hosts, http::client(&config.roots));
        let variable = |name: &str| std::env::var(name).ok();
        let routes = config.resources.clone();
        let rest = Rest::new(client_of_resources, routes, &variable, &rights);
        Ok(Self {
            vendors: Arc::new(Vendors::new(braket, rest)),
            credentials,
            tap,
            control: listener(sockets.control)?,
            client,
            seen,
            events,
            shown,
            quota,
            clock,
            ask_for_time: || (),
            config,
        })
    }

    /// Shows what is known, now and later.
    #[must_use]
    pub fn shown(&self) -> watch::Receiver<Arc<State>> {
        self.shown.subscribe()
    }

    /// The same with a way to ask for more time to end.
    #[must_use]
    pub fn asking(self, ask_for_time: fn()) -> Self {
        Self { ask_for_time, ..self }
    }

    /// Runs until told to stop, and ends within two seconds then, or with live tasks within
    /// [`LONGEST`](crate::ending::act::LONGEST) more.
    ///
    /// # Errors
    /// When a part of it breaks off: the process should end then and be started again.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        introduce(&self.config);
        let (seen, seen_by_loop) = self.seen;
        // Kept until the end, so that the reader also waits where nothing is tapped.
        let (events, events_of_tap) = self.events;
        let (wanted, wanted_by_writer) = watch::channel(None);
        let name = Name {
            gang: self.config.gang.clone(),
            namespace: self.config.namespace.clone(),
            pod_uid: self.config.pod_uid.clone(),
        };
        let mut gang = spawn_gang(self.client, name, seen.clone(), wanted_by_writer);
        let locate = Arc::clone(&self.vendors);
        let router = control::router(Control {
            seen: seen.clone(),
            shown: self.shown.subscribe(),
            locate: Arc::new(move |resource, id| locate.place(resource, id)),
        });
        let mut control = tokio::spawn(axum::serve(self.control, router).into_future());
        let mut intake = tokio::spawn(intake::run(events_of_tap, seen, self.credentials));
        let mut tapped = tokio::spawn(serve_tap(self.tap, stop.clone()));
        let ended = CancellationToken::new();
        let mut shown = self.shown.subscribe();
        let (vendor, clock) = (Arc::clone(&self.vendors), self.clock.clone());
        let watch = Watch {
            vendor: self.vendors,
            seen: seen_by_loop,
            wanted,
            shown: self.shown,
            clock: self.clock,
            quota: self.quota,
        };
        let mut watch = tokio::spawn(watch.run(ended.clone()));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = &mut watch => bail!("the follower broke off"),
            _ = &mut tapped => bail!("the tap broke off"),
            _ = &mut intake => bail!("the reader of the tap broke off"),
            _ = &mut control => bail!("the announcement server broke off"),
            what = gang.broken() => bail!("{what} broke off"),
        }
        // The tap ends by itself; what it still tells is taken in before the loop ends.
        if let Err(error) = tapped.await {
            error!("the tap broke off at the end: {error}");
        }
        drop(events);
        if tokio::time::timeout(LAST_WRITE, intake).await.is_err() {
            warn!("the last events of the tap were not taken in in time");
        }
        // The follower goes on meanwhile: it is told of the gang.
        let may_cancel = self.config.stamp.cancel_on_delete;
        let cancelled = settle(may_cancel, &*vendor, &mut shown, &clock, self.ask_for_time).await;
        ended.cancel();
        let state = watch.await.context("the follower broke off at the end")?;
        info!("{}", report::farewell(&state, &cancelled));
        control.abort();
        gang.end().await;
        Ok(())
    }
}

async fn serve_tap(tap: Option<(Tap, AsyncListener)>, stop: CancellationToken) {
    match tap {
        Some((tap, socket)) => tap.serve(socket, stop).await,
        None => stop.cancelled().await,
    }
}

fn listener(socket: TcpListener) -> Result<AsyncListener> {
    socket.set_nonblocking(true).context("a socket cannot be used")?;
    AsyncListener::from_std(socket).context("a socket cannot be used")
}

fn rules(config: &Config) -> Rules {
    Rules {
        role: config.role,
        policy: config.stamp.policy,
        needed: config.stamp.tasks,
        follow: config.stamp.follow,
        backend: config.stamp.backend.clone(),
        mismatch: config.stamp.mismatch,
        max_cost: config.stamp.max_cost,
        incarnation: config.pod_uid.clone(),
        gang: format!("{}/{}", config.namespace, config.gang),
        announce_url: format!("http://127.0.0.1:{}", config.control_port),
        hints: config.hints.clone(),
    }
}

fn introduce(config: &Config) {
    let Config { role, stamp, namespace, gang, .. } = config;
    let waits = match stamp.consumers() {
        0 => "nothing is gated".to_owned(),
        n => format!("{n} consumers wait for {} ({} task(s))", stamp.policy, stamp.tasks),
    };
    info!("sidecar of a {role} in gang {namespace}/{gang}: {waits}");
    for hint in &config.hints {
        warn!("{hint}");
    }
    let port = config.control_port;
    if let Some(why) = &config.not_tapped {
        warn!(
            "the program is not tapped: {why}; it has to tell its task: POST \
             http://127.0.0.1:{port}/v1/tasks {{\"id\": \"<task id>\"}}"
        );
    }
}

/// The tasks that speak with the API server.
struct Gang {
    observer: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Gang {
    /// Waits until one of them ends, which they should not, and names it.
    async fn broken(&mut self) -> &'static str {
        tokio::select! {
            _ = &mut self.observer => "the watch of the gang",
            _ = &mut self.writer => "the writer of the gang's status",
        }
    }

    async fn end(self) {
        self.observer.abort();
        // The loop has gone, so the writer ends after the last write.
        if tokio::time::timeout(LAST_WRITE, self.writer).await.is_err() {
            warn!("the last state could not be written to the gang in time");
        }
    }
}

fn spawn_gang(
    client: Option<Client>,
    name: Name,
    seen: mpsc::Sender<Seen>,
    wanted: watch::Receiver<Option<sluice_shared::gang::VendorStatus>>,
) -> Gang {
    let (found, mut client_found) = watch::channel(client.clone());
    let observed = name.clone();
    let watching = tokio::spawn(async move {
        let client = match client {
            Some(client) => client,
            None => connect().await,
        };
        found.send_replace(Some(client.clone()));
        observe(api(client, &observed.namespace), observed, seen).await;
    });
    let writer = tokio::spawn(async move {
        let client = match client_found.wait_for(Option::is_some).await {
            Ok(client) => client.clone(),
            Err(_) => return,
        };
        if let Some(client) = client {
            write(api(client, &name.namespace), name, wanted).await;
        }
    });
    Gang { observer: watching, writer }
}

//! The cluster as a value: up, clients, single components, down.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::try_join_all;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Node, ServiceAccount},
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::process::Signal;

use crate::{
    components::{ALL, Component, Wishes},
    credentials,
    error::{Error, Result, make_dir, read, write},
    host, images,
    layout::Layout,
    network::{NODE_ADDRESS, NODE_NAME},
    owner::{Owner, Turn, is_running, processes},
    prerequisites::{self, Need},
    process::{self, Identity},
    programs::{self, Programs},
    progress::Step,
    readiness::Probe,
    release::{Release, V1_36},
    settings,
    wait::await_condition,
};

/// How a cluster should be.
#[derive(Debug, Clone)]
pub struct Options {
    /// The state directory; below the cache if none is given.
    pub dir: Option<PathBuf>,
    /// The version of Kubernetes.
    pub release: &'static Release,
    /// Feature gates on top of the release's, as in `WorkloadWithJob`.
    pub features: Vec<String>,
    /// Nodes without machines, played by kwok.
    pub fake_nodes: u32,
    /// Stays up after this process has ended. Else it is stopped when the last clone of the
    /// [`Lab`] goes, and if the process is killed before, by the next `up`.
    pub detached: bool,
    /// How long to wait for another cluster of this machine to go; not at all by default.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dir: None,
            release: &V1_36,
            features: Vec::new(),
            fake_nodes: 0,
            detached: false,
            patience: Duration::ZERO,
        }
    }
}

/// A running cluster.
#[derive(Clone)]
pub struct Lab {
    layout: Layout,
    programs: Programs,
    release: &'static Release,
    wishes: Wishes,
    client: Client,
    /// Stops the cluster when the last clone goes, unless that was done or is not our task.
    keeper: Option<Arc<Keeper>>,
}

#[derive(Debug)]
struct Keeper {
    layout: Layout,
    stopped: AtomicBool,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        eprintln!("stopping the cluster; its logs are kept in {}", self.layout.logs().display());
        if let Err(error) = Turn::take().and_then(|_turn| sweep(&self.layout)) {
            eprintln!("the cluster could not be stopped: {}", error.chain());
        }
    }
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab")
            .field("layout", &self.layout)
            .field("wishes", &self.wishes)
            .finish_non_exhaustive()
    }
}

impl Lab {
    /// Builds what is missing and starts a cluster; returns when its node is ready.
    ///
    /// What an earlier run left is cleared first. On failure everything is stopped again and the
    /// logs are kept.
    ///
    /// # Errors
    /// If the machine lacks something, another cluster is in use, or a part does not become
    /// ready; the message says which and where its log is.
    pub async fn up(options: Options) -> Result<Self> {
        let layout = Layout::of(options.dir.as_deref())?;
        let release = options.release;
        let programs = blocking(move || {
            prerequisites::ensure(Need::Cluster)?;
            programs::build(release)
        })
        .await?;
        let wishes =
            Wishes { version: release.version.to_owned(), features: options.features.clone() };
        let turn = take_machine(&layout, &wishes, options.patience).await?;
        let started = async {
            let client = boot(&layout, &programs, release, &wishes).await?;
            let lab =
                Self { layout: layout.clone(), programs, release, wishes, client, keeper: None };
            if options.fake_nodes > 0 {
                lab.add_fake_nodes(options.fake_nodes).await?;
            }
            Ok(lab)
        }
        .await;
        match started {
            Ok(mut lab) => {
                if options.detached {
                    Owner { dir: layout.root().to_owned(), holder: None }.record()?;
                } else {
                    lab.keeper = Some(Arc::new(Keeper { layout, stopped: AtomicBool::new(false) }));
                }
                drop(turn);
                Ok(lab)
            }
            Err(error) => {
                eprintln!(
                    "the cluster did not start; the logs are kept in {}",
                    layout.logs().display()
                );
                blocking(move || sweep(&layout)).await?;
                Err(error)
            }
        }
    }

    /// The cluster that runs from a state directory.
    ///
    /// # Errors
    /// If none does.
    pub async fn attach(dir: Option<&Path>) -> Result<Self> {
        let layout = Layout::of(dir)?;
        if !is_running(&layout) {
            return Err(Error::NotRunning(layout.root().display().to_string()));
        }
        let wishes: Wishes = serde_json::from_str(&read(&layout.wishes())?).map_err(|e| {
            Error::Invalid(format!(
                "{} is damaged ({e}): run `lab down`",
                layout.wishes().display()
            ))
        })?;
        let release = Release::of(&wishes.version).ok_or_else(|| {
            Error::Invalid(format!("this lab does not know Kubernetes {}", wishes.version))
        })?;
        let programs = blocking(move || programs::build(release)).await?;
        let client = client(&layout.kubeconfig()).await?;
        Ok(Self { layout, programs, release, wishes, client, keeper: None })
    }

    /// Attaches to the cluster of the state directory if one runs, else starts one.
    ///
    /// # Errors
    /// As [`Lab::up`] and [`Lab::attach`].
    pub async fn open(options: Options) -> Result<Self> {
        match Self::attach(options.dir.as_deref()).await {
            Err(Error::NotRunning(_)) => Self::up(options).await,
            other => other,
        }
    }

    /// Stops everything and removes what is left of it, but the logs.
    ///
    /// # Errors
    /// If something cannot be stopped or removed.
    pub async fn down(self) -> Result<()> {
        if let Some(keeper) = &self.keeper {
            keeper.stopped.store(true, Ordering::Relaxed);
        }
        down_from(&self.layout).await
    }

    /// The administrator's client.
    #[must_use]
    pub fn kube(&self) -> Client {
        self.client.clone()
    }

    /// A client that shows this bearer token instead of the administrator's.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub async fn client_as(&self, token: &str) -> Result<Client> {
        let mut config = config(&self.layout.kubeconfig()).await?;
        config.auth_info.token = Some(token.to_owned().into());
        Client::try_from(config).map_err(Error::kube("make a client with a token"))
    }

    /// A token of a service account, not bound to any pod, valid for an hour.
    ///
    /// # Errors
    /// If the account does not exist.
    pub async fn service_account_token(&self, namespace: &str, account: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.kube(), namespace);
        let wish = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let doing = format!("get a token of the service account {namespace}/{account}");
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &wish)
            .await
            .map_err(Error::kube(&doing))?;
        answer
            .status
            .and_then(|status| status.token)
            .ok_or_else(|| Error::Invalid(format!("could not {doing}: the answer has none")))
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// The path of the built `kubectl`.
    #[must_use]
    pub fn kubectl(&self) -> PathBuf {
        self.programs.path("kubectl")
    }

    /// The node's address: programs of the host that pods should reach listen here.
    #[must_use]
    pub fn node_address(&self) -> std::net::Ipv4Addr {
        NODE_ADDRESS
    }

    /// The version of Kubernetes that runs.
    #[must_use]
    pub fn release(&self) -> &'static Release {
        self.release
    }

    /// Where things are.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The process of a component, as in `kube-apiserver`.
    ///
    /// # Errors
    /// If there is no such component, or it does not run.
    pub fn process(&self, component: &str) -> Result<Identity> {
        let component = Component::named(component)?;
        process::recall(&self.layout.pid(component.name()))
            .filter(Identity::is_alive)
            .ok_or_else(|| Error::Invalid(format!("{} does not run", component.name())))
    }

    /// Asks a component to end, and kills it after ten seconds. Returns when it is gone.
    ///
    /// # Errors
    /// If it does not run or does not end.
    pub async fn stop(&self, component: &str) -> Result<()> {
        let identity = self.process(component)?;
        blocking(move || identity.stop(Duration::from_secs(10))).await
    }

    /// Kills a component. Returns when it is gone.
    ///
    /// # Errors
    /// If it does not run or does not end.
    pub async fn kill(&self, component: &str) -> Result<()> {
        let identity = self.process(component)?;
        blocking(move || identity.kill()).await
    }

    /// Halts a component without ending it: its connections stay open and nothing answers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn freeze(&self, component: &str) -> Result<()> {
        self.process(component)?.signal(Signal::STOP);
        Ok(())
    }

    /// Lets a halted component go on.
    ///
    /// # Errors
    /// If it does not run.
    pub fn thaw(&self, component: &str) -> Result<()> {
        self.process(component)?.signal(Signal::CONT);
        Ok(())
    }

    /// Starts a component again and waits until it is ready.
    ///
    /// # Errors
    /// If it runs already or does not become ready.
    pub async fn start(&self, component: &str) -> Result<()> {
        if let Ok(running) = self.process(component) {
            return Err(Error::Invalid(format!(
                "{component} runs already, as process {}",
                running.pid
            )));
        }
        let component = Component::named(component)?;
        let identity = launch(component, &self.layout, &self.programs, self.release, &self.wishes)?;
        Probe::of(&self.layout)?.until_ready(component, &identity, &self.layout).await
    }
}

/// Stops the cluster of a state directory and removes what is left of it, but the logs. Nothing
/// happens if there is none.
///
/// # Errors
/// If something cannot be stopped or removed.
pub async fn down(dir: Option<&Path>) -> Result<()> {
    down_from(&Layout::of(dir)?).await
}

async fn down_from(layout: &Layout) -> Result<()> {
    let layout = layout.clone();
    let step = Step::begin("stopping the cluster", false);
    blocking(move || {
        let _turn = Turn::take()?;
        sweep(&layout)
    })
    .await?;
    step.done();
    Ok(())
}

/// What runs, for people: each component with its process, or that it does not run.
///
/// # Errors
/// If the state directory's path cannot be used.
pub fn status(dir: Option<&Path>) -> Result<Vec<(&'static str, Option<Identity>)>> {
    let layout = Layout::of(dir)?;
    let of = |component: Component| {
        process::recall(&layout.pid(component.name())).filter(Identity::is_alive)
    };
    Ok(ALL.map(|component| (component.name(), of(component))).into())
}

/// Takes the machine and prepares it, once no other cluster has it.
async fn take_machine(layout: &Layout, wishes: &Wishes, patience: Duration) -> Result<Turn> {
    let begun = std::time::Instant::now();
    let mut waiting: Option<Step> = None;
    loop {
        let turn = blocking(Turn::take).await?;
        let (place, wished) = (layout.clone(), wishes.clone());
        let prepared = blocking(move || {
            let free = clear_stale()?;
            if free.is_none() {
                prepare(&place, &wished)?;
            }
            Ok(free)
        })
        .await?;
        let Some(dir) = prepared else {
            if let Some(step) = waiting {
                step.done();
            }
            return Ok(turn);
        };
        let dir = dir.display();
        if begun.elapsed() >= patience {
            return Err(Error::Occupied(format!(
                "a cluster runs already, from {dir}, and there can be one at a time: stop it with `lab down --dir {dir}`"
            )));
        }
        drop(turn);
        waiting.get_or_insert_with(|| {
            Step::begin(format!("waiting for the cluster of {dir} to go"), true)
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Clears away a cluster that nobody uses any more. Returns the directory of one that is in use.
fn clear_stale() -> Result<Option<PathBuf>> {
    let Some(owner) = Owner::recorded() else { return Ok(None) };
    if owner.in_use() {
        return Ok(Some(owner.dir));
    }
    sweep(&Layout::of(Some(&owner.dir))?)?;
    Ok(None)
}

/// Writes all files of a new cluster, takes the machine and makes the networks.
fn prepare(layout: &Layout, wishes: &Wishes) -> Result<()> {
    sweep(layout)?;
    make_dir(layout.root())?;
    host::fresh_logs(layout)?;
    Owner { dir: layout.root().to_owned(), holder: Identity::own() }.record()?;
    host::prepare(layout)?;
    credentials::make(layout)?;
    write(&layout.wishes(), serde_json::to_vec(wishes).unwrap_or_default())?;
    let overlay = host::takes_overlay(layout.root());
    write(&layout.settings("containerd.toml"), settings::containerd(layout, overlay))?;
    write(&layout.settings("kubelet.json"), settings::kubelet(layout).to_string())?;
    write(&layout.cni().join("net.d/10-lab.conflist"), settings::cni(layout).to_string())?;
    make_dir(&layout.kubelet())
}

/// Starts all components and waits for the node.
async fn boot(
    layout: &Layout,
    programs: &Programs,
    release: &Release,
    wishes: &Wishes,
) -> Result<Client> {
    let probe = Probe::of(layout)?;
    let start = |component| launch(component, layout, programs, release, wishes);
    let ready = async |component: Component, identity: Identity| {
        let step = Step::begin(format!("starting {}", component.name()), false);
        probe.until_ready(component, &identity, layout).await?;
        step.done();
        Ok::<(), Error>(())
    };
    let containerd = start(Component::Containerd)?;
    ready(Component::Etcd, start(Component::Etcd)?).await?;
    ready(Component::ApiServer, start(Component::ApiServer)?).await?;
    ready(Component::Containerd, containerd).await?;
    images::load(layout, &images::pause(programs)).await?;
    let rest =
        [Component::ControllerManager, Component::Scheduler, Component::Proxy, Component::Kubelet];
    let mut waits = Vec::new();
    for component in rest {
        waits.push(ready(component, start(component)?));
    }
    try_join_all(waits).await?;
    let client = client(&layout.kubeconfig()).await?;
    let step = Step::begin("waiting for the node", false);
    let nodes: Api<Node> = Api::all(client.clone());
    await_condition(&nodes, NODE_NAME, "the node is ready", Duration::from_secs(120), is_ready)
        .await?;
    // Pods are refused until the controller manager has made this account.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let limit = Duration::from_secs(60);
    await_condition(&accounts, "default", "the default service account exists", limit, |_| true)
        .await?;
    step.done();
    Ok(client)
}

/// Is the node ready?
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

pub(crate) fn launch(
    component: Component,
    layout: &Layout,
    programs: &Programs,
    release: &Release,
    wishes: &Wishes,
) -> Result<Identity> {
    let launch = component.launch(layout, programs, release, wishes);
    let log = layout.log(component.name());
    let identity = process::spawn(&launch.program, &launch.args, &log, layout.root())?;
    process::remember(&layout.pid(component.name()), &identity)?;
    Ok(identity)
}

/// Stops every process of a cluster, the last started first, then removes what is left.
fn sweep(layout: &Layout) -> Result<()> {
    // kubelet first, so that nothing starts again what is being stopped.
    for component in ALL.into_iter().rev() {
        if component == Component::Containerd {
            for container in process::containers_of(&layout.socket()) {
                container.kill()?;
            }
        }
        for identity in processes(layout, component) {
            identity.stop(grace(component))?;
        }
    }
    host::clear(layout)?;
    if Owner::recorded().is_some_and(|owner| owner.dir == layout.root()) {
        Owner::forget()?;
    }
    Ok(())
}

/// How long a component may take to end. Nothing of it is kept, so not long.
fn grace(component: Component) -> Duration {
    match component {
        // It waits for the watches of its clients.
        Component::ApiServer => Duration::from_secs(1),
        _ => Duration::from_secs(3),
    }
}

async fn config(kubeconfig: &Path) -> Result<Config> {
    let bad = |e: kube::config::KubeconfigError| {
        Error::Invalid(format!("{} cannot be used: {e}", kubeconfig.display()))
    };
    let file = Kubeconfig::read_from(kubeconfig).map_err(bad)?;
    let mut config =
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(bad)?;
    // A proxy of the environment has no business on the way to this machine.
    config.proxy_url = None;
    Ok(config)
}

pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    // Fails only if there is one already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Client::try_from(config(kubeconfig).await?).map_err(Error::kube("make a client"))
}

/// Runs blocking work beside the runtime's own threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::Invalid(format!("a step of the lab ended early: {e}")))?
}

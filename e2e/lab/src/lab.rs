//! The cluster as a value: up, clients, down.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{
    command::blocking,
    components::Wishes,
    error::{Error, Result, read},
    layout::Layout,
    network::NODE_ADDRESS,
    owner::{Owner, is_running},
    prerequisites::{self, Need},
    programs::{self, Programs},
    release::{Release, V1_36},
    shutdown::{Keeper, down_from, sweep},
    startup::{boot, take_machine},
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
            let client = Box::pin(boot(&layout, &programs, release, &wishes)).await?;
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
                    lab.keeper = Some(Arc::new(Keeper::of(layout)));
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
            keeper.dismiss();
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

    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    pub(crate) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Where things are.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
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

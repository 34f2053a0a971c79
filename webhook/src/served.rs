//! What the cluster serves: whether pods can name a `PodGroup`.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::Client;
use tokio_util::sync::CancellationToken;

/// Group of the native gang scheduling API.
const GROUP: &str = "scheduling.k8s.io";
/// Versions that have `PodGroup`, best first.
const VERSIONS: [&str; 3] = ["v1beta1", "v1alpha3", "v1alpha2"];
/// The resource.
const RESOURCE: &str = "podgroups";
/// How often the cluster is asked again: an upgrade takes longer.
const REFRESH: Duration = Duration::from_mins(1);
/// How soon it is asked again when it did not answer.
const RETRY: Duration = Duration::from_secs(2);
/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the cluster serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Served {
    /// Pods can name a `PodGroup`.
    pub pod_groups: bool,
}

/// The latest answer, shared with the requests.
#[derive(Debug, Clone, Default)]
pub struct Latest(Arc<ArcSwap<Served>>);

impl Latest {
    /// An answer to start with.
    #[must_use]
    pub fn new(served: Served) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(served)))
    }

    /// The latest answer.
    #[must_use]
    pub fn get(&self) -> Served {
        **self.0.load()
    }

    /// Takes a new answer and says whether it is different.
    fn put(&self, served: Served) -> bool {
        *self.0.swap(Arc::new(served)) != served
    }
}

/// Asks the cluster now and then. The first answer is told by `known`.
pub async fn follow(client: Client, latest: Latest, known: impl FnOnce(), stop: CancellationToken) {
    let mut known = Some(known);
    loop {
        let answer = match tokio::time::timeout(TIMEOUT, ask(&client)).await {
            Ok(answer) => answer.map_err(|e| e.to_string()),
            Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        let pause = match answer {
            Ok(served) => {
                if latest.put(served) || known.is_some() {
                    tracing::info!(pod_groups = served.pod_groups, "asked what the cluster serves");
                }
                if let Some(known) = known.take() {
                    known();
                }
                REFRESH
            }
            Err(error) => {
                tracing::warn!(
                    error,
                    "cannot ask the API server what it serves; check that it is reachable, asking \
                     again"
                );
                RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn ask(client: &Client) -> kube::Result<Served> {
    let groups = client.list_api_groups().await?;
    let versions: Vec<String> = groups
        .groups
        .into_iter()
        .filter(|g| g.name == GROUP)
        .flat_map(|g| g.versions)
        .map(|v| v.version)
        .filter(|v| VERSIONS.contains(&v.as_str()))
        .collect();
    for version in versions {
        let list = client.list_api_group_resources(&format!("{GROUP}/{version}")).await?;
        if list.resources.iter().any(|r| r.name == RESOURCE) {
            return Ok(Served { pod_groups: true });
        }
    }
    Ok(Served { pod_groups: false })
}

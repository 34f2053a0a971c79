//! The watches: what the API server tells, cut down and handed to the loop.

use std::fmt::Debug;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use sluice_shared::gang::QuantumGang;
use sluice_shared::names;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::call::{self, CallError};
use crate::complaint::Complaint;
use crate::facts::gang::GangSeen;
use crate::facts::group::{GroupSeen, RawGroup};
use crate::facts::job::{JobSeen, RawJob, StrayJob};
use crate::facts::pod::{PodSeen, RawPod};
use crate::shelf::Change;

/// Group of the `PodGroup`.
const SCHEDULING: &str = "scheduling.k8s.io";
/// Versions of the `PodGroup` that are known, the best first.
const GROUP_VERSIONS: [&str; 3] = ["v1beta1", "v1alpha3", "v1alpha2"];
/// How often a cluster without `PodGroup`s is asked again: an upgrade may bring them.
const ASK_AGAIN: Duration = Duration::from_mins(5);

/// One thing that was seen.
#[derive(Debug)]
pub(crate) enum Observation {
    Job(Change<JobSeen>),
    Pod(Change<PodSeen>),
    Gang(Box<Change<GangSeen>>),
    Group(Change<GroupSeen>),
    /// A quantum Job that nobody stamped.
    Stray(StrayJob),
    /// In which version `PodGroup`s are served from now on.
    Served(Option<ApiResource>),
}

/// Starts all watches. They run until the set is dropped.
pub(crate) fn start(client: &Client, limit: Duration, to: &Sender<Observation>) -> JoinSet<()> {
    let mut set = JoinSet::new();
    let jobs = ApiResource::erase::<Job>(&());
    let pods = ApiResource::erase::<Pod>(&());
    let ours = watcher::Config::default().labels(&format!(
        "{}={}",
        names::JOB_LABEL,
        names::JOB_LABEL_VALUE
    ));
    set.spawn(follow(
        Watch {
            what: "Jobs with Sluice's label",
            api: Api::<RawJob>::all_with(client.clone(), &jobs),
            config: ours,
        },
        |job| Some(JobSeen::of(&job)),
        |change| Some(Observation::Job(change)),
        to.clone(),
    ));
    let others = watcher::Config::default().labels(&format!("!{}", names::JOB_LABEL));
    set.spawn(follow(
        Watch {
            what: "Jobs without Sluice's label",
            api: Api::<RawJob>::all_with(client.clone(), &jobs),
            config: others,
        },
        |job| StrayJob::of(&job),
        |change| match change {
            Change::Listed(stray) | Change::Applied(stray) => Some(Observation::Stray(stray)),
            Change::Begin | Change::End | Change::Gone(_) => None,
        },
        to.clone(),
    ));
    let shaped = watcher::Config::default().labels(names::ROLE);
    set.spawn(follow(
        Watch {
            what: "pods with a role",
            api: Api::<RawPod>::all_with(client.clone(), &pods),
            config: shaped,
        },
        |pod| PodSeen::of(&pod),
        |change| Some(Observation::Pod(change)),
        to.clone(),
    ));
    set.spawn(follow(
        Watch {
            what: "QuantumGangs (is their CustomResourceDefinition installed?)",
            api: Api::<QuantumGang>::all(client.clone()),
            config: watcher::Config::default(),
        },
        |gang| Some(GangSeen::of(gang)),
        |change| Some(Observation::Gang(Box::new(change))),
        to.clone(),
    ));
    set.spawn(follow_groups(client.clone(), limit, to.clone()));
    set
}

/// The pauses between the tries of a watch, without end. The client's own begin at 0.8 s and grow
/// to half a minute, which is long for pods that wait.
struct Pauses(ExponentialBackoff);

impl Pauses {
    fn new() -> Self {
        let builder = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(5))
            .with_jitter()
            .without_max_times();
        Self(builder.build())
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        *self = Self::new();
    }
}

/// What is watched.
struct Watch<K> {
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
}

/// Follows one watch until nobody listens. The watch itself starts over for ever.
async fn follow<K, T>(
    watch: Watch<K>,
    read: impl Fn(K) -> Option<T> + Send,
    wrap: impl Fn(Change<T>) -> Option<Observation> + Send,
    to: Sender<Observation>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Send,
{
    let mut complaint = Complaint::new();
    let stream = watch::watcher(watch.api, watch.config).backoff(Pauses::new());
    futures::pin_mut!(stream);
    while let Some(event) = stream.next().await {
        let change = match event {
            Err(error) => {
                complaint.raise(|| {
                    format!("cannot watch {}, trying again without end: {error}", watch.what)
                });
                continue;
            }
            Ok(Event::Init) => Some(Change::Begin),
            Ok(Event::InitDone) => {
                complaint.settle(|| format!("watching {} again", watch.what));
                Some(Change::End)
            }
            Ok(Event::InitApply(item)) => read(item).map(Change::Listed),
            Ok(Event::Apply(item)) => read(item).map(Change::Applied),
            Ok(Event::Delete(item)) => item.uid().map(Change::Gone),
        };
        if let Some(observation) = change.and_then(&wrap)
            && to.send(observation).await.is_err()
        {
            return;
        }
    }
}

/// Follows `PodGroup`s in the version that is served, if any is.
async fn follow_groups(client: Client, limit: Duration, to: Sender<Observation>) {
    let mut complaint = Complaint::new();
    let mut known: Option<Option<ApiResource>> = None;
    let mut watching = JoinSet::new();
    loop {
        let pause = match served(&client, limit).await {
            Ok(served) => {
                complaint.settle(|| "the API server tells its PodGroup versions again".to_owned());
                if known.as_ref() != Some(&served) {
                    known = Some(served.clone());
                    watching.abort_all();
                    say(served.as_ref());
                    if to.send(Observation::Served(served.clone())).await.is_err() {
                        return;
                    }
                    if let Some(resource) = served {
                        watching.spawn(watch_groups(client.clone(), resource, to.clone()));
                    }
                }
                ASK_AGAIN
            }
            Err(error) => {
                complaint.raise(|| format!("cannot find out which PodGroups are served: {error}"));
                Duration::from_secs(2)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

fn say(served: Option<&ApiResource>) {
    if let Some(resource) = served {
        tracing::info!(version = resource.version, "PodGroups are served");
    } else {
        tracing::info!("PodGroups are not served, consumers are placed one by one");
    }
}

async fn watch_groups(client: Client, resource: ApiResource, to: Sender<Observation>) {
    let label = format!("{}={}", names::MANAGED_BY, names::MANAGED_BY_VALUE);
    let watch = Watch {
        what: "PodGroups",
        api: Api::<RawGroup>::all_with(client, &resource),
        config: watcher::Config::default().labels(&label),
    };
    let wrap = |change| Some(Observation::Group(change));
    follow(watch, |group| Some(GroupSeen::of(&group)), wrap, to).await;
}

/// The best version in which `PodGroup`s are served, `None` when there are none.
async fn served(client: &Client, limit: Duration) -> Result<Option<ApiResource>, CallError> {
    for version in GROUP_VERSIONS {
        let api_version = format!("{SCHEDULING}/{version}");
        let asked = client.list_api_group_resources(&api_version);
        match call::within(limit, "read the PodGroup version", asked).await {
            Ok(list)
                if list.resources.iter().any(|r| r.kind == "PodGroup" && r.name == "podgroups") =>
            {
                let kind = GroupVersionKind::gvk(SCHEDULING, version, "PodGroup");
                return Ok(Some(ApiResource::from_gvk_with_plural(&kind, "podgroups")));
            }
            Ok(_) => {}
            Err(error) if error.code() == Some(404) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

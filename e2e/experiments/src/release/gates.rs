//! The one watch that times both arms.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use sluice_shared::{gate, names};
use tokio::task::JoinHandle;

use super::LIMIT;
use super::jobs::Waiting;

/// When gates were seen open, counted from the start of the release.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    /// The first one.
    pub(super) first: Duration,
    /// The last one.
    pub(super) last: Duration,
}

/// A watch that waits for the gates of some pods to go.
pub(super) struct GateWatch {
    seen: JoinHandle<Result<(Instant, Instant)>>,
}

impl GateWatch {
    /// Starts to watch. When this returns the watch is open, so nothing is missed.
    pub(super) async fn start(waiting: &Waiting) -> Result<Self> {
        let api = waiting.api().clone();
        let selection = waiting.selection();
        let list = api.list(&ListParams::default().labels(&selection)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut held = Held::of(&list.items);
        ensure!(
            held.0.len() == waiting.pods.len(),
            "{} gates are there, {} were put up; somebody opens them already",
            held.0.len(),
            waiting.pods.len()
        );
        let params = WatchParams::default().labels(&selection);
        let stream = api.watch(&params, &version).await?;
        let watching = async move {
            let mut events = std::pin::pin!(stream);
            let mut first = None;
            loop {
                let event = events.next().await.context("the watch of pods ended")??;
                let now = Instant::now();
                match event {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        if held.opened(&pod) {
                            let first = *first.get_or_insert(now);
                            if held.0.is_empty() {
                                return Ok((first, now));
                            }
                        }
                    }
                    WatchEvent::Deleted(pod) => bail!("the pod {} is gone", pod.name_any()),
                    WatchEvent::Error(status) => {
                        bail!("the watch of pods broke: {}", status.message)
                    }
                    WatchEvent::Bookmark(_) => {}
                }
            }
        };
        Ok(Self { seen: tokio::spawn(watching) })
    }

    /// Waits until the last gate is gone. Times count from `start`; what was seen before it, since
    /// the answer to the order came later than the news of it, counts as no time.
    pub(super) async fn opened(self, start: Instant) -> Result<Opened> {
        let seen = tokio::time::timeout(LIMIT, self.seen).await;
        let (first, last) = seen.context("the gates do not open; is the keeper running?")???;
        let since = |at: Instant| at.saturating_duration_since(start);
        Ok(Opened { first: since(first), last: since(last) })
    }
}

/// Uids of pods that the gate holds.
struct Held(HashSet<String>);

impl Held {
    fn of(pods: &[Pod]) -> Self {
        Self(pods.iter().filter(|p| gate::holds(p, names::GATE)).filter_map(Pod::uid).collect())
    }

    /// Takes in a pod; says whether its gate has gone just now.
    fn opened(&mut self, pod: &Pod) -> bool {
        !gate::holds(pod, names::GATE) && pod.uid().is_some_and(|uid| self.0.remove(&uid))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_pod(uid: &str, gates: &[&str]) -> Pod {
        let gates: Vec<_> = gates.iter().map(|g| json!({"name": g})).collect();
        let spec = json!({"containers": [], "schedulingGates": gates});
        serde_json::from_value(json!({"metadata": {"uid": uid}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_gate_goes_once_and_only_ours_counts() {
        let mut held = Held::of(&[mk_pod("a", &[names::GATE, "x/y"]), mk_pod("p", &[])]);
        assert!(!held.opened(&mk_pod("a", &[names::GATE])), "another gate went");
        assert!(!held.opened(&mk_pod("p", &[])), "was never held");
        assert!(held.opened(&mk_pod("a", &["x/y"])));
        assert!(!held.opened(&mk_pod("a", &[])), "its status changed later");
        assert!(held.0.is_empty());
    }
}

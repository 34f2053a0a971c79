//! One arm of the comparison: the Job runs, one watches, the pods' own times are collected.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{LogParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde::Deserialize;
use serde_json::json;
use sluice_shared::gang::QuantumGang;
use sluice_shared::{names, naming};
use sluice_stories::job::{Draft, PROGRAM};
use sluice_stories::stage::{Stage, gated, started};

use crate::screen::Screen;

const JOB: &str = "maxcut";
/// Pods of the Job: one producer and seven consumers.
const PODS: u32 = 8;
/// How long changes of pods are gathered before they are shown.
const BURST: Duration = Duration::from_millis(300);

/// Whether Sluice holds the consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gating {
    /// The Job requests a qpu.
    Gated,
    /// The same Job without that request: Sluice never sees it.
    Ungated,
}

impl Gating {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Gated => "With Sluice: one producer submits, seven consumers wait off the nodes",
            Self::Ungated => "Without: the same Job, all eight pods start at once",
        }
    }

    /// The word in the comparison.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gated => "gated",
            Self::Ungated => "ungated",
        }
    }
}

/// What a pod says of itself in its `times` line; seconds since the epoch.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Times {
    pub(crate) role: String,
    /// The interpreter runs.
    pub(crate) born: f64,
    /// All imports are done.
    pub(crate) imported: f64,
    /// The result is in hand.
    pub(crate) result: f64,
    /// The pod's own work is done.
    pub(crate) done: f64,
}

/// A pod of the arm.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// When a node was taken for it.
    pub(crate) placed: f64,
    pub(crate) times: Times,
}

/// What an arm gave.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) gating: Gating,
    /// When the Job was created.
    pub(crate) created: f64,
    pub(crate) members: Vec<Member>,
    /// The last line of the producer.
    pub(crate) answer: String,
}

pub(crate) struct Arm<'a> {
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) screen: &'a Screen,
    pub(crate) gating: Gating,
}

impl Arm<'_> {
    pub(crate) async fn run(&self) -> Result<Outcome> {
        let draft = self.draft().await?;
        let created = seconds(Timestamp::now());
        self.screen.begin();
        let job = self.stage.submit(&draft).await?;
        self.screen.line("you", &format!("created job/{JOB}: {PODS} pods"));
        let gang = naming::gang_name(JOB, &job.uid().unwrap_or_default(), None);
        let finished = tokio::select! {
            finished = self.stage.completed(JOB) => finished,
            never = self.watch(&gang) => never.and_then(|()| bail!("the watch ended")),
        };
        let outcome = self.collect(created).await;
        finished?;
        outcome
    }

    async fn draft(&self) -> Result<Draft> {
        let program = json!({
            "metadata": {"name": "maxcut"},
            "data": {"maxcut.py": include_str!("../program/maxcut.py")},
        });
        let maps = self.stage.api::<ConfigMap>();
        maps.create(&PostParams::default(), &serde_json::from_value(program)?).await?;
        let draft = self
            .stage
            .draft(JOB, PODS, "maxcut.py")
            .env("RUN", format!("{JOB}-{}", self.gating.name()))
            .env("SIZE", PODS.to_string());
        let job = draft.job();
        let volumes =
            job["spec"]["template"]["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        let place =
            volumes.iter().position(|v| v.get("configMap").is_some()).context("no programs")?;
        let draft = draft
            .set(&format!("/spec/template/spec/volumes/{place}/configMap/name"), json!("maxcut"));
        Ok(match self.gating {
            Gating::Gated => draft,
            Gating::Ungated => draft.set("/spec/template/spec/containers/0/resources", json!({})),
        })
    }

    /// Shows what happens until the caller stops asking.
    async fn watch(&self, gang: &str) -> Result<()> {
        tokio::try_join!(self.watch_pods(), self.watch_gang(gang), self.follow_producer())?;
        Ok(())
    }

    async fn watch_pods(&self) -> Result<()> {
        let config = watcher::Config::default().labels(&format!("{}={JOB}", names::JOB_NAME));
        let mut pods = std::pin::pin!(
            watcher(self.stage.api::<Pod>(), config).default_backoff().touched_objects()
        );
        let mut held = BTreeMap::new();
        let mut said = (usize::MAX, usize::MAX);
        // Pods change in bursts; one line a burst is enough.
        let mut calm = tokio::time::interval(BURST);
        loop {
            tokio::select! {
                event = pods.next() => match event {
                    Some(Ok(pod)) => {
                        held.insert(pod.name_any(), (gated(&pod), started(&pod)));
                    }
                    Some(Err(_)) => {}
                    None => return Ok(()),
                },
                _ = calm.tick() => {
                    let waiting = held.values().filter(|(gated, _)| *gated).count();
                    let running = held.values().filter(|(_, started)| *started).count();
                    if (waiting, running) != said && held.len() == PODS as usize {
                        said = (waiting, running);
                        self.screen.line("pods", &format!("{waiting} gated, {running} started"));
                    }
                }
            }
        }
    }

    async fn watch_gang(&self, name: &str) -> Result<()> {
        if self.gating == Gating::Ungated {
            return std::future::pending().await;
        }
        let mut gangs =
            std::pin::pin!(watcher::watch_object(self.stage.api::<QuantumGang>(), name));
        let mut said = String::new();
        while let Some(event) = gangs.next().await {
            let Ok(Some(gang)) = event else { continue };
            let message = gang.status.and_then(|s| s.message).unwrap_or_default();
            if message != said {
                self.screen.line("gang", &message);
                said = message;
            }
        }
        Ok(())
    }

    async fn follow_producer(&self) -> Result<()> {
        let pods =
            self.stage.pods(JOB, "the producer runs", |p| p.first().is_some_and(started)).await?;
        let name = pods[0].name_any();
        let program = self.follow(&name, PROGRAM, "program");
        if self.gating == Gating::Ungated {
            return program.await;
        }
        tokio::try_join!(program, self.follow(&name, names::SIDECAR_CONTAINER, "sidecar"))?;
        Ok(())
    }

    async fn follow(&self, pod: &str, container: &str, who: &str) -> Result<()> {
        let how = LogParams {
            container: Some(container.to_owned()),
            follow: true,
            ..LogParams::default()
        };
        let mut lines = self.stage.api::<Pod>().log_stream(pod, &how).await?.lines();
        while let Some(line) = lines.try_next().await? {
            if !line.starts_with("times ") {
                self.screen.line(who, text_of(&line));
            }
        }
        std::future::pending().await
    }

    async fn collect(&self, created: f64) -> Result<Outcome> {
        let pods = self.stage.pods(JOB, "all pods", |p| p.len() == PODS as usize).await?;
        let mut members = Vec::new();
        let mut answer = String::new();
        for pod in &pods {
            let output = self.stage.output(pod).await?;
            let times = output
                .lines()
                .find_map(|line| line.strip_prefix("times "))
                .with_context(|| format!("{} says no times:\n{output}", pod.name_any()))?;
            let times: Times = serde_json::from_str(times)?;
            if times.role == "producer" {
                output.lines().last().unwrap_or_default().clone_into(&mut answer);
            } else if let Some(part) = output.lines().find(|line| line.starts_with("part ")) {
                self.screen.line("consumer", part);
            }
            members.push(Member { placed: placed(pod).context("no time of placement")?, times });
        }
        Ok(Outcome { gating: self.gating, created, members, answer })
    }
}

/// A line of a log without its time and level: the screen has a clock of its own.
fn text_of(line: &str) -> &str {
    let text = [" INFO ", " WARN "].iter().find_map(|level| line.split_once(level));
    text.map_or(line, |(_, text)| text.trim_start())
}

/// When the scheduler gave the pod a node; Kubernetes tells it to the second.
fn placed(pod: &Pod) -> Option<f64> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "True")?;
    Some(seconds(scheduled.last_transition_time.as_ref()?.0))
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

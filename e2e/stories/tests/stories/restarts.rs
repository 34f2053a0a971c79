//! Programs that are started again: nothing is paid for twice, and what is, is told.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::EvictParams;
use serde_json::json;
use sluice_shared::gang::{PodEnd, PodRef, QuantumGang, Task};
use sluice_shared::names;
use sluice_stories::job::Draft;
use sluice_stories::stage::{Stage, gated};
use sluice_stories::world::World;
use sluice_vendors::Ahead;

crate::stories![
    a_program_that_is_started_again_gets_its_task,
    one_that_never_repeats_itself_is_told_of_its_first_task,
];

fn draft(stage: &Stage, name: &str, pods: u32) -> Draft {
    stage
        .draft(name, pods, "again.py")
        .scratch()
        .set("/spec/template/spec/restartPolicy", json!("OnFailure"))
        .set("/spec/backoffLimit", json!(9))
}

fn producer(gang: &QuantumGang) -> Option<&PodRef> {
    gang.status.as_ref()?.producer.as_ref()
}

fn tasks(gang: &QuantumGang) -> &[Task] {
    let vendor = gang.status.as_ref().and_then(|s| s.vendor.as_ref());
    vendor.map_or(&[], |v| &v.tasks)
}

/// The second run of the pod's program has been given a task.
fn took_up(gang: &QuantumGang, pod: &PodRef) -> bool {
    let run = format!("{}/1", pod.uid);
    tasks(gang).iter().any(|t| t.resumed && t.incarnation.as_ref() == Some(&run))
}

async fn a_program_that_is_started_again_gets_its_task(world: &World) -> Result<()> {
    let stage = world
        .stage_with("again", |config| config.by_hand(Ahead { normal: 5, priority: 0 }))
        .await?;
    let job = stage.submit(&draft(&stage, "again", 2)).await?;
    let task = stage.tasks(1).await?.remove(0);
    // Its container fails and is started again in the same pod.
    let gang = stage
        .gang(&job, "the second run has the task of the first", |g| {
            producer(g).is_some_and(|pod| took_up(g, pod))
        })
        .await?;
    let first = producer(&gang).context("no producer")?.clone();
    ensure!(first.restarts == 1 && first.started_at.is_some(), "{first:?}");
    // Its pod is evicted. The next one fails once, too.
    stage.api::<Pod>().evict(&first.pod, &EvictParams::default()).await?;
    let gang = stage
        .gang(&job, "the second run of the next pod has it", |g| {
            producer(g).is_some_and(|pod| pod.uid != first.uid && took_up(g, pod))
        })
        .await?;
    let previous = producer(&gang).and_then(|p| p.previous.clone()).context("no previous")?;
    ensure!(previous.uid == first.uid && previous.end == PodEnd::Disrupted, "{previous:?}");
    let listed: Vec<&str> = tasks(&gang).iter().map(|t| t.id.as_str()).collect();
    ensure!(listed == [task.arn.as_str()], "{listed:?}");
    ensure!(stage.vendor.tasks().len() == 1, "a second task was made");
    // It is followed as ever, and released once.
    let pods = stage.pods("again", "both pods", |pods| pods.iter().any(gated)).await?;
    ensure!(pods.iter().filter(|p| gated(p)).count() == 1, "the consumer waits");
    stage.vendor.step(Some("Garnet"), 5).await?;
    stage.pods("again", "every gate is open", |p| p.iter().all(|p| !gated(p))).await?;
    stage.run_task().await?;
    stage.completed("again").await?;
    ensure!(stage.vendor.tasks().len() == 1, "a second task was made");
    let opened = stage.events("again", names::EVENT_RELEASED).await?;
    ensure!(opened.len() == 1, "{opened:?}");
    let left = stage.events("again", names::EVENT_EARLIER_TASK_LIVES).await?;
    ensure!(left.is_empty(), "{left:?}");
    stage.strike().await
}

async fn one_that_never_repeats_itself_is_told_of_its_first_task(world: &World) -> Result<()> {
    let stage = world
        .stage_with("other", |config| config.by_hand(Ahead { normal: 5, priority: 0 }))
        .await?;
    let job = stage.submit(&draft(&stage, "other", 1).env("OTHER", "1")).await?;
    let first = stage.tasks(1).await?.remove(0);
    let second = stage.tasks(2).await?.into_iter().find(|t| t.arn != first.arn);
    let second = second.context("no second task")?;
    let note = stage.event("other", names::EVENT_EARLIER_TASK_LIVES).await?;
    ensure!(note.contains(&first.arn), "it names the first: {note}");
    let id = sluice_shared::task::short_id(&second.arn);
    ensure!(note.contains(id) && note.contains("both are paid for"), "{note}");
    let gang = stage.gang(&job, "both are listed", |g| tasks(g).len() == 2).await?;
    ensure!(tasks(&gang).iter().all(|t| !t.resumed), "nothing was taken up");
    let pods = stage.pods("other", "one pod", |p| p.len() == 1).await?;
    let log = stage.sidecar_says(&pods[0], "a new task is paid for").await?;
    ensure!(log.contains(&first.arn), "{log}");
    stage.vendor.step(Some("Garnet"), 9).await?;
    stage.completed("other").await?;
    stage.strike().await
}

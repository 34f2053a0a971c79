//! Pods that go while their task waits at the vendor: a deleted Job has it cancelled, everything
//! else leaves it alone.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use sluice_lab::await_value;
use sluice_shared::gang::QuantumGang;
use sluice_stories::stage::{LIMIT, Stage, gated, started};
use sluice_stories::world::World;
use sluice_vendors::Ahead;

crate::stories![
    a_deleted_job_has_its_task_cancelled,
    eviction_and_suspension_keep_the_task;
    alone:
    an_uninstall_keeps_the_task,
];

async fn stage<'w>(world: &'w World, name: &str) -> Result<Stage<'w>> {
    world.stage_with(name, |config| config.by_hand(Ahead { normal: 5, priority: 0 })).await
}

/// Submits a Job and waits until its gang shows the task.
async fn queued(stage: &Stage<'_>, name: &str, program: &str) -> Result<(Job, Pod)> {
    let job = stage.submit(&stage.draft(name, 3, program)).await?;
    let shown = |g: &QuantumGang| g.status.as_ref().is_some_and(|s| s.position.is_some());
    stage.gang(&job, "a position is shown", shown).await?;
    let pods = stage.pods(name, "the producer runs", |p| p.len() == 3 && started(&p[0])).await?;
    ensure!(pods[1..].iter().all(gated), "open before the front");
    Ok((job, pods[0].clone()))
}

async fn cancelled(stage: &Stage<'_>, count: usize) -> Result<()> {
    let what = format!("{count} tasks are cancelled");
    await_value(&what, LIMIT, async || {
        let tasks = stage.vendor.tasks();
        let done = tasks.iter().filter(|t| t.state == "CANCELLED").count();
        if done == count { Ok(()) } else { Err(format!("{tasks:?}")) }
    })
    .await?;
    Ok(())
}

async fn gone(stage: &Stage<'_>, pod: &Pod) -> Result<()> {
    let pods: Api<Pod> = stage.api();
    await_value("the pod is gone", LIMIT, async || match pods.get_opt(&pod.name_any()).await {
        Ok(Some(found)) if found.uid() == pod.uid() => Err("it is there".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    })
    .await?;
    Ok(())
}

fn untouched(stage: &Stage<'_>, count: usize) -> Result<()> {
    let tasks = stage.vendor.tasks();
    let cancels = stage.vendor.journal().iter().any(|e| e.operation == "CancelQuantumTask");
    ensure!(!cancels && tasks.len() >= count, "somebody cancelled: {tasks:?}");
    ensure!(tasks.iter().all(|t| t.state == "QUEUED"), "not all go on: {tasks:?}");
    Ok(())
}

async fn a_deleted_job_has_its_task_cancelled(world: &World) -> Result<()> {
    let stage = stage(world, "deleted").await?;
    let jobs: Api<Job> = stage.api();
    // Python as process 1 does not hear SIGTERM: the sidecar is told when the pod's time is up.
    queued(&stage, "background", "fanout.py").await?;
    queued(&stage, "foreground", "quiet.py").await?;
    jobs.delete("background", &DeleteParams::background()).await?;
    jobs.delete("foreground", &DeleteParams::foreground()).await?;
    cancelled(&stage, 2).await?;
    stage.strike().await
}

async fn eviction_and_suspension_keep_the_task(world: &World) -> Result<()> {
    let stage = stage(world, "kept").await?;
    let (_, evicted) = queued(&stage, "evicted", "fanout.py").await?;
    let (_, suspended) = queued(&stage, "suspended", "fanout.py").await?;
    let pods: Api<Pod> = stage.api();
    pods.evict(&evicted.name_any(), &EvictParams::default()).await?;
    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    stage.api::<Job>().patch("suspended", &PatchParams::default(), &suspend).await?;
    gone(&stage, &evicted).await?;
    gone(&stage, &suspended).await?;
    untouched(&stage, 2)?;
    stage.strike().await
}

async fn an_uninstall_keeps_the_task(world: &World) -> Result<()> {
    let stage = stage(world, "uninstall").await?;
    let (_, producer) = queued(&stage, "j", "fanout.py").await?;
    let types: Api<CustomResourceDefinition> = Api::all(stage.client());
    let name = format!("{}.{}", QuantumGang::plural(&()), QuantumGang::group(&()));
    types.delete(&name, &DeleteParams::default()).await?;
    // At the worst moment: the gang goes with its type while the pod is told to end.
    stage.api::<Pod>().delete(&producer.name_any(), &DeleteParams::default()).await?;
    gone(&stage, &producer).await?;
    let kept = untouched(&stage, 1);
    await_value("the type is gone", LIMIT, async || match types.get_opt(&name).await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await?;
    world.install().await.context("Sluice cannot be installed again")?;
    kept?;
    stage.strike().await
}

//! Programs that behave in their own ways: late, hasty, unaware, elsewhere, strange, not Python.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::json;
use sluice_shared::gang::OrderReason;
use sluice_shared::names;
use sluice_stories::job::GARNET;
use sluice_stories::stage::{Stage, gated, started};
use sluice_stories::world::World;
use sluice_vendors::Ahead;

crate::stories![
    one_that_submits_late,
    one_that_submits_and_exits,
    one_that_ignores_its_role,
    an_endpoint_that_the_user_set,
    a_wrong_principal,
    an_image_without_python,
    a_retried_consumer_is_opened,
];

async fn one_that_submits_late(world: &World) -> Result<()> {
    let stage = world.stage("late").await?;
    let job = stage.submit(&stage.draft("late", 3, "fanout.py").env("DELAY", "8")).await?;
    let pods = stage
        .pods("late", "the producer runs and two wait", |p| p.len() == 3 && started(&p[0]))
        .await?;
    ensure!(pods[1..].iter().all(gated), "open before any submission");
    stage
        .gang(&job, "it says what it waits for", |g| {
            g.status.as_ref().is_some_and(|s| s.message.is_some() && s.task.is_none())
        })
        .await?;
    stage.tasks(1).await?;
    stage.pods("late", "every gate is open", |p| p.iter().all(|p| !gated(p))).await?;
    stage.run_task().await?;
    stage.completed("late").await?;
    stage.strike().await
}

async fn one_that_submits_and_exits(world: &World) -> Result<()> {
    let stage = world
        .stage_with("hasty", |config| config.by_hand(Ahead { normal: 9, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("hasty", 3, "fanout.py").env("LEAVE", "1")).await?;
    let task = stage.tasks(1).await?.remove(0);
    // Nobody is left to follow the task: the consumers start, with its id.
    let pods = stage
        .pods("hasty", "every gate is open", |p| p.len() == 3 && p.iter().all(|p| !gated(p)))
        .await?;
    for consumer in &pods[1..] {
        let id = kube::ResourceExt::annotations(consumer).get(names::QUANTUM_JOB_ID);
        ensure!(id == Some(&task.arn), "{id:?} instead of {}", task.arn);
    }
    let gang = stage
        .gang(&job, "an order stands", |g| g.status.as_ref().is_some_and(|s| s.order.is_some()))
        .await?;
    let reason = gang.status.and_then(|s| s.order).map(|o| o.reason);
    ensure!(reason == Some(OrderReason::ProducerSucceeded), "{reason:?}");
    stage.event("hasty", names::EVENT_PRODUCER_LEFT_EARLY).await?;
    stage.vendor.step(Some("Garnet"), 11).await?;
    stage.completed("hasty").await?;
    stage.strike().await
}

async fn one_that_ignores_its_role(world: &World) -> Result<()> {
    let stage = world.stage("unaware").await?;
    stage.submit(&stage.draft("unaware", 3, "alone.py")).await?;
    let pods = stage.pods("unaware", "three pods", |p| p.len() == 3).await?;
    ensure!(!gated(&pods[0]), "the producer is gated");
    stage.pods("unaware", "every gate is open", |p| p.iter().all(|p| !gated(p))).await?;
    stage.tasks(3).await?;
    stage.vendor.step(Some("Garnet"), 4).await?;
    stage.completed("unaware").await?;
    stage.strike().await
}

/// The sidecar follows the only task, and the Job ends with it.
async fn is_followed_to_its_end(stage: Stage<'_>, job: &Job) -> Result<()> {
    stage
        .gang(job, "the task is followed", |g| g.status.as_ref().is_some_and(|s| s.task.is_some()))
        .await?;
    stage.run_task().await?;
    stage.completed("j").await?;
    stage.strike().await
}

async fn an_endpoint_that_the_user_set(world: &World) -> Result<()> {
    let stage = world.stage("endpoint").await?;
    // The strongest variable, by reference: only the sidecar can resolve it, in its own pod.
    let url = json!({"metadata": {"name": "where"}, "data": {"url": stage.vendor.braket_url()}});
    let maps = stage.api::<ConfigMap>();
    maps.create(&PostParams::default(), &serde_json::from_value(url)?).await?;
    let draft =
        stage.draft("j", 2, "fanout.py").without_env(names::ENV_AWS_ENDPOINT_URL_BRAKET).env(
            names::ENV_BRAKET_ENDPOINT,
            json!({"valueFrom": {"configMapKeyRef": {"name": "where", "key": "url"}}}),
        );
    // Consumers keep the user's own endpoint.
    let job = stage.submit(&draft).await?;
    stage.tasks(1).await?;
    is_followed_to_its_end(stage, &job).await
}

async fn a_wrong_principal(world: &World) -> Result<()> {
    let stage = world.stage("stranger").await?;
    let draft = stage
        .draft("j", 1, "stranger.py")
        .env("STRANGER_KEY_ID", "AKIDOTHER")
        .env("STRANGER_SECRET", "other-secret");
    let job = stage.submit(&draft).await?;
    let pods = stage.pods("j", "one pod", |p| p.len() == 1).await?;
    stage.tasks(1).await?;
    let output = stage.output(&pods[0]).await?;
    for text in ["refused", "AKIDOTHER", "AKIDEXAMPLE", "discovery: announce"] {
        ensure!(output.contains(text), "{text:?} is missing:\n{output}");
    }
    ensure!(!output.contains("other-secret"), "a secret in the message:\n{output}");
    let tokens: Vec<_> =
        stage.vendor.journal().into_iter().filter_map(|e| e.client_token).collect();
    ensure!(!tokens.iter().any(|t| t == "stranger"), "the stranger's request reached the vendor");
    stage
        .gang(&job, "the own task is followed", |g| {
            g.status.as_ref().is_some_and(|s| s.task.is_some())
        })
        .await?;
    stage.run_task().await?;
    stage.completed("j").await?;
    stage.strike().await
}

async fn an_image_without_python(world: &World) -> Result<()> {
    let stage = world.stage("rust").await?;
    let image = "sluice.local/client:lab";
    let binary = sluice_lab::images::cargo_build(&["sluice-client"])?.pop().context("no client")?;
    world.lab().load_image(&sluice_lab::images::program(image, &binary)).await?;
    let draft = stage
        .shell("j", 2, "")
        .set("/spec/template/spec/containers/0/image", json!(image))
        .set("/spec/template/spec/containers/0/command", json!(["/sluice-client"]))
        .env("AWS_REGION", "eu-north-1")
        .env("DEVICE", GARNET);
    let job = stage.submit(&draft).await?;
    stage.tasks(1).await?;
    is_followed_to_its_end(stage, &job).await
}

async fn a_retried_consumer_is_opened(world: &World) -> Result<()> {
    let stage = world.stage("retry").await?;
    stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let task = stage.tasks(1).await?.remove(0);
    let pods = stage
        .pods("j", "every gate is open", |p| p.len() == 3 && p.iter().all(|p| !gated(p)))
        .await?;
    let victim = kube::ResourceExt::name_any(&pods[2]);
    stage
        .api::<k8s_openapi::api::core::v1::Pod>()
        .delete(&victim, &kube::api::DeleteParams::default().grace_period(0))
        .await?;
    let pods = stage
        .pods("j", "another pod of index 2 is open", |pods| {
            pods.iter().any(|p| {
                sluice_stories::stage::index_of(p) == Some(2)
                    && kube::ResourceExt::name_any(p) != victim
                    && !gated(p)
            })
        })
        .await?;
    let again = pods
        .iter()
        .find(|p| {
            sluice_stories::stage::index_of(p) == Some(2)
                && kube::ResourceExt::name_any(*p) != victim
        })
        .context("the pod of index 2 is gone again")?;
    let id = kube::ResourceExt::annotations(again).get(names::QUANTUM_JOB_ID);
    ensure!(id == Some(&task.arn), "{id:?}");
    stage.run_task().await?;
    stage.completed("j").await?;
    stage.strike().await
}

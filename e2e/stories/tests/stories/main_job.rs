//! The main job and its modes: eight pods, one pod, independent pods, a bare pod.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;
use sluice_lab::await_condition;
use sluice_shared::gang::{OrderReason, Phase, QuantumGang};
use sluice_shared::{names, naming};
use sluice_stories::stage::{LIMIT, Stage, gated, phase, started};
use sluice_stories::world::World;
use sluice_vendors::Ahead;

crate::stories![
    eight_pods_fan_out,
    policy_completed_waits_for_the_result,
    policy_running_waits_for_the_start,
    one_pod_is_observed,
    independent_pods_each_have_a_gang,
    a_bare_pod_is_observed,
    a_job_in_fluence_form_is_independent,
    a_nonindexed_job_becomes_indexed,
    a_person_opens_the_gates,
];

const GARNET: Option<&str> = Some("Garnet");

fn position(gang: &QuantumGang) -> Option<&str> {
    gang.status.as_ref()?.position.as_deref()
}

fn phase_of(gang: &QuantumGang) -> Option<Phase> {
    gang.status.as_ref()?.phase
}

fn condition(gang: &QuantumGang, kind: &str) -> bool {
    gang.status.iter().flat_map(|s| &s.conditions).any(|c| c.type_ == kind && c.status == "True")
}

fn job_id(pod: &Pod) -> Option<&str> {
    pod.annotations().get(names::QUANTUM_JOB_ID).map(String::as_str)
}

async fn eight_pods_fan_out(world: &World) -> Result<()> {
    let stage = world
        .stage_with("eight", |config| config.by_hand(Ahead { normal: 5, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("fanout", 8, "fanout.py")).await?;
    let pods = stage
        .pods("fanout", "one producer and seven gated consumers", |pods| {
            pods.len() == 8 && pods.iter().filter(|p| gated(p)).count() == 7
        })
        .await?;
    ensure!(!gated(&pods[0]), "the producer is gated");

    // The position falls, and nothing moves before the front.
    let task = stage.tasks(1).await?.remove(0);
    stage.gang(&job, "position 6 is shown", |g| position(g) == Some("6")).await?;
    stage.vendor.step(GARNET, 4).await?;
    let gang = stage.gang(&job, "position 2 is shown", |g| position(g) == Some("2")).await?;
    ensure!(phase_of(&gang) == Some(Phase::Queued), "at position 2: {:?}", gang.status);
    ensure!(condition(&gang, names::CONDITION_SUBMITTED), "not Submitted: {:?}", gang.status);
    ensure!(!condition(&gang, names::CONDITION_RELEASED), "released early: {:?}", gang.status);
    let pods = stage.pods("fanout", "eight pods", |pods| pods.len() == 8).await?;
    for consumer in &pods[1..] {
        ensure!(gated(consumer) && !started(consumer), "{} is early", consumer.name_any());
        ensure!(job_id(consumer).is_none(), "{} has an id already", consumer.name_any());
    }

    // Position 1: all open, each with the id, in one patch.
    stage.vendor.step(GARNET, 1).await?;
    let pods =
        stage.pods("fanout", "every gate is open", |pods| pods.iter().all(|p| !gated(p))).await?;
    for consumer in &pods[1..] {
        ensure!(job_id(consumer) == Some(&task.arn), "{:?}", consumer.annotations());
    }
    let gang =
        stage.gang(&job, "it is Released", |g| condition(g, names::CONDITION_RELEASED)).await?;
    let order = gang.status.clone().and_then(|s| s.order);
    ensure!(
        order.as_ref().is_some_and(|o| o.reason == OrderReason::PolicyMet && o.task_id == task.arn),
        "{order:?}"
    );
    let log = stage.sidecar_says(&pods[0], "gates open: 7/7 in").await?;
    for text in ["position 6", "position 2", "iqm Garnet"] {
        ensure!(log.contains(text), "the sidecar never said {text:?}:\n{log}");
    }

    // Consumers start while the task waits at position 1, and take its result.
    stage.run_task().await?;
    stage.completed("fanout").await?;
    let pods = stage.pods("fanout", "eight pods", |pods| pods.len() == 8).await?;
    for consumer in &pods[1..] {
        let output = stage.output(consumer).await?;
        ensure!(output.contains(&format!("consumer counts 20 shots of {}", task.arn)), "{output}");
    }
    stage.tasks(1).await?;
    let gang = stage.gang(&job, "it is Finished", |g| phase_of(g) == Some(Phase::Finished)).await?;
    has_the_series(&stage, &gang).await?;
    stage.event("fanout", names::EVENT_RELEASED).await?;
    stage.strike().await
}

/// What the queue did is kept, and comes out as a table.
async fn has_the_series(stage: &Stage<'_>, gang: &QuantumGang) -> Result<()> {
    let built =
        tokio::task::spawn_blocking(|| sluice_lab::images::cargo_build(&["kubectl-sluice"]));
    let plugin = built.await??.pop().context("no plugin")?;
    let output = tokio::process::Command::new(plugin)
        .args(["series", "fanout", "-o", "csv", "-n", stage.namespace()])
        .env("KUBECONFIG", stage.world.lab().kubeconfig())
        .output()
        .await?;
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{problem}");
    let head = format!("{},{},fanout,", stage.namespace(), gang.name_any());
    let mut lines = table.lines().skip(1);
    for told in [",QUEUED,6,6,false,", ",QUEUED,2,2,false,", ",QUEUED,1,1,false,", ",COMPLETED,"] {
        let line = lines.find(|line| line.starts_with(&head) && line.contains(told));
        let line = line.with_context(|| format!("{told} is missing, or out of order:\n{table}"))?;
        ensure!(line.contains("device/qpu/iqm/Garnet"), "{line}");
    }
    Ok(())
}

async fn policy_completed_waits_for_the_result(world: &World) -> Result<()> {
    let stage = world.stage("completed").await?;
    let draft = stage.draft("j", 3, "fanout.py").annotated(names::RELEASE, "completed");
    let job = stage.submit(&draft).await?;
    stage.tasks(1).await?;
    stage.gang(&job, "position 1 is shown", |g| position(g) == Some("1")).await?;
    stage.vendor.step(GARNET, 1).await?;
    let running = |g: &QuantumGang| {
        g.status
            .iter()
            .flat_map(|s| s.vendor.iter())
            .flat_map(|v| &v.tasks)
            .any(|t| t.state == "RUNNING")
    };
    stage.gang(&job, "it runs", running).await?;
    let pods = stage.pods("j", "three pods", |pods| pods.len() == 3).await?;
    ensure!(pods[1..].iter().all(gated), "open before the result");
    stage.vendor.step(GARNET, 1).await?;
    stage.completed("j").await?;
    stage.strike().await
}

async fn policy_running_waits_for_the_start(world: &World) -> Result<()> {
    let stage = world.stage("running").await?;
    let draft = stage.draft("j", 2, "fanout.py").annotated(names::RELEASE, "running");
    let job = stage.submit(&draft).await?;
    stage.tasks(1).await?;
    stage.gang(&job, "position 1 is shown", |g| position(g) == Some("1")).await?;
    let pods = stage.pods("j", "two pods", |pods| pods.len() == 2).await?;
    ensure!(gated(&pods[1]), "open at position 1");
    stage.vendor.step(GARNET, 1).await?;
    stage.pods("j", "the gate is open", |pods| pods.iter().all(|p| !gated(p))).await?;
    stage.vendor.step(GARNET, 1).await?;
    stage.completed("j").await?;
    stage.strike().await
}

async fn one_pod_is_observed(world: &World) -> Result<()> {
    let stage = world.stage("single").await?;
    let job = stage.submit(&stage.draft("one", 1, "fanout.py")).await?;
    let task = stage.tasks(1).await?.remove(0);
    let pods = stage.pods("one", "one pod", |pods| pods.len() == 1).await?;
    ensure!(pods[0].labels().get(names::ROLE).map(String::as_str) == Some("single"));
    stage.sidecar_says(&pods[0], sluice_shared::task::short_id(&task.arn)).await?;
    stage.run_task().await?;
    stage.completed("one").await?;
    let gang = stage.gang(&job, "it is Finished", |g| phase_of(g) == Some(Phase::Finished)).await?;
    ensure!(gang.spec.size == 1, "{:?}", gang.spec);
    stage.strike().await
}

async fn independent_pods_each_have_a_gang(world: &World) -> Result<()> {
    let stage = world.stage("independent").await?;
    let draft = stage.draft("alone", 3, "alone.py").annotated(names::COORDINATION, "independent");
    let job = stage.submit(&draft).await?;
    stage.pods("alone", "three pods, none gated", |p| p.len() == 3 && !p.iter().any(gated)).await?;
    stage.tasks(3).await?;
    for index in 0..3 {
        let name = naming::gang_name(&job.name_any(), &job.uid().unwrap_or_default(), Some(index));
        stage.gang_named(&name, "it has its task", |g| position(g).is_some()).await?;
    }
    stage.vendor.step(GARNET, 4).await?;
    stage.completed("alone").await?;
    stage.strike().await
}

async fn a_bare_pod_is_observed(world: &World) -> Result<()> {
    let stage = world.stage("bare").await?;
    let pods = stage.api::<Pod>();
    let pod = serde_json::from_value(stage.draft("bare", 1, "fanout.py").bare_pod())?;
    let pod = pods.create(&PostParams::default(), &pod).await?;
    let task = stage.tasks(1).await?.remove(0);
    let name = naming::gang_name("bare", &pod.uid().unwrap_or_default(), None);
    let gang = stage.gang_named(&name, "it has its task", |g| position(g).is_some()).await?;
    ensure!(gang.spec.owner.kind == "Pod", "{:?}", gang.spec);
    stage.sidecar_says(&pod, sluice_shared::task::short_id(&task.arn)).await?;
    stage.run_task().await?;
    await_condition(&pods, "bare", "it has succeeded", LIMIT, |p| phase(p) == "Succeeded").await?;
    stage.strike().await
}

async fn a_job_in_fluence_form_is_independent(world: &World) -> Result<()> {
    let stage = world.stage("fluence").await?;
    let draft = stage
        .draft("old", 2, "alone.py")
        .set("/spec/template/metadata/labels/fluence.flux-framework.org~1group", json!("g"))
        .set(
            "/spec/template/metadata/annotations/fluence.flux-framework.org~1group-size",
            json!("2"),
        );
    stage.submit(&draft).await?;
    stage.pods("old", "two pods, none gated", |p| p.len() == 2 && !p.iter().any(gated)).await?;
    stage.tasks(2).await?;
    stage.vendor.step(GARNET, 3).await?;
    stage.completed("old").await?;
    stage.strike().await
}

async fn a_nonindexed_job_becomes_indexed(world: &World) -> Result<()> {
    let stage = world.stage("nonindexed").await?;
    let draft =
        stage.draft("plain", 2, "fanout.py").set("/spec/completionMode", json!("NonIndexed"));
    let job = stage.submit(&draft).await?;
    ensure!(job.spec.as_ref().and_then(|s| s.completion_mode.as_deref()) == Some("Indexed"));
    let pods = stage.pods("plain", "two pods", |pods| pods.len() == 2).await?;
    ensure!(!gated(&pods[0]) && gated(&pods[1]));
    stage.tasks(1).await?;
    stage.pods("plain", "the gate is open", |pods| pods.iter().all(|p| !gated(p))).await?;
    stage.run_task().await?;
    stage.completed("plain").await?;
    stage.strike().await
}

async fn a_person_opens_the_gates(world: &World) -> Result<()> {
    let stage = world
        .stage_with("person", |config| config.by_hand(Ahead { normal: 50, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let task = stage.tasks(1).await?.remove(0);
    let gang = stage.gang(&job, "position 51 is shown", |g| position(g) == Some("51")).await?;
    let order = json!({"spec": {"release": {"by": "operator", "reason": "maintenance at noon"}}});
    stage.patch_gang(&gang, order).await?;
    let pods = stage
        .pods("j", "every gate is open", |p| p.len() == 3 && p.iter().all(|p| !gated(p)))
        .await?;
    ensure!(pods[1..].iter().all(|p| job_id(p) == Some(&task.arn)), "the id is missing");
    stage.event("j", names::EVENT_RELEASED_BY_PERSON).await?;
    stage.vendor.step(GARNET, 52).await?;
    stage.completed("j").await?;
    stage.strike().await
}

//! Bad input: a clear message where people look, no consumer early, nothing lost.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use sluice_lab::await_value;
use sluice_shared::names;
use sluice_stories::job::{BUCKET, Draft, GARNET};
use sluice_stories::stage::{LIMIT, Stage, gated, started};
use sluice_stories::world::World;
use sluice_vendors::{Action, Ahead, Fault};

crate::stories![
    jobs_that_are_refused,
    a_vendor_in_trouble,
    a_sidecar_without_credentials,
    a_wrong_region,
    a_task_that_fails,
    a_producer_that_fails_for_good,
    a_program_past_the_tap_announces,
];

const CONTAINER: &str = "/spec/template/spec/containers/0";

async fn jobs_that_are_refused(world: &World) -> Result<()> {
    let stage = world.stage("refused").await?;
    let draft = || stage.shell("j", 3, "true");
    let init = json!([{
        "name": "prepare", "image": "none",
        "resources": {"limits": {names::QPU_RESOURCE: "1"}},
    }]);
    let rows: Vec<(&str, Draft, Vec<&str>)> = vec![
        (
            "mode",
            draft().annotated(names::COORDINATION, "solo"),
            vec!["solo", "shared", "independent"],
        ),
        (
            "policy",
            draft().annotated(names::RELEASE, "soon"),
            vec!["soon", "front", "running", "completed", "position<=K", "manual"],
        ),
        (
            "place",
            draft().annotated(names::RELEASE, "position<=0"),
            vec!["position<=0", "whole number from 1"],
        ),
        ("size", draft().annotated(names::GROUP_SIZE, "many"), vec!["many", "group-size"]),
        ("other size", draft().annotated(names::GROUP_SIZE, "9"), vec!["9", "3"]),
        ("tasks", draft().annotated(names::TASKS, "some"), vec!["some", "tasks"]),
        ("follow", draft().annotated(names::FOLLOW, "me"), vec!["me", "device", "qpu", "any"]),
        (
            "work queue",
            draft()
                .set("/spec/completions", Value::Null)
                .set("/spec/completionMode", json!("NonIndexed")),
            vec!["completions"],
        ),
        (
            "init container",
            draft().set("/spec/template/spec/initContainers", init),
            vec!["prepare", "init"],
        ),
        (
            "conflict",
            draft().annotated(names::RELEASE, "front").set(
                "/spec/template/metadata/annotations/sluice.flux-framework.org~1release",
                json!("running"),
            ),
            vec!["front", "running"],
        ),
        (
            "zero",
            draft().annotated(names::RELEASE, "front").set(
                &format!("{CONTAINER}/resources"),
                json!({"limits": {names::QPU_RESOURCE: "0"}}),
            ),
            vec![names::QPU_RESOURCE, "0"],
        ),
    ];
    for (what, draft, words) in rows {
        let message = stage.refused(&draft).await.map_err(|e| e.context(what))?;
        for word in words {
            ensure!(message.contains(word), "{what}: {word:?} is missing in: {message}");
        }
    }
    // A quantity of 0 and no word of us: an ordinary Job.
    let zero = stage
        .shell("zero", 1, "true")
        .set(&format!("{CONTAINER}/resources"), json!({"limits": {names::QPU_RESOURCE: "0"}}));
    stage.submit(&zero).await?;
    stage.completed("zero").await?;
    stage.strike().await
}

/// Waits until the message of the gang, and so `kubectl get qg`, holds a text.
async fn gang_says(
    stage: &Stage<'_>,
    job: &k8s_openapi::api::batch::v1::Job,
    text: &str,
) -> Result<()> {
    stage
        .gang(job, &format!("its message holds {text:?}"), |g| {
            g.status.as_ref().and_then(|s| s.message.as_ref()).is_some_and(|m| m.contains(text))
        })
        .await?;
    Ok(())
}

async fn quiet_start(stage: &Stage<'_>) -> Result<(k8s_openapi::api::batch::v1::Job, Pod)> {
    let job = stage.submit(&stage.draft("j", 2, "quiet.py")).await?;
    let pods = stage.pods("j", "the producer runs", |p| p.len() == 2 && started(&p[0])).await?;
    stage.tasks(1).await?;
    Ok((job, pods[0].clone()))
}

async fn finish_quiet(stage: Stage<'_>) -> Result<()> {
    stage.pods("j", "the gate is open", |p| p.len() == 2 && p.iter().all(|p| !gated(p))).await?;
    put_done(&stage).await?;
    stage.completed("j").await?;
    stage.strike().await
}

/// Lets quiet programs end: with the Python of the host, since S3 wants a signature.
async fn put_done(stage: &Stage<'_>) -> Result<()> {
    let script = "import boto3, sys; boto3.client('s3').put_object(Bucket=sys.argv[1], Key='done', Body=b'')";
    let status = tokio::process::Command::new(stage.world.python().python())
        .args(["-c", script, BUCKET])
        .envs(stage.vendor.environment())
        .status()
        .await?;
    ensure!(status.success(), "the object could not be written: {status}");
    Ok(())
}

async fn a_vendor_in_trouble(world: &World) -> Result<()> {
    let stage = world
        .stage_with("trouble", |config| config.by_hand(Ahead { normal: 1, priority: 0 }))
        .await?;
    let (_, pod) = quiet_start(&stage).await?;
    let error = |code: &str| Action::Error {
        code: code.into(),
        status: None,
        message: String::new(),
        retry_after: None,
        when: sluice_vendors::Stage::Before,
    };
    let garbage = Action::Answer {
        status: 200,
        content_type: "text/html".into(),
        body: "<html>".into(),
        when: sluice_vendors::Stage::Before,
    };
    let troubles = [
        ("AccessDenied", error("AccessDeniedException")),
        ("ResourceNotFound", error("ResourceNotFoundException")),
        ("Throttling", error("ThrottlingException")),
        ("InternalService", error("InternalServiceException")),
        ("garbage", garbage),
        ("silence", Action::Hang { ms: 60_000, when: sluice_vendors::Stage::Before }),
    ];
    for (what, action) in troubles {
        let struck = |stage: &Stage<'_>| {
            stage
                .vendor
                .journal()
                .iter()
                .filter(|e| e.operation == "GetQuantumTask" && e.fault.is_some())
                .count()
        };
        let before = struck(&stage);
        stage.vendor.add_fault(Fault::next(1_000, "GetQuantumTask", action));
        await_value(&format!("{what} was met"), LIMIT, async || {
            if struck(&stage) > before { Ok(()) } else { Err(format!("{before} before")) }
        })
        .await?;
        let pods = stage.pods("j", "two pods", |p| p.len() == 2).await?;
        ensure!(gated(&pods[1]), "{what} opened the gate");
        stage.vendor.clear_faults();
    }
    stage.sidecar_says(&pod, "AccessDenied").await?;
    stage.vendor.step(Some("Garnet"), 1).await?;
    finish_quiet(stage).await
}

async fn a_sidecar_without_credentials(world: &World) -> Result<()> {
    let stage = world.stage("no-keys").await?;
    // The program has keys in its code, and the pod has none.
    let draft = stage
        .draft("j", 1, "stranger.py")
        .set(&format!("{CONTAINER}/envFrom"), json!([]))
        .set("/spec/backoffLimit", json!(0))
        .env("STRANGER_KEY_ID", "AKIDEXAMPLE")
        .env("STRANGER_SECRET", "secret");
    let job = stage.submit(&draft).await?;
    let pods = stage.pods("j", "the program ran", |p| p.len() == 1 && started(&p[0])).await?;
    stage.sidecar_says(&pods[0], "credentials").await?;
    gang_says(&stage, &job, "credentials").await?;
    ensure!(stage.vendor.tasks().is_empty(), "submitted without an identity");
    stage.strike().await
}

async fn a_wrong_region(world: &World) -> Result<()> {
    let stage = world.stage("region").await?;
    // The device lives in eu-north-1: the vendor's own words reach the program through the tap.
    let draft = stage
        .draft("j", 2, "quiet.py")
        .set("/spec/backoffLimit", json!(0))
        .env("REGION", "us-west-1")
        .env("DEVICE", GARNET);
    stage.submit(&draft).await?;
    let ended = |p: &[Pod]| p.first().is_some_and(|p| sluice_stories::stage::phase(p) == "Failed");
    let pods = stage.pods("j", "the producer has failed", ended).await?;
    let output = stage.output(&pods[0]).await?;
    ensure!(output.contains("eu-north-1") || output.contains("ResourceNotFound"), "{output}");
    ensure!(pods.iter().skip(1).all(|p| !started(p)), "a consumer started");
    stage.strike().await
}

async fn a_task_that_fails(world: &World) -> Result<()> {
    let stage = world
        .stage_with("fails", |config| config.by_hand(Ahead { normal: 1, priority: 0 }))
        .await?;
    let (job, pod) = quiet_start(&stage).await?;
    let task = stage.tasks(1).await?.remove(0);
    let change = sluice_vendors::StateChange {
        state: Some("FAILED".into()),
        reason: Some("calibration lost".into()),
        pretend: None,
    };
    stage.vendor.change_state(&task.id, change)?;
    stage.sidecar_says(&pod, "calibration lost").await?;
    gang_says(&stage, &job, "calibration lost").await?;
    let pods = stage.pods("j", "two pods", |p| p.len() == 2).await?;
    ensure!(gated(&pods[1]), "a failed task opened the gate");
    // The producer ends well all the same: then nobody is stranded.
    put_done(&stage).await?;
    stage.completed("j").await?;
    stage.strike().await
}

async fn a_producer_that_fails_for_good(world: &World) -> Result<()> {
    let stage = world.stage("dead").await?;
    let command = "if [ $FLUENCE_COORDINATION_ROLE = producer ]; then exit 1; fi; \
                   test -z \"$FLUENCE_QUANTUM_JOB_ID\"";
    let draft = stage
        .shell("j", 3, command)
        .set("/spec/backoffLimit", Value::Null)
        .set("/spec/backoffLimitPerIndex", json!(0));
    stage.submit(&draft).await?;
    stage.pods("j", "every gate is open", |p| p.len() == 3 && p.iter().all(|p| !gated(p))).await?;
    stage
        .pods("j", "the consumers end by themselves", |p| {
            p[1..].iter().all(|p| sluice_stories::stage::phase(p) == "Succeeded")
        })
        .await?;
    stage.event("j", names::EVENT_PRODUCER_FAILED).await?;
    stage.strike().await
}

async fn a_program_past_the_tap_announces(world: &World) -> Result<()> {
    let stage = world.stage("announce").await?;
    let draft = stage
        .draft("j", 2, "announcer.py")
        .annotated(names::DISCOVERY, "announce")
        .env("DIRECT", stage.vendor.braket_url());
    stage.submit(&draft).await?;
    stage.tasks(1).await?;
    let pods = stage
        .pods("j", "the gate is open", |p| p.len() == 2 && p.iter().all(|p| !gated(p)))
        .await?;
    ensure!(pods[1].annotations().contains_key(names::QUANTUM_JOB_ID));
    stage.run_task().await?;
    stage.completed("j").await?;
    stage.strike().await
}

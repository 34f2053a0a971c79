//! Many at one time: a hundred consumers of one task, fifty gangs of one account. The vendor's
//! quotas are on, as in all stories.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use sluice_lab::images::{cargo_build, program};
use sluice_lab::{FAKE_LABEL, FAKE_TAINT, await_list, await_value};
use sluice_shared::gang::{KeeperOrder, OrderReason, QuantumGang};
use sluice_shared::names;
use sluice_stories::hosted::Hosted;
use sluice_stories::job::{Draft, GARNET};
use sluice_stories::stage::{LIMIT, Stage, phase};
use sluice_stories::world::World;
use sluice_vendors::Ahead;
use tokio::process::Command;

crate::stories![a_hundred_consumers_fetch_one_result, fifty_gangs_of_one_account,];

const IMAGE: &str = "sluice.local/client:lab";
const GET: &str = "GetQuantumTask";

/// The client program, built, and loaded into the node.
async fn client(world: &World) -> Result<PathBuf> {
    let built = tokio::task::spawn_blocking(|| cargo_build(&["sluice-client"])).await??;
    let binary = built.into_iter().next().context("no client")?;
    world.lab().load_image(&program(IMAGE, &binary)).await?;
    Ok(binary)
}

/// A Job of the client program. Its pods may go to nodes without machines.
fn draft(stage: &Stage<'_>, name: &str, pods: u32) -> Draft {
    stage
        .shell(name, pods, "")
        .set("/spec/template/spec/containers/0/image", json!(IMAGE))
        .set("/spec/template/spec/containers/0/command", json!(["/sluice-client"]))
        .set("/spec/template/spec/tolerations", json!([{"key": FAKE_TAINT, "operator": "Exists"}]))
        .env("AWS_REGION", "eu-north-1")
        .env("DEVICE", GARNET)
}

/// How often the vendor answered an operation with this status.
fn answered(stage: &Stage<'_>, operation: &str, status: u16) -> u64 {
    stage.vendor.counts().get(&format!("{operation} {status}")).copied().unwrap_or_default()
}

async fn a_hundred_consumers_fetch_one_result(world: &World) -> Result<()> {
    let stage = world.stage("hundred").await?;
    let binary = client(world).await?;
    world.lab().add_fake_nodes(1).await?;
    // The producer gets a real node; no consumer goes where a producer is.
    let elsewhere = json!({
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "preference": {"matchExpressions": [
                {"key": FAKE_LABEL, "operator": "NotIn", "values": ["kwok"]},
            ]},
        }]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {"matchLabels": {names::ROLE: "producer"}},
            "topologyKey": "kubernetes.io/hostname",
        }]},
    });
    // The default policy is the front; for so many it becomes the result.
    let draft = draft(&stage, "j", 101).set("/spec/template/spec/affinity", elsewhere);
    let job = stage.submit(&draft).await?;
    let task = stage.tasks(1).await?.remove(0);
    stage
        .gang(&job, "the task is at the front and a hundred wait", |g| {
            let status = g.status.as_ref();
            let front =
                status.and_then(|s| s.vendor.as_ref()?.tasks.first()).is_some_and(|t| t.front);
            front && status.and_then(|s| s.consumers).is_some_and(|c| c.gated == 100)
        })
        .await?;
    stage.run_task().await?;

    // What a consumer would do on a machine is done here, by one process for each pod that starts.
    let ran = |p: &Pod| matches!(phase(p), "Running" | "Succeeded");
    let pods = stage
        .pods("j", "the producer has ended and a hundred consumers have started", |pods| {
            pods.len() == 101 && phase(&pods[0]) == "Succeeded" && pods[1..].iter().all(ran)
        })
        .await?;
    let polls_of_the_producer = answered(&stage, GET, 200);
    let consumers = pods[1..].iter().map(|pod| consume(&stage, &binary, pod, &task.arn));
    try_join_all(consumers).await?;
    ensure!(answered(&stage, GET, 429) == 0, "throttled: {:?}", stage.vendor.counts());
    let polls = answered(&stage, GET, 200).saturating_sub(polls_of_the_producer);
    // The result was there: each asked once. Released at the front they would have asked 2.3
    // times a second each.
    ensure!(polls == 100, "{polls} questions of 100 consumers");
    let gang = stage.gang(&job, "all gates are open by one order", |g| opened(g).is_some()).await?;
    let order = opened(&gang).context("no order")?;
    ensure!(order.reason == OrderReason::PolicyMet && order.task_id == task.arn, "{order:?}");
    stage.strike().await
}

/// The order of a gang, all of whose gates were opened by it.
fn opened(gang: &QuantumGang) -> Option<&KeeperOrder> {
    gang.status.as_ref()?.order.as_ref().filter(|order| order.opened_at.is_some())
}

/// Runs the program of a consumer with the environment that its container would have.
async fn consume(stage: &Stage<'_>, binary: &Path, pod: &Pod, task: &str) -> Result<()> {
    let id = pod.annotations().get(names::QUANTUM_JOB_ID).context("no task id")?;
    ensure!(id == task, "{id} instead of {task}");
    let ended = Command::new(binary)
        .env_clear()
        .envs(stage.vendor.environment())
        .env("AWS_REGION", "eu-north-1")
        .env(names::ENV_ROLE, "consumer")
        .env(names::ENV_QUANTUM_JOB_ID, id)
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(LIMIT, ended).await.context("a consumer hangs")??;
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(ended.status.success(), "{} died: {text}", pod.name_any());
    Ok(())
}

async fn fifty_gangs_of_one_account(world: &World) -> Result<()> {
    let stage = world
        .stage_with("fifty", |config| config.by_hand(Ahead { normal: 0, priority: 0 }))
        .await?;
    // Two lines of one region. No scheduler takes the pods: sidecars and programs run here.
    let lines = ["Garnet", "Emerald"].into_iter().cycle();
    let drafts: Vec<Draft> = lines
        .take(50)
        .enumerate()
        .map(|(number, line)| {
            let device = format!("arn:aws:braket:eu-north-1::device/qpu/iqm/{line}");
            draft(&stage, &format!("j{number}"), 3)
                .set("/spec/template/spec/schedulerName", json!("nobody"))
                .env("DEVICE", device)
        })
        .collect();
    try_join_all(drafts.iter().map(|draft| stage.submit(draft))).await?;
    let producers = ListParams::default().labels(&format!("{}=producer", names::ROLE));
    let pods = stage.api::<Pod>();
    let pods = await_list(&pods, &producers, "fifty producers", LIMIT, |p| p.len() == 50).await?;
    let programs = ["sluice-sidecar", "sluice-client"];
    let built = tokio::task::spawn_blocking(move || cargo_build(&programs)).await??;
    let [sidecar, client] = &built[..] else { bail!("not two programs: {built:?}") };
    let start = |pod| Hosted::start(&stage, pod, sidecar, client);
    let mut hosted = try_join_all(pods.iter().map(start)).await?;

    await_value("fifty tasks are submitted", LIMIT, async || match stage.vendor.tasks().len() {
        50 => Ok(()),
        n => Err(format!("{n}: {:?}", stage.vendor.counts())),
    })
    .await?;
    let gangs: Api<QuantumGang> = stage.api();
    let all = ListParams::default();
    let what = "each gang follows its task, those at the front are open";
    await_list(&gangs, &all, what, LIMIT, |gangs| {
        gangs.len() == 50
            && gangs.iter().all(|g| g.status.as_ref().is_some_and(|s| s.position.is_some()))
            && gangs.iter().filter(|g| is_at_front(g)).count() == 2
            && gangs.iter().all(|g| is_open(g) == is_at_front(g))
    })
    .await?;
    // Everything runs and ends.
    for line in ["Garnet", "Emerald"] {
        stage.vendor.step(Some(line), 60).await?;
    }
    let open = |gangs: &[QuantumGang]| gangs.iter().all(is_open);
    for gang in await_list(&gangs, &all, "all gangs are open", LIMIT, open).await? {
        let order = gang.status.as_ref().and_then(|s| s.order.as_ref()).context("no order")?;
        ensure!(order.reason == OrderReason::PolicyMet, "{}: {order:?}", gang.name_any());
    }
    for hosted in &mut hosted {
        let ended = tokio::time::timeout(LIMIT, hosted.program.wait()).await;
        let ended = ended.context("a program hangs")??;
        ensure!(ended.success(), "a program ended with {ended}");
    }
    // Submissions may be throttled, and are repeated: the vendor takes 20 a second.
    let counts = stage.vendor.counts();
    for operation in [GET, "GetDevice"] {
        ensure!(answered(&stage, operation, 429) == 0, "{operation} was throttled: {counts:?}");
    }
    ensure!(answered(&stage, "CreateQuantumTask", 201) == 50, "paid twice: {counts:?}");
    drop(hosted);
    stage.strike().await
}

fn is_at_front(gang: &QuantumGang) -> bool {
    let vendor = gang.status.as_ref().and_then(|s| s.vendor.as_ref());
    vendor.is_some_and(|v| v.tasks.iter().any(|t| t.front))
}

fn is_open(gang: &QuantumGang) -> bool {
    let consumers = gang.status.as_ref().and_then(|s| s.consumers);
    consumers.is_some_and(|c| c.gated == 0 && c.released == 2)
}

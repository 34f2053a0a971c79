//! Processes that die and servers that go away: nothing is stranded, early, or done twice.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use sluice_lab::await_value;
use sluice_shared::{gang::QuantumGang, names};
use sluice_stories::processes;
use sluice_stories::stage::{LIMIT, Stage, gated, phase, started};
use sluice_stories::world::{SYSTEM, World};
use sluice_vendors::{Action, Ahead, Fault};

crate::stories![
    worker_killed_before_the_submission,
    worker_killed_during_the_submission,
    worker_killed_while_the_task_is_queued,
    worker_killed_at_the_front,
    worker_killed_after_the_release;
    alone:
    keeper_killed_before_the_release,
    keeper_killed_during_the_release,
    keeper_killed_after_the_release,
    api_server_away_at_the_front,
    webhook_away,
    job_created_in_the_second_of_the_install,
];

const SIDECAR: &str = "sluice-sidecar";
const GARNET: Option<&str> = Some("Garnet");

/// The cluster of all stories, with Sluice installed.
pub(crate) async fn begin() -> Result<World> {
    let world = World::bare(crate::options()).await?;
    world.install().await?;
    Ok(world)
}

/// Kills the worker of the sidecar of a pod and waits for the next one.
async fn kill_worker(pod: &Pod) -> Result<()> {
    let mark = format!("{}={}", names::ENV_POD_UID, pod.uid().unwrap_or_default());
    let worker = processes::worker(SIDECAR, &mark)?;
    worker.kill()?;
    await_value("another worker", LIMIT, async || match processes::worker(SIDECAR, &mark) {
        Ok(next) if next != worker => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await?;
    Ok(())
}

async fn producer(stage: &Stage<'_>, job: &str) -> Result<Pod> {
    let pods = stage.pods(job, "the producer runs", |p| p.len() == 3 && started(&p[0])).await?;
    Ok(pods[0].clone())
}

fn position(gang: &QuantumGang) -> Option<&str> {
    gang.status.as_ref()?.position.as_deref()
}

/// Runs the only task, and checks that the Job ends well and paid once.
async fn ends_well(stage: Stage<'_>, job: &str) -> Result<()> {
    stage.pods(job, "every gate is open", |p| p.len() == 3 && p.iter().all(|p| !gated(p))).await?;
    stage.run_task().await?;
    stage.completed(job).await?;
    ensure!(stage.vendor.tasks().len() == 1, "paid twice: {:?}", stage.vendor.tasks());
    stage.strike().await
}

async fn worker_killed_before_the_submission(world: &World) -> Result<()> {
    let stage = world.stage("kill-before").await?;
    stage.submit(&stage.draft("j", 3, "fanout.py").env("DELAY", "5")).await?;
    let pod = producer(&stage, "j").await?;
    kill_worker(&pod).await?;
    stage.tasks(1).await?;
    ends_well(stage, "j").await
}

async fn worker_killed_during_the_submission(world: &World) -> Result<()> {
    let stage = world.stage("kill-during").await?;
    // The vendor has done the work; the answer is on its way when the worker dies.
    stage.vendor.add_fault(Fault::next(1, "CreateQuantumTask", Action::Delay { ms: 4_000 }));
    stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let pod = producer(&stage, "j").await?;
    stage.tasks(1).await?;
    kill_worker(&pod).await?;
    ends_well(stage, "j").await
}

async fn worker_killed_while_the_task_is_queued(world: &World) -> Result<()> {
    let stage = world
        .stage_with("kill-queued", |config| config.by_hand(Ahead { normal: 9, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let pod = producer(&stage, "j").await?;
    stage.gang(&job, "position 10 is shown", |g| position(g) == Some("10")).await?;
    kill_worker(&pod).await?;
    stage.vendor.step(GARNET, 4).await?;
    stage.gang(&job, "position 6 is shown", |g| position(g) == Some("6")).await?;
    let pods = stage.pods("j", "three pods", |p| p.len() == 3).await?;
    ensure!(pods[1..].iter().all(gated), "open at position 6");
    stage.vendor.step(GARNET, 5).await?;
    ends_well(stage, "j").await
}

async fn worker_killed_at_the_front(world: &World) -> Result<()> {
    let stage = world
        .stage_with("kill-front", |config| config.by_hand(Ahead { normal: 1, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let pod = producer(&stage, "j").await?;
    stage.gang(&job, "position 2 is shown", |g| position(g) == Some("2")).await?;
    stage.vendor.step(GARNET, 1).await?;
    kill_worker(&pod).await?;
    ends_well(stage, "j").await
}

async fn worker_killed_after_the_release(world: &World) -> Result<()> {
    let stage = world.stage("kill-after").await?;
    stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let pod = producer(&stage, "j").await?;
    stage.pods("j", "every gate is open", |p| p.len() == 3 && p.iter().all(|p| !gated(p))).await?;
    kill_worker(&pod).await?;
    ends_well(stage, "j").await
}

/// Kills the process of the keeper that leads now.
async fn kill_leader(world: &World) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(world.kube(), SYSTEM);
    let holder = await_value("a keeper leads", LIMIT, async || {
        let list =
            leases.list(&kube::api::ListParams::default()).await.map_err(|e| e.to_string())?;
        list.items
            .into_iter()
            .filter_map(|lease| lease.spec?.holder_identity)
            .find(|holder| !holder.is_empty())
            .ok_or_else(|| "no holder".to_owned())
    })
    .await?;
    // The holder's name begins with the pod's name, which is the container's host name.
    let found = processes::find("sluice-webhook", &format!("HOSTNAME={holder}"));
    let leader = found.first().with_context(|| format!("no process of the keeper {holder}"))?;
    leader.identity.kill()?;
    Ok(())
}

async fn keeper_killed_before_the_release(world: &World) -> Result<()> {
    let stage = world
        .stage_with("keeper-before", |config| config.by_hand(Ahead { normal: 2, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    stage.gang(&job, "position 3 is shown", |g| position(g) == Some("3")).await?;
    kill_leader(world).await?;
    stage.vendor.step(GARNET, 2).await?;
    ends_well(stage, "j").await
}

async fn keeper_killed_during_the_release(world: &World) -> Result<()> {
    let stage = world
        .stage_with("keeper-during", |config| config.by_hand(Ahead { normal: 2, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let gang = stage.gang(&job, "position 3 is shown", |g| position(g) == Some("3")).await?;
    let order = json!({"spec": {"release": {"by": "operator", "reason": "a fault test"}}});
    let (patched, killed) = tokio::join!(stage.patch_gang(&gang, order), kill_leader(world));
    patched?;
    killed?;
    stage.vendor.step(GARNET, 2).await?;
    ends_well(stage, "j").await
}

async fn keeper_killed_after_the_release(world: &World) -> Result<()> {
    let stage = world.stage("keeper-after").await?;
    stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let pods = stage
        .pods("j", "every gate is open", |p| p.len() == 3 && p.iter().all(|p| !gated(p)))
        .await?;
    kill_leader(world).await?;
    // A consumer that appears under the next keeper is opened like the first ones.
    let victim = pods[2].name_any();
    stage.api::<Pod>().delete(&victim, &DeleteParams::default().grace_period(0)).await?;
    stage
        .pods("j", "another pod of index 2 is open", |pods| {
            pods.len() == 3 && pods.iter().all(|p| p.name_any() != victim && !gated(p))
        })
        .await?;
    ends_well(stage, "j").await
}

async fn api_server_away_at_the_front(world: &World) -> Result<()> {
    let stage = world
        .stage_with("no-api", |config| config.by_hand(Ahead { normal: 2, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let pod = producer(&stage, "j").await?;
    stage.gang(&job, "position 3 is shown", |g| position(g) == Some("3")).await?;
    world.lab().stop("kube-apiserver").await?;
    stage.vendor.step(GARNET, 2).await?;
    // The program polls on, the worker even dies meanwhile: the order waits for the API.
    kill_worker(&pod).await?;
    world.lab().start("kube-apiserver").await?;
    ends_well(stage, "j").await
}

async fn webhook_away(world: &World) -> Result<()> {
    let stage = world.stage("no-webhook").await?;
    world.scale(0).await?;
    let pods: Api<Pod> = Api::namespaced(world.kube(), SYSTEM);
    await_value("no webhook runs", LIMIT, async || {
        let list = pods.list(&kube::api::ListParams::default()).await.map_err(|e| e.to_string())?;
        if list.items.is_empty() { Ok(()) } else { Err(format!("{} pods", list.items.len())) }
    })
    .await?;
    let quantum = stage.refused(&stage.draft("quantum", 3, "fanout.py")).await;
    // Everything that is not quantum starts as ever.
    let plain = stage
        .shell("plain", 1, "true")
        .set("/spec/template/spec/containers/0/resources", json!({}));
    let created = stage.submit(&plain).await;
    let ended = stage.completed("plain").await;
    world.scale(2).await?;
    world.ready(LIMIT).await?;
    created?;
    ended?;
    let message = quantum?;
    ensure!(message.contains("sluice"), "the message does not name us: {message}");
    stage.submit(&stage.draft("quantum", 3, "fanout.py")).await?;
    ends_well(stage, "quantum").await
}

async fn job_created_in_the_second_of_the_install(world: &World) -> Result<()> {
    use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
    let stage = world.stage("install").await?;
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(world.kube());
    let ours = webhooks
        .list(&kube::api::ListParams::default())
        .await?
        .into_iter()
        .find(|w| w.name_any().starts_with("sluice"))
        .context("no webhook configuration of ours")?;
    webhooks.delete(&ours.name_any(), &DeleteParams::default()).await?;
    // Too early: nobody has split it, so its pods stay as they are and wait for a qpu.
    let early = stage.submit(&stage.draft("early", 2, "fanout.py")).await?;
    // In the second of the install: refused while the certificate is not published, then split.
    // Each try has a name of its own: the Job controller is confused for minutes by a Job of the
    // name of one that was deleted a moment ago.
    let tries = AtomicU32::new(0);
    let (installed, submitted) = tokio::join!(
        world.install(),
        await_value("the Job is accepted and split", Duration::from_mins(1), async || {
            let name = format!("meanwhile-{}", tries.fetch_add(1, Ordering::Relaxed));
            match stage.submit(&stage.draft(&name, 3, "fanout.py")).await {
                Ok(job) if job.labels().contains_key(names::JOB_LABEL) => Ok(name),
                Ok(job) => {
                    let jobs = stage.api::<Job>();
                    let gone = jobs.delete(&job.name_any(), &DeleteParams::background()).await;
                    Err(format!(
                        "accepted before the webhook was there; deleted again: {}",
                        gone.is_ok()
                    ))
                }
                Err(error) => Err(format!("{error:#}")),
            }
        }),
    );
    installed?;
    let name = submitted?;
    stage.event(&early.name_any(), names::EVENT_NOT_STAMPED).await?;
    let pods = stage.pods("early", "two pods", |p| p.len() == 2).await?;
    ensure!(pods.iter().all(|p| phase(p) == "Pending" && !started(p)), "an unshaped pod runs");
    ends_well(stage, &name).await
}

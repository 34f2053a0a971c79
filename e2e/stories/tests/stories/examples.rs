//! The examples of the repository, file by file as a user finds them: each program under its own
//! Job. Only the image, the vendor's address and the keys are the stage's.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};
use sluice_lab::await_value;
use sluice_shared::names;
use sluice_stories::stage::{LIMIT, Stage, gated};
use sluice_stories::world::World;
use sluice_vendors::Ahead;

crate::stories![
    single_evaluation,
    fan_out_from_a_place_in_the_queue,
    a_batch_of_25,
    a_variational_loop_that_says_when,
    a_variational_loop_released_at_its_first_round,
];

/// One of the examples: its Job, and the program that goes with it.
struct Example {
    job: &'static str,
    program: &'static str,
}

const SINGLE: Example = Example {
    job: include_str!("../../../../examples/single-evaluation/job.yaml"),
    program: "single-evaluation.py",
};
const FAN_OUT: Example =
    Example { job: include_str!("../../../../examples/fan-out/job.yaml"), program: "fan-out.py" };
const BATCH: Example =
    Example { job: include_str!("../../../../examples/batch/job.yaml"), program: "batch.py" };
const LOOP: Example = Example {
    job: include_str!("../../../../examples/variational-loop/job.yaml"),
    program: "variational-loop.py",
};

impl Example {
    /// Creates the Job on the stage, after `change`.
    async fn submit(&self, stage: &Stage<'_>, change: impl FnOnce(&mut Value)) -> Result<Job> {
        let mut job: Value = serde_saphyr::from_str(self.job).context("the Job of an example")?;
        let lab = stage.draft("lab", 1, self.program).job();
        let lab = &lab["spec"]["template"]["spec"];
        let pod = &mut job["spec"]["template"]["spec"];
        pod["volumes"] = lab["volumes"].clone();
        pod["terminationGracePeriodSeconds"] = json!(5);
        let container = &mut pod["containers"][0];
        for field in ["image", "command", "envFrom", "volumeMounts"] {
            container[field] = lab["containers"][0][field].clone();
        }
        // The stage's entries come last and count.
        let stage_env = lab["containers"][0]["env"].as_array().cloned().unwrap_or_default();
        let env = container["env"].as_array_mut().context("an example without environment")?;
        env.retain(|e| !stage_env.iter().any(|s| s["name"] == e["name"]));
        env.extend(stage_env);
        change(&mut job);
        let job: Job = serde_json::from_value(job)?;
        Ok(stage.api::<Job>().create(&PostParams::default(), &job).await?)
    }
}

/// The pods of the Job, all of them.
async fn crew(stage: &Stage<'_>, job: &Job) -> Result<Vec<Pod>> {
    let count = job.spec.as_ref().and_then(|s| s.completions).unwrap_or(1);
    let count = usize::try_from(count)?;
    stage.pods(&job.name_any(), "every pod exists", |p| p.len() == count).await
}

/// Moves the vendor's line until the program has submitted so many tasks.
async fn until_sent(stage: &Stage<'_>, least: usize) -> Result<()> {
    let what = format!("{least} tasks are sent");
    await_value(&what, LIMIT, async || {
        stage.vendor.step(Some("Garnet"), 1).await.map_err(|e| e.to_string())?;
        let count = stage.vendor.tasks().len();
        if count >= least { Ok(()) } else { Err(format!("{count} tasks")) }
    })
    .await?;
    Ok(())
}

/// Ends the story when the Job has completed while the line moved, and checks what each pod said.
async fn play_to_the_end(stage: &Stage<'_>, job: &Job, says: &[(usize, &str)]) -> Result<()> {
    let name = job.name_any();
    let jobs = stage.api::<Job>();
    let wanted = job.spec.as_ref().and_then(|s| s.completions).unwrap_or(1);
    await_value("all pods succeed", LIMIT, async || {
        stage.vendor.step(Some("Garnet"), 1).await.map_err(|e| e.to_string())?;
        let status = jobs.get_status(&name).await.map_err(|e| e.to_string())?.status;
        let succeeded = status.as_ref().and_then(|s| s.succeeded).unwrap_or_default();
        if succeeded == wanted { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await?;
    stage.completed(&name).await?;
    let pods = crew(stage, job).await?;
    for (index, text) in says {
        let output = stage.output(&pods[*index]).await?;
        ensure!(output.contains(text), "pod {index} does not say {text:?}:\n{output}");
    }
    Ok(())
}

async fn single_evaluation(world: &World) -> Result<()> {
    let stage = world.stage("ex-single").await?;
    let job = SINGLE.submit(&stage, |_| ()).await?;
    stage.tasks(1).await?;
    play_to_the_end(&stage, &job, &[(0, "<ZZ> = 1.000")]).await?;
    stage.strike().await
}

async fn fan_out_from_a_place_in_the_queue(world: &World) -> Result<()> {
    let stage = world
        .stage_with("ex-fan-out", |config| config.by_hand(Ahead { normal: 4, priority: 0 }))
        .await?;
    let job = FAN_OUT.submit(&stage, |_| ()).await?;
    stage.tasks(1).await?;
    let at = |position: &'static str| {
        move |g: &sluice_shared::gang::QuantumGang| {
            g.status.as_ref().and_then(|s| s.position.as_deref()) == Some(position)
        }
    };
    stage.gang(&job, "position 5", at("5")).await?;
    stage.vendor.step(Some("Garnet"), 1).await?;
    stage.gang(&job, "position 4", at("4")).await?;
    ensure!(crew(&stage, &job).await?[1..].iter().all(gated), "open before position 3");
    stage.vendor.step(Some("Garnet"), 1).await?;
    let name = job.name_any();
    stage.pods(&name, "every gate is open", |p| p.iter().all(|p| !gated(p))).await?;
    let gang = stage.gang(&job, "position 3", at("3")).await?;
    let order = gang.status.and_then(|s| s.vendor).and_then(|v| v.order).context("no order")?;
    ensure!(order.reason == "position 3", "{order:?}");
    let says = [(1, "of 100 shots"), (2, "of 100 shots"), (3, "of 100 shots")];
    play_to_the_end(&stage, &job, &says).await?;
    stage.strike().await
}

async fn a_batch_of_25(world: &World) -> Result<()> {
    let stage = world.stage("ex-batch").await?;
    let job = BATCH.submit(&stage, |_| ()).await?;
    // The SDK keeps ten tasks under way: the rest is sent as results come in.
    until_sent(&stage, 11).await?;
    ensure!(stage.vendor.tasks().len() < 25, "the batch was sent at once");
    ensure!(crew(&stage, &job).await?[1..].iter().all(gated), "open before the batch is sent");
    let says = [
        (0, "producer has 25 results"),
        (1, "consumer 1 worked on 13 of 25 tasks"),
        (2, "consumer 2 worked on 12 of 25 tasks"),
    ];
    play_to_the_end(&stage, &job, &says).await?;
    stage.tasks(25).await?;
    stage.strike().await
}

async fn a_variational_loop_that_says_when(world: &World) -> Result<()> {
    let stage = world.stage("ex-manual").await?;
    let job = LOOP.submit(&stage, |_| ()).await?;
    until_sent(&stage, 3).await?;
    // Two rounds have their results, and the search goes on.
    ensure!(crew(&stage, &job).await?[1..].iter().all(gated), "open before the program's word");
    let says = [(0, ": 202"), (1, "by consumer 1"), (2, "by consumer 2")];
    play_to_the_end(&stage, &job, &says).await?;
    stage.strike().await
}

async fn a_variational_loop_released_at_its_first_round(world: &World) -> Result<()> {
    let stage = world.stage("ex-loop").await?;
    let front = |job: &mut Value| job["metadata"]["annotations"][names::RELEASE] = json!("front");
    let job = LOOP.submit(&stage, front).await?;
    let name = job.name_any();
    stage.tasks(1).await?;
    stage
        .pods(&name, "every gate is open", |p| p.len() == 3 && p.iter().all(|p| !gated(p)))
        .await?;
    stage
        .gang(&job, "the release is recorded", |g| {
            let order = g.status.as_ref().and_then(|s| s.order.as_ref());
            order.is_some_and(|o| o.opened_at.is_some())
        })
        .await?;
    // The next round waits behind others, while the consumers are there already.
    let busy = sluice_vendors::DeviceChange {
        ahead: Some(Ahead { normal: 5, priority: 0 }),
        ..sluice_vendors::DeviceChange::default()
    };
    stage.vendor.change_device("Garnet", busy)?;
    stage.run_task().await?;
    stage.tasks(2).await?;
    let note = stage.event(&name, names::EVENT_QUEUED_AFTER_RELEASE).await?;
    ensure!(note.contains("iqm Garnet") && note.contains("told once"), "{note}");
    play_to_the_end(&stage, &job, &[(0, ": 200"), (1, "by consumer 1")]).await?;
    let told = stage.events(&name, names::EVENT_QUEUED_AFTER_RELEASE).await?;
    ensure!(told.len() == 1, "{told:?}");
    stage.strike().await
}

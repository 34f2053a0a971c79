//! The vendors of QRMI on the real cluster: the example of each, with the real `qrmi` library.
//! Only the image, the address of the vendor and the keys are the stage's.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};
use sluice_lab::await_value;
use sluice_shared::gang::QuantumGang;
use sluice_shared::names;
use sluice_shared::resource::Service as Kind;
use sluice_stories::job::ACCOUNT;
use sluice_stories::stage::{LIMIT, Stage, gated, started};
use sluice_stories::world::World;
use sluice_vendors::{Ahead, Busy, Config, Entry, MachineChange, Service};

crate::stories![
    iqm_server,
    ibm_quantum_compute_service,
    ibm_quantum_system_with_busy_lanes,
    pasqal_cloud,
    alice_bob_felis,
    a_session_gives_the_variational_loop_its_priority,
    a_key_ends_while_the_task_waits_and_is_renewed,
    tokens_end_while_the_task_waits_and_are_bought_in_time,
];

/// Whose everything is at the vendors.
const TEAM: (&str, &str) = ("team", "team-key");
/// The Secret of the examples.
const KEYS: &str = "qrmi";

/// The example of one vendor.
struct Example {
    job: &'static str,
    program: &'static str,
    service: Service,
    resource: &'static str,
    machine: &'static str,
}

const IQM: Example = Example {
    job: include_str!("../../../../examples/qrmi/iqm-server.yaml"),
    program: "qrmi-fan-out.py",
    service: Service::Iqm,
    resource: "garnet",
    machine: "iqm/garnet",
};
const COMPUTE: Example = Example {
    job: include_str!("../../../../examples/qrmi/ibm-quantum-compute-service.yaml"),
    program: "qrmi-fan-out.py",
    service: Service::IbmQuantumComputeService,
    resource: "ibm_lagos",
    machine: "ibm-quantum-compute-service/ibm_lagos",
};
const SESSION: Example = Example {
    job: include_str!("../../../../examples/qrmi/session-loop.yaml"),
    program: "session-loop.py",
    ..COMPUTE
};
const SYSTEM: Example = Example {
    job: include_str!("../../../../examples/qrmi/ibm-quantum-system.yaml"),
    program: "qrmi-fan-out.py",
    service: Service::IbmQuantumSystem,
    resource: "fake_lagos",
    machine: "ibm-quantum-system/fake_lagos",
};
const PASQAL: Example = Example {
    job: include_str!("../../../../examples/qrmi/pasqal-cloud.yaml"),
    program: "qrmi-fan-out.py",
    service: Service::Pasqal,
    resource: "FRESNEL",
    machine: "pasqal/FRESNEL",
};
const FELIS: Example = Example {
    job: include_str!("../../../../examples/qrmi/alice-bob-felis.yaml"),
    program: "qrmi-fan-out.py",
    service: Service::Felis,
    resource: "ab_emu_1q_lescanne_2020",
    machine: "felis/EMU:1Q:LESCANNE_2020",
};

impl Example {
    async fn stage<'w>(&self, world: &'w World, name: &str) -> Result<Stage<'w>> {
        self.stage_with(world, name, |_| ()).await
    }

    async fn stage_with<'w>(
        &self,
        world: &'w World,
        name: &str,
        change: impl FnOnce(&mut Config) + Send,
    ) -> Result<Stage<'w>> {
        let stage = world
            .stage_with(name, |config| {
                let mut config = config.by_hand(Ahead { normal: 2, priority: 0 });
                config.qrmi.long_poll_ms = 500;
                change(&mut config);
                config
            })
            .await?;
        stage.vendor.add_bucket(ACCOUNT, "qrmi");
        let (team, key) = TEAM;
        let all = stage.vendor.qrmi_environment(self.service, self.resource, team, key);
        let all: serde_json::Map<_, _> = all.into_iter().map(|(k, v)| (k, v.into())).collect();
        let addresses = json!({"metadata": {"name": KEYS}, "data": all.clone()});
        let maps = stage.api::<ConfigMap>();
        maps.create(&PostParams::default(), &serde_json::from_value(addresses)?).await?;
        let secret = json!({"metadata": {"name": KEYS}, "stringData": all});
        let secrets = stage.api::<Secret>();
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        Ok(stage)
    }

    /// Creates the Job of the example.
    async fn submit(&self, stage: &Stage<'_>) -> Result<Job> {
        let lock = include_str!("../../../vendors/tests/python/qrmi.txt");
        let python =
            tokio::task::spawn_blocking(|| sluice_lab::python_env_of("QRMI", lock)).await??;
        let mut job: Value = serde_saphyr::from_str(self.job).context("the Job of an example")?;
        let lab = stage.draft_with(&python, "lab", 1, self.program).job();
        let lab = &lab["spec"]["template"]["spec"];
        let pod = &mut job["spec"]["template"]["spec"];
        pod["volumes"] = lab["volumes"].clone();
        pod["terminationGracePeriodSeconds"] = json!(5);
        let container = &mut pod["containers"][0];
        for field in ["image", "command", "volumeMounts"] {
            container[field] = lab["containers"][0][field].clone();
        }
        // A plain endpoint names no vendor that can be reached from here.
        let (team, key) = TEAM;
        let all = stage.vendor.qrmi_environment(self.service, self.resource, team, key);
        for entry in container["env"].as_array_mut().context("an example without environment")? {
            let own = all.iter().find(|(name, _)| entry["name"] == **name);
            if let (Some((_, value)), true) = (own, entry["value"].is_string()) {
                entry["value"] = json!(value);
            }
        }
        let job: Job = serde_json::from_value(job)?;
        Ok(stage.api::<Job>().create(&PostParams::default(), &job).await?)
    }

    async fn step(&self, stage: &Stage<'_>, times: u32) -> Result<()> {
        Ok(stage.vendor.step(Some(self.machine), times).await?)
    }
}

/// The gang once the task waits where it should, with its consumers held and not started.
async fn waits(stage: &Stage<'_>, job: &Job, kind: Kind) -> Result<QuantumGang> {
    let gang = stage
        .gang(job, "the task waits", |g| {
            let task = task_of(g);
            task.is_some_and(|t| {
                t.state == "QUEUED" && t.resource.as_ref().is_some_and(|r| r.service == kind)
            })
        })
        .await?;
    let pods = stage.pods(&job.name_any(), "all pods exist", |p| p.len() == 3).await?;
    ensure!(pods[1..].iter().all(|p| gated(p) && !started(p)), "a consumer is not held");
    Ok(gang)
}

fn task_of(gang: &QuantumGang) -> Option<&sluice_shared::gang::Task> {
    gang.status.as_ref()?.vendor.as_ref()?.tasks.last()
}

/// All consumers are open with the id of the task.
async fn opens(stage: &Stage<'_>, job: &Job, id: &str) -> Result<()> {
    let open = |pod: &Pod| {
        !gated(pod) && pod.annotations().get(names::QUANTUM_JOB_ID).map(String::as_str) == Some(id)
    };
    let what = "the consumers are open with the id";
    stage.pods(&job.name_any(), what, |p| p.len() == 3 && p[1..].iter().all(open)).await?;
    Ok(())
}

/// The Job ends well, and every pod has seen the one result.
async fn ends(stage: &Stage<'_>, job: &Job, id: &str) -> Result<()> {
    stage.completed(&job.name_any()).await?;
    let pods = stage.pods(&job.name_any(), "all pods", |p| p.len() == 3).await?;
    let mut said = Vec::new();
    for pod in &pods {
        let log = stage.output(pod).await?;
        let line = log.lines().rfind(|line| line.contains(" gave ")).unwrap_or_default();
        ensure!(line.starts_with(id), "{} said {log}", pod.name_any());
        said.push(line.to_owned());
    }
    ensure!(said.iter().all(|line| *line == said[0]), "not one result: {said:?}");
    ensure!(stage.vendor.jobs().len() == 1, "one task was paid for: {:?}", stage.vendor.jobs());
    Ok(())
}

/// The whole story where the vendor has a queue: two wait before the task.
async fn fan_out(world: &World, example: &Example, kind: Kind, name: &str) -> Result<()> {
    let stage = example.stage(world, name).await?;
    let job = example.submit(&stage).await?;
    let gang = waits(&stage, &job, kind).await?;
    let id = task_of(&gang).context("a task")?.id.clone();
    if kind == Kind::IqmServer {
        ensure!(task_of(&gang).is_some_and(|t| t.position.is_some()), "IQM tells a place");
    }
    // One still runs before it: nobody starts early.
    example.step(&stage, 1).await?;
    let pods = stage.pods(&job.name_any(), "all pods", |p| p.len() == 3).await?;
    ensure!(pods[1..].iter().all(gated), "a consumer is open too early");
    example.step(&stage, 2).await?;
    opens(&stage, &job, &id).await?;
    example.step(&stage, 1).await?;
    ends(&stage, &job, &id).await?;
    stage.strike().await
}

async fn iqm_server(world: &World) -> Result<()> {
    fan_out(world, &IQM, Kind::IqmServer, "iqm").await
}

async fn pasqal_cloud(world: &World) -> Result<()> {
    fan_out(world, &PASQAL, Kind::PasqalCloud, "pasqal").await
}

async fn alice_bob_felis(world: &World) -> Result<()> {
    fan_out(world, &FELIS, Kind::AliceBobFelis, "felis").await
}

async fn ibm_quantum_compute_service(world: &World) -> Result<()> {
    fan_out(world, &COMPUTE, Kind::IbmQuantumComputeService, "ibm-compute").await
}

async fn ibm_quantum_system_with_busy_lanes(world: &World) -> Result<()> {
    let stage = SYSTEM.stage(world, "ibm-system").await?;
    let busy = |lanes| MachineChange {
        busy: Some(Busy { lanes, ms: None, from: None }),
        ..MachineChange::default()
    };
    stage.vendor.change_machine(SYSTEM.machine, busy(100))?;
    let job = SYSTEM.submit(&stage).await?;
    let gang = waits(&stage, &job, Kind::IbmQuantumSystem).await?;
    let task = task_of(&gang).context("a task")?;
    ensure!(task.reason.as_deref() == Some("all lanes are busy"), "{task:?}");
    ensure!(stage.vendor.jobs().is_empty(), "nothing was taken");
    let id = task.id.clone();
    stage.vendor.change_machine(SYSTEM.machine, busy(0))?;
    opens(&stage, &job, &id).await?;
    SYSTEM.step(&stage, 1).await?;
    ends(&stage, &job, &id).await?;
    stage.strike().await
}

async fn a_key_ends_while_the_task_waits_and_is_renewed(world: &World) -> Result<()> {
    let quiet = Example { program: "qrmi-quiet.py", ..IQM };
    let stage = quiet.stage(world, "key-ends").await?;
    let job = quiet.submit(&stage).await?;
    let gang = waits(&stage, &job, Kind::IqmServer).await?;
    let id = task_of(&gang).context("a task")?.id.clone();
    ensure!(stage.vendor.revoke_key(TEAM.0), "the team has a key");
    let problem = |gang: &QuantumGang| {
        gang.status.as_ref().and_then(|s| s.vendor.as_ref()?.problem.clone()).unwrap_or_default()
    };
    let said = "iqm-server/garnet refuses the credentials";
    let gang = stage.gang(&job, "the gang says so", |g| problem(g).contains(said)).await?;
    ensure!(!problem(&gang).contains(TEAM.1), "{}", problem(&gang));
    // It reaches the front meanwhile; nobody knows, so nobody starts.
    quiet.step(&stage, 2).await?;
    let pods = stage.pods(&job.name_any(), "all pods", |p| p.len() == 3).await?;
    ensure!(pods[1..].iter().all(gated), "a consumer is open although nothing is known");
    stage.vendor.renew_key(TEAM.0, TEAM.1);
    opens(&stage, &job, &id).await?;
    stage.gang(&job, "nothing is wrong any more", |g| problem(g).is_empty()).await?;
    ensure!(stage.vendor.jobs().len() == 1, "one task was paid for");
    stage.strike().await
}

async fn tokens_end_while_the_task_waits_and_are_bought_in_time(world: &World) -> Result<()> {
    const SECONDS: i64 = 6;
    let quiet = Example { program: "qrmi-quiet.py", ..COMPUTE };
    let short = |config: &mut Config| config.qrmi.token_seconds = SECONDS;
    let stage = quiet.stage_with(world, "tokens-end", short).await?;
    let job = quiet.submit(&stage).await?;
    let gang = waits(&stage, &job, Kind::IbmQuantumComputeService).await?;
    let id = task_of(&gang).context("a task")?.id.clone();
    // The program asks nothing, so that the sidecar does, with tokens of its own.
    let of_sidecar = |operation: &str| {
        let journal = stage.vendor.journal();
        let is_it = |entry: &&Entry| {
            entry.operation.ends_with(operation) && entry.user_agent.starts_with("sluice-sidecar/")
        };
        journal.iter().filter(is_it).count()
    };
    await_value("the sidecar has bought three tokens", LIMIT, async || {
        let bought = of_sidecar(":GetToken");
        if bought >= 3 { Ok(()) } else { Err(format!("{bought}")) }
    })
    .await?;
    quiet.step(&stage, 3).await?;
    opens(&stage, &job, &id).await?;
    let counts = stage.vendor.counts();
    ensure!(!counts.keys().any(|name| name.ends_with(" 401")), "one was refused: {counts:?}");
    let (bought, asked) = (of_sidecar(":GetToken"), of_sidecar(":GetJob"));
    ensure!(bought <= asked, "{bought} tokens for {asked} questions");
    stage.strike().await
}

async fn a_session_gives_the_variational_loop_its_priority(world: &World) -> Result<()> {
    const OTHERS: u64 = 500;
    let stage = SESSION.stage(world, "session").await?;
    let job = SESSION.submit(&stage).await?;
    let gang = waits(&stage, &job, Kind::IbmQuantumComputeService).await?;
    ensure!(
        task_of(&gang).is_some_and(|task| task.session.is_some()),
        "the gang names the session"
    );
    // Many come after the first round and before the second.
    let crowd = MachineChange { add_ahead: Some(OTHERS), ..MachineChange::default() };
    stage.vendor.change_machine(SESSION.machine, crowd)?;
    let steps = AtomicU64::new(0);
    await_value("all rounds have run", LIMIT, async || {
        SESSION.step(&stage, 1).await.map_err(|e| e.to_string())?;
        steps.fetch_add(1, Ordering::Relaxed);
        let done = stage.vendor.jobs().iter().filter(|job| job.state == "COMPLETED").count();
        if done == 4 { Ok(()) } else { Err(format!("{done} rounds")) }
    })
    .await?;
    let steps = steps.load(Ordering::Relaxed);
    ensure!(steps < OTHERS, "the rounds waited behind the others: {steps} steps");
    stage.completed(&job.name_any()).await?;
    let pods = stage.pods(&job.name_any(), "all pods", |p| p.len() == 3).await?;
    for consumer in &pods[1..] {
        let log = stage.output(consumer).await?;
        ensure!(log.contains("energy "), "{log}");
    }
    let count = |operation: &str| {
        let name = format!("ibm-quantum-compute-service:{operation}");
        stage.vendor.journal().iter().filter(|entry| entry.operation == name).count()
    };
    let closes = count("UpdateSession") + count("CloseSession");
    ensure!(closes == 1, "the program alone ends its session: {closes}");
    stage.strike().await
}

//! QRMI and the clients of its vendors, each with the variables of one resource.

use futures::{StreamExt, stream};
use sluice_judges::table::{Bypass, Outcome, ResourceClient};
use sluice_shared::resource::Resource;
use sluice_tap::{Endpoint, Route};
use sluice_vendors::{Emulator, Running, Service};

use crate::bench::Bench;
use crate::clients::AT_ONCE;
use crate::program::{self, Place, Turn};
use crate::proxy::Proxy;
use crate::seen::Seen;

/// A resource of the emulator.
#[derive(Clone, Copy)]
struct Emulated {
    service: Service,
    kind: &'static str,
    name: &'static str,
}

const COMPUTE: Emulated = Emulated {
    service: Service::IbmQuantumComputeService,
    kind: "ibm-quantum-compute-service",
    name: "ibm_lagos",
};
/// The same by the names that it had before.
const RUNTIME: Emulated = Emulated { kind: "qiskit-runtime-service", ..COMPUTE };
const SYSTEM: Emulated =
    Emulated { service: Service::IbmQuantumSystem, kind: "ibm-quantum-system", name: "fake_lagos" };
const PASQAL: Emulated =
    Emulated { service: Service::Pasqal, kind: "pasqal-cloud", name: "EMU_FREE" };
const IQM: Emulated = Emulated { service: Service::Iqm, kind: "iqm-server", name: "garnet" };
const FELIS: Emulated =
    Emulated { service: Service::Felis, kind: "alice-bob-felis", name: "ab_emu_1q_lescanne_2020" };

/// A client, its program, and the resource that it uses.
struct Judge {
    name: &'static str,
    program: &'static str,
    resource: Emulated,
}

const fn judge(name: &'static str, program: &'static str, resource: Emulated) -> Judge {
    Judge { name, program, resource }
}

const LIBRARY: (&str, &str) = ("QRMI, library", "qrmi_library.py");
const RUNNER: (&str, &str) = ("QRMI, task runner", "qrmi_task_runner.py");
const IQM_CLIENT: (&str, &str) = ("iqm-client", "iqm_circuits.py");
const PASQAL_CLOUD: (&str, &str) = ("pasqal-cloud", "pasqal_batch.py");
const ALICE_BOB: (&str, &str) = ("qiskit-alice-bob-provider", "alice_bob_backend.py");

const JUDGES: &[Judge] = &[
    judge(LIBRARY.0, LIBRARY.1, COMPUTE),
    judge(LIBRARY.0, LIBRARY.1, RUNTIME),
    judge(LIBRARY.0, LIBRARY.1, SYSTEM),
    judge(LIBRARY.0, LIBRARY.1, PASQAL),
    judge(LIBRARY.0, LIBRARY.1, IQM),
    judge(LIBRARY.0, LIBRARY.1, FELIS),
    judge(RUNNER.0, RUNNER.1, COMPUTE),
    judge(RUNNER.0, RUNNER.1, RUNTIME),
    judge(RUNNER.0, RUNNER.1, SYSTEM),
    judge(RUNNER.0, RUNNER.1, PASQAL),
    judge(RUNNER.0, RUNNER.1, IQM),
    judge(RUNNER.0, RUNNER.1, FELIS),
    judge(PASQAL_CLOUD.0, PASQAL_CLOUD.1, PASQAL),
    judge(IQM_CLIENT.0, IQM_CLIENT.1, IQM),
    judge(ALICE_BOB.0, ALICE_BOB.1, FELIS),
];

/// What keeps a client from the tap.
struct Detour {
    judge: Judge,
    what: &'static str,
    /// Set for the program.
    more: Option<(&'static str, Value)>,
    /// Whether the Job has another resource.
    is_one_of_two: bool,
    remedy: &'static str,
}

/// A variable's value.
#[derive(Clone, Copy)]
enum Value {
    Text(&'static str),
    /// Where the vendor is.
    Vendor,
}

const ANNOUNCE: &str = "take the address from QRMI's variable, or announce the task";
const OWN: Option<(&str, Value)> = Some(("IN_CODE_DEFAULT", Value::Text("1")));

const DETOURS: &[Detour] = &[
    Detour {
        judge: judge(IQM_CLIENT.0, IQM_CLIENT.1, IQM),
        what: "`IQMClient(\"https://…\")` in code",
        more: Some(("IN_CODE_ENDPOINT", Value::Vendor)),
        is_one_of_two: false,
        remedy: ANNOUNCE,
    },
    Detour {
        judge: judge(PASQAL_CLOUD.0, PASQAL_CLOUD.1, PASQAL),
        what: "`PasqalCloudClient(…)` without `endpoints`",
        more: OWN,
        is_one_of_two: false,
        remedy: ANNOUNCE,
    },
    Detour {
        judge: judge(ALICE_BOB.0, ALICE_BOB.1, FELIS),
        what: "`AliceBobRemoteProvider(key)` without `url`",
        more: OWN,
        is_one_of_two: false,
        remedy: ANNOUNCE,
    },
    Detour {
        judge: judge(IQM_CLIENT.0, IQM_CLIENT.1, IQM),
        what: "another resource in the same Job",
        more: None,
        is_one_of_two: true,
        remedy: "it puts the port behind the path: give it the vendor's address, and announce",
    },
    Detour {
        judge: judge(ALICE_BOB.0, ALICE_BOB.1, FELIS),
        what: "another resource in the same Job",
        more: None,
        is_one_of_two: true,
        remedy: "it drops the last part of the path: add `/` to the variable's value in code",
    },
    Detour {
        judge: judge(PASQAL_CLOUD.0, PASQAL_CLOUD.1, PASQAL),
        what: "another resource in the same Job",
        more: None,
        is_one_of_two: true,
        remedy: "nothing",
    },
];

/// Runs one program with one resource.
async fn observe(vendor: &Running, judge: &Judge, detour: Option<&Detour>) -> Seen {
    let Emulated { service, kind, name } = judge.resource;
    let mut turn: Turn = vendor
        .qrmi_environment(service, name, "team", "team-key")
        .into_iter()
        .map(|(name, value)| (as_of(kind, &name), Some(value)))
        .collect();
    // An older word for the type names the same resource.
    let service = sluice_shared::resource::Service::of_type(kind).unwrap();
    let resource = Resource { service, name: name.to_owned() };
    let variable = resource.endpoints().find(|name| turn.contains_key(name)).unwrap();
    let mut routes = vec![route(resource, turn[&variable].as_deref().unwrap())];
    let is_one_of_two = detour.is_some_and(|detour| detour.is_one_of_two);
    if is_one_of_two {
        routes.push(route("iqm-server/other".parse().unwrap(), &vendor.braket_url()));
    }
    let bench = Bench::with_resources(&vendor.braket_url(), routes).await;
    let below = if is_one_of_two { format!("/{service}/{name}") } else { String::new() };
    turn.insert(variable, Some(format!("{}{below}", bench.url())));
    for (name, value) in [
        ("QRMI_JOB_QPU_RESOURCES", name),
        ("QRMI_JOB_QPU_TYPES", kind),
        // How often iqm-client asks, seconds.
        ("IQM_CLIENT_SECONDS_BETWEEN_CALLS", "0.1"),
    ] {
        turn.insert(name.to_owned(), Some(value.to_owned()));
    }
    if let Some((name, value)) = detour.and_then(|detour| detour.more) {
        let value = match value {
            Value::Text(text) => text.to_owned(),
            Value::Vendor => vendor.braket_url(),
        };
        turn.insert(name.to_owned(), Some(value));
    }
    run(judge.program, turn, bench).await
}

fn route(resource: Resource, endpoint: &str) -> Route {
    Route { resource, endpoint: Ok(Endpoint::parse(endpoint).unwrap()) }
}

/// Runs a program before a tap, and behind a proxy that refuses.
async fn run(program: &str, mut turn: Turn, bench: Bench) -> Seen {
    let proxy = Proxy::start().await;
    turn.extend(proxy.environment());
    let mut command = program::command(Place::Vendors, program).await;
    // Read when a package is imported, before the first turn.
    command.envs(turn.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))));
    let (report, errors) = program::run(command, &[turn]).await;
    Seen { report, errors, told: bench.end().await, proxies: vec![proxy] }
}

/// How IBM's own client goes, with these variables changed.
async fn ibm_runtime(vendor: &Running, is_pointed: bool) -> Bypass {
    let endpoint = format!("{}/api/v1", vendor.url_of(Service::IbmQuantumComputeService));
    let resource = "ibm-quantum-compute-service/qiskit".parse().unwrap();
    let routes = vec![route(resource, &endpoint)];
    let bench = Bench::with_resources(&vendor.braket_url(), routes).await;
    let environment = vendor.qiskit_environment("team-key").into_iter();
    let mut turn: Turn = environment.map(|(name, value)| (name.to_owned(), Some(value))).collect();
    let url = is_pointed.then(|| bench.url().replacen("://", "://experimental@", 1));
    turn.insert("QISKIT_IBM_URL".to_owned(), url);
    let seen = run("ibm_runtime.py", turn, bench).await;
    let (what, remedy) = if is_pointed {
        (
            "`QISKIT_IBM_URL=http://experimental@127.0.0.1:8731` and \
             `QISKIT_FUNCTIONS_EXPERIMENTAL=1`, set by its user",
            "nothing; IBM documents neither, so Sluice does not set them",
        )
    } else {
        ("used as it is", "announce the task")
    };
    Bypass {
        client: seen.versions(),
        what: what.to_owned(),
        outcome: seen.outcome(0, vendor),
        remedy: remedy.to_owned(),
    }
}

/// A variable by the name that it has for a type.
fn as_of(kind: &str, variable: &str) -> String {
    match kind {
        "qiskit-runtime-service" => variable.replace("_IBM_QCS_", "_IBM_QRS_"),
        _ => variable.to_owned(),
    }
}

async fn client(vendor: &Running, judge: &Judge) -> Result<ResourceClient, String> {
    let seen = observe(vendor, judge, None).await;
    let first = &seen.report.turns[0];
    let outcome = seen.outcome(0, vendor);
    if outcome != Outcome::Found || !seen.told.refused.is_empty() {
        return Err(format!(
            "{} at {} is not found by the tap: {:?}, {:?}\n{}",
            judge.name, judge.resource.kind, first.message, seen.told, seen.errors
        ));
    }
    let task = first.task.clone().unwrap_or_default();
    Ok(ResourceClient {
        name: judge.name.to_owned(),
        versions: seen.versions(),
        kind: judge.resource.kind.to_owned(),
        outcome,
        polls: seen.told.polled.contains(&task),
        shots: first.shots,
    })
}

async fn bypass(vendor: &Running, detour: &Detour) -> Bypass {
    let seen = observe(vendor, &detour.judge, Some(detour)).await;
    Bypass {
        client: detour.judge.name.to_owned(),
        what: detour.what.to_owned(),
        outcome: seen.outcome(0, vendor),
        remedy: detour.remedy.to_owned(),
    }
}

/// How each client went, and what passes the tap by.
pub(crate) async fn seen() -> (Vec<Result<ResourceClient, String>>, Vec<Bypass>) {
    let config = sluice_vendors::Config::for_testing().with_python(program::sdk().await);
    let config = config.with_qiskit_python(program::vendors().await);
    let vendor = Emulator::start(config).await.unwrap();
    // Where IBM Quantum System takes input from and puts results.
    vendor.add_bucket("123456789012", "qrmi");
    let clients =
        stream::iter(JUDGES).map(|judge| client(&vendor, judge)).buffered(AT_ONCE).collect().await;
    let mut bypasses: Vec<_> = stream::iter(DETOURS)
        .map(|detour| bypass(&vendor, detour))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let of_ibm = [false, true].map(|is_pointed| ibm_runtime(&vendor, is_pointed));
    bypasses.extend(futures::future::join_all(of_ibm).await);
    (clients, bypasses)
}

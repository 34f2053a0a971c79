//! Every client in every environment, and the page that tells of it.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use sluice_judges::table::{self, Bypass, Client, Outcome};
use sluice_vendors::Running;

use crate::bench::{Bench, emulator};
use crate::program::{self, Place, Report, Turn};
use crate::proxy::Proxy;
use crate::resources;
use crate::seen::Seen;

/// Clients that run at the same time. Half of it is the import of packages, half is waiting.
pub(crate) const AT_ONCE: usize = 2;

/// A client and the program that uses it.
struct Judge {
    name: &'static str,
    place: Place,
    program: &'static str,
}

const fn judge(name: &'static str, place: Place, program: &'static str) -> Judge {
    Judge { name, place, program }
}

const JUDGES: &[Judge] = &[
    judge("amazon-braket-sdk", Place::Sdk, "braket_sdk.py"),
    judge("amazon-braket-sdk, old", Place::Old, "old_braket_sdk.py"),
    judge("boto3", Place::Sdk, "boto3_client.py"),
    judge("botocore", Place::Sdk, "botocore_client.py"),
    judge("aiobotocore", Place::Clients, "aiobotocore_client.py"),
    judge("AWS command line", Place::Clients, "awscli.py"),
    judge("AWS SDK for JavaScript", Place::JavaScript, "submit.cjs"),
    judge("AWS SDK for Rust", Place::Rust, ""),
    judge("PennyLane", Place::Frameworks, "pennylane_device.py"),
    judge("Qiskit", Place::Frameworks, "qiskit_backend.py"),
];

/// What a program does, or what is set, so that the tap is not used.
struct Detour {
    client: &'static str,
    place: Place,
    program: &'static str,
    what: &'static str,
    more: &'static [(&'static str, Set)],
    remedy: &'static str,
}

/// A variable's value.
#[derive(Clone, Copy)]
enum Set {
    Text(&'static str),
    Vendor,
    Nothing,
}

const ANNOUNCE: &str = "drop it from the code, or announce the task";
const UNSET: &str = "unset it, or announce the task";

const DETOURS: &[Detour] = &[
    Detour {
        client: "boto3",
        place: Place::Sdk,
        program: "boto3_client.py",
        what: "`client(\"braket\", endpoint_url=…)` in code",
        more: &[("IN_CODE_ENDPOINT", Set::Vendor)],
        remedy: ANNOUNCE,
    },
    Detour {
        client: "amazon-braket-sdk",
        place: Place::Sdk,
        program: "braket_sdk.py",
        what: "`AwsSession(braket_client=…)` with a client that has an `endpoint_url`",
        more: &[("IN_CODE_ENDPOINT", Set::Vendor)],
        remedy: ANNOUNCE,
    },
    Detour {
        client: "boto3",
        place: Place::Sdk,
        program: "boto3_client.py",
        what: "`Config(ignore_configured_endpoint_urls=True)` in code",
        more: &[("IN_CODE_IGNORE", Set::Text("1"))],
        remedy: ANNOUNCE,
    },
    Detour {
        client: "boto3",
        place: Place::Sdk,
        program: "boto3_client.py",
        what: "`AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true`",
        more: &[("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", Set::Text("true"))],
        remedy: UNSET,
    },
    Detour {
        client: "amazon-braket-sdk",
        place: Place::Sdk,
        program: "braket_sdk.py",
        what: "`AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true`",
        more: &[("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", Set::Text("true"))],
        remedy: "nothing for Braket: `BRAKET_ENDPOINT` counts; S3 and STS lose their endpoints",
    },
    Detour {
        client: "boto3 from before 1.28",
        place: Place::Old,
        program: "old_boto3.py",
        what: "it knows neither variable",
        more: &[],
        remedy: "a newer boto3, or announce the task",
    },
    Detour {
        client: "boto3",
        place: Place::Sdk,
        program: "boto3_client.py",
        what: "`HTTP_PROXY` without the tap's address in `NO_PROXY`",
        more: &[("NO_PROXY", Set::Nothing), ("no_proxy", Set::Nothing)],
        remedy: "nothing: Sluice adds the address to `NO_PROXY`",
    },
    Detour {
        client: "AWS SDK for JavaScript",
        place: Place::JavaScript,
        program: "submit.cjs",
        what: "`HTTP_PROXY` without the tap's address in `NO_PROXY`",
        more: &[("NO_PROXY", Set::Nothing), ("no_proxy", Set::Nothing)],
        remedy: "nothing: it uses no proxy",
    },
    Detour {
        client: "boto3",
        place: Place::Sdk,
        program: "boto3_client.py",
        what: "`AWS_USE_FIPS_ENDPOINT=true`",
        more: &[("AWS_USE_FIPS_ENDPOINT", Set::Text("true"))],
        remedy: "Sluice does not tap such a pod: announce the task",
    },
    Detour {
        client: "AWS SDK for JavaScript",
        place: Place::JavaScript,
        program: "submit.cjs",
        what: "`AWS_USE_FIPS_ENDPOINT=true`",
        more: &[("AWS_USE_FIPS_ENDPOINT", Set::Text("true"))],
        remedy: "Sluice does not tap such a pod: announce the task",
    },
    Detour {
        client: "AWS SDK for Rust",
        place: Place::Rust,
        program: "",
        what: "`AWS_USE_FIPS_ENDPOINT=true`",
        more: &[("AWS_USE_FIPS_ENDPOINT", Set::Text("true"))],
        remedy: "Sluice does not tap such a pod: announce the task",
    },
];

/// Runs one program in some environments, each over what a tapped container has.
async fn observe(
    vendor: &Running,
    place: Place,
    name: &str,
    overlays: &[BTreeMap<&'static str, Set>],
) -> Seen {
    let bench = Bench::before(&vendor.braket_url()).await;
    let mut proxies = Vec::new();
    let mut turns = Vec::new();
    for overlay in overlays {
        let proxy = Proxy::start().await;
        let mut turn: Turn = vendor
            .environment()
            .into_iter()
            .chain([
                // What the webhook sets.
                ("AWS_ENDPOINT_URL_BRAKET", bench.url().to_owned()),
                ("BRAKET_ENDPOINT", bench.url().to_owned()),
                // What keeps everything on this machine.
                ("AWS_ENDPOINT_URL", vendor.braket_url()),
                ("AWS_MAX_ATTEMPTS", "1".to_owned()),
                // The name that JavaScript reads.
                ("AWS_REGION", "us-east-1".to_owned()),
            ])
            .map(|(name, value)| (name.to_owned(), Some(value)))
            .chain(proxy.environment())
            .collect();
        for (name, set) in overlay {
            let value = match set {
                Set::Text(text) => Some((*text).to_owned()),
                Set::Vendor => Some(vendor.braket_url()),
                Set::Nothing => None,
            };
            turn.insert((*name).to_owned(), value);
        }
        proxies.push(proxy);
        turns.push(turn);
    }
    let (report, errors) = match place {
        // It cannot change its own environment.
        Place::Rust => one_by_one(&turns).await,
        _ => program::run(program::command(place, name).await, &turns).await,
    };
    assert_eq!(report.turns.len(), turns.len(), "{errors}");
    Seen { report, errors, told: bench.end().await, proxies }
}

async fn one_by_one(turns: &[Turn]) -> (Report, String) {
    let mut whole = Report { versions: BTreeMap::new(), turns: Vec::new() };
    let mut all = String::new();
    for turn in turns {
        let mut command = program::command(Place::Rust, "").await;
        let set = turn.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let (report, errors) = {
            command.envs(set);
            program::run(command, &[]).await
        };
        whole.versions = report.versions;
        whole.turns.extend(report.turns);
        all.push_str(&errors);
    }
    (whole, all)
}

async fn client(vendor: &Running, judge: &Judge) -> Result<Client, String> {
    let overlays = [
        BTreeMap::new(),
        BTreeMap::from([("BRAKET_ENDPOINT", Set::Nothing)]),
        BTreeMap::from([("AWS_ENDPOINT_URL_BRAKET", Set::Nothing)]),
    ];
    let seen = observe(vendor, judge.place, judge.program, &overlays).await;
    let [both, service, sdk] = [0, 1, 2].map(|turn| seen.outcome(turn, vendor));
    let first = &seen.report.turns[0];
    if both != Outcome::Found || !seen.told.refused.is_empty() {
        return Err(format!(
            "{} is not found by the tap: {:?}, {:?}\n{}",
            judge.name, first.message, seen.told, seen.errors
        ));
    }
    let task = first.task.clone().unwrap_or_default();
    Ok(Client {
        name: judge.name.to_owned(),
        versions: seen.versions(),
        both,
        service,
        sdk,
        polls: seen.told.polled.contains(&task),
        shots: first.shots,
    })
}

async fn bypass(vendor: &Running, detour: &Detour) -> Bypass {
    let overlay = detour.more.iter().copied().collect();
    let seen = observe(vendor, detour.place, detour.program, &[overlay]).await;
    Bypass {
        client: detour.client.to_owned(),
        what: detour.what.to_owned(),
        outcome: seen.outcome(0, vendor),
        remedy: detour.remedy.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_is_found_as_the_page_says() {
    let vendor = emulator().await;
    let of_braket = async {
        let clients = stream::iter(JUDGES).map(|judge| client(&vendor, judge));
        let clients: Vec<_> = clients.buffered(AT_ONCE).collect().await;
        let bypasses = stream::iter(DETOURS).map(|detour| bypass(&vendor, detour));
        (clients, bypasses.buffered(AT_ONCE).collect::<Vec<_>>().await)
    };
    let ((clients, mut bypasses), (of_resources, more)) =
        tokio::join!(of_braket, resources::seen());
    bypasses.extend(more);
    let lost = clients.iter().filter_map(|client| client.as_ref().err());
    let lost: Vec<_> =
        lost.chain(of_resources.iter().filter_map(|client| client.as_ref().err())).collect();
    assert!(lost.is_empty(), "{}", lost.iter().map(|it| it.as_str()).collect::<String>());
    let clients: Vec<_> = clients.into_iter().flatten().collect();
    let of_resources: Vec<_> = of_resources.into_iter().flatten().collect();

    let page = table::page(&clients, &of_resources, &bypasses);
    let path = program::folder("../../docs/clients.md");
    if std::env::var_os("SLUICE_UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == written,
        "docs/clients.md does not say what was seen; `make clients` writes it anew. Seen:\n{page}"
    );
}

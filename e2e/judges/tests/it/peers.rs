//! Independent emulators behind and beside the tap.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::bench::{Bench, emulator};
use crate::program::{self, PATIENCE, Place, Turn};

/// A program that serves and is spoken to line by line. It ends with this value.
struct Peer {
    _child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { _child: child, input, lines }
    }

    /// The next line that it prints.
    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        line.expect("it takes too long").unwrap().expect("the program still runs")
    }

    async fn tell(&mut self, line: &str) {
        use tokio::io::AsyncWriteExt;
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
}

/// What a tapped container has, with S3 and STS at some URL.
fn tapped(bench: &Bench, storage: &str) -> Turn {
    BTreeMap::from(
        [
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_ENDPOINT_URL_BRAKET", bench.url()),
            ("BRAKET_ENDPOINT", bench.url()),
            ("AWS_ENDPOINT_URL_S3", storage),
            ("AWS_ENDPOINT_URL_STS", storage),
        ]
        .map(|(name, value)| (name.to_owned(), Some(value.to_owned()))),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_independent_emulator_behind_the_tap_is_read_as_well() {
    let mut command = program::command(Place::Frameworks, "localqpu_server.py").await;
    // Its first submission is taken and the answer lost: the same token makes one task of both.
    let scenario = json!({
        "queue": { "polls_before_running": 3 },
        "http_faults": [{
            "path": "/quantum-task", "method": "POST", "times": 1,
            "drop_connection": true, "phase": "after",
        }],
    });
    command.arg(scenario.to_string());
    let mut server = Peer::start(command);
    let url = server.line().await;
    let bench = Bench::before(&url).await;

    let turn = tapped(&bench, &url);
    let judge = program::command(Place::Sdk, "braket_sdk.py").await;
    let (report, errors) = program::run(judge, &[turn]).await;
    let told = bench.end().await;

    let answer = &report.turns[0];
    assert_eq!((&answer.error, answer.shots), (&None, Some(10)), "{errors}\n{told:?}");
    assert_eq!(told.submitted, [answer.task.clone().unwrap()]);
    assert!(told.polled.contains(&told.submitted[0]), "{told:?}");
    assert!(told.places.iter().any(|place| place == "1"), "{told:?}");

    server.tell("report").await;
    let seen: Value = serde_json::from_str(&server.line().await).unwrap();
    assert_eq!(seen["jobs"], 1, "{seen}");
    assert_eq!(seen["submissions"], 2, "the lost answer was asked for again: {seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_and_identity_of_another_emulator_stay_beside_the_tap() {
    let vendor = emulator().await;
    let mut storage = Peer::start(program::command(Place::Clients, "moto_server.py").await);
    let url = storage.line().await;
    let bench = Bench::before(&vendor.braket_url()).await;

    let mut command = program::command(Place::Sdk, "default_bucket.py").await;
    command.envs(tapped(&bench, &url).into_iter().filter_map(|(name, value)| Some((name, value?))));
    let mut judge = Peer::start(command);
    let ended: Value = serde_json::from_str(&judge.line().await).unwrap();
    // What the vendor does itself: it puts the result into the bucket of the program.
    let order =
        json!({ "from": vendor.braket_url(), "bucket": ended["bucket"], "key": ended["key"] });
    storage.tell(&order.to_string()).await;
    let stored: Value = serde_json::from_str(&storage.line().await).unwrap();
    assert_eq!(stored["made"], true, "the program had made its bucket: {stored}");
    judge.tell("go").await;
    let seen: Value = serde_json::from_str(&judge.line().await).unwrap();

    assert_eq!(seen["shots"], 10, "{seen}");
    // The account of the bucket's name comes from moto's STS.
    assert_eq!(ended["bucket"], "amazon-braket-us-east-1-123456789012");
    let told = bench.end().await;
    assert_eq!(told.submitted, [ended["task"].as_str().unwrap()]);
    assert!(told.refused.is_empty(), "{told:?}");
    let vendors_own = |service| vendor.journal().iter().any(|entry| entry.service == service);
    assert!(vendors_own("braket"));
    assert!(!vendors_own("sts"), "the program asked another one");
}

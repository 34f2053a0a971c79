//! The tap ends at once, and loses nothing that it has seen.

use std::time::Duration;

use sluice_tap::TapEvent;
use sluice_vendors::{Action, Config, Fault, Stage};
use tokio::time::Instant;

use crate::bench::{Setup, emulator, free_address, submit, until};

#[tokio::test]
async fn a_running_submission_may_end_and_is_told() {
    let vendor = emulator(Config::for_testing()).await;
    let mut setup = Setup::to(&vendor.braket_url());
    setup.config.limits.drain = Duration::from_secs(10);
    let bench = setup.start().await;
    vendor.add_fault(Fault::next(1, "CreateQuantumTask", Action::Delay { ms: 200 }));
    let client = bench.own();
    let sent = tokio::spawn(async move { submit(&client, "t").await });
    // The fault is taken off the table when the request has arrived, before its delay.
    until("the vendor has the request", || vendor.faults().is_empty()).await;
    let left = bench.end().await;
    let arn = sent.await.unwrap().unwrap();
    let told = left
        .iter()
        .any(|event| matches!(event, TapEvent::Submitted { task_id, .. } if *task_id == arn));
    assert!(told, "{left:?}");
}

#[tokio::test]
async fn requests_that_cannot_end_do_not_keep_it() {
    let vendor = emulator(Config::for_testing()).await;
    vendor.add_fault(Fault::next(
        9,
        "CreateQuantumTask",
        Action::Hang { ms: 60_000, when: Stage::Before },
    ));
    let away = format!("http://{}", free_address().await);
    for url in [vendor.braket_url(), away] {
        let mut bench = Setup::to(&url).start().await;
        let client = bench.own();
        let sent = tokio::spawn(async move { submit(&client, "t").await });
        bench.event_where(|event| matches!(event, TapEvent::Submitting { .. }).then_some(())).await;
        let start = Instant::now();
        bench.end().await;
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        sent.abort();
    }
}

#[tokio::test]
async fn a_reader_that_never_reads_delays_nobody() {
    let vendor = emulator(Config::for_testing()).await;
    let mut setup = Setup::to(&vendor.braket_url());
    setup.room = 1;
    let mut bench = setup.start().await;
    let client = bench.own();
    let mut arns = Vec::new();
    for index in 0..10 {
        arns.push(submit(&client, &index.to_string()).await.unwrap());
    }
    // Now it reads, and nothing is missing.
    for arn in arns {
        let told = bench
            .event_where(|event| match event {
                TapEvent::Submitted { task_id, .. } => Some(task_id.clone()),
                _ => None,
            })
            .await;
        assert_eq!(told, arn);
    }
}

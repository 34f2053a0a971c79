//! Polls of waiting tasks are shared.

use aws_sdk_braket::types::QuantumTaskAdditionalAttributeName::QueueInfo;
use futures::future::join_all;
use sluice_vendors::{Action, Ahead, Config, Fault, Stage, StateChange};

use crate::bench::{SV1, Setup, asked, emulator, submit};

#[tokio::test]
async fn many_polls_of_a_queued_task_are_one_question() {
    let vendor = emulator(Config::for_testing().by_hand(Ahead { normal: 50, priority: 0 })).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    let client = bench.own();
    let arn = submit(&client, "t").await.unwrap();
    let poll = || {
        client
            .get_quantum_task()
            .quantum_task_arn(&arn)
            .additional_attribute_names(QueueInfo)
            .send()
    };
    let answers = join_all((0..40).map(|_| poll())).await;
    for answer in answers {
        assert_eq!(answer.unwrap().queue_info().unwrap().position(), "51");
    }
    let first = asked(&vendor, "GetQuantumTask");
    // One at a time, within the second for which the first answer is good; a busy machine may
    // need a second question.
    assert!((1..=2).contains(&first), "{first} questions for 40 polls");
    // Another question is asked for itself.
    let plain = client.get_quantum_task().quantum_task_arn(&arn).send().await.unwrap();
    assert!(plain.queue_info().is_none());
}

#[tokio::test]
async fn the_end_of_a_task_is_seen_soon_after_it_came() {
    let vendor = emulator(Config::for_testing().by_hand(Ahead { normal: 2000, priority: 0 })).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    let client = bench.own();
    let arn = submit(&client, "t").await.unwrap();
    let poll = || client.get_quantum_task().quantum_task_arn(&arn).send();
    assert_eq!(poll().await.unwrap().status().as_str(), "QUEUED");
    let failed = StateChange { state: Some("FAILED".to_owned()), ..StateChange::default() };
    vendor.change_state(&arn, failed).unwrap();
    let start = tokio::time::Instant::now();
    while poll().await.unwrap().status().as_str() == "QUEUED" {
        assert!(start.elapsed().as_secs() < 5, "a task that has just been submitted is asked for");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // An ended task is asked for each time.
    let before = asked(&vendor, "GetQuantumTask");
    poll().await.unwrap();
    assert_eq!(asked(&vendor, "GetQuantumTask"), before + 1);
}

fn throttle(retry_after: Option<&str>) -> Action {
    Action::Error {
        code: "ThrottlingException".to_owned(),
        status: None,
        message: "Rate exceeded".to_owned(),
        retry_after: retry_after.map(str::to_owned),
        when: Stage::Before,
    }
}

#[tokio::test]
async fn a_throttled_request_is_held_and_a_throttled_poll_is_answered_with_what_was_said_last() {
    let vendor = emulator(Config::for_testing().by_hand(Ahead { normal: 0, priority: 0 })).await;
    let setup = Setup::to(&vendor.braket_url());
    let quota = std::sync::Arc::clone(&setup.config.quota);
    let bench = setup.start().await;
    let client = bench.own();
    vendor.add_fault(Fault::next(1, "GetDevice", throttle(Some("1"))));
    client.get_device().device_arn(SV1).send().await.unwrap();
    assert_eq!(asked(&vendor, "GetDevice"), 2);

    vendor.add_fault(Fault::next(1, "CreateQuantumTask", throttle(None)));
    let arn = submit(&client, "t").await.unwrap();
    assert_eq!((asked(&vendor, "CreateQuantumTask"), vendor.tasks().len()), (2, 1));
    let poll = || client.get_quantum_task().quantum_task_arn(&arn).send();
    // Nothing was said yet: the first poll waits for an answer.
    vendor.add_fault(Fault::next(1, "GetQuantumTask", throttle(None)));
    assert_eq!(poll().await.unwrap().status().as_str(), "QUEUED");
    vendor.add_fault(Fault::next(1_000, "GetQuantumTask", throttle(None)));
    let before = quota.stretch().tasks;
    while quota.stretch().tasks < before + 1.0 {
        assert_eq!(poll().await.unwrap().status().as_str(), "QUEUED");
    }
    vendor.clear_faults();
    vendor.step(Some("sv1"), 1).await.unwrap();
    crate::bench::within(async {
        while poll().await.unwrap().status().as_str() == "QUEUED" {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
}

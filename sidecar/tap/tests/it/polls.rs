//! Polls of waiting tasks are shared.

use aws_sdk_braket::types::QuantumTaskAdditionalAttributeName::QueueInfo;
use futures::future::join_all;
use sluice_vendors::{Ahead, Config, StateChange};

use crate::bench::{Setup, asked, emulator, submit};

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

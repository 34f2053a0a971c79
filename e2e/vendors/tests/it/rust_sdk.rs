//! The AWS SDK for Rust, the client that the sidecar uses.

use aws_sdk_braket::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_braket::types::{
    QuantumTaskAdditionalAttributeName, QuantumTaskStatus, SearchQuantumTasksFilter,
    SearchQuantumTasksFilterOperator,
};
use aws_sdk_braket::{Client, Config};
use sluice_vendors::{Ahead, Running};

use crate::python::{bell, check_model, emulator};

const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

fn client(vendor: &Running, key: &str, secret: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-north-1"))
        .endpoint_url(vendor.braket_url())
        .credentials_provider(Credentials::new(key, secret, None, None, "test"))
        .build();
    Client::from_conf(config)
}

#[tokio::test(flavor = "multi_thread")]
async fn create_get_search_and_cancel() {
    let ahead = Ahead { normal: 1, priority: 0 };
    let vendor = emulator(sluice_vendors::Config::for_testing().by_hand(ahead)).await;
    let client_a = client(&vendor, "AKIDEXAMPLE", "secret");
    let created = client_a
        .create_quantum_task()
        .device_arn(GARNET)
        .shots(3)
        .output_s3_bucket("amazon-braket-x")
        .output_s3_key_prefix("k")
        .action(bell())
        .tags("a", "b")
        .send()
        .await
        .unwrap();
    let arn = created.quantum_task_arn();
    let task = client_a
        .get_quantum_task()
        .quantum_task_arn(arn)
        .additional_attribute_names(QuantumTaskAdditionalAttributeName::QueueInfo)
        .send()
        .await
        .unwrap();
    assert_eq!(task.status(), &QuantumTaskStatus::Queued);
    assert_eq!(task.queue_info().unwrap().position(), "2");

    let filter = SearchQuantumTasksFilter::builder()
        .name("deviceArn")
        .operator(SearchQuantumTasksFilterOperator::Equal)
        .values(GARNET)
        .build()
        .unwrap();
    let found = client_a.search_quantum_tasks().filters(filter).send().await.unwrap();
    assert_eq!(found.quantum_tasks().len(), 1);

    let cancelled = client_a.cancel_quantum_task().quantum_task_arn(arn).send().await.unwrap();
    assert_eq!(cancelled.cancellation_status().as_str(), "CANCELLING");

    let refused = client(&vendor, "AKIDEXAMPLE", "wrong")
        .get_device()
        .device_arn(GARNET)
        .send()
        .await
        .unwrap_err();
    let code = refused.as_service_error().unwrap().meta().code();
    assert_eq!(code, Some("InvalidSignatureException"));
    check_model(&vendor).await;
}

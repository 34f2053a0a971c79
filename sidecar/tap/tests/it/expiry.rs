//! Keys that end while a program waits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::future::ProvideCredentials as Answer;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_braket::types::QuantumTaskAdditionalAttributeName::QueueInfo;
use aws_sdk_braket::types::QuantumTaskStatus;
use sluice_tap::TapEvent;
use sluice_vendors::{Ahead, Config, Principal, Running};

use crate::bench::{Bench, GARNET, PROGRAM, Setup, asked, emulator, refusal, until};

/// A source of keys that tests change, like a mounted file.
#[derive(Debug, Clone)]
struct File(Arc<Mutex<Credentials>>);

impl ProvideCredentials for File {
    fn provide_credentials<'a>(&'a self) -> Answer<'a>
    where
        Self: 'a,
    {
        Answer::ready(Ok(self.0.lock().unwrap().clone()))
    }
}

fn session(name: &str) -> Credentials {
    Credentials::new(format!("ASIA{name}"), "secret", Some(format!("token-{name}")), None, "test")
}

fn know(vendor: &Running, name: &str) {
    let user = Principal::user(&format!("ASIA{name}"), "secret", "123456789012", "alice");
    vendor.add_principal(user.with_session(&format!("token-{name}"), None));
}

async fn bench(vendor: &Running, hold: Duration) -> (Bench, File) {
    know(vendor, "OLD");
    let file = File(Arc::new(Mutex::new(session("OLD"))));
    let mut setup = Setup::to(&vendor.braket_url());
    setup.config.hold = hold;
    (setup.start_with(SharedCredentialsProvider::new(file.clone())).await, file)
}

async fn submit(bench: &Bench) -> Result<String, (u16, String, String)> {
    let client = bench.client("eu-north-1", session("OLD"));
    let sent = client
        .create_quantum_task()
        .device_arn(GARNET)
        .shots(10)
        .action(PROGRAM)
        .output_s3_bucket("amazon-braket-x")
        .output_s3_key_prefix("k")
        .send()
        .await;
    sent.map(|made| made.quantum_task_arn).map_err(|error| refusal(&error))
}

async fn poll(bench: &Bench, id: &str) -> Result<QuantumTaskStatus, (u16, String, String)> {
    let client = bench.client("eu-north-1", session("OLD"));
    let call = client.get_quantum_task().quantum_task_arn(id).additional_attribute_names(QueueInfo);
    call.send().await.map(|task| task.status).map_err(|error| refusal(&error))
}

async fn vendor() -> Running {
    emulator(Config::for_testing().by_hand(Ahead { normal: 3, priority: 0 })).await
}

#[tokio::test]
async fn a_program_that_waits_outlives_the_end_of_the_keys_and_goes_on_when_they_are_renewed() {
    let vendor = vendor().await;
    let (mut bench, file) = bench(&vendor, Duration::from_secs(15)).await;
    let id = submit(&bench).await.unwrap();
    assert_eq!(poll(&bench, &id).await, Ok(QuantumTaskStatus::Queued));
    assert!(vendor.expire("ASIAOLD"));
    // Until the vendor has been asked again, and longer.
    let before = asked(&vendor, "GetQuantumTask");
    while asked(&vendor, "GetQuantumTask") < before + 2 {
        assert_eq!(poll(&bench, &id).await, Ok(QuantumTaskStatus::Queued), "the last answer");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let ended = |event: &TapEvent| match event {
        TapEvent::KeysEnded { key_id, code, .. } => Some((key_id.clone(), code.clone())),
        _ => None,
    };
    let (key, code) = bench.event_where(ended).await;
    assert_eq!((key.as_str(), code.as_str()), ("ASIAOLD", "ExpiredTokenException"));
    // The program never learns of the new ones: it read the file once.
    know(&vendor, "NEW");
    *file.0.lock().unwrap() = session("NEW");
    vendor.step(Some("Garnet"), 4).await.unwrap();
    let running = async {
        while poll(&bench, &id).await != Ok(QuantumTaskStatus::Running) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), running).await.expect("it goes on");
    bench.event_where(|event| matches!(event, TapEvent::KeysTaken { .. }).then_some(())).await;
}

#[tokio::test]
async fn a_submission_is_held_until_the_keys_are_renewed_and_is_one_task() {
    let vendor = vendor().await;
    let (bench, file) = bench(&vendor, Duration::from_secs(15)).await;
    poll(&bench, "arn:aws:braket:eu-north-1:123456789012:quantum-task/none").await.unwrap_err();
    assert!(vendor.expire("ASIAOLD"));
    let renew = async {
        until("a refused submission", || asked(&vendor, "CreateQuantumTask") > 0).await;
        know(&vendor, "NEW");
        *file.0.lock().unwrap() = session("NEW");
    };
    let (submitted, ()) = tokio::join!(submit(&bench), renew);
    submitted.unwrap();
    assert_eq!(vendor.tasks().len(), 1);
}

#[tokio::test]
async fn keys_that_are_not_renewed_in_time_are_answered_in_the_vendors_words() {
    let vendor = vendor().await;
    let (bench, _file) = bench(&vendor, Duration::from_secs(1)).await;
    assert!(vendor.expire("ASIAOLD"));
    let (status, code, message) = submit(&bench).await.unwrap_err();
    assert_eq!((status, code.as_str()), (403, "ExpiredTokenException"), "{message}");
    assert!(asked(&vendor, "CreateQuantumTask") >= 2, "it was held and tried again");
    assert!(vendor.tasks().is_empty());
}

//! What passes is forwarded unchanged and read.

use aws_sdk_braket::types::QuantumTaskAdditionalAttributeName::QueueInfo;
use sluice_shared::task::{Position, TaskState};
use sluice_tap::TapEvent;
use sluice_vendors::{Action, Ahead, Config, Fault, Stage};

use crate::bench::{GARNET, SV1, Setup, asked, emulator, refusal, submit, user};

fn by_hand(normal: u64) -> Config {
    Config::for_testing().by_hand(Ahead { normal, priority: 0 })
}

#[tokio::test]
async fn a_task_s_life_is_seen_by_the_way() {
    let vendor = emulator(by_hand(13)).await;
    let mut bench = Setup::to(&vendor.braket_url()).start().await;
    let client = bench.own();

    let arn = submit(&client, "token-1").await.unwrap();
    let TapEvent::Submitting { submission, place, .. } = bench.event().await else {
        panic!("a submission is told before it is sent")
    };
    assert_eq!(submission.client_token.as_deref(), Some("token-1"));
    assert_eq!((submission.device.as_deref(), submission.shots), (Some(SV1), Some(10)));
    assert_eq!(place.to_string(), "us-east-1");
    let TapEvent::Submitted { submission: taken, task_id, known, .. } = bench.event().await else {
        panic!("the ARN is told")
    };
    assert_eq!((&taken, &task_id, known), (&submission, &arn, false));

    let poll = || {
        let poll = client.get_quantum_task().quantum_task_arn(&arn);
        poll.additional_attribute_names(QueueInfo).send()
    };
    let seen = poll().await.unwrap();
    assert_eq!(seen.queue_info().unwrap().position(), "14");
    let TapEvent::Polled { facts, .. } = bench.event().await else { panic!("a poll is read") };
    assert_eq!(facts.task_id, arn);
    assert_eq!((&facts.state, facts.position), (&TaskState::Queued, Position::At(14)));
    assert_eq!(facts.device.as_deref(), Some(SV1));
    assert!(facts.created_at.is_some());

    client.cancel_quantum_task().quantum_task_arn(&arn).client_token("c").send().await.unwrap();
    let TapEvent::CancelRequested { task_id, status, .. } = bench.event().await else {
        panic!("a cancel is told")
    };
    assert_eq!((task_id, status.as_u16()), (arn.clone(), 200));
    // What was kept of the queued task is forgotten with the cancel.
    assert_ne!(poll().await.unwrap().status().as_str(), "QUEUED");
}

#[tokio::test]
async fn requests_arrive_as_they_were_sent_but_for_the_signature() {
    let vendor = emulator(by_hand(0)).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    for (region, device) in [
        ("us-east-1", SV1),
        ("eu-north-1", GARNET),
        ("us-west-1", "arn:aws:braket:us-west-1::device/qpu/rigetti/Cepheus-1-108Q"),
    ] {
        bench.client(region, user()).get_device().device_arn(device).send().await.unwrap();
        let entry = vendor.journal().pop().unwrap();
        let raw = device.replace(':', "%3A").replace('/', "%2F");
        assert_eq!(entry.path, format!("/device/{raw}"));
        assert_eq!(entry.region.as_deref(), Some(region));
        assert!(entry.user_agent.contains("aws-sdk-rust"), "{}", entry.user_agent);
        assert_eq!(entry.status, Some(200));
    }
}

#[tokio::test]
async fn what_the_vendor_refuses_is_passed_on_unchanged_and_told() {
    let vendor = emulator(by_hand(0)).await;
    let mut bench = Setup::to(&vendor.braket_url()).start().await;
    let action = |code: &str, retry_after: Option<&str>| Action::Error {
        code: code.to_owned(),
        status: None,
        message: "as the vendor says".to_owned(),
        retry_after: retry_after.map(str::to_owned),
        when: Stage::Before,
    };
    for (code, status) in [
        ("ServiceQuotaExceededException", 402),
        ("DeviceOfflineException", 424),
        ("ThrottlingException", 429),
        ("InternalServiceException", 500),
    ] {
        // For longer than a request can be held.
        vendor.add_fault(Fault::next(1, "CreateQuantumTask", action(code, Some("70"))));
        let (got, kind, message) = submit(&bench.own(), code).await.unwrap_err();
        assert_eq!((got, kind.as_str(), message.as_str()), (status, code, "as the vendor says"));
        let told = bench
            .event_where(|event| match event {
                TapEvent::SubmissionRefused { status, error_type, message, .. } => {
                    Some((status.as_u16(), error_type.clone(), message.clone()))
                }
                _ => None,
            })
            .await;
        assert_eq!(told, (status, Some(code.to_owned()), Some("as the vendor says".to_owned())));
    }
    assert_eq!(asked(&vendor, "CreateQuantumTask"), 4, "none of them was repeated");

    vendor.add_fault(Fault::next(1, "GetDevice", action("ThrottlingException", Some("70"))));
    let error = bench.own().get_device().device_arn(SV1).send().await.unwrap_err();
    let headers = error.raw_response().unwrap().headers();
    assert_eq!(headers.get("retry-after"), Some("70"));
    assert_eq!(refusal(&error).0, 429);
}

#[tokio::test]
async fn garbage_passes_and_is_read_as_nothing() {
    let vendor = emulator(by_hand(0)).await;
    let mut bench = Setup::to(&vendor.braket_url()).start().await;
    let arn = submit(&bench.own(), "t").await.unwrap();
    let html = |status| Action::Answer {
        status,
        content_type: "text/html".to_owned(),
        body: "<html>busy</html>".to_owned(),
        when: Stage::Before,
    };
    vendor.add_fault(Fault::next(1, "GetQuantumTask", html(200)));
    let poll = || bench.own().get_quantum_task().quantum_task_arn(&arn).send();
    let error = poll().await.unwrap_err();
    let body = error.raw_response().unwrap().body().bytes().unwrap_or_default().to_vec();
    assert_eq!(String::from_utf8(body).unwrap(), "<html>busy</html>");
    assert_eq!(poll().await.unwrap().status().as_str(), "QUEUED");

    vendor.add_fault(Fault::next(1, "CreateQuantumTask", html(201)));
    submit(&bench.own(), "u").await.unwrap_err();
    let error = bench
        .event_where(|event| match event {
            TapEvent::SubmissionUnknown { error, .. } => Some(error.clone()),
            _ => None,
        })
        .await;
    assert!(error.contains("201"), "{error}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_for_the_program_too() {
    let vendor = emulator(by_hand(0)).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    let arn = submit(&bench.own(), "t").await.unwrap();
    vendor.add_fault(Fault::next(1, "GetDevice", Action::Cut {}));
    vendor.add_fault(Fault::next(1, "GetQuantumTask", Action::Cut {}));
    let device = bench.own().get_device().device_arn(SV1).send().await.unwrap_err();
    let task = bench.own().get_quantum_task().quantum_task_arn(&arn).send().await.unwrap_err();
    assert!(device.as_service_error().is_none(), "{device:?}");
    assert!(task.as_service_error().is_none(), "{task:?}");
    assert!(bench.own().get_device().device_arn(SV1).send().await.is_ok());
}

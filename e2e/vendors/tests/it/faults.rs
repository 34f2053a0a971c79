//! Faults on demand, as boto3 and the SDK meet them.

use serde_json::json;
use sluice_vendors::{Action, Ahead, Config, Fault, Running, Stage};

use crate::python::{Call, Outcome, call, check_model, emulator, error, submission};

const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";

async fn vendor() -> Running {
    emulator(Config::for_testing().by_hand(Ahead::default())).await
}

fn create() -> Call {
    Call::braket("create_quantum_task", submission(SV1, "t"))
}

fn next(action: Action) -> Fault {
    Fault::next(1, "CreateQuantumTask", action)
}

fn answer(status: u16, content_type: &str, body: &str) -> Action {
    let (content_type, body) = (content_type.to_owned(), body.to_owned());
    Action::Answer { status, content_type, body, when: Stage::Before }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_leaves_a_task_that_the_token_finds() {
    let vendor = vendor().await;
    vendor.add_fault(next(Action::Close { when: Stage::After }));
    let told = call(&vendor, &[create()]).await;
    assert_eq!(told[0], Outcome::Broken("ConnectionClosedError".into()));
    let made = vendor.tasks();
    assert_eq!(made.len(), 1);
    assert_eq!(call(&vendor, &[create()]).await[0].arn(), made[0].arn);
    assert_eq!(vendor.tasks().len(), 1);
    let journal = vendor.journal();
    assert_eq!((journal[0].status, journal[0].fault.as_deref()), (None, Some("close")));
    assert_eq!(journal[0].task_arn.as_deref(), Some(made[0].arn.as_str()));
    assert_eq!(journal[0].body_digest, journal[1].body_digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_connection_before_the_work_leaves_nothing() {
    let vendor = vendor().await;
    vendor.add_fault(next(Action::Close { when: Stage::Before }));
    assert!(matches!(call(&vendor, &[create()]).await[0], Outcome::Broken(_)));
    assert_eq!(vendor.tasks(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_can_be_late_cut_foreign_or_missing() {
    let vendor = vendor().await;
    vendor.add_fault(next(Action::Cut {}));
    vendor.add_fault(next(answer(502, "text/html", "<html>Bad Gateway</html>")));
    vendor.add_fault(next(answer(200, "application/json", "}{")));
    vendor.add_fault(next(Action::Hang { ms: 20_000, when: Stage::Before }));
    vendor.add_fault(next(Action::Delay { ms: 300 }));
    let told = call(&vendor, &[create(), create(), create(), create(), create()]).await;
    // boto3 takes what it cannot read for an empty success; such a caller knows no ARN.
    assert_eq!(told[0], Outcome::Answer(json!({})));
    assert_eq!(told[1], error("502", 502));
    assert_eq!(told[2], Outcome::Answer(json!({})));
    assert_eq!(told[3], Outcome::Broken("ReadTimeoutError".into()));
    // The cut one was made; the token finds it.
    assert_eq!(told[4].arn(), vendor.tasks()[0].arn);
    assert_eq!(vendor.tasks().len(), 1);
    assert_eq!(vendor.faults(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_given_in_the_form_of_their_service() {
    let vendor = vendor().await;
    let throttled = |code: &str| Action::Error {
        code: code.into(),
        status: None,
        message: "Rate exceeded".into(),
        retry_after: Some("7".into()),
        when: Stage::Before,
    };
    let codes = [
        ("ThrottlingException", 429),
        ("InternalServiceException", 500),
        ("ServiceQuotaExceededException", 402),
        ("ExpiredTokenException", 403),
    ];
    for (code, _) in codes {
        vendor.add_fault(next(throttled(code)));
    }
    vendor.add_fault(Fault::next(1, "ListObjectsV2", throttled("SlowDown")));
    let list = Call::new("s3", "list_objects_v2", json!({ "Bucket": "b" }));
    let calls: Vec<_> = codes.iter().map(|_| create()).chain([list]).collect();
    let told = call(&vendor, &calls).await;
    for ((code, status), outcome) in codes.iter().chain(&[("SlowDown", 503)]).zip(told) {
        assert_eq!(outcome, error(code, *status));
    }
    assert_eq!(vendor.tasks(), []);
    check_model(&vendor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_breaks_off_in_its_body() {
    let vendor = vendor().await;
    vendor.add_fault(Fault::next(1, "SearchQuantumTasks", Action::Cut {}));
    let ask = || async {
        let url = format!("{}/quantum-tasks", vendor.braket_url());
        reqwest::Client::new().post(url).body("{}").send().await.unwrap()
    };
    let cut = ask().await;
    assert_eq!(cut.status(), 403);
    assert!(cut.text().await.is_err());
    assert!(ask().await.text().await.unwrap().contains("message"));
}

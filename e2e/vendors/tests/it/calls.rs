//! Operations and their errors, asked by boto3.

use serde_json::{Value, json};
use sluice_vendors::{Ahead, Config, DeviceChange, Pretence, StateChange, Status, StatusReason};

use crate::python::{Call, Outcome, call, check_model, emulator, error, submission};

const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";
const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
const FORTE: &str = "arn:aws:braket:us-east-1::device/qpu/ionq/Forte-1";

fn create(device: &str, token: &str) -> Call {
    Call::braket("create_quantum_task", submission(device, token))
}

fn get(arn: &str) -> Call {
    let arguments = json!({ "quantumTaskArn": arn, "additionalAttributeNames": ["QueueInfo"] });
    Call::braket("get_quantum_task", arguments)
}

fn cancel(arn: &str) -> Call {
    Call::braket("cancel_quantum_task", json!({ "quantumTaskArn": arn, "clientToken": "c" }))
}

fn by_hand() -> Config {
    Config::for_testing().by_hand(Ahead { normal: 1, priority: 0 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_moves_step_by_step_to_its_result() {
    let vendor = emulator(by_hand()).await;
    let north = |call: Call| call.region("eu-north-1");
    let arn = call(&vendor, &[north(create(GARNET, "t"))]).await[0].arn();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let task = call(&vendor, &[north(get(&arn))]).await[0].answer().clone();
        let queue = &task["queueInfo"];
        seen.push(json!([task["status"], queue["position"], queue.get("message").is_some()]));
        vendor.step(Some("Garnet"), 1).await.unwrap();
    }
    assert_eq!(
        Value::from(seen),
        json!([
            ["QUEUED", "2", false],
            ["QUEUED", "1", false],
            ["RUNNING", "None", true],
            ["COMPLETED", "None", true],
        ])
    );
    let task = call(&vendor, &[north(get(&arn))]).await[0].answer().clone();
    let key = format!("{}/results.json", task["outputS3Directory"].as_str().unwrap());
    let object = json!({ "Bucket": "amazon-braket-x", "Key": key });
    let result = call(&vendor, &[Call::new("s3", "get_object", object)]).await;
    let result: Value = serde_json::from_str(result[0].answer()["Body"].as_str().unwrap()).unwrap();
    assert_eq!(result["taskMetadata"]["id"], arn);
    assert_eq!(result["measurements"].as_array().unwrap().len(), 10);
    check_model(&vendor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_has_the_vendors_name_and_status() {
    let vendor = emulator(by_hand()).await;
    let arn = call(&vendor, &[create(SV1, "t")]).await[0].arn();
    let mut other = submission(SV1, "t");
    other["shots"] = json!(11);
    let mut bad = submission(SV1, "bad");
    bad["action"] = json!("{}");
    let mut tagged = submission(SV1, "tagged");
    tagged["tags"] = json!({ "a": "b" });
    let missing = arn.replace(arn.rsplit('/').next().unwrap(), "missing");
    let filter = json!({ "filters": [{ "name": "tags", "operator": "EQUAL", "values": ["x"] }] });
    let bob = |call: Call| call.key("AKIDOTHER", "other-secret");
    let carol = |call: Call| call.key("AKIDNORIGHTS", "no-rights-secret");
    let dave = |call: Call| call.key("AKIDNOTAGS", "no-tags-secret");
    let device = |arn: &str| Call::braket("get_device", json!({ "deviceArn": arn }));
    let tags = |arn: &str| Call::braket("list_tags_for_resource", json!({ "resourceArn": arn }));
    let validation = || error("ValidationException", 400);
    let not_found = || error("ResourceNotFoundException", 404);
    let denied = || error("AccessDeniedException", 403);

    for (status, code, number) in [
        (Status::Offline, "DeviceOfflineException", 424),
        (Status::Retired, "DeviceRetiredException", 410),
    ] {
        let reason =
            StatusReason { reason: "MAINTENANCE".into(), started_at: None, estimated_end_at: None };
        let change = DeviceChange {
            status: Some(status),
            status_reason: Some(reason),
            ..DeviceChange::default()
        };
        vendor.change_device("Forte-1", change).unwrap();
        let told = call(&vendor, &[create(FORTE, "f"), device(FORTE)]).await;
        assert_eq!(told[0], error(code, number));
        assert_eq!(told[1].answer()["deviceStatusReason"]["reason"], "MAINTENANCE");
    }

    let table = [
        (create(SV1, "t"), Outcome::Answer(json!({ "quantumTaskArn": arn }))),
        (Call::braket("create_quantum_task", other), validation()),
        (Call::braket("create_quantum_task", bad), validation()),
        (create(GARNET, "g"), validation()),
        (create("arn:aws:braket:::device/qpu/nobody/nothing", "n"), validation()),
        (carol(create(SV1, "carol")), denied()),
        (dave(Call::braket("create_quantum_task", tagged)), denied()),
        (get(&missing), not_found()),
        (get(&arn).region("eu-north-1"), not_found()),
        (get("arn:aws:braket:us-east-1:123456789012:job/x"), validation()),
        (bob(get(&arn)), denied()),
        (bob(cancel(&arn)), denied()),
        (cancel(&missing), not_found()),
        (device(GARNET), not_found()),
        (carol(device(SV1)), denied()),
        (Call::braket("search_quantum_tasks", filter.clone()), validation()),
        (
            Call::braket("search_jobs", json!({ "filters": [] })),
            error("UnknownOperationException", 404),
        ),
        (tags(&missing), not_found()),
        (
            Call::new("s3", "get_object", json!({ "Bucket": "none", "Key": "k" })),
            error("NoSuchBucket", 404),
        ),
        (
            carol(Call::new("s3", "get_object", json!({ "Bucket": "b", "Key": "k" }))),
            error("AccessDenied", 403),
        ),
        (Call::new("sts", "get_session_token", json!({})), error("InvalidAction", 400)),
    ];
    let (calls, expected): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    let outcomes = call(&vendor, &calls).await;
    for ((call, outcome), expected) in calls.iter().zip(outcomes).zip(expected) {
        assert_eq!(outcome, expected, "{call:?}");
    }

    // A cancel ends a waiting task; a second one is no error; an ended task is a conflict.
    let told = call(&vendor, &[cancel(&arn), cancel(&arn)]).await;
    assert_eq!(told[0].answer()["cancellationStatus"], "CANCELLING");
    assert!(matches!(told[1], Outcome::Answer(_)));
    let arn = call(&vendor, &[create(SV1, "u")]).await[0].arn();
    let failed = StateChange {
        state: Some("FAILED".into()),
        reason: Some("calibration".into()),
        ..StateChange::default()
    };
    vendor.change_state(&arn, failed).unwrap();
    let told = call(&vendor, &[cancel(&arn), get(&arn)]).await;
    assert_eq!(told[0], error("ConflictException", 409));
    assert_eq!(told[1].answer()["failureReason"], "calibration");

    let checked = check_model(&vendor).await;
    let named = checked.as_object().unwrap().keys().filter(|name| name.contains("Exception"));
    assert!(named.count() >= 15, "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_can_be_read_and_changed() {
    let vendor = emulator(by_hand()).await;
    let mut tagged = submission(SV1, "t");
    tagged["tags"] = json!({ "a": "1", "b": "2" });
    let arn = call(&vendor, &[Call::braket("create_quantum_task", tagged)]).await[0].arn();
    let told = call(
        &vendor,
        &[
            Call::braket("tag_resource", json!({ "resourceArn": arn, "tags": { "c": "3" } })),
            Call::braket("untag_resource", json!({ "resourceArn": arn, "tagKeys": ["a", "b"] })),
            Call::braket("list_tags_for_resource", json!({ "resourceArn": arn })),
        ],
    )
    .await;
    assert_eq!(told[2].answer()["tags"], json!({ "c": "3" }));
    check_model(&vendor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_of_one_account_and_region() {
    let config = Config { quota_scale: 0.02, ..by_hand() };
    let vendor = emulator(config).await;
    let search = || Call::braket("search_quantum_tasks", json!({ "filters": [] }));
    // A burst of one, and a token every ten seconds.
    let calls: Vec<_> = std::iter::repeat_with(search)
        .take(12)
        .chain([search().region("us-west-2"), search().key("AKIDOTHER", "other-secret")])
        .collect();
    let outcomes = call(&vendor, &calls).await;
    let throttled =
        outcomes.iter().filter(|outcome| **outcome == error("ThrottlingException", 429)).count();
    assert!((6..=11).contains(&throttled), "{outcomes:?}");
    assert!(matches!(outcomes[12..], [Outcome::Answer(_), Outcome::Answer(_)]), "{outcomes:?}");
    check_model(&vendor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_pause_fail_and_give_priority_on_demand() {
    let vendor = emulator(by_hand()).await;
    let forte = |call: Call| call.region("us-east-1");
    let change = |change: DeviceChange| vendor.change_device(FORTE, change).unwrap();
    change(DeviceChange {
        status: Some(Status::Paused),
        add_priority: Some(2),
        fail_next: Some(1),
        fail_reason: Some("laser".into()),
        ..DeviceChange::default()
    });
    let told = call(
        &vendor,
        &[forte(create(FORTE, "t")), Call::braket("get_device", json!({ "deviceArn": FORTE }))],
    )
    .await;
    let arn = told[0].arn();
    let device = told[1].answer();
    assert_eq!(device["deviceStatus"], "PAUSED");
    assert_eq!(device["deviceQueueInfo"][0]["queueSize"], "2");
    assert_eq!(device["deviceQueueInfo"][1]["queueSize"], "2");
    let position = || vendor.task(&arn).unwrap().position;
    vendor.step(None, 3).await.unwrap();
    assert_eq!(position(), Some(2), "a paused device does not move");
    change(DeviceChange { status: Some(Status::Online), ..DeviceChange::default() });
    vendor.step(None, 2).await.unwrap();
    assert_eq!(position(), Some(2), "the priority lane goes first");
    vendor.step(None, 1).await.unwrap();
    assert_eq!(position(), Some(1));
    vendor.step(None, 2).await.unwrap();
    let task = vendor.task(&arn).unwrap();
    assert_eq!((task.state.as_str(), task.failure.as_deref()), ("FAILED", Some("laser")));
    check_model(&vendor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_can_be_made_to_say_what_no_client_expects() {
    let vendor = emulator(by_hand()).await;
    let arn = call(&vendor, &[create(SV1, "t")]).await[0].arn();
    let pretend = |pretence: Pretence| {
        let change = StateChange { pretend: Some(pretence), ..StateChange::default() };
        vendor.change_state(&arn, change).unwrap();
    };
    pretend(Pretence {
        status: Some("TRANSMUTING".into()),
        position: Some("soon".into()),
        ..Pretence::default()
    });
    let task = call(&vendor, &[get(&arn)]).await[0].answer().clone();
    assert_eq!(
        (&task["status"], &task["queueInfo"]["position"]),
        (&json!("TRANSMUTING"), &json!("soon"))
    );
    assert_eq!(vendor.task(&arn).unwrap().state, "QUEUED");
    pretend(Pretence { no_queue_info: true, ..Pretence::default() });
    let task = call(&vendor, &[get(&arn)]).await[0].answer().clone();
    assert_eq!((&task["status"], task.get("queueInfo")), (&json!("QUEUED"), None));
}

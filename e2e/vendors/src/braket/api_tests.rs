use super::*;
use crate::braket::device::catalogue;

const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

fn now() -> Timestamp {
    Timestamp::from_millisecond(1_796_000_000_000).unwrap()
}

fn world() -> World {
    World::new(catalogue())
}

fn alice() -> Principal {
    Principal::user("K", "s", "123456789012", "alice")
}

fn body(token: &str, shots: u64) -> Value {
    json!({
        "clientToken": token, "deviceArn": GARNET, "shots": shots, "outputS3Bucket": "amazon-x",
        "outputS3KeyPrefix": "tasks",
        "action": r#"{"braketSchemaHeader":{"name":"braket.ir.openqasm.program","version":"1"}}"#,
    })
}

fn ask(
    world: &mut World,
    who: &Principal,
    region: &str,
    operation: &Operation,
    body: &Value,
) -> Result<Value, ApiError> {
    let caller = Caller { principal: who, region, user_agent: "" };
    let bytes = serde_json::to_vec(body).unwrap();
    perform(world, operation, caller, &bytes, now()).map(|answer| answer.body)
}

fn submit(world: &mut World, who: &Principal, body: &Value) -> Result<String, String> {
    ask(world, who, "eu-north-1", &Operation::CreateQuantumTask, body)
        .map(|answer| answer["quantumTaskArn"].as_str().unwrap().to_owned())
        .map_err(|error| error.code)
}

#[test]
fn the_arn_is_one_encoded_path_segment() {
    let arn = "arn:aws:braket:eu-north-1:123456789012:quantum-task/abc";
    let encoded = "arn%3Aaws%3Abraket%3Aeu-north-1%3A123456789012%3Aquantum-task%2Fabc";
    let of = |path: &str| Operation::of("GET", path, "additionalAttributeNames=QueueInfo");
    let get = Operation::GetQuantumTask(arn.to_owned(), true);
    assert_eq!(of(&format!("/quantum-task/{encoded}")), Some(get));
    assert_eq!(of(&format!("/quantum-task/{arn}")), None);
    assert_eq!(of("/job"), None);
}

#[test]
fn a_token_names_one_submission() {
    let (world, alice) = (&mut world(), alice());
    let first = submit(world, &alice, &body("t", 5)).unwrap();
    assert_eq!(submit(world, &alice, &body("t", 5)).unwrap(), first);
    assert_eq!(submit(world, &alice, &body("t", 6)).unwrap_err(), "ValidationException");
    assert_ne!(submit(world, &alice, &body("u", 5)).unwrap(), first);
    let bob = Principal::user("L", "s", "210987654321", "bob");
    assert_ne!(submit(world, &bob, &body("t", 5)).unwrap(), first);
}

#[test]
fn bad_submissions_are_refused_before_they_cost() {
    let world = &mut world();
    for (field, value) in [
        ("shots", json!(0)),
        ("shots", json!(1_000_000)),
        ("shots", json!("5")),
        ("action", json!("{}")),
        ("action", json!("OPENQASM 3;")),
        ("outputS3Bucket", json!("x")),
        ("clientToken", json!("t".repeat(65))),
    ] {
        let mut body = body("t", 5);
        body[field] = value.clone();
        let refused = submit(world, &alice(), &body).unwrap_err();
        assert_eq!(refused, "ValidationException", "{field} {value}");
    }
    let mut other = body("t", 5);
    other["deviceArn"] = json!("arn:aws:braket:us-east-1::device/qpu/ionq/Forte-1");
    assert_eq!(submit(world, &alice(), &other).unwrap_err(), "ValidationException");
    assert_eq!(world.tasks().count(), 0);
}

#[test]
fn tags_need_a_right_of_their_own() {
    let dave = alice().denied(&["braket:TagResource"]);
    let world = &mut world();
    assert!(submit(world, &dave, &body("t", 5)).is_ok());
    let mut tagged = body("u", 5);
    tagged["tags"] = json!({"a": "b"});
    assert_eq!(submit(world, &dave, &tagged).unwrap_err(), "AccessDeniedException");
}

#[test]
fn tasks_are_seen_by_their_account_in_their_region() {
    let (world, alice) = (&mut world(), alice());
    let arn = submit(world, &alice, &body("t", 5)).unwrap();
    let mut get = |who: &Principal, region: &str| {
        let operation = Operation::GetQuantumTask(arn.clone(), true);
        ask(world, who, region, &operation, &json!({})).map_err(|error| error.code)
    };
    let seen = get(&alice, "eu-north-1").unwrap();
    assert_eq!((&seen["status"], &seen["queueInfo"]["position"]), (&json!("CREATED"), &json!("5")));
    assert_eq!(get(&alice, "us-east-1").unwrap_err(), "ResourceNotFoundException");
    let bob = Principal::user("L", "s", "210987654321", "bob");
    assert_eq!(get(&bob, "eu-north-1").unwrap_err(), "AccessDeniedException");
}

#[test]
fn far_positions_are_a_text() {
    let mut devices = catalogue();
    for device in &mut devices {
        device.ahead.normal = 2_000;
    }
    let (world, alice) = (&mut World::new(devices), alice());
    let arn = submit(world, &alice, &body("t", 5)).unwrap();
    let operation = Operation::GetQuantumTask(arn, true);
    let seen = ask(world, &alice, "eu-north-1", &operation, &json!({})).unwrap();
    assert_eq!(seen["queueInfo"]["position"], ">2000");
}

#[test]
fn a_job_token_gives_priority() {
    let (world, alice) = (&mut world(), alice());
    let mut job = body("t", 5);
    job["jobToken"] = json!("token");
    let arn = submit(world, &alice, &job).unwrap();
    let seen = ask(world, &alice, "eu-north-1", &Operation::GetQuantumTask(arn, true), &json!({}))
        .unwrap();
    assert_eq!(seen["queueInfo"]["queuePriority"], "Priority");
}

use super::*;
use proptest::prelude::*;
use serde_json::json;

const QUEUED: &str = r#"{"quantumTaskArn": "arn:aws:braket:us-east-1:123456789012:quantum-task/2f964d09-1",
 "status": "QUEUED", "deviceArn": "arn:aws:braket:::device/quantum-simulator/amazon/sv1",
 "deviceParameters": "{}", "shots": 10, "outputS3Bucket": "amazon-braket-x",
 "outputS3Directory": "tasks/2f964d09", "createdAt": "2026-11-29T15:00:00.000Z", "tags": {},
 "actionMetadata": {"actionType": "braket.ir.openqasm.program"},
 "queueInfo": {"queue": "QUANTUM_TASKS_QUEUE", "position": "2", "queuePriority": "Normal"}}"#;

#[test]
fn a_queued_task() {
    let facts = task(QUEUED.as_bytes()).unwrap();
    assert_eq!(facts.task_id, "arn:aws:braket:us-east-1:123456789012:quantum-task/2f964d09-1");
    assert_eq!((facts.state, facts.position), (TaskState::Queued, Position::At(2)));
    assert_eq!(facts.priority.as_deref(), Some("Normal"));
    assert_eq!(facts.shots, Some(10));
    assert_eq!(facts.created_at, Some("2026-11-29T15:00:00Z".parse().unwrap()));
}

#[test]
fn odd_fields_are_left_out_and_the_rest_is_read() {
    let base: Value = serde_json::from_str(QUEUED).unwrap();
    for (name, field, value) in [
        ("no queue", "queueInfo", Value::Null),
        ("queue is text", "queueInfo", json!("soon")),
        ("place is a number", "queueInfo", json!({"position": 2})),
        ("left the queue", "queueInfo", json!({"position": "None", "message": "gone"})),
        ("empty place", "queueInfo", json!({"position": ""})),
    ] {
        let mut root = base.clone();
        root[field] = value;
        let facts = task(root.to_string().as_bytes()).unwrap();
        assert_eq!(facts.position, Position::Unknown, "{name}");
        assert_eq!(facts.state, TaskState::Queued, "{name}");
    }
    let mut root = base;
    root["status"] = json!("PONDERING");
    root["createdAt"] = json!(1_796_000_000.5);
    root["shots"] = json!("ten");
    root["failureReason"] = json!("too hot");
    let facts = task(root.to_string().as_bytes()).unwrap();
    assert_eq!(facts.state, TaskState::Unknown("PONDERING".into()));
    assert_eq!(facts.created_at, Timestamp::from_millisecond(1_796_000_000_500).ok());
    assert_eq!((facts.shots, facts.failure_reason.as_deref()), (None, Some("too hot")));
}

#[test]
fn garbage_is_nothing() {
    for body in ["", "<html>busy</html>", "[]", "null", "{}", r#"{"status": "QUEUED"}"#, "{\"a\""] {
        assert_eq!(task(body.as_bytes()), None, "{body}");
        assert_eq!(task_id_of(body.as_bytes()), None, "{body}");
        assert!(!has_token(body.as_bytes()), "{body}");
    }
    assert_eq!(submission(b"[1]"), None);
    assert_eq!(submission(b"<html>"), None);
}

fn digest(value: &Value) -> String {
    submission(value.to_string().as_bytes()).unwrap().digest
}

fn mk_request(source: &str, token: &str) -> Value {
    let action = json!({"source": source, "inputs": {"b": 1, "a": 2.5}});
    json!({"deviceArn": "d", "shots": 10, "action": action.to_string(), "clientToken": token,
           "deviceParameters": "{\"x\":1}", "outputS3Bucket": "b", "outputS3KeyPrefix": "k"})
}

#[test]
fn the_digest_is_of_what_is_asked_for_and_not_of_how_it_is_written() {
    let program = "OPENQASM 3.0;\ninput float b;\ninput float a;\nqubit[1] q;\nrx(a) q[0];";
    let one = mk_request(program, "t1");
    assert_eq!(digest(&one), digest(&mk_request(program, "t2")), "another token");
    let sorted = program.replace("b;\ninput float a", "a;\ninput float b");
    assert_ne!(sorted, program);
    assert_eq!(digest(&one), digest(&mk_request(&sorted, "t1")), "inputs in another order");
    let spaced = br#"{ "shots": 10, "deviceArn": "d", "deviceParameters": "{ \"x\" : 1 }" }"#;
    let dense = br#"{"deviceArn":"d","deviceParameters":"{\"x\":1}","shots":10,"clientToken":"t"}"#;
    assert_eq!(
        submission(spaced).unwrap().digest,
        submission(dense).unwrap().digest,
        "other spaces and order"
    );

    for (name, field, value) in [
        ("shots", "shots", json!(11)),
        ("device", "deviceArn", json!("e")),
        ("bucket", "outputS3Bucket", json!("c")),
        ("action that is no JSON", "action", json!("x")),
        ("a tag", "tags", json!({"a": "b"})),
    ] {
        let mut other = one.clone();
        other[field] = value;
        assert_ne!(digest(&one), digest(&other), "{name}");
    }
    let reordered = program.replace("qubit[1] q;\nrx(a) q[0];", "rx(a) q[0];\nqubit[1] q;");
    assert_ne!(digest(&one), digest(&mk_request(&reordered, "t1")), "other lines keep their order");
}

#[test]
fn a_submission_s_fields() {
    let read = submission(mk_request("s", "t1").to_string().as_bytes()).unwrap();
    assert_eq!(read.client_token.as_deref(), Some("t1"));
    assert_eq!((read.device.as_deref(), read.shots), (Some("d"), Some(10)));
    assert_eq!(read.digest.len(), 64);
    let tokenless = submission(br#"{"clientToken": 5}"#).unwrap();
    assert_eq!(tokenless.client_token, None);
}

#[test]
fn large_submissions_are_compared_as_they_are_written() {
    let large =
        |source: &str, token: &str| mk_request(&format!("{source}{}", "x".repeat(LARGE)), token);
    let read = submission(large("a", "t1").to_string().as_bytes()).unwrap();
    assert_eq!(read.client_token.as_deref(), Some("t1"));
    assert_eq!((read.device.as_deref(), read.shots), (Some("d"), Some(10)));
    assert_eq!(read.digest, digest(&large("a", "t2")));
    assert_ne!(read.digest, digest(&large("b", "t1")));
}

#[test]
fn arns_of_paths() {
    assert_eq!(
        arn_of("arn%3Aaws%3Abraket%3Aeu-north-1%3A1%3Aquantum-task%2Fabc").as_deref(),
        Some("arn:aws:braket:eu-north-1:1:quantum-task/abc")
    );
    assert_eq!(arn_of("%ff%fe"), None);
}

proptest! {
    #[test]
    fn bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (task(&body), submission(&body), task_id_of(&body), message_of(&body));
    }

    #[test]
    fn json_of_any_shape_never_panics(
        status in "\\PC{0,12}", position in "\\PC{0,12}", created in any::<f64>(), shots in any::<i64>()
    ) {
        let root = json!({"quantumTaskArn": "a", "status": status, "createdAt": created,
                          "shots": shots, "queueInfo": {"position": position}});
        let facts = task(root.to_string().as_bytes()).unwrap();
        prop_assert_eq!(facts.position_text, Some(position));
    }

    #[test]
    fn sorting_inputs_keeps_every_line(source in "(input [a-z];\n|[a-z ]{0,8}\n){0,12}") {
        let sorted = with_sorted_inputs(&source);
        let lines = |text: &str| {
            let mut lines: Vec<_> = text.split('\n').map(str::to_owned).collect();
            lines.sort();
            lines
        };
        prop_assert_eq!(lines(&sorted), lines(&source));
        prop_assert_eq!(with_sorted_inputs(&sorted), sorted);
    }
}

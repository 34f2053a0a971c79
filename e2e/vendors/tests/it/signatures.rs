//! Who is let in.

use serde_json::json;
use sluice_vendors::Config;

use crate::python::{Call, Outcome, call, check_model, emulator, error, submission};

const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";

fn device() -> Call {
    Call::braket("get_device", json!({ "deviceArn": SV1 }))
}

fn object() -> Call {
    Call::new("s3", "head_bucket", json!({ "Bucket": "b" }))
}

fn list() -> Call {
    Call::new("s3", "list_objects_v2", json!({ "Bucket": "b" }))
}

fn identity() -> Call {
    Call::new("sts", "get_caller_identity", json!({}))
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_signatures_and_tokens_are_judged_as_by_the_vendor() {
    let vendor = emulator(Config::for_testing()).await;
    let wrong = |call: Call| call.key("AKIDEXAMPLE", "wrong");
    let unknown = |call: Call| call.key("NOBODY", "secret");
    let session = |call: Call| call.key("ASIASESSION", "session-secret").token("session-token");
    let expired = |call: Call| call.key("ASIAEXPIRED", "expired-secret").token("expired-token");
    let no_token = |call: Call| call.key("ASIASESSION", "session-secret");
    let table = [
        (wrong(device()), error("InvalidSignatureException", 403)),
        (wrong(list()), error("SignatureDoesNotMatch", 403)),
        (wrong(identity()), error("SignatureDoesNotMatch", 403)),
        (unknown(device()), error("UnrecognizedClientException", 403)),
        (unknown(list()), error("InvalidAccessKeyId", 403)),
        (unknown(object()), error("403", 403)),
        (unknown(identity()), error("InvalidClientTokenId", 403)),
        (expired(device()), error("ExpiredTokenException", 403)),
        (expired(list()), error("ExpiredToken", 400)),
        (expired(identity()), error("ExpiredToken", 403)),
        (no_token(device()), error("UnrecognizedClientException", 403)),
    ];
    let (calls, expected): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    let outcomes = call(&vendor, &calls).await;
    for ((call, outcome), expected) in calls.iter().zip(outcomes).zip(expected) {
        assert_eq!(outcome, expected, "{call:?}");
    }
    let told = call(
        &vendor,
        &[
            session(device()),
            session(Call::braket("create_quantum_task", submission(SV1, "t"))),
            session(Call::new("s3", "create_bucket", json!({ "Bucket": "b" }))),
            session(Call::new(
                "s3",
                "put_object",
                json!({ "Bucket": "b", "Key": "a b/ü+&=.txt", "Body": "text" }),
            )),
            session(Call::new("s3", "get_object", json!({ "Bucket": "b", "Key": "a b/ü+&=.txt" }))),
            session(Call::new("s3", "list_objects_v2", json!({ "Bucket": "b", "Prefix": "a b/" }))),
            session(identity()),
        ],
    )
    .await;
    assert!(told.iter().all(|outcome| matches!(outcome, Outcome::Answer(_))), "{told:?}");
    assert_eq!(told[4].answer()["Body"], "text");
    assert_eq!(told[5].answer()["Contents"][0]["Key"], "a b/ü+&=.txt");
    assert_eq!(told[6].answer()["Arn"], "arn:aws:iam::123456789012:user/erin");
    assert!(vendor.expire("ASIASESSION"));
    let told = call(&vendor, &[session(device())]).await;
    assert_eq!(told[0], error("ExpiredTokenException", 403));

    // The journal names refused callers by key only: who they are was not proved.
    let journal = vendor.journal();
    let refused = journal.iter().find(|entry| entry.access_key_id.as_deref() == Some("NOBODY"));
    assert_eq!(refused.unwrap().principal, None);
    let text = serde_json::to_string(&journal).unwrap();
    assert!(!text.contains("session-token") && !text.contains("secret"), "a secret in the journal");
    check_model(&vendor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_identity_gives_working_credentials() {
    let vendor = emulator(Config::for_testing()).await;
    let assume = |role: &str| {
        let arguments = json!({
            "RoleArn": role, "RoleSessionName": "pod", "WebIdentityToken": "a.b.c",
        });
        Call::new("sts", "assume_role_with_web_identity", arguments)
    };
    let told = call(
        &vendor,
        &[
            assume("arn:aws:iam::123456789012:role/quantum"),
            assume("arn:aws:iam::999999999999:role/quantum"),
        ],
    )
    .await;
    assert_eq!(told[1], error("AccessDenied", 403));
    let given = &told[0].answer()["Credentials"];
    let text = |name: &str| given[name].as_str().unwrap().to_owned();
    let as_role = |call: Call| {
        call.key(&text("AccessKeyId"), &text("SecretAccessKey")).token(&text("SessionToken"))
    };
    let told = call(&vendor, &[as_role(device()), as_role(identity())]).await;
    assert!(matches!(told[0], Outcome::Answer(_)), "{told:?}");
    assert_eq!(told[1].answer()["Arn"], "arn:aws:sts::123456789012:assumed-role/quantum/pod");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_signature_is_refused() {
    let vendor = emulator(Config::for_testing()).await;
    let url = format!("{}/quantum-tasks", vendor.braket_url());
    let client = reqwest::Client::new();
    let plain = client.post(&url).body("{}").send().await.unwrap();
    assert_eq!(plain.status(), 403);
    assert_eq!(plain.headers()["x-amzn-errortype"], "MissingAuthenticationTokenException");
    let bearer = client.post(&url).bearer_auth("x").body("{}").send().await.unwrap();
    assert_eq!(bearer.headers()["x-amzn-errortype"], "IncompleteSignatureException");
}

//! Whose requests go on.

use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature;
use sluice_tap::TapEvent;
use sluice_vendors::Config;

use crate::bench::{SV1, Setup, asked, emulator, refusal, submit, within};

fn key(id: &str, secret: &str, token: Option<&str>) -> Credentials {
    Credentials::new(id, secret, token.map(str::to_owned), None, "test")
}

#[tokio::test]
async fn a_wrong_secret_is_refused_as_the_vendor_would() {
    let vendor = emulator(Config::for_testing()).await;
    let mut bench = Setup::to(&vendor.braket_url()).start().await;
    let client = bench.client("us-east-1", key("AKIDEXAMPLE", "guessed", None));
    let (status, code, message) = submit(&client, "t").await.unwrap_err();
    assert_eq!((status, code.as_str()), (403, "InvalidSignatureException"));
    assert!(message.starts_with("The request signature we calculated does not match"), "{message}");
    assert!(vendor.journal().is_empty(), "nothing of it reached the vendor");
    let TapEvent::Refused { caller_key_id, own_key_id, .. } = bench.event().await else {
        panic!("a refusal is told")
    };
    assert_eq!(caller_key_id, own_key_id);
}

#[tokio::test]
async fn another_principal_is_refused_with_both_key_ids_and_the_way_out() {
    let vendor = emulator(Config::for_testing()).await;
    let mut bench = Setup::to(&vendor.braket_url()).start().await;
    // A principal that the vendor knows: without the check it would act under our name.
    let client = bench.client("us-east-1", key("AKIDOTHER", "other-secret", None));
    let error = client.get_device().device_arn(SV1).send().await.unwrap_err();
    let (status, code, message) = refusal(&error);
    assert_eq!((status, code.as_str()), (403, "AccessDeniedException"));
    for part in ["AKIDOTHER", "AKIDEXAMPLE", "discovery: announce"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(vendor.journal().is_empty());
    let TapEvent::Refused { caller_key_id, own_key_id, .. } = bench.event().await else {
        panic!("a refusal is told")
    };
    assert_eq!(caller_key_id.as_deref(), Some("AKIDOTHER"));
    assert_eq!(own_key_id.as_deref(), Some("AKIDEXAMPLE"));
}

#[tokio::test]
async fn other_session_keys_pass_only_where_our_own_are_those_of_a_role() {
    let vendor = emulator(Config::for_testing()).await;
    for (source, passes) in [
        (AwsCredentialFeature::CredentialsEnvVarsStsWebIdToken, true),
        (AwsCredentialFeature::CredentialsHttp, true),
        // Keys that stand somewhere are the same for both: others are somebody else's.
        (AwsCredentialFeature::CredentialsEnvVars, false),
        (AwsCredentialFeature::CredentialsProfile, false),
    ] {
        let mut setup = Setup::to(&vendor.braket_url());
        setup.credentials = key("ASIASESSION", "session-secret", Some("session-token"));
        setup.credentials.set_property(vec![source.clone()]);
        let bench = setup.start().await;
        // The vendor does not know this one, so it must be ours that arrives.
        let program = key("ASIAPROGRAM", "program-secret", Some("program-token"));
        let client = bench.client("us-east-1", program);
        let answer = client.get_device().device_arn(SV1).send().await;
        assert_eq!(answer.is_ok(), passes, "{source:?}");
        // Long-lived keys are never those of the role.
        let user = key("AKIDEXAMPLE", "secret", None);
        let answer = bench.client("us-east-1", user).get_device().device_arn(SV1).send().await;
        assert_eq!(refusal(&answer.unwrap_err()).1, "AccessDeniedException", "{source:?}");
        // The own session's key is checked in either case.
        let own = key("ASIASESSION", "session-secret", Some("session-token"));
        let answer = bench.client("us-east-1", own).get_device().device_arn(SV1).send().await;
        assert!(answer.is_ok(), "{source:?}");
        let forged = key("ASIASESSION", "guessed", Some("session-token"));
        let answer = bench.client("us-east-1", forged).get_device().device_arn(SV1).send().await;
        assert_eq!(refusal(&answer.unwrap_err()).1, "InvalidSignatureException", "{source:?}");
    }
    let keys: Vec<_> =
        vendor.journal().into_iter().filter_map(|entry| entry.access_key_id).collect();
    assert_eq!(keys, ["ASIASESSION"; 6]);
}

#[tokio::test]
async fn a_role_of_another_account_is_refused_with_both_accounts() {
    let vendor = emulator(Config::for_testing()).await;
    let mut setup = Setup::to(&vendor.braket_url());
    setup.credentials = key("ASIAQNZGKIQY56JQ7WML", "secret", Some("token"));
    setup.credentials.set_property(vec![AwsCredentialFeature::CredentialsHttp]);
    let bench = setup.start().await;
    let foreign = key("ASIAQNZHKIQY56JQ7WML", "secret", Some("token"));
    let client = bench.client("us-east-1", foreign);
    let (status, code, message) = submit(&client, "t").await.unwrap_err();
    assert_eq!((status, code.as_str()), (403, "AccessDeniedException"));
    for part in ["029610361905", "029608264753", "discovery: announce"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(vendor.journal().is_empty(), "nothing of it reached the vendor");
}

#[tokio::test]
async fn unsigned_requests_and_other_operations_are_refused() {
    let vendor = emulator(Config::for_testing()).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = async |path: &str, headers: &[(&'static str, &'static str)]| {
        let mut request = http.get(format!("{}{path}", bench.url()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = within(request.send()).await.unwrap();
        let kind = answer.headers()["x-amzn-errortype"].to_str().unwrap().to_owned();
        let status = answer.status().as_u16();
        let body: serde_json::Value = answer.json().await.unwrap();
        assert!(body["message"].is_string(), "{body}");
        (status, kind)
    };
    let known = "/device/arn%3Aaws%3Abraket%3A%3A%3Adevice%2Fx";
    assert_eq!(get(known, &[]).await, (403, "MissingAuthenticationTokenException".to_owned()));
    let bearer = [("authorization", "Bearer x")];
    assert_eq!(get(known, &bearer).await, (403, "IncompleteSignatureException".to_owned()));
    // A region that would make another host of the vendor's.
    let elsewhere = [
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261129/x.example.com#/braket/aws4_request, \
             SignedHeaders=host;x-amz-date, Signature=00",
        ),
        ("x-amz-date", "20261129T155034Z"),
    ];
    assert_eq!(get(known, &elsewhere).await, (403, "IncompleteSignatureException".to_owned()));
    for path in ["/", "/latest/meta-data", "/quantum-task/a/b", "/quantum-task"] {
        assert_eq!(get(path, &[]).await, (404, "UnknownOperationException".to_owned()), "{path}");
    }
    assert_eq!(asked(&vendor, "GetDevice"), 0);
    assert!(vendor.journal().is_empty());
}

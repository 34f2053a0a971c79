use super::*;
use proptest::prelude::*;

const ARN: &str = "/quantum-task/arn%3Aaws%3Abraket%3Aeu-north-1%3A123456789012%3Aquantum-task%2Fabc-1?additionalAttributeNames=QueueInfo";
const TIME: i64 = 1_796_000_000;

fn example() -> Credentials {
    Credentials::new("AKIDEXAMPLE", "secret", None, None, "test")
}

fn claim(region: &str, signed: &str) -> Claim {
    Claim {
        key_id: "AKIDEXAMPLE".to_owned(),
        region: region.to_owned(),
        time: Timestamp::from_second(TIME).unwrap(),
        has_token: false,
        signed_headers: signed.split(';').map(str::to_owned).collect(),
        signature: String::new(),
    }
}

fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    map
}

fn authorization(headers: &HeaderMap) -> &str {
    headers[AUTHORIZATION].to_str().unwrap()
}

/// Both requests and both signatures were made with botocore 1.44.8.
#[test]
fn signs_as_botocore_does_byte_for_byte() {
    let none = HeaderMap::new();
    let get = Covered { method: "GET", target: ARN, headers: &none, body: b"" };
    let host = "braket.eu-north-1.amazonaws.com";
    let claimed = claim("eu-north-1", "host;x-amz-date");
    let made = signed_again(get, &format!("https://{host}"), host, &claimed, &example()).unwrap();
    assert!(authorization(&made).contains("Signature=1a979fee"), "{}", authorization(&made));
    assert_eq!(made[HOST], host);

    let headers = map(&[("content-type", "application/json"), ("braket-trackers", "0")]);
    let post = Covered {
        method: "POST",
        target: "/quantum-task",
        headers: &headers,
        body: br#"{"a": 1}"#,
    };
    let host = "braket.us-east-1.amazonaws.com";
    let claimed = claim("us-east-1", "braket-trackers;content-type;host;x-amz-date");
    let made = signed_again(post, &format!("https://{host}"), host, &claimed, &example()).unwrap();
    assert!(authorization(&made).contains("Signature=aba0af7c"), "{}", authorization(&made));
}

/// A caller's request as it arrives at the tap.
fn arrived(
    target: &str,
    body: &[u8],
    key: &Credentials,
    extra: &[(&'static str, &str)],
) -> HeaderMap {
    let mut headers = map(extra);
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let mut names: Vec<_> = headers.keys().map(ToString::to_string).collect();
    names.extend(["host".to_owned(), "x-amz-date".to_owned()]);
    names.sort();
    let claimed = claim("us-east-1", &names.join(";"));
    let request = Covered { method: "POST", target, headers: &headers, body };
    let made =
        signed_again(request, "http://127.0.0.1:8731", "127.0.0.1:8731", &claimed, key).unwrap();
    headers.extend(made);
    headers
}

fn check(
    target: &str,
    body: &[u8],
    headers: &HeaderMap,
    key: &Credentials,
) -> Result<bool, SignatureError> {
    let claim = Claim::of(headers)?;
    verifies(Covered { method: "POST", target, headers, body }, &claim, key)
}

#[test]
fn only_the_same_request_with_the_same_secret_verifies() {
    let body = br#"{"a": 1}"#;
    let headers = arrived("/quantum-task", body, &example(), &[("braket-trackers", "0")]);
    assert_eq!(check("/quantum-task", body, &headers, &example()), Ok(true));
    assert_eq!(check("/quantum-tasks", body, &headers, &example()), Ok(false));
    assert_eq!(check("/quantum-task", br#"{"a": 2}"#, &headers, &example()), Ok(false));
    let other = Credentials::new("AKIDEXAMPLE", "secreT", None, None, "test");
    assert_eq!(check("/quantum-task", body, &headers, &other), Ok(false));
    let mut changed = headers.clone();
    changed.insert("braket-trackers", HeaderValue::from_static("1"));
    assert_eq!(check("/quantum-task", body, &changed, &example()), Ok(false));
    // What is not signed may change on the way.
    let mut changed = headers.clone();
    changed.insert("user-agent", HeaderValue::from_static("anything"));
    assert_eq!(check("/quantum-task", body, &changed, &example()), Ok(true));
    let mut removed = headers;
    removed.remove("braket-trackers");
    assert!(matches!(
        check("/quantum-task", body, &removed, &example()),
        Err(SignatureError::Malformed(what)) if what.contains("braket-trackers")
    ));
}

#[test]
fn a_session_token_is_covered_where_the_caller_signed_it() {
    let session = Credentials::new("ASIA1", "secret", Some("token".into()), None, "test");
    let headers = arrived("/jobs", b"{}", &session, &[]);
    assert!(authorization(&headers).contains("x-amz-security-token"));
    assert!(Claim::of(&headers).unwrap().has_token);
    assert_eq!(check("/jobs", b"{}", &headers, &session), Ok(true));
    let mut forged = headers;
    forged.insert("x-amz-security-token", HeaderValue::from_static("other"));
    assert_eq!(check("/jobs", b"{}", &forged, &session), Ok(false));
}

#[test]
fn the_body_must_be_covered() {
    let right = sha256_hex(b"{}");
    let headers = arrived("/jobs", b"{}", &example(), &[("x-amz-content-sha256", &right)]);
    assert_eq!(check("/jobs", b"{}", &headers, &example()), Ok(true));
    for stated in ["UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", &sha256_hex(b"{ }")] {
        let headers = arrived("/jobs", b"{}", &example(), &[("x-amz-content-sha256", stated)]);
        assert!(
            matches!(check("/jobs", b"{}", &headers, &example()), Err(SignatureError::Body(_))),
            "{stated}"
        );
    }
}

#[test]
fn claims_that_cannot_be_read() {
    let good = "AWS4-HMAC-SHA256 Credential=AKID/20261129/us-east-1/braket/aws4_request, \
                SignedHeaders=host;x-amz-date, Signature=00";
    let with = |authorization: &str, date: &str| {
        Claim::of(&map(&[("authorization", authorization), ("x-amz-date", date)]))
    };
    assert!(with(good, "20261129T155034Z").is_ok());
    assert_eq!(Claim::of(&HeaderMap::new()), Err(SignatureError::Missing));
    for (name, authorization, date) in [
        ("other scheme", "Bearer x", "20261129T155034Z"),
        ("no parts", "AWS4-HMAC-SHA256", "20261129T155034Z"),
        ("other day", good, "20261128T155034Z"),
        ("no time", good, "yesterday"),
        (
            "a host in the region",
            &good.replace("us-east-1", "us-east-1.example.com"),
            "20261129T155034Z",
        ),
        ("a port in the region", &good.replace("us-east-1", "a:1@b"), "20261129T155034Z"),
        ("other service", &good.replace("braket", "s3"), "20261129T155034Z"),
        ("host not signed", &good.replace("host;", ""), "20261129T155034Z"),
        ("a line in the key", &good.replace("AKID", "AK ID"), "20261129T155034Z"),
    ] {
        assert!(matches!(with(authorization, date), Err(SignatureError::Malformed(_))), "{name}");
    }
}

#[test]
fn a_signature_is_not_shown_by_debug() {
    let headers = arrived("/jobs", b"{}", &example(), &[]);
    assert!(!format!("{headers:?}").contains("Signature="));
}

proptest! {
    #[test]
    fn no_authorization_makes_it_panic(text in "[ -~]{0,200}", date in "[ -~]{0,30}") {
        let headers = map(&[("authorization", &text), ("x-amz-date", &date), ("host", "h")]);
        if let Ok(claim) = Claim::of(&headers) {
            let request = Covered { method: "GET", target: "/devices", headers: &headers, body: b"" };
            let _ = verifies(request, &claim, &example());
        }
    }

    #[test]
    fn no_host_path_or_header_makes_it_panic(
        host in "[ -~]{0,12}", target in "[ -~]{0,20}", value in "[ -~\\t]{0,20}", tail in "[?/#%:@\\[\\]]{0,6}"
    ) {
        let mut headers = map(&[("x-amz-date", "20261129T155034Z"), ("x-odd", &value)]);
        if let Ok(host) = HeaderValue::from_str(&host) {
            headers.insert(HOST, host);
        }
        headers.insert(AUTHORIZATION, HeaderValue::from_static(
            "AWS4-HMAC-SHA256 Credential=AKID/20261129/us-east-1/braket/aws4_request, \
             SignedHeaders=host;x-amz-date;x-odd, Signature=00",
        ));
        let claim = Claim::of(&headers).unwrap();
        for target in [format!("/devices{target}{tail}"), format!("{tail}{target}")] {
            let request = Covered { method: "GET", target: &target, headers: &headers, body: b"" };
            prop_assert_ne!(verifies(request, &claim, &example()), Ok(true));
            let _ = signed_again(request, "https://h", "h", &claim, &example());
        }
    }

    #[test]
    fn whatever_path_a_client_sends_verifies_after_it_was_signed(path in "[a-zA-Z0-9%:._~-]{1,40}") {
        let target = format!("/device/{path}");
        let headers = arrived(&target, b"", &example(), &[]);
        prop_assert_eq!(check(&target, b"", &headers, &example()), Ok(true));
    }
}

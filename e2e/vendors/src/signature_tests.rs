use http::HeaderValue;

use super::*;

const STAMP: &str = "20261129T155034Z";

fn principals() -> Principals {
    Principals::new([
        Principal::user("AKIDEXAMPLE", "secret", "123456789012", "alice"),
        Principal::user("ASIA", "secret", "123456789012", "erin").with_session("token", None),
        Principal::user("ASIAOLD", "secret", "123456789012", "frank")
            .with_session("token", Some(Timestamp::UNIX_EPOCH)),
    ])
}

fn now() -> Timestamp {
    signing_time(STAMP).unwrap()
}

struct Sent {
    method: &'static str,
    target: String,
    headers: HeaderMap,
    body: &'static [u8],
}

/// A request signed with the library itself, as a client would.
fn sent(key: &str, secret: &str, token: Option<&str>) -> Sent {
    let target = "/quantum-task/arn%3Aaws%3Abraket%3Aeu-north-1%3A123456789012%3Aquantum-task%2Fa-1\
                  ?additionalAttributeNames=QueueInfo";
    let uri = format!("http://127.0.0.1:4570{target}");
    let body = b"{\"a\": 1}";
    let credentials = Credentials::new(key, secret, token.map(str::to_owned), None, "test");
    let identity = credentials.into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region("eu-north-1")
        .name("braket")
        .time(SystemTime::from(now()))
        .settings(SigningSettings::default())
        .build()
        .unwrap()
        .into();
    let given = [("content-type", "application/json"), ("braket-trackers", "0")];
    let signable =
        SignableRequest::new("POST", uri, given.into_iter(), SignableBody::Bytes(body)).unwrap();
    let (instructions, _) = sign(signable, &params).unwrap().into_parts();
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("127.0.0.1:4570"));
    headers.insert("user-agent", HeaderValue::from_static("added on the way"));
    let (signed, _) = instructions.into_parts();
    let signed = signed.iter().map(|header| (header.name(), header.value()));
    for (name, value) in given.into_iter().chain(signed) {
        headers.insert(
            http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    Sent { method: "POST", target: target.to_owned(), headers, body }
}

fn judge(sent: &Sent, now: Timestamp) -> Result<String, Refusal> {
    let header = header(&sent.headers, "authorization").unwrap();
    let authorization = Authorization::parse(header).unwrap();
    let signed = Signed {
        method: sent.method,
        target: &sent.target,
        headers: &sent.headers,
        body: sent.body,
    };
    verify(signed, &authorization, &principals(), now).map(|principal| principal.name.clone())
}

#[test]
fn the_right_key_is_accepted_with_and_without_a_session() {
    assert_eq!(judge(&sent("AKIDEXAMPLE", "secret", None), now()).unwrap(), "user/alice");
    assert_eq!(judge(&sent("ASIA", "secret", Some("token")), now()).unwrap(), "user/erin");
}

#[test]
fn the_header_is_taken_apart() {
    let value = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261129/us-east-1/braket/aws4_request,\n\
                 SignedHeaders=host;x-amz-date, Signature=c887";
    let parsed = Authorization::parse(value).unwrap();
    let told = [&*parsed.access_key_id, &*parsed.date, &*parsed.region, &*parsed.service];
    assert_eq!(told, ["AKIDEXAMPLE", "20261129", "us-east-1", "braket"]);
    assert_eq!(Authorization::parse("Bearer x"), None);
    assert_eq!(Authorization::parse("AWS4-HMAC-SHA256 Credential=a/b, Signature=c"), None);
}

#[test]
fn anything_changed_on_the_way_is_a_mismatch() {
    let changes: [fn(&mut Sent); 5] = [
        |sent| sent.method = "GET",
        |sent| sent.target = sent.target.replace("a-1", "a-2"),
        |sent| sent.body = b"{\"a\": 2}",
        |sent| drop(sent.headers.insert("braket-trackers", HeaderValue::from_static("1"))),
        |sent| drop(sent.headers.insert("host", HeaderValue::from_static("elsewhere"))),
    ];
    for change in changes {
        let mut sent = sent("AKIDEXAMPLE", "secret", None);
        change(&mut sent);
        assert_eq!(judge(&sent, now()), Err(Refusal::Mismatch), "{} {}", sent.method, sent.target);
    }
    let wrong = sent("AKIDEXAMPLE", "other", None);
    assert_eq!(judge(&wrong, now()), Err(Refusal::Mismatch));
}

#[test]
fn keys_tokens_and_clocks_are_checked() {
    assert_eq!(judge(&sent("NOBODY", "secret", None), now()), Err(Refusal::Unknown));
    assert_eq!(judge(&sent("ASIA", "secret", None), now()), Err(Refusal::Unknown));
    assert_eq!(judge(&sent("ASIA", "secret", Some("wrong")), now()), Err(Refusal::Unknown));
    assert_eq!(judge(&sent("ASIAOLD", "secret", Some("token")), now()), Err(Refusal::Expired));
    let late = now() + Duration::from_secs(901);
    let skewed = judge(&sent("AKIDEXAMPLE", "secret", None), late);
    assert!(matches!(skewed, Err(Refusal::Skewed(_))), "{skewed:?}");
    assert!(judge(&sent("AKIDEXAMPLE", "secret", None), now() + Duration::from_secs(899)).is_ok());
}

#[test]
fn each_service_names_a_refusal_its_own_way() {
    let codes = [Service::Braket, Service::S3, Service::Sts]
        .map(|service| Refusal::Unknown.error(service))
        .map(|error| (error.status, error.code));
    let expected = [
        (403, "UnrecognizedClientException"),
        (403, "InvalidAccessKeyId"),
        (403, "InvalidClientTokenId"),
    ]
    .map(|(status, code)| (status, code.to_owned()));
    assert_eq!(codes, expected);
    assert_eq!(Refusal::Expired.error(Service::S3).status, 400);
    assert_eq!(Refusal::Expired.error(Service::Sts).status, 403);
}

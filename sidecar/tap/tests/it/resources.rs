//! Requests for resources of QRMI: as they are, with the program's own right.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use sluice_tap::{Asked, Endpoint, Forward, Intents, Route, TapEvent};
use sluice_vendors::{Action, Ahead, Config, Fault, Running, Service, Stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bench::{Bench, Setup, emulator};

const GARNET: &str = "iqm-server/garnet";
const LAGOS: &str = "ibm-quantum-compute-service/ibm_lagos";

async fn vendor(long_poll_ms: u64) -> Running {
    let mut config = Config::for_testing().by_hand(Ahead { normal: 2, priority: 0 });
    config.qrmi.long_poll_ms = long_poll_ms;
    emulator(config).await
}

fn setup(vendor: &Running) -> Setup {
    let mut setup = Setup::to(&vendor.braket_url());
    let url = vendor.url_of(Service::IbmQuantumComputeService);
    for (resource, url) in [(GARNET, vendor.url_of(Service::Iqm)), (LAGOS, format!("{url}/api/v1"))]
    {
        let endpoint = Endpoint::parse(&url).map_err(|error| error.to_string());
        setup.config.resources.push(Route { resource: resource.parse().unwrap(), endpoint });
    }
    setup
}

fn circuit() -> Value {
    let measure = json!({"name": "measure", "locus": ["QB1"], "args": {"key": "m"}});
    json!({"circuits": [{"name": "one", "instructions": [measure]}], "shots": 10})
}

/// Sends a request as IQM's clients do.
async fn send(
    bench: &Bench,
    method: reqwest::Method,
    path: &str,
    body: Option<&Value>,
) -> Result<reqwest::Response, reqwest::Error> {
    let url = format!("{}/{GARNET}{path}", bench.url());
    let request = reqwest::Client::new().request(method, url).bearer_auth("team-key");
    match body {
        Some(body) => request.json(body).send().await,
        None => request.send().await,
    }
}

async fn submit(bench: &Bench) -> String {
    let path = "/api/v1/jobs/garnet/circuit";
    let answer = send(bench, reqwest::Method::POST, path, Some(&circuit())).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    answer.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()
}

fn asked(vendor: &Running, operation: &str) -> usize {
    vendor.journal().iter().filter(|entry| entry.operation == operation).count()
}

#[tokio::test]
async fn a_long_poll_is_waited_for_and_asked_once() {
    let vendor = vendor(1_500).await;
    let mut setup = setup(&vendor);
    // Far shorter than the vendor holds the request.
    setup.config.limits.answer_time = Duration::from_millis(300);
    setup.config.hold = Duration::from_secs(1);
    let bench = setup.start().await;
    let id = submit(&bench).await;
    let path = format!("/api/v1/jobs/{id}?wait_until_terminal=true&timeout_seconds=30");
    let answer = send(&bench, reqwest::Method::GET, &path, None).await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(asked(&vendor, "iqm:GetJob"), 1);
    let left = bench.end().await;
    let away = left.iter().any(|event| matches!(event, TapEvent::UpstreamAway { .. }));
    assert!(!away, "{left:?}");
}

#[tokio::test]
async fn what_passes_is_told_with_its_place() {
    let vendor = vendor(200).await;
    let mut bench = setup(&vendor).start().await;
    let id = submit(&bench).await;
    let place = bench
        .event_where(|event| match event {
            TapEvent::Submitted { task_id, place, submission, .. } => {
                assert_eq!((task_id, submission.shots), (&id, Some(10)));
                Some(place.to_string())
            }
            _ => None,
        })
        .await;
    assert_eq!(place, GARNET);
    send(&bench, reqwest::Method::GET, &format!("/api/v1/jobs/{id}"), None).await.unwrap();
    let position = bench
        .event_where(|event| match event {
            TapEvent::Polled { facts, .. } => facts.position_text.clone(),
            _ => None,
        })
        .await;
    assert_eq!(position, "3");
    let path = format!("/api/v1/jobs/{id}/cancel");
    send(&bench, reqwest::Method::POST, &path, None).await.unwrap();
    let cancelled = bench
        .event_where(|event| match event {
            TapEvent::CancelRequested { task_id, .. } => Some(task_id.clone()),
            _ => None,
        })
        .await;
    assert_eq!(cancelled, id);
}

#[tokio::test]
async fn a_submission_that_may_have_arrived_is_never_sent_twice() {
    for (when, made) in [(Stage::Before, 0), (Stage::After, 1)] {
        let vendor = vendor(200).await;
        let mut bench = setup(&vendor).start().await;
        vendor.add_fault(Fault::next(1, "iqm:SubmitJob", Action::Close { when }));
        let path = "/api/v1/jobs/garnet/circuit";
        let sent = send(&bench, reqwest::Method::POST, path, Some(&circuit())).await;
        assert!(sent.is_err(), "the connection is closed: {sent:?}");
        assert_eq!((vendor.jobs().len(), asked(&vendor, "iqm:SubmitJob")), (made, 1), "{when:?}");
        bench.event_where(|e| matches!(e, TapEvent::SubmissionUnknown { .. }).then_some(())).await;
    }
}

#[tokio::test]
async fn a_poll_is_repeated_and_a_page_of_a_proxy_reaches_the_program_as_it_is() {
    let vendor = vendor(200).await;
    let bench = setup(&vendor).start().await;
    let id = submit(&bench).await;
    let lost = Action::Close { when: Stage::Before };
    vendor.add_fault(Fault::next(1, "iqm:GetJob", lost));
    let path = format!("/api/v1/jobs/{id}");
    let answer = send(&bench, reqwest::Method::GET, &path, None).await.unwrap();
    assert_eq!((answer.status().as_u16(), asked(&vendor, "iqm:GetJob")), (200, 2));
    let page = Action::Answer {
        status: 403,
        content_type: "text/html".into(),
        body: "<html>go away</html>".into(),
        when: Stage::Before,
    };
    vendor.add_fault(Fault::next(1, "iqm:GetJob", page));
    let answer = send(&bench, reqwest::Method::GET, &path, None).await.unwrap();
    assert_eq!(answer.status().as_u16(), 403);
    assert_eq!(answer.text().await.unwrap(), "<html>go away</html>");
}

fn too_many(code: &str, retry_after: Option<&str>) -> Action {
    Action::Error {
        code: code.into(),
        status: Some(429),
        message: "Too many jobs were submitted".into(),
        retry_after: retry_after.map(str::to_owned),
        when: Stage::Before,
    }
}

#[tokio::test]
async fn a_limit_of_which_nothing_is_known_is_held_only_if_the_vendor_says_how_long() {
    let path = "/api/v1/jobs/garnet/circuit";
    for (wish, status, sent) in [(None, 429, 1), (Some("1"), 200, 2), (Some("3600"), 429, 1)] {
        let vendor = vendor(200).await;
        let mut bench = setup(&vendor).start().await;
        vendor.add_fault(Fault::next(1, "iqm:SubmitJob", too_many("429", wish)));
        let answer = send(&bench, reqwest::Method::POST, path, Some(&circuit())).await.unwrap();
        assert_eq!(answer.status().is_success(), status == 200, "{wish:?}: {answer:?}");
        assert_eq!(asked(&vendor, "iqm:SubmitJob"), sent, "{wish:?}");
        if status == 429 {
            let void = |event: &TapEvent| match event {
                TapEvent::SubmissionRefused { void, status, .. } => Some((*void, status.as_u16())),
                _ => None,
            };
            assert_eq!(bench.event_where(void).await, (true, 429), "nothing was made");
        }
    }
}

#[tokio::test]
async fn five_jobs_a_minute_are_held_until_there_is_room() {
    let vendor = vendor(200).await;
    let bench = setup(&vendor).start().await;
    let busy = too_many("1305", None);
    let create = "ibm-quantum-compute-service:CreateJob";
    vendor.add_fault(Fault::next(1, create, busy));
    let http = reqwest::Client::new();
    let form = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey=team-key";
    let url = vendor.url_of(Service::IbmQuantumComputeService);
    let token = http.post(format!("{url}/identity/token")).body(form).send().await.unwrap();
    let token: Value = token.json().await.unwrap();
    let program = "OPENQASM 3.0; include \"stdgates.inc\"; bit[1] c; sx $0; c[0] = measure $0;";
    let params = json!({"pubs": [[program, null, 10]], "version": 2, "support_qiskit": false});
    let body = json!({"program_id": "sampler", "backend": "ibm_lagos", "params": params});
    let sent = http
        .post(format!("{}/{LAGOS}/jobs", bench.url()))
        .bearer_auth(token["access_token"].as_str().unwrap())
        .json(&body)
        .send()
        .await
        .unwrap();
    assert!(sent.status().is_success(), "{sent:?}");
    assert_eq!((vendor.jobs().len(), asked(&vendor, create)), (1, 2));
}

#[tokio::test]
async fn paths_stay_below_the_endpoint_and_large_bodies_pass() {
    let vendor = vendor(200).await;
    let bench = setup(&vendor).start().await;
    // A library would take the dots out, so the request is written by hand.
    for path in ["/../pasqal/core-fast/api/v1/devices", "/%2e%2e/felis/v1/targets"] {
        let mut stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
        let head = format!("GET /{GARNET}{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
    }
    assert!(vendor.journal().is_empty(), "nothing was forwarded");
    let mut large = circuit();
    large["metadata"] = json!("x".repeat(10 << 20));
    let path = "/api/v1/jobs/garnet/circuit";
    let answer = send(&bench, reqwest::Method::POST, path, Some(&large)).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
}

/// Knows the task of an earlier run.
#[derive(Default)]
struct Earlier {
    known: Mutex<Option<String>>,
    asked: Mutex<Vec<Asked>>,
    returned: Mutex<Vec<(String, bool)>>,
}

impl Intents for Earlier {
    fn before<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Forward> {
        self.asked.lock().unwrap().push(asked.clone());
        let known = self.known.lock().unwrap().clone();
        async move { known.map_or(Forward::Send, Forward::Known) }.boxed()
    }

    fn returned<'a>(&'a self, _: &'a Asked, id: &'a str, unknown: bool) -> BoxFuture<'a, ()> {
        self.returned.lock().unwrap().push((id.to_owned(), unknown));
        async {}.boxed()
    }
}

#[tokio::test]
async fn a_submission_that_is_known_gets_the_vendors_word_of_that_task() {
    let vendor = vendor(200).await;
    let book = Arc::new(Earlier::default());
    let mut setup = setup(&vendor);
    setup.intents = Some(Arc::clone(&book) as Arc<dyn Intents>);
    let bench = setup.start().await;
    let first = submit(&bench).await;
    *book.known.lock().unwrap() = Some(first.clone());
    assert_eq!(submit(&bench).await, first);
    assert_eq!(asked(&vendor, "iqm:SubmitJob"), 1, "nothing is sent");
    // The vendor does not say what it is: nothing is sent, and the program is told.
    for status in [500, 407, 423] {
        let broken = Action::Error {
            code: status.to_string(),
            status: Some(status),
            message: "out of order".into(),
            retry_after: None,
            when: Stage::Before,
        };
        vendor.add_fault(Fault::next(1, "iqm:GetJob", broken));
        let path = "/api/v1/jobs/garnet/circuit";
        let answer = send(&bench, reqwest::Method::POST, path, Some(&circuit())).await.unwrap();
        assert_eq!((answer.status().as_u16(), asked(&vendor, "iqm:SubmitJob")), (status, 1));
    }
    // The vendor has lost it: a new one is made.
    let lost = "834b21ed-0000-4000-8000-000000000000";
    *book.known.lock().unwrap() = Some(lost.to_owned());
    assert_ne!(submit(&bench).await, first);
    let returned = book.returned.lock().unwrap();
    let (known, unknown) = ((first, false), (lost.to_owned(), true));
    let three = [known.clone(), known.clone(), known];
    assert_eq!(returned[..3], three);
    assert_eq!(returned[3..], [unknown.clone(), unknown]);
    let asks = book.asked.lock().unwrap();
    let digests: Vec<_> = asks.iter().map(|ask| &ask.submission.digest).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let tokens: std::collections::BTreeSet<_> =
        asks.iter().map(|ask| ask.submission.client_token.clone().unwrap()).collect();
    assert_eq!(tokens.len(), 6, "each record has a name of its own");
}

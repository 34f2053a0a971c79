//! The servers on real sockets with real TLS, against an API server in memory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::{Value, json};
use sluice_webhook::app::{self, serve_reviews};
use sluice_webhook::args::{Args, ServeArgs};
use sluice_webhook::http::{BODY_LIMIT, router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::fixture::{mk_admission, mk_review};

const HOST: &str = "sluice-webhook.sluice-system.svc";
const SECRETS: &str = "/api/v1/namespaces/sluice-system/secrets";
const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/sluice";
/// Longest wait for something that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

fn install_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn mk_client(ca: &str, address: SocketAddr) -> reqwest::Client {
    let roots = reqwest::Certificate::from_pem_bundle(ca.as_bytes()).unwrap();
    reqwest::Client::builder()
        .tls_certs_only(roots)
        .resolve(HOST, address)
        .pool_max_idle_per_host(0)
        .build()
        .unwrap()
}

async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("not seen in time: {what}"))
}

/// A server of reviews alone.
struct Served {
    /// A request has arrived: its headers were read.
    arrived: Arc<tokio::sync::Notify>,
    address: SocketAddr,
    client: reqwest::Client,
    stop: CancellationToken,
    done: tokio::task::JoinHandle<anyhow::Result<()>>,
}

async fn mk_served() -> Served {
    install_provider();
    let issued =
        sluice_certs::issue(&[HOST.to_owned()], SignedDuration::from_hours(1), Timestamp::now())
            .unwrap();
    let config = axum_server::tls_rustls::RustlsConfig::from_pem(
        issued.cert_pem.into_bytes(),
        issued.key_pem.into_bytes(),
    )
    .await
    .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let arrived = Arc::new(tokio::sync::Notify::new());
    let seen = Arc::clone(&arrived);
    let router = router(mk_admission(&Value::Null)).layer(axum::middleware::map_request(
        move |request: axum::extract::Request| {
            seen.notify_one();
            std::future::ready(request)
        },
    ));
    let done = tokio::spawn(serve_reviews(listener, config, router, stop.clone()));
    Served { arrived, address, client: mk_client(&issued.ca_pem, address), stop, done }
}

impl Served {
    async fn post(&self, path: &str, body: Vec<u8>) -> (u16, String) {
        let url = format!("https://{HOST}:{}{path}", self.address.port());
        let answer = self.client.post(url).body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

fn mk_plain_pod(padding: usize) -> Value {
    json!({
        "metadata": {"name": "p", "annotations": {"padding": "x".repeat(padding)}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_good_and_bad() {
    let served = mk_served().await;
    let review = |object: &Value| serde_json::to_vec(&mk_review("pods", object)).unwrap();
    let changed = |edit: fn(&mut Value)| {
        let mut review = mk_review("pods", &mk_plain_pod(0));
        edit(&mut review);
        serde_json::to_vec(&review).unwrap()
    };
    let rows: [(&str, Vec<u8>, u16, &str); 9] = [
        ("a plain pod", review(&mk_plain_pod(0)), 200, r#""allowed":true"#),
        ("three MiB", review(&mk_plain_pod(3 << 20)), 200, r#""allowed":true"#),
        ("too large", review(&mk_plain_pod(BODY_LIMIT)), 413, "larger than"),
        ("junk", b"\xff\x00 junk".to_vec(), 400, "cannot be read"),
        ("empty", vec![], 400, "cannot be read"),
        (
            "another version",
            changed(|r| r["apiVersion"] = json!("admission.k8s.io/v1beta1")),
            400,
            "admission.k8s.io/v1",
        ),
        ("no request", changed(|r| r["request"] = Value::Null), 400, "without a request"),
        (
            "another kind",
            changed(|r| r["request"]["kind"]["kind"] = json!("Job")),
            200,
            "correct the path",
        ),
        (
            "a pod that is none",
            changed(|r| r["request"]["object"]["spec"] = json!("text")),
            200,
            r#""allowed":false"#,
        ),
    ];
    for (name, body, status, text) in rows {
        let (got, answer) = served.post("/admit/pods", body).await;
        assert_eq!(got, status, "{name}: {answer}");
        assert!(answer.contains(text), "{name}: {answer}");
    }
    let update = changed(|r| {
        r["request"]["operation"] = json!("UPDATE");
        r["request"]["object"]["metadata"]["labels"] =
            json!({sluice_shared::names::ROLE: "consumer"});
    });
    let (_, answer) = served.post("/admit/pods", update).await;
    assert!(answer.contains(r#""allowed":true"#) && !answer.contains("patch"), "{answer}");
    served.stop.cancel();
    served.done.await.unwrap().unwrap();
}

/// A request that is half sent when the order to stop comes is answered; a new one is not taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_requests_are_drained() {
    let served = mk_served().await;
    let body = serde_json::to_vec(&mk_review("pods", &mk_plain_pod(1000))).unwrap();
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let stream = futures_stream(receiver);
    let url = format!("https://{HOST}:{}/admit/pods", served.address.port());
    let client = served.client.clone();
    let open = tokio::spawn(async move {
        client.post(url).body(reqwest::Body::wrap_stream(stream)).send().await
    });
    let (first, second) = body.split_at(body.len() / 2);
    sender.send(Ok(first.to_vec())).await.unwrap();
    served.arrived.notified().await;
    served.stop.cancel();
    until("the listener to close", || async {
        tokio::net::TcpStream::connect(served.address).await.is_err().then_some(())
    })
    .await;
    sender.send(Ok(second.to_vec())).await.unwrap();
    drop(sender);
    assert_eq!(open.await.unwrap().unwrap().status(), 200);
    served.done.await.unwrap().unwrap();
}

fn futures_stream(
    receiver: tokio::sync::mpsc::Receiver<Result<Vec<u8>, std::io::Error>>,
) -> impl futures::Stream<Item = Result<Vec<u8>, std::io::Error>> {
    futures::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|piece| (piece, receiver))
    })
}

/// An API server in memory: one Secret, one webhook configuration, the list of APIs.
#[derive(Clone, Default)]
struct Api(Arc<Mutex<BTreeMap<String, Value>>>);

impl Api {
    fn new() -> Self {
        let api = Self::default();
        api.put(
            CONFIGURATION,
            json!({"metadata": {"name": "sluice"}, "webhooks": [
                {"name": "jobs.sluice", "clientConfig": {"service": {"name": "s", "namespace": "n"}},
                 "admissionReviewVersions": ["v1"], "sideEffects": "None"},
                {"name": "pods.sluice", "clientConfig": {"service": {"name": "s", "namespace": "n"}},
                 "admissionReviewVersions": ["v1"], "sideEffects": "None"},
            ]}),
        );
        api
    }

    fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().get(path).cloned()
    }

    fn put(&self, path: &str, mut object: Value) {
        let mut objects = self.0.lock().unwrap();
        let old = objects.get(path).and_then(|o| o["metadata"]["resourceVersion"].as_str());
        let version = old.map_or(0, |v| v.parse::<u64>().unwrap()) + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        objects.insert(path.to_owned(), object);
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let status = |code: u16, reason: &str| {
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                          "code": code, "reason": reason, "message": reason}),
            )
        };
        match (method, path) {
            ("GET", "/apis") => (
                200,
                json!({"groups": [{"name": "scheduling.k8s.io", "versions": [
                    {"groupVersion": "scheduling.k8s.io/v1alpha2", "version": "v1alpha2"},
                ]}]}),
            ),
            ("GET", "/apis/scheduling.k8s.io/v1alpha2") => (
                200,
                json!({
                    "groupVersion": "scheduling.k8s.io/v1alpha2",
                    "resources": [{"name": "podgroups", "singularName": "podgroup", "namespaced": true,
                                   "kind": "PodGroup", "verbs": ["get"]}],
                }),
            ),
            ("POST", SECRETS) => {
                let path = format!("{SECRETS}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.get(&path).is_some() {
                    return status(409, "AlreadyExists");
                }
                self.put(&path, body.clone());
                (201, self.get(&path).unwrap())
            }
            ("PUT", path) => {
                let stored = self.get(path).unwrap_or_default();
                if stored["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return status(409, "Conflict");
                }
                self.put(path, body.clone());
                (200, self.get(path).unwrap())
            }
            ("PATCH", path) => {
                let mut object = self.get(path).unwrap();
                for wanted in body["webhooks"].as_array().unwrap() {
                    let list = object["webhooks"].as_array_mut().unwrap();
                    let webhook = list.iter_mut().find(|w| w["name"] == wanted["name"]).unwrap();
                    webhook["clientConfig"]["caBundle"] =
                        wanted["clientConfig"]["caBundle"].clone();
                }
                self.put(path, object.clone());
                (200, object)
            }
            ("GET", path) => match self.get(path) {
                Some(object) => (200, object),
                None => status(404, "NotFound"),
            },
            _ => status(405, "MethodNotAllowed"),
        }
    }

    fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, value) = api.answer(parts.method.as_str(), parts.uri.path(), &body);
                let response = http::Response::builder()
                    .status(code)
                    .body(Body::from(serde_json::to_vec(&value).unwrap()));
                Ok::<_, std::convert::Infallible>(response.unwrap())
            }
        });
        kube::Client::new(service, "sluice-system")
    }

    fn bundle(&self) -> String {
        let configuration = self.get(CONFIGURATION).unwrap();
        let bundles: Vec<String> = configuration["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|w| {
                let bytes: k8s_openapi::ByteString =
                    serde_json::from_value(w["clientConfig"]["caBundle"].clone()).unwrap();
                String::from_utf8(bytes.0).unwrap()
            })
            .collect();
        assert_eq!(bundles[0], bundles[1]);
        bundles[0].clone()
    }
}

fn mk_args() -> ServeArgs {
    let args = Args::parse_from([
        "sluice-webhook",
        "--listen=127.0.0.1:0",
        "--admin-listen=127.0.0.1:0",
        "--sidecar-image=sluice-sidecar:dev",
        "--keeper=false",
        "--drain-delay=0s",
        "--certificate-poll=100ms",
    ]);
    args.serve
}

async fn text(url: String) -> Option<(u16, String)> {
    let answer = reqwest::get(url).await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

/// Two replicas start at once, share one certificate, are ready, follow a change of it, and end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_and_follow_one_certificate() {
    install_provider();
    let api = Api::new();
    let stop = CancellationToken::new();
    let mut addresses = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let bound = app::build(&mk_args(), api.client()).unwrap();
        addresses.push((bound.address, bound.admin_address));
        tasks.push(tokio::spawn(bound.run(stop.clone())));
    }
    let admit = |address: SocketAddr, ca: String| async move {
        let url = format!("https://{HOST}:{}/admit/pods", address.port());
        let body = serde_json::to_vec(&mk_review("pods", &mk_plain_pod(0))).unwrap();
        let answer = mk_client(&ca, address).post(url).body(body).send().await.ok()?;
        (answer.status() == 200).then_some(())
    };
    for (address, admin) in &addresses {
        until("readiness", || async {
            text(format!("http://{admin}/readyz")).await.filter(|(code, _)| *code == 200)
        })
        .await;
        admit(*address, api.bundle()).await.expect("a review over TLS");
        let (_, metrics) = text(format!("http://{admin}/metrics")).await.unwrap();
        assert!(metrics.contains("sluice_admission_reviews_total"), "{metrics}");
    }

    // Somebody deletes the Secret: what is served stays, and a new one is trusted beside it.
    let old = api.bundle();
    api.0.lock().unwrap().retain(|path, _| !path.starts_with(SECRETS));
    until("a longer bundle", || async { (api.bundle() != old).then_some(()) }).await;
    assert!(api.bundle().contains(&old), "{}", api.bundle());
    for (address, _) in &addresses {
        admit(*address, old.clone()).await.expect("the certificate that was served before");
    }

    // Long after that the new one is served, and the old one alone is trusted in vain.
    let args = mk_args();
    let path = format!("{SECRETS}/{}", args.certificate_secret);
    let mut secret = api.get(&path).unwrap();
    secret["metadata"]["annotations"]["sluice.flux-framework.org/staged-at"] =
        json!("2026-01-01T00:00:00Z");
    api.put(&path, secret);
    for (address, _) in &addresses {
        until("the new certificate", || async {
            admit(*address, old.clone()).await.is_none().then_some(())
        })
        .await;
        admit(*address, api.bundle()).await.expect("a review over TLS");
    }

    stop.cancel();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

/// Half a request does not hold the server for ever, and one on the admin port is answered while
/// the API server says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_certificate_it_lives_and_says_what_it_waits_for() {
    install_provider();
    let api = Api::default();
    let bound = app::build(&mk_args(), api.client()).unwrap();
    let (address, admin) = (bound.address, bound.admin_address);
    let stop = CancellationToken::new();
    let task = tokio::spawn(bound.run(stop.clone()));
    let (code, missing) = until("an answer", || text(format!("http://{admin}/readyz"))).await;
    assert_eq!(code, 503);
    assert!(missing.contains("webhook configuration"), "{missing}");
    assert_eq!(text(format!("http://{admin}/livez")).await.unwrap().0, 200);
    let mut idle = tokio::net::TcpStream::connect(address).await.unwrap();
    idle.write_all(b"hello").await.unwrap();
    stop.cancel();
    task.await.unwrap().unwrap();
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest).await;
}

//! The ways to the vendor: proxies, private authorities, endpoints of a network's own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use axum_server::tls_rustls::RustlsConfig;
use sluice_vendors::{Ahead, Emulator};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::Cluster;
use crate::parent::{self, Running};
use crate::worker::{GARNET, submit};
use crate::{await_some, worker};

/// The vendor behind TLS, with a certificate that nobody knows: its address and its root.
async fn behind_tls(vendor: SocketAddr, names: &[&str]) -> (SocketAddr, String) {
    // A second call finds it installed, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let config = RustlsConfig::from_pem(cert.clone().into(), key.into()).await.unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let app = Router::new().fallback(pass).with_state((client, vendor));
    let server = axum_server::from_tcp_rustls(listener, config).unwrap();
    tokio::spawn(server.serve(app.into_make_service()));
    (address, cert)
}

async fn pass(
    State((client, vendor)): State<(reqwest::Client, SocketAddr)>,
    method: Method,
    uri: Uri,
    mut headers: HeaderMap,
    body: Bytes,
) -> Response {
    // The host stays, as the signature covers it; HTTP/2 has it elsewhere.
    if let Some(authority) = uri.authority() {
        headers.insert("host", authority.as_str().parse().unwrap());
    }
    let path = uri.path_and_query().unwrap();
    let sent = client.request(method, format!("http://{vendor}{path}")).headers(headers).body(body);
    let answer = sent.send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    (status, headers, answer.bytes().await.unwrap()).into_response()
}

/// A proxy that wants a password and leads every host to one address.
#[derive(Clone)]
struct Proxy {
    url: String,
    seen: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Proxy {
    async fn start(leads_to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://me:canary-proxy@{}", listener.local_addr().unwrap());
        let proxy = Self { url, seen: Arc::default() };
        let served = proxy.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(served.clone().converse(stream, leads_to));
            }
        });
        proxy
    }

    async fn converse(self, mut stream: TcpStream, leads_to: SocketAddr) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
        // "me:canary-proxy" in base64.
        let may = head.to_lowercase().contains("proxy-authorization: basic bwu6y2fuyxj5lxbyb3h5");
        let Some(target) = target.filter(|_| may) else {
            return stream.write_all(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n").await;
        };
        *self.seen.lock().unwrap().entry(target.to_owned()).or_default() += 1;
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
        let mut on = TcpStream::connect(leads_to).await?;
        copy_bidirectional(&mut stream, &mut on).await.map(drop)
    }

    fn targets(&self) -> Vec<String> {
        self.seen.lock().unwrap().keys().cloned().collect()
    }
}

/// Runs a sidecar with these variables and files until it has read a task that was submitted
/// through it by itself, and returns its log.
async fn follows(
    vendor: &sluice_vendors::Running,
    files: &tempfile::TempDir,
    vars: &[(&str, &str)],
) -> String {
    let cluster = Cluster::start().await;
    cluster.create_gang("g-1");
    let kubeconfig = files.path().join("kube");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let mut command = parent::command();
    command
        .env_remove("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("KUBECONFIG", &kubeconfig)
        .envs(vars.iter().copied());
    let running = Running::of(command).await;
    let id = submit(&running.tap_url(), GARNET).await;
    // Nobody polls: the place can only come from a look of its own.
    worker::await_position(&cluster, "3").await;
    assert_eq!(cluster.vendor().unwrap().tasks[0].id, id);
    assert_eq!(vendor.tasks().len(), 1);
    running.end().await.1
}

async fn vendor() -> sluice_vendors::Running {
    let config = sluice_vendors::Config::for_testing().by_hand(Ahead { normal: 2, priority: 0 });
    Emulator::start(config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_of_the_network_with_a_private_authority_behind_a_proxy_with_a_password() {
    let (vendor, files) = (vendor().await, tempfile::tempdir().unwrap());
    let name = "vpce-1.braket.example";
    let (tls, root) = behind_tls(vendor.address(), &[name]).await;
    let bundle = files.path().join("ca.pem");
    std::fs::write(&bundle, format!("# ours\n{root}")).unwrap();
    let proxy = Proxy::start(tls).await;
    let log = follows(
        &vendor,
        &files,
        &[
            ("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", "https://vpce-1.braket.example"),
            ("AWS_CA_BUNDLE", bundle.to_str().unwrap()),
            ("HTTPS_PROXY", &proxy.url),
            // Roots of the program's image do not take away ours.
            ("SSL_CERT_FILE", "/opt/conda/ssl/cacert.pem"),
        ],
    )
    .await;
    assert_eq!(proxy.targets(), ["vpce-1.braket.example:443"]);
    assert!(log.contains("SSL_CERT_FILE names /opt/conda"), "{log}");
    assert!(!log.contains("canary"), "the proxy's password is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_profile_of_a_mounted_file_names_endpoint_and_authority() {
    let (vendor, files) = (vendor().await, tempfile::tempdir().unwrap());
    let (tls, root) = behind_tls(vendor.address(), &["localhost"]).await;
    let (bundle, config) = (files.path().join("ca.pem"), files.path().join("config"));
    std::fs::write(&bundle, root).unwrap();
    let text = format!(
        "[profile lab]\nservices = ours\nca_bundle = {}\n[services ours]\nbraket =\n  \
         endpoint_url = https://localhost:{}\n",
        bundle.display(),
        tls.port()
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    follows(&vendor, &files, &[("AWS_CONFIG_FILE", config), ("AWS_PROFILE", "lab")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_by_the_variables_of_openssl_and_node() {
    for variable in ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"] {
        let (vendor, files) = (vendor().await, tempfile::tempdir().unwrap());
        let (tls, root) = behind_tls(vendor.address(), &["localhost"]).await;
        let bundle = files.path().join("ca.pem");
        std::fs::write(&bundle, root).unwrap();
        let url = format!("https://localhost:{}", tls.port());
        let vars = [
            ("SLUICE_UPSTREAM_AWS_ENDPOINT_URL", url.as_str()),
            (variable, bundle.to_str().unwrap()),
        ];
        follows(&vendor, &files, &vars).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_with_validated_cryptography_stay_those_and_it_is_said() {
    let (vendor, files) = (vendor().await, tempfile::tempdir().unwrap());
    let host = "braket-fips.eu-north-1.amazonaws.com";
    let (tls, root) = behind_tls(vendor.address(), &[host]).await;
    let (bundle, config) = (files.path().join("ca.pem"), files.path().join("config"));
    std::fs::write(&bundle, root).unwrap();
    std::fs::write(&config, "[default]\nuse_fips_endpoint = true\n").unwrap();
    let proxy = Proxy::start(tls).await;
    let log = follows(
        &vendor,
        &files,
        &[
            ("AWS_CONFIG_FILE", config.to_str().unwrap()),
            ("REQUESTS_CA_BUNDLE", bundle.to_str().unwrap()),
            ("https_proxy", &proxy.url),
        ],
    )
    .await;
    assert_eq!(proxy.targets(), [format!("{host}:443")], "tap and own looks alike");
    assert!(log.contains("FIPS") && log.contains("discovery: announce"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_not_trusted_is_told_in_the_gang() {
    let (vendor, files) = (vendor().await, tempfile::tempdir().unwrap());
    let (tls, _) = behind_tls(vendor.address(), &["localhost"]).await;
    let cluster = Cluster::start().await;
    cluster.create_gang("g-1");
    let kubeconfig = files.path().join("kube");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let mut command = parent::command();
    command
        .env("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", format!("https://localhost:{}", tls.port()))
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_CA_BUNDLE", "/in/the/image/ca.pem")
        .env("KUBECONFIG", &kubeconfig);
    let running = Running::of(command).await;
    let submission = tokio::spawn({
        let url = running.tap_url();
        async move { submit(&url, GARNET).await }
    });
    let problem = await_some("the problem", async || cluster.vendor()?.problem).await;
    assert!(problem.contains("certificate") && problem.contains("localhost"), "{problem}");
    submission.abort();
    let (_, log) = running.end().await;
    assert!(log.contains("AWS_CA_BUNDLE names /in/the/image/ca.pem"), "{log}");
    assert!(log.contains("mount the file as a volume"), "{log}");
}

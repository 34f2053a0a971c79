//! A vendor behind TLS, with a root of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum_server::tls_rustls::RustlsConfig;
use sluice_tap::{Endpoint, Roots, TapEvent, Upstream};

use crate::bench::{SV1, Setup, refusal};

/// A TLS server that answers every request with the `Host` it was sent.
async fn server() -> (SocketAddr, String) {
    // A second call finds it installed, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let config = RustlsConfig::from_pem(cert.clone().into(), key.into()).await.unwrap();
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |headers: HeaderMap| async move {
        let host = headers["host"].to_str().unwrap().to_owned();
        format!(
            r#"{{"deviceName": "{host}", "deviceArn": "a", "providerName": "p",
                "deviceType": "QPU", "deviceStatus": "ONLINE", "deviceCapabilities": "{{}}"}}"#
        )
    };
    let app = Router::new().fallback(answer);
    let server = axum_server::from_tcp_rustls(listener, config).unwrap();
    tokio::spawn(server.serve(app.into_make_service()));
    (address, cert)
}

#[tokio::test]
async fn a_bundle_of_roots_is_trusted_and_nothing_else_is() {
    let (address, cert) = server().await;
    let endpoint = format!("https://localhost:{}", address.port());
    for (bundle, good) in [(Some(cert), true), (None, false)] {
        let mut setup = Setup::to("http://unused");
        setup.config.upstream = Upstream::Url(Endpoint::parse(&endpoint).unwrap());
        setup.config.hold = Duration::from_millis(if good { 20_000 } else { 300 });
        setup.config.roots = bundle.map_or(Roots::System, |pem| Roots::Only(pem.into_bytes()));
        let mut bench = setup.start().await;
        let answer = bench.own().get_device().device_arn(SV1).send().await;
        if good {
            assert_eq!(answer.unwrap().device_name(), format!("localhost:{}", address.port()));
            continue;
        }
        assert_eq!(refusal(&answer.unwrap_err()).0, 503);
        let TapEvent::UpstreamAway { error, .. } = bench.event().await else {
            panic!("a vendor that cannot be trusted is as good as away")
        };
        assert!(error.contains("certificate"), "{error}");
    }
}

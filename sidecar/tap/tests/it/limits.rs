//! Large, slow and broken requests.

use std::time::Duration;

use sluice_vendors::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::bench::{Bench, SV1, Setup, asked, emulator, refusal, submit, within};

/// A large program, in bytes.
const LARGE: usize = 10 << 20;

async fn send(bench: &Bench, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    // Until the head and the small body are there, or the connection is closed.
    while !text.ends_with(b"}") {
        match within(stream.read(&mut part)).await {
            Ok(0) | Err(_) => break,
            Ok(length) => text.extend_from_slice(&part[..length]),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let vendor = emulator(Config::for_testing()).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    let head = "POST /quantum-task HTTP/1.1\r\nHost: x\r\nContent-Length: 16777217\r\n\r\n";
    let text = answer(send(&bench, head).await).await;
    assert!(text.starts_with("HTTP/1.1 413 "), "{text}");

    let mut setup = Setup::to(&vendor.braket_url());
    setup.config.limits.body = 100;
    let bench = setup.start().await;
    let chunked = "POST /quantum-task HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let long = format!("{chunked}80\r\n{}\r\n0\r\n\r\n", "a".repeat(128));
    let text = answer(send(&bench, &long).await).await;
    assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
    // The submission of the SDK is larger than that, too.
    assert_eq!(submit(&bench.own(), "t").await.unwrap_err().0, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_programs_of_ten_megabytes_at_once_all_arrive_whole() {
    let vendor = emulator(Config::for_testing()).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    assert!(10 * LARGE > sluice_tap::Limits::default().bodies, "they do not fit at one time");
    let sent = (0..10).map(|n| {
        let client = bench.own();
        async move {
            // A comment makes it long; each differs, so that none is taken for another.
            let comment = n.to_string().repeat(LARGE);
            let source = format!("OPENQASM 3.0;\n// {comment}\nqubit[1] q;\nh q[0];");
            let action = serde_json::json!({
                "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
                "source": source,
                "inputs": {},
            });
            let call = client
                .create_quantum_task()
                .client_token(format!("t{n}"))
                .device_arn(SV1)
                .shots(10)
                .action(action.to_string())
                .output_s3_bucket("amazon-braket-x")
                .output_s3_key_prefix("k");
            call.send().await.map(|made| made.quantum_task_arn).map_err(|e| refusal(&e))
        }
    });
    let arns: Vec<_> = futures::future::join_all(sent).await;
    let arns: std::collections::BTreeSet<String> = arns.into_iter().map(Result::unwrap).collect();
    assert_eq!(arns.len(), 10);
    assert_eq!(asked(&vendor, "CreateQuantumTask"), 10, "none was sent twice");
}

#[tokio::test]
async fn half_sent_requests_give_their_room_back() {
    let vendor = emulator(Config::for_testing()).await;
    let mut setup = Setup::to(&vendor.braket_url());
    setup.config.limits.body = 4000;
    setup.config.limits.bodies = 4000;
    setup.config.limits.body_time = Duration::from_millis(500);
    let bench = setup.start().await;
    let head = "POST /quantum-task HTTP/1.1\r\nHost: x\r\nContent-Length: 3900\r\n\r\n{";
    let start = Instant::now();
    let stuck = send(&bench, head).await;
    // No room for this one until the first is given up; it waits and is served then.
    let second = submit(&bench.own(), "t").await;
    let text = answer(stuck).await;
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    assert!(second.is_ok(), "{second:?}");
    assert!(start.elapsed() >= Duration::from_millis(400));

    // One that breaks off gives its room back at once.
    drop(send(&bench, head).await);
    assert!(submit(&bench.own(), "u").await.is_ok());
}

#[tokio::test]
async fn a_head_that_never_ends_is_closed() {
    let vendor = emulator(Config::for_testing()).await;
    let mut setup = Setup::to(&vendor.braket_url());
    setup.config.limits.header_time = Duration::from_millis(200);
    let bench = setup.start().await;
    let mut stream = send(&bench, "GET /device/x HTTP/1.1\r\nHost: x\r\nX-Half").await;
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    let text = String::from_utf8_lossy(&rest);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
}

#[tokio::test]
async fn noise_does_no_harm() {
    let vendor = emulator(Config::for_testing()).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    for noise in [
        "\x16\x03\x01\x02\x00",
        "GET\r\n\r\n",
        "POST /quantum-task HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /device/\u{0} HTTP/1.1\r\n\r\n",
        "POST /quantum-task HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    ] {
        let mut stream = send(&bench, noise).await;
        let _ = stream.shutdown().await;
        let text = answer(stream).await;
        assert!(!text.starts_with("HTTP/1.1 2"), "{noise:?}: {text}");
    }
    assert!(vendor.journal().is_empty());
    bench.own().get_device().device_arn(SV1).send().await.unwrap();
}

//! No secret in logs, events or messages.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex};

use aws_credential_types::Credentials;
use sluice_vendors::Config;
use tracing_subscriber::fmt::MakeWriter;

use crate::bench::{SV1, Setup, emulator, refusal, submit};

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Page {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// One thread, so that the log of this test alone is caught.
#[tokio::test]
async fn canaries_are_never_printed() {
    let page = Page::default();
    let filter = "trace,aws_sdk_braket=off,aws_smithy_runtime=off,aws_sigv4=info,hyper=info";
    let log = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(page.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(log);

    let vendor = emulator(Config::for_testing()).await;
    let mut setup = Setup::to(&vendor.braket_url());
    setup.credentials =
        Credentials::new("ASIASESSION", "session-secret", Some("session-token".into()), None, "t");
    tracing::info!(config = ?setup.config, "the configuration");
    let own = setup.credentials.clone();
    let bench = setup.start().await;
    submit(&bench.client("us-east-1", own), "t").await.unwrap();
    let mut said = String::new();
    for (id, secret) in [("ASIASESSION", "canary-a"), ("ASIAOTHER", "canary-b")] {
        let key = Credentials::new(id, secret, Some("canary-c".into()), None, "t");
        let client = bench.client("us-east-1", key);
        let error = client.get_device().device_arn(SV1).send().await.unwrap_err();
        said += &refusal(&error).2;
    }
    write!(said, "{:?}", bench.end().await).unwrap();
    said += &String::from_utf8_lossy(&page.0.lock().unwrap());

    assert!(said.contains("a request was refused"), "the log was caught");
    for canary in ["session-secret", "session-token", "canary", "Signature="] {
        assert!(!said.contains(canary), "{canary}: {said}");
    }
}

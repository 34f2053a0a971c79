//! Alice & Bob's own client, qiskit-alice-bob-provider.

use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use sluice_vendors::{Running, Service};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

fn interpreter() -> &'static Path {
    static INTERPRETER: OnceLock<std::path::PathBuf> = OnceLock::new();
    INTERPRETER.get_or_init(|| {
        sluice_lab::vendors_python_env()
            .expect("build the Python environment of the vendors' clients")
            .python()
    })
}

/// A process that uses the client.
pub(crate) struct Alice {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Alice {
    /// A process with the key of the account `team`, right or wrong.
    pub(crate) fn start(vendor: &Running, key: &str) -> Self {
        let account = vendor.qrmi_environment(Service::Felis, "felis", "team", key);
        let mut process = Command::new(interpreter())
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/alice_bob_calls.py"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", std::env::temp_dir())
            // The client asks the registry for a newer version of itself; there is none to ask.
            .env("HTTPS_PROXY", "http://127.0.0.1:9")
            .env("NO_PROXY", "127.0.0.1")
            .envs(account)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the interpreter starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { _process: process, input, output }
    }

    /// Makes a call: `{"answer"}` or `{"error"}`.
    pub(crate) async fn call(mut self, call: Value) -> Value {
        self.told(&call).await
    }

    /// Makes a call where an error is a failure of the test.
    pub(crate) async fn ask(&mut self, call: Value) -> Value {
        let told = self.told(&call).await;
        assert!(told["error"].is_null(), "{call}: {told}");
        told["answer"].clone()
    }

    async fn told(&mut self, call: &Value) -> Value {
        self.input.write_all(format!("{call}\n").as_bytes()).await.expect("the program reads");
        let line = tokio::time::timeout(Duration::from_mins(1), self.output.next_line())
            .await
            .expect("a call takes less than a minute")
            .expect("a pipe")
            .expect("the program runs on");
        serde_json::from_str(&line).expect("JSON")
    }
}

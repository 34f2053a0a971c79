//! A program in Python that makes calls of a client: one JSON object a line in, one out.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The longest that a call may take; the first imports the client.
const CALL: Duration = Duration::from_mins(2);

/// The interpreter that has the vendors' own clients.
pub(crate) fn interpreter() -> &'static Path {
    static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();
    INTERPRETER.get_or_init(|| {
        sluice_lab::vendors_python_env()
            .expect("build the Python environment of the vendors' clients")
            .python()
    })
}

/// A running program of `tests/python`.
pub(crate) struct Caller {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Caller {
    /// Starts a program that finds its vendor by this environment alone.
    pub(crate) fn start<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        interpreter: &Path,
        program: &str,
        environment: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let mut process = Command::new(interpreter)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(program))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", std::env::temp_dir())
            .envs(environment)
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

    /// Sends a call and does not wait.
    pub(crate) async fn send(&mut self, call: &Value) {
        self.input.write_all(format!("{call}\n").as_bytes()).await.expect("the program reads");
    }

    /// Waits for the end of the call that was sent.
    pub(crate) async fn told(&mut self) -> Value {
        let line = tokio::time::timeout(CALL, self.output.next_line())
            .await
            .expect("a call ends in time")
            .expect("a pipe")
            .expect("the program runs on");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Makes a call: `{"answer"}`, or `{"error"}` with more.
    pub(crate) async fn call(&mut self, call: &Value) -> Value {
        self.send(call).await;
        self.told().await
    }

    /// Makes a call where an error is a failure of the test.
    pub(crate) async fn ask(&mut self, call: Value) -> Value {
        let told = self.call(&call).await;
        assert!(told["error"].is_null(), "{call}: {told}");
        told["answer"].clone()
    }

    /// Makes a call that must fail: the error.
    pub(crate) async fn refused(&mut self, call: Value) -> String {
        let told = self.call(&call).await;
        told["error"].as_str().unwrap_or_else(|| panic!("{call}: {told}")).to_owned()
    }
}

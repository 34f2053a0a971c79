//! The `qrmi` wheel as a client, and what its tests of all vendors share.

use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_vendors::{Running, Service};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// An interpreter with `qrmi`.
fn interpreter() -> &'static Path {
    static INTERPRETER: OnceLock<std::path::PathBuf> = OnceLock::new();
    INTERPRETER.get_or_init(|| {
        sluice_lab::python_env_of("QRMI", include_str!("../python/qrmi.txt"))
            .expect("build the Python environment of QRMI")
            .python()
    })
}

/// A process that uses one resource by QRMI.
pub(crate) struct Qrmi {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    resource: String,
    kind: String,
}

/// How a call ended: what it gave, or the name and text of the exception.
pub(crate) type Told = Result<Value, (String, String)>;

impl Qrmi {
    /// A process with the environment of one resource.
    pub(crate) fn start(
        vendor: &Running,
        service: Service,
        resource: &str,
        kind: &str,
        account: (&str, &str),
    ) -> Self {
        let mut process = Command::new(interpreter())
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/qrmi_calls.py"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", std::env::temp_dir())
            .envs(vendor.qrmi_environment(service, resource, account.0, account.1))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the interpreter starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let (resource, kind) = (resource.to_owned(), kind.to_owned());
        Self { _process: process, input, output, resource, kind }
    }

    /// Sends a call and does not wait.
    pub(crate) async fn send(&mut self, call: &str, arguments: Value) {
        let call = json!({
            "resource": self.resource, "type": self.kind, "call": call, "arguments": arguments,
        });
        self.input.write_all(format!("{call}\n").as_bytes()).await.expect("the program reads");
    }

    /// Waits for the end of the call that was sent.
    pub(crate) async fn told(&mut self) -> Told {
        let line = tokio::time::timeout(Duration::from_mins(1), self.output.next_line())
            .await
            .expect("a call takes less than a minute")
            .expect("a pipe")
            .expect("the program runs on");
        let told: Value = serde_json::from_str(&line).expect("JSON");
        let text = |name: &str| told[name].as_str().map(str::to_owned);
        match text("error") {
            Some(error) => Err((error, text("text").unwrap_or_default())),
            None => Ok(told["answer"].clone()),
        }
    }

    /// Sends a call and waits for its end.
    pub(crate) async fn call(&mut self, call: &str, arguments: Value) -> Told {
        self.send(call, arguments).await;
        self.told().await
    }

    /// The same where an exception is a failure of the test.
    pub(crate) async fn ask(&mut self, call: &str, arguments: Value) -> Value {
        self.call(call, arguments.clone())
            .await
            .unwrap_or_else(|problem| panic!("{call} {arguments}: {problem:?}"))
    }

    /// The state of a task, in QRMI's word.
    pub(crate) async fn state(&mut self, task: &str) -> String {
        let told = self.ask("task_status", json!([task])).await;
        told.as_str().expect("a word").to_owned()
    }

    /// Submits a payload: the task's id.
    pub(crate) async fn submit(&mut self, payload: &Value) -> String {
        let told = self.ask("task_start", payload.clone()).await;
        told.as_str().expect("an id").to_owned()
    }
}

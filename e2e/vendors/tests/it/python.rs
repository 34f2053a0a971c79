//! Programs in Python: the real clients.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_vendors::{Config, Emulator, Entry, Running};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The interpreter with the SDK: `SLUICE_PYTHON`, else the one of the local cluster.
pub(crate) fn interpreter() -> PathBuf {
    static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();
    INTERPRETER
        .get_or_init(|| match std::env::var_os("SLUICE_PYTHON") {
            Some(path) => path.into(),
            None => sluice_lab::python_env()
                .expect("build the Python environment, or set SLUICE_PYTHON")
                .python(),
        })
        .clone()
}

/// An emulator with recorded answers.
pub(crate) async fn emulator(config: Config) -> Running {
    let config = Config { record_answers: true, ..config.with_python(interpreter()) };
    Emulator::start(config).await.expect("free ports on loopback")
}

/// The same without a simulator, for tests whose programs are not computed: it is slow to start.
pub(crate) async fn without_simulator(config: Config) -> Running {
    let config = Config { record_answers: true, ..config.with_python("false") };
    Emulator::start(config).await.expect("free ports on loopback")
}

/// Runs a program of `tests/python` with the emulator's environment; reads JSON from it.
pub(crate) async fn run(name: &str, vendor: &Running, input: &Value) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name);
    let mut child = Command::new(interpreter())
        .arg(&program)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(vendor.environment())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the interpreter starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let text = input.to_string();
    let writing = async move {
        stdin.write_all(text.as_bytes()).await.expect("the program reads its input");
        drop(stdin);
    };
    let finished = async { tokio::join!(writing, child.wait_with_output()).1 };
    let output = tokio::time::timeout(Duration::from_mins(3), finished)
        .await
        .unwrap_or_else(|_| panic!("{name} takes too long"))
        .expect("the program ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed:\n{errors}\n{:#?}", vendor.counts());
    serde_json::from_slice(&output.stdout).expect("JSON from the program")
}

/// One call for `calls.py`.
#[derive(Debug, Clone)]
pub(crate) struct Call(Value);

impl Call {
    pub(crate) fn new(service: &str, operation: &str, arguments: Value) -> Self {
        let mut call = json!({ "service": service, "operation": operation });
        call["arguments"] = arguments;
        Self(call)
    }

    pub(crate) fn braket(operation: &str, arguments: Value) -> Self {
        Self::new("braket", operation, arguments)
    }

    pub(crate) fn key(mut self, key: &str, secret: &str) -> Self {
        self.0["key"] = key.into();
        self.0["secret"] = secret.into();
        self
    }

    pub(crate) fn token(mut self, token: &str) -> Self {
        self.0["token"] = token.into();
        self
    }

    pub(crate) fn region(mut self, region: &str) -> Self {
        self.0["region"] = region.into();
        self
    }
}

/// How a call ended: the vendor's answer, its error code, or the client's exception.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Answer(Value),
    Error(String, u64),
    Broken(String),
}

impl Outcome {
    pub(crate) fn answer(&self) -> &Value {
        match self {
            Self::Answer(answer) => answer,
            other => panic!("no answer but {other:?}"),
        }
    }

    pub(crate) fn arn(&self) -> String {
        self.answer()["quantumTaskArn"].as_str().expect("an ARN").to_owned()
    }
}

pub(crate) fn error(code: &str, status: u64) -> Outcome {
    Outcome::Error(code.to_owned(), status)
}

/// Makes calls one after the other, each with one attempt.
pub(crate) async fn call(vendor: &Running, calls: &[Call]) -> Vec<Outcome> {
    let input = calls.iter().map(|call| call.0.clone()).collect();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let outcomes = run("calls.py", vendor, &Value::Array(input)).await;
    outcomes
        .as_array()
        .expect("a list")
        .iter()
        .map(|outcome| {
            if let Some(answer) = outcome.get("answer") {
                return Outcome::Answer(answer.clone());
            }
            if let Some(broken) = outcome.get("broken") {
                return Outcome::Broken(text(broken));
            }
            Outcome::Error(text(&outcome["code"]), outcome["status"].as_u64().expect("a status"))
        })
        .collect()
}

/// A submission that every device takes.
pub(crate) fn submission(device: &str, token: &str) -> Value {
    json!({
        "clientToken": token, "deviceArn": device, "shots": 10,
        "outputS3Bucket": "amazon-braket-x", "outputS3KeyPrefix": "tasks", "action": bell(),
    })
}

pub(crate) fn bell() -> String {
    let source = "OPENQASM 3.0; bit[2] b; qubit[2] q; h q[0]; cnot q[0], q[1]; \
                  b[0] = measure q[0]; b[1] = measure q[1];";
    json!({
        "braketSchemaHeader": { "name": "braket.ir.openqasm.program", "version": "1" },
        "source": source, "inputs": {},
    })
    .to_string()
}

/// Checks everything that was answered against botocore's models.
pub(crate) async fn check_model(vendor: &Running) -> Value {
    let journal: Vec<Entry> = vendor.journal();
    assert!(journal.iter().any(|entry| entry.answer.is_some()), "nothing was recorded");
    let judged = run("model.py", vendor, &json!(journal)).await;
    assert_eq!(judged["problems"], json!([]));
    judged["checked"].clone()
}

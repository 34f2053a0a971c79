//! Programs: the judges themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use sluice_lab::PythonEnv;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Longest time of one program: the heaviest imports for seconds, on a busy machine for minutes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
const CLIENTS: &str = include_str!("../../python/clients.txt");
const OLD: &str = include_str!("../../python/old.txt");
const FRAMEWORKS: &str = include_str!("../../python/frameworks.txt");

/// What a program runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The Python environment of the cluster's programs: the present SDK.
    Sdk,
    /// aiobotocore, the command line, moto.
    Clients,
    /// The old pair.
    Old,
    /// `PennyLane`, Qiskit and what shares their packages.
    Frameworks,
    /// QRMI and the clients of its vendors.
    Vendors,
    /// Node.
    JavaScript,
    /// The program `rust-judge`.
    Rust,
}

/// Values to set; `None` unsets.
pub(crate) type Turn = BTreeMap<String, Option<String>>;

/// What a program prints.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) turns: Vec<Answer>,
}

/// What came of one submission.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) task: Option<String>,
    pub(crate) shots: Option<u64>,
    pub(crate) error: Option<String>,
    pub(crate) message: Option<String>,
}

/// The interpreter with the present SDK.
pub(crate) async fn sdk() -> PathBuf {
    python(sluice_lab::python_env).await
}

/// The interpreter with QRMI and the clients of its vendors.
pub(crate) async fn vendors() -> PathBuf {
    python(sluice_lab::vendors_python_env).await
}

async fn python(
    build: impl FnOnce() -> Result<PythonEnv, sluice_lab::Error> + Send + 'static,
) -> PathBuf {
    tokio::task::spawn_blocking(build).await.unwrap().unwrap().python()
}

/// A command of the interpreter with the packages of a lock file.
async fn of_lock(whose: &'static str, lock: &'static str) -> Command {
    Command::new(python(move || sluice_lab::python_env_of(whose, lock)).await)
}

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The command of a program, with an environment of its own.
pub(crate) async fn command(place: Place, name: &str) -> Command {
    let mut command = match place {
        Place::Rust => Command::new(env!("CARGO_BIN_EXE_rust-judge")),
        Place::JavaScript => {
            let modules = tokio::task::spawn_blocking(crate::javascript::modules).await.unwrap();
            let mut command = Command::new("node");
            command.arg(folder("javascript").join(name)).env_clear().env("NODE_PATH", modules);
            return with_basics(command);
        }
        Place::Sdk => Command::new(sdk().await),
        Place::Vendors => Command::new(vendors().await),
        Place::Clients => of_lock("the light clients", CLIENTS).await,
        Place::Old => of_lock("the old clients", OLD).await,
        Place::Frameworks => of_lock("the frameworks", FRAMEWORKS).await,
    };
    command.env_clear();
    if place != Place::Rust {
        command.arg(folder("programs").join(name));
    }
    with_basics(command)
}

fn with_basics(mut command: Command) -> Command {
    // No configuration of whoever runs the tests.
    let nowhere = "/dev/null";
    command
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("AWS_CONFIG_FILE", nowhere)
        .env("AWS_SHARED_CREDENTIALS_FILE", nowhere)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a program once for all turns; returns what it printed, and its errors for people.
pub(crate) async fn run(mut command: Command, turns: &[Turn]) -> (Report, String) {
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = serde_json::to_vec(turns).unwrap();
    let writing = async move {
        // A program that reads nothing has ended by then.
        let _ = input.write_all(&text).await;
    };
    let both = async { tokio::join!(writing, child.wait_with_output()).1 };
    let ended = tokio::time::timeout(PATIENCE, both).await;
    let output = ended.unwrap_or_else(|_| panic!("{command:?} takes too long")).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?} failed:\n{errors}");
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error} in {output:?}"));
    (report, errors)
}

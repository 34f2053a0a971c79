//! Workers that compute programs: Python processes with a vendor's own local simulator.
//!
//! JSON lines over standard input and output, one program at a time. A worker is started again
//! when it dies or takes too long; the program at hand is then tried once more.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// What a worker runs and needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Script {
    /// The source, protocol first; run by `python -c`, so that the emulator stays one file.
    source: &'static str,
    /// The package whose environment the interpreter must be of.
    package: &'static str,
    /// Where the interpreter is set.
    setting: &'static str,
}

/// Computes programs of Amazon Braket, and circuits that were translated for it.
pub(crate) const BRAKET: Script = Script {
    source: concat!(include_str!("../python/worker.py"), include_str!("../python/simulate.py")),
    package: "amazon-braket-sdk",
    setting: "--python or SLUICE_PYTHON",
};
/// Computes jobs of IBM's client, whose circuits are in Qiskit's own binary form.
pub(crate) const QISKIT: Script = Script {
    source: concat!(include_str!("../python/worker.py"), include_str!("../python/sample.py")),
    package: "qiskit-ibm-runtime",
    setting: "--qiskit-python or SLUICE_QISKIT_PYTHON",
};
/// Imports on a busy machine take several seconds.
const STARTING: Duration = Duration::from_mins(2);
/// The longest that one program may take.
const COMPUTING: Duration = Duration::from_mins(10);

/// What the worker is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Imports its libraries.
    Starting,
    /// Waits for programs or computes one.
    Ready,
    /// Does not run, and why.
    Broken(String),
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// The interpreter does not start.
    #[error("cannot start the Python interpreter {python:?}; set {setting}")]
    Start {
        /// The interpreter.
        python: PathBuf,
        /// Where it is set.
        setting: &'static str,
        /// Source.
        source: std::io::Error,
    },
    /// It ended while it was needed.
    #[error(
        "the worker of {python:?} ended ({last}); the interpreter needs the packages of {package}"
    )]
    Ended {
        /// The interpreter.
        python: PathBuf,
        /// What it must have.
        package: &'static str,
        /// The last line that it wrote to its standard error.
        last: String,
    },
    /// It gave no answer in time.
    #[error("the worker gave no answer within {0:?}")]
    Slow(Duration),
}

type Outcome = Result<String, String>;
/// The id of a job, what the script is to compute for it, and who waits.
type Order = (String, Value, oneshot::Sender<Outcome>);

/// Handle to the worker.
#[derive(Debug, Clone)]
pub struct Simulator {
    orders: mpsc::UnboundedSender<Order>,
    health: watch::Receiver<Health>,
}

/// An order for the script of [`BRAKET`]: a program in the vendor's own form.
pub(crate) fn braket_order(job: &str, task: &str, device: &str, action: &str, shots: u64) -> Value {
    json!({ "id": job, "task": task, "device": device, "action": action, "shots": shots })
}

/// An order for the script of [`QISKIT`]: the input of a primitive, in the JSON of IBM's runtime.
pub(crate) fn qiskit_order(job: &str, input: &str) -> Value {
    json!({ "id": job, "input": input })
}

#[derive(Deserialize)]
struct Answered {
    result: Option<String>,
    failure: Option<String>,
}

impl Simulator {
    /// Starts the worker of a script in the background; it ends with the token.
    #[must_use]
    pub(crate) fn start(script: Script, python: PathBuf, token: CancellationToken) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        let (told, health) = watch::channel(Health::Starting);
        tokio::spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = serve(script, &python, received, &told) => {}
            }
        });
        Self { orders, health }
    }

    /// Computes one program of a job: the text of its result, or why the job fails.
    ///
    /// # Errors
    /// The reason, for people.
    pub(crate) async fn compute(&self, job: &str, order: Value) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let gone = || "the emulator is being stopped".to_owned();
        self.orders.send((job.to_owned(), order, answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// What the worker is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }
}

async fn serve(
    script: Script,
    python: &Path,
    mut orders: mpsc::UnboundedReceiver<Order>,
    told: &watch::Sender<Health>,
) {
    let mut worker = open(script, python, told).await;
    while let Some((job, order, answer)) = orders.recv().await {
        let mut outcome = None;
        // Once more after a death: the program need not be the cause.
        for _ in 0..2 {
            if worker.is_err() {
                worker = open(script, python, told).await;
            }
            match &mut worker {
                Ok(running) => match running.compute(&order).await {
                    Ok(done) => {
                        outcome = Some(done);
                        break;
                    }
                    Err(problem) => {
                        tracing::warn!(task = job, %problem, "the worker is started again");
                        outcome = Some(Err(problem.to_string()));
                        worker = Err(());
                    }
                },
                Err(()) => {
                    if let Health::Broken(why) = &*told.borrow() {
                        outcome = Some(Err(format!("the emulator cannot compute programs: {why}")));
                    }
                }
            }
        }
        // The asker may be gone; then nobody needs the answer.
        let _ = answer.send(outcome.unwrap_or_else(|| Err("no worker".to_owned())));
    }
}

async fn open(script: Script, python: &Path, told: &watch::Sender<Health>) -> Result<Worker, ()> {
    let opened = Worker::open(script, python).await;
    told.send_replace(match &opened {
        Ok(_) => Health::Ready,
        Err(problem) => {
            let mut why = problem.to_string();
            if let Some(source) = std::error::Error::source(problem) {
                why = format!("{why}: {source}");
            }
            tracing::error!(problem = why, "programs cannot be computed; their tasks will fail");
            Health::Broken(why)
        }
    });
    opened.map_err(|_| ())
}

struct Worker {
    script: Script,
    python: PathBuf,
    // Held so that the process ends with this value.
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    last: watch::Receiver<String>,
}

impl Worker {
    async fn open(script: Script, python: &Path) -> Result<Self, SimulatorError> {
        let (python, setting) = (python.to_path_buf(), script.setting);
        let failed = |source| SimulatorError::Start { python: python.clone(), setting, source };
        let mut process = Command::new(&python)
            .args(["-u", "-c", script.source])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(failed(std::io::Error::other("no pipes")));
        };
        let (tell, last) = watch::channel(String::new());
        tokio::spawn(async move {
            let mut lines = BufReader::new(errors).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                tracing::debug!(line, "worker");
                tell.send_replace(line);
            }
        });
        let output = BufReader::new(output).lines();
        let mut worker = Self { script, python, _process: process, input, output, last };
        worker.line(STARTING).await?;
        Ok(worker)
    }

    async fn compute(&mut self, order: &Value) -> Result<Outcome, SimulatorError> {
        if self.input.write_all(format!("{order}\n").as_bytes()).await.is_err() {
            return Err(self.ended().await);
        }
        let line = self.line(COMPUTING).await?;
        let answered: Answered = match serde_json::from_str(&line) {
            Ok(answered) => answered,
            Err(_) => return Err(self.ended().await),
        };
        Ok(match answered {
            Answered { result: Some(result), .. } => Ok(result),
            Answered { failure, .. } => Err(failure.unwrap_or_default()),
        })
    }

    async fn line(&mut self, limit: Duration) -> Result<String, SimulatorError> {
        match tokio::time::timeout(limit, self.output.next_line()).await {
            Err(_) => Err(SimulatorError::Slow(limit)),
            Ok(Ok(Some(line))) => Ok(line),
            Ok(_) => Err(self.ended().await),
        }
    }

    async fn ended(&mut self) -> SimulatorError {
        // Its error output closes with it: after that the last line is known.
        let closed = async { while self.last.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(Duration::from_secs(2), closed).await;
        let last = self.last.borrow().clone();
        let package = self.script.package;
        SimulatorError::Ended { python: self.python.clone(), package, last }
    }
}

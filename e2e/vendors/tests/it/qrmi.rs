//! The `qrmi` wheel as a client, and what its tests of all vendors share.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};
use sluice_vendors::{Running, Service};

use crate::caller::Caller;

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
    caller: Caller,
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
        let environment = vendor.qrmi_environment(service, resource, account.0, account.1);
        let caller = Caller::start(interpreter(), "qrmi_calls.py", environment);
        Self { caller, resource: resource.to_owned(), kind: kind.to_owned() }
    }

    /// Sends a call and does not wait.
    pub(crate) async fn send(&mut self, call: &str, arguments: Value) {
        let call = json!({
            "resource": self.resource, "type": self.kind, "call": call, "arguments": arguments,
        });
        self.caller.send(&call).await;
    }

    /// Waits for the end of the call that was sent.
    pub(crate) async fn told(&mut self) -> Told {
        let told = self.caller.told().await;
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

//! Reading the logs of containers and running commands in them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{AttachParams, LogParams},
};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{
    error::{Error, Result},
    lab::Lab,
};

/// How long one command or one reading of a log may take.
const LIMIT: Duration = Duration::from_mins(1);

/// What a command in a container printed, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Its standard output.
    pub stdout: String,
    /// Its error output.
    pub stderr: String,
    /// Did it exit with 0?
    pub success: bool,
}

impl Lab {
    /// The log of a container so far.
    ///
    /// # Errors
    /// If there is no such container, or it has not started.
    pub async fn logs(&self, namespace: &str, pod: &str, container: &str) -> Result<String> {
        logs(&Api::namespaced(self.kube(), namespace), pod, container, false).await
    }

    /// Runs a command in a container and waits for its end.
    ///
    /// # Errors
    /// If it cannot be started or takes longer than a minute. A command that fails is no error.
    pub async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        command: &[&str],
    ) -> Result<Executed> {
        let doing = format!("run `{}` in {namespace}/{pod} ({container})", command.join(" "));
        let pods: Api<Pod> = Api::namespaced(self.kube(), namespace);
        let how = AttachParams::default().container(container).stderr(true);
        let running = async {
            let mut process =
                pods.exec(pod, command.iter().copied(), &how).await.map_err(Error::kube(&doing))?;
            let status = process.take_status();
            let (stdout, stderr) = tokio::join!(all_of(process.stdout()), all_of(process.stderr()));
            let status = match status {
                Some(status) => status.await,
                None => None,
            };
            let success = status.is_some_and(|s| s.status.as_deref() == Some("Success"));
            Ok(Executed { stdout, stderr, success })
        };
        tokio::time::timeout(LIMIT, running).await.map_err(|_| {
            Error::Invalid(format!("could not {doing} within {} s", LIMIT.as_secs()))
        })?
    }
}

async fn all_of(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // What was read before the connection broke still tells something.
        let _ = stream.read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) async fn logs(
    pods: &Api<Pod>,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<String> {
    let which =
        LogParams { container: Some(container.to_owned()), previous, ..LogParams::default() };
    let doing = format!("read the log of {pod} ({container})");
    tokio::time::timeout(LIMIT, pods.logs(pod, &which))
        .await
        .map_err(|_| Error::Invalid(format!("could not {doing} within {} s", LIMIT.as_secs())))?
        .map_err(Error::kube(doing))
}

//! One call to the API server: its own time limit, and what its failure means.

use std::future::Future;
use std::time::Duration;

/// Why a call to the API server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// No answer came in time.
    #[error("cannot {what}: no answer from the API server within {limit:?}")]
    Silent {
        /// What was to be done.
        what: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The API server, or the way to it, failed.
    #[error("cannot {what}: {}", plain(source))]
    Api {
        /// What was to be done.
        what: &'static str,
        /// The client's error.
        source: kube::Error,
    },
}

/// The words of the API server, without the client's debug form.
fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

impl CallError {
    /// The status code of the answer, if there was one.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Api { source: kube::Error::Api(status), .. } => Some(status.code),
            Self::Api { .. } | Self::Silent { .. } => None,
        }
    }

    /// Whether the API server understood and said no: the same call will fail again until
    /// somebody changes something.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.code(), Some(400 | 401 | 403 | 404 | 405 | 422))
    }
}

/// Awaits a call for at most `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &'static str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(CallError::Api { what, source }),
        Err(_) => Err(CallError::Silent { what, limit }),
    }
}

//! The seam that may refuse a submission before it reaches the vendor.

use futures::future::BoxFuture;
use http::StatusCode;
use sluice_dialect::Submission;

/// Asked before a submission is sent that would make a new task.
pub trait Guard: Send + Sync {
    /// Lets it pass, or says why not.
    fn check<'a>(&'a self, submission: &'a Submission) -> BoxFuture<'a, Result<(), Refusal>>;
    /// A submission that passed has certainly made no task.
    fn refused(&self, submission: &Submission);
}

/// Why a submission is refused. The program sees it as an error of Braket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Whether the same request may pass later: SDKs repeat it then.
    pub again: bool,
    /// What is wrong and what to do.
    pub message: String,
}

impl Refusal {
    /// Status and kind of the error. `ServiceQuotaExceededException` is what Braket itself says
    /// when a spending limit is reached.
    pub(crate) const fn form(&self) -> (StatusCode, &'static str) {
        if self.again {
            (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableException")
        } else {
            (StatusCode::PAYMENT_REQUIRED, "ServiceQuotaExceededException")
        }
    }
}

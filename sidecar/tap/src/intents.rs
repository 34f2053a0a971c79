//! The seam before a submission is forwarded.

use futures::future::BoxFuture;

use crate::wire::Submission;

/// Asked before each submission: writes down that it is about to be made, and may know that the
/// task exists already.
pub trait Intents: Send + Sync {
    /// Records the intent. The tap waits for it, but not without end: after
    /// [`intent_time`](crate::Limits::intent_time) the submission goes on.
    fn before<'a>(&'a self, submission: &'a Submission, region: &'a str) -> BoxFuture<'a, Forward>;
}

/// What happens with a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    /// It goes to the vendor.
    Send,
    /// It asks for a task that exists: the program gets this ARN and nothing is sent.
    Known(String),
}

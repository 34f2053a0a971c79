//! The seam before a submission is forwarded.

use futures::future::BoxFuture;
use sluice_dialect::Submission;
use sluice_shared::resource::Place;

use crate::connections::Ties;

/// Asked before each submission: writes down that it is about to be made, and may know that the
/// task exists already.
pub trait Intents: Send + Sync {
    /// Records the intent. The tap waits for it, but not without end: after
    /// [`intent_time`](crate::Limits::intent_time) the submission goes on. The future is dropped
    /// when the program has closed its connection: nothing is sent then.
    fn before<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Forward>;

    /// Takes back that this submission got the [`Known`](Forward::Known) task: the vendor did not
    /// say what it is, so the program was not given it. `unknown`: the vendor does not have it for
    /// this program, which may be asked for anew then.
    fn returned<'a>(
        &'a self,
        asked: &'a Asked,
        task_id: &'a str,
        unknown: bool,
    ) -> BoxFuture<'a, ()>;
}

/// A submission that is about to be forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What is asked for.
    pub submission: Submission,
    /// Where it goes.
    pub place: Place,
    /// What proves that the program is the one that asked before.
    pub ties: Ties,
}

/// What happens with a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    /// It goes to the vendor.
    Send,
    /// It goes to the vendor under this `clientToken`: an earlier run has sent the same under it,
    /// or was about to.
    SendWith(String),
    /// It asks for a task that exists: the program gets this ARN and nothing is sent.
    Known(String),
}

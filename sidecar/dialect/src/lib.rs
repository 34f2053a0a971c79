//! How each vendor's API reads. Everything here is a value or a function of values: the tap reads
//! what passes with it, and the follower makes its own calls with it.
//!
//! ```text
//!  request of the program ─▶ operation ─▶ Submit ─▶ submission, accepted id   ┐
//!                                        Poll   ─▶ TaskFacts                  ├─▶ tap
//!                                        Cancel, sessions                     ┘
//!  sign_in ─▶ Call (task, device, cancel) ─▶ answer ─▶ TaskFacts, DeviceFacts  ─▶ follower
//! ```
//!
//! Garbage reads as nothing, never as an error. Words that nobody has seen are kept.
//!
//! A vendor is one module with one [`Dialect`] and one row of
//! [`TABLE`](sluice_shared::resource::TABLE). Amazon Braket is read by [`braket`]; its requests are
//! signed, so that its calls are those of its SDK.

mod abilities;
pub mod braket;
mod call;
mod digest;
mod facts;
mod felis;
mod ibm;
mod ibm_service;
mod ibm_system;
mod iqm;
mod pasqal;
mod quote;
mod reading;

use std::fmt;

use http::{Method, StatusCode};
use sluice_shared::resource::{Resource, Service};
use sluice_shared::task::TaskState;

pub use abilities::{Abilities, Lost, Resume, Running, Waits};
pub use call::{Call, SignIn, Token, TokenCall};
pub use digest::{hex, sha256_hex};
pub use facts::{DeviceFacts, MESSAGE, Submission, TaskFacts};
pub use quote::quote;

/// A request of the program, below the endpoint of its resource.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a Method,
    /// The raw path, from its first slash on, without that of the endpoint.
    pub path: &'a str,
    /// The raw query.
    pub query: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The segments of the path, empty ones left out.
    #[must_use]
    pub fn segments(&self) -> Vec<&'a str> {
        self.path.split('/').filter(|segment| !segment.is_empty()).collect()
    }

    /// The value of a field of the query.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&'a str> {
        let fields = self.query?.split('&').filter_map(|field| field.split_once('='));
        fields.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// The vendor's answer, read to its end.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: &'a [u8],
}

/// What a request of the program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// It makes a task.
    Submit,
    /// It asks for the task of this id.
    Poll(String),
    /// It asks for the end of the task of this id.
    Cancel(String),
    /// It opens a session.
    OpenSession,
    /// It ends the session of this id, or lets no more jobs into it.
    CloseSession(String),
    /// Nothing that has to be read.
    Other,
}

/// What came of a cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The vendor ends the task, or has ended it.
    Ending(TaskState),
    /// It had ended before.
    Over,
}

/// Longest poll that is waited for, in seconds.
pub const LONGEST_POLL: u64 = 120;

/// How one vendor's API reads.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// Whose it is.
    fn service(&self) -> Service;

    /// What the vendor can tell and do.
    fn abilities(&self) -> Abilities;

    /// What a request of the program is.
    fn operation(&self, request: Request<'_>) -> Operation;

    /// What a submission asks for; `None` when it is none that can be read.
    fn submission(&self, request: Request<'_>) -> Option<Submission>;

    /// The id of the task that a submission has made, by its request and its answer.
    fn accepted(&self, request: Request<'_>, answer: Answer<'_>) -> Option<String>;

    /// Why a submission that was refused will be taken later: the refusal is this vendor's queue.
    /// Such a task has the id that the request names.
    fn waits(&self, _answer: Answer<'_>) -> Option<String> {
        None
    }

    /// Whether a submission was refused for its rate alone, by a limit that the vendor publishes and
    /// that passes within about a minute. Nothing was made.
    fn is_rate_limit(&self, _answer: Answer<'_>) -> bool {
        false
    }

    /// Whether an answer about the task of this id tells of it, and what. `None` for one that says
    /// nothing, such as an error.
    fn task(&self, id: &str, answer: Answer<'_>) -> Option<TaskFacts>;

    /// The id of the session that a request has opened.
    fn session(&self, _answer: Answer<'_>) -> Option<String> {
        None
    }

    /// Seconds for which the vendor may hold a request before it answers, at most
    /// [`LONGEST_POLL`].
    fn long_poll(&self, _request: Request<'_>) -> u64 {
        0
    }

    /// The vendor's words in an error.
    fn message(&self, answer: Answer<'_>) -> Option<String>;

    /// Whether an id can be one of its tasks.
    fn is_task_id(&self, id: &str) -> bool;

    /// The call that asks for a task. Its answer is also that to a submission whose task exists,
    /// where [`Abilities::resume`] says that one can be handed on.
    fn ask_task(&self, id: &str) -> Call;

    /// The status of a submission that was taken.
    fn accepted_status(&self) -> StatusCode {
        StatusCode::OK
    }

    /// The calls that ask for a device.
    fn ask_device(&self, device: &str) -> Vec<Call>;

    /// What the answers to them tell, in their order; `None` stands for a call that failed.
    fn device(&self, device: &str, answers: &[Option<Answer<'_>>]) -> Option<DeviceFacts>;

    /// The call that ends a task.
    fn cancel(&self, id: &str) -> Call;

    /// What its answer means; `None` for a failure.
    fn cancelled(&self, answer: Answer<'_>) -> Option<Ending>;

    /// The call that asks for a session, where there are sessions.
    fn ask_session(&self, _id: &str) -> Option<Call> {
        None
    }

    /// How and when a session ended, in a few words; `None` while it has not.
    fn session_ended(&self, _answer: Answer<'_>) -> Option<String> {
        None
    }

    /// How a program of the resource gets its right. `variable` reads the environment: a name
    /// is looked up with the prefix of the resource first, then as it stands.
    fn sign_in(&self, variable: &dyn Fn(&str) -> Option<String>) -> SignIn;

    /// The token in the answer to a [`TokenCall`].
    fn token(&self, _answer: Answer<'_>) -> Option<Token> {
        None
    }
}

/// The dialect of a service.
#[must_use]
pub fn of(service: Service) -> &'static dyn Dialect {
    match service {
        Service::IqmServer => &iqm::Iqm,
        Service::IbmQuantumComputeService => &ibm_service::IbmService,
        Service::IbmQuantumSystem => &ibm_system::IbmSystem,
        Service::PasqalCloud => &pasqal::Pasqal,
        Service::AliceBobFelis => &felis::Felis,
    }
}

/// What can be told and done at a resource, or at Braket where there is none.
#[must_use]
pub fn abilities(resource: Option<&Resource>) -> Abilities {
    resource.map_or(braket::ABILITIES, |resource| of(resource.service).abilities())
}

#[cfg(test)]
mod tests;

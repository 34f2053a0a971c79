//! One request from its arrival to its answer.

mod arrival;
mod exchange;
mod resource;
mod submission;

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use sluice_dialect::braket;
use sluice_shared::resource::Place;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::arrival::Accepted;
use self::exchange::Outcome;
use self::submission::{Reads, told};
use crate::answer;
use crate::config::Config;
use crate::connections::{Connections, Ties};
use crate::events::{Outbox, TapEvent};
use crate::guard::Guard;
use crate::hold;
use crate::intents::{Asked as Intended, Forward, Intents};
use crate::keys::Keys;
use crate::operation::Operation;
use crate::polls::{Asked, Key as PollKey, Polls, Throttled, Whole};
use crate::quota::Quota;
use crate::rights::Rights;
use crate::routes::{self, Found};
use crate::signature;
use crate::upstream::{self, Away};

/// The connection is closed without a status, as the program would have seen it without us.
#[derive(Debug, thiserror::Error)]
#[error("the answer was lost and the request cannot be repeated")]
pub(crate) struct HungUp;

/// Everything that requests share.
pub(crate) struct Forwarder {
    config: Config,
    client: reqwest::Client,
    /// For requests that a vendor holds until it has something to tell.
    patient: Option<reqwest::Client>,
    keys: Keys,
    intents: Option<Arc<dyn Intents>>,
    guard: Option<Arc<dyn Guard>>,
    pub(crate) connections: Connections,
    pub(crate) rights: Rights,
    polls: Polls,
    quota: Arc<Quota>,
    away: Away,
    budget: Arc<Semaphore>,
    /// What the log has said already: a program repeats itself twice a second.
    said: Mutex<HashSet<String>>,
    keyless: AtomicBool,
    /// The vendor does not take our keys any more.
    ended: AtomicBool,
    pub(crate) outbox: Outbox,
    /// Submissions go on when the program's connection breaks; they end here.
    pub(crate) submissions: TaskTracker,
}

impl Forwarder {
    pub(crate) fn new(
        config: Config,
        credentials: SharedCredentialsProvider,
    ) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: upstream::client(&config)?,
            // A client holds root certificates: none too many in a small sidecar.
            patient: (!config.resources.is_empty())
                .then(|| upstream::client_that_waits(&config, resource::LONGEST))
                .transpose()?,
            keys: Keys::new(credentials, config.limits.credentials_time),
            intents: None,
            guard: None,
            connections: Connections::default(),
            rights: Rights::default(),
            polls: Polls::new(Arc::clone(&config.quota)),
            quota: Arc::clone(&config.quota),
            away: Away::default(),
            budget: Arc::new(Semaphore::new(config.limits.bodies)),
            said: Mutex::default(),
            keyless: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            outbox: Outbox::default(),
            submissions: TaskTracker::new(),
            config,
        })
    }

    pub(crate) fn set_guard(&mut self, guard: Arc<dyn Guard>) {
        self.guard = Some(guard);
    }

    pub(crate) fn set_intents(&mut self, intents: Arc<dyn Intents>) {
        self.intents = Some(intents);
    }

    /// Answers one request.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, HungUp> {
        let arrived = Instant::now();
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let is_signed = signature::is_for_aws(&parts.headers);
        match routes::find(&self.config.resources, path, is_signed) {
            Found::Braket => {}
            Found::Unknown(message) => {
                return Ok(answer::error(StatusCode::NOT_FOUND, routes::UNKNOWN, &message));
            }
            Found::Route(route, rest) => {
                let (route, rest) = (route.clone(), rest.to_owned());
                return self.answer_resource(route, rest, parts, body, arrived).await;
            }
        }
        let Some((operation, arn)) = Operation::of(&parts.method, path) else {
            tracing::warn!(method = %parts.method, path, "not an operation of Braket: refused");
            return Ok(answer::not_an_operation(parts.method.as_str(), path));
        };
        let arn = arn.map(str::to_owned);
        let gone = CancellationToken::new();
        let _guard = gone.clone().drop_guard();
        let accepted = match self.accept(operation, parts, body, arrived, gone).await {
            Ok(accepted) => accepted,
            Err(refused) => return Ok(*refused),
        };
        let named = arn.as_deref().filter(|_| operation.names_a_task()).and_then(braket::arn_of);
        self.connections.request(named.as_deref());
        match (operation, arn) {
            (Operation::CreateQuantumTask, _) => {
                let ties = self.connections.ties();
                let submission = Arc::clone(&self).submit(accepted, ties);
                // In a task of its own: the answer is worth money even if nobody waits for it.
                match self.submissions.spawn(submission).await {
                    Ok(answer) => answer,
                    Err(_) => Err(HungUp),
                }
            }
            (Operation::GetQuantumTask, _) => self.poll(&accepted, arrived).await,
            (Operation::CreateJob, _) => self.create_job(&accepted).await,
            (Operation::CancelQuantumTask, Some(arn)) => self.cancel(&accepted, &arn).await,
            _ => self.pass(&accepted).await,
        }
    }

    /// Forwards and answers without reading anything.
    async fn pass(&self, accepted: &Accepted) -> Result<Response<Body>, HungUp> {
        let outcome = self.exchange(accepted, Throttled::AskAgain).await;
        self.respond(accepted, outcome)
    }

    async fn poll(&self, accepted: &Accepted, arrived: Instant) -> Result<Response<Body>, HungUp> {
        let key = PollKey {
            region: accepted.claim.region.clone(),
            target: accepted.target_path[accepted.target.prefix.len()..].to_owned(),
        };
        // Where the program can be given an earlier answer, it is not kept waiting for keys.
        let ask = async |throttled, has_last: bool| match self
            .exchange_until(accepted, throttled, if has_last { arrived } else { accepted.deadline })
            .await
        {
            keyless @ (Outcome::KeysEnded(_) | Outcome::GaveUp { keyless: true, .. }) => {
                Asked::Keyless(keyless)
            }
            Outcome::Whole(whole) if hold::is_throttled(whole.status, kind_of(&whole)) => {
                Asked::Throttled(Outcome::Whole(whole))
            }
            Outcome::Whole(whole) => {
                let facts = whole.status.is_success().then(|| braket::task(&whole.body)).flatten();
                if let Some(facts) = facts.clone() {
                    let place = Place::Region(accepted.claim.region.clone());
                    self.outbox.put(TapEvent::Polled { facts, place, at: Timestamp::now() });
                }
                Asked::Whole(whole, facts.map(Box::new))
            }
            other => Asked::Other(other),
        };
        // One that waits for the question of another is still answered in time.
        let outcome = match timeout_at(
            accepted.deadline + Duration::from_secs(1),
            self.polls.answer(key, arrived, ask),
        )
        .await
        {
            Ok(Asked::Whole(whole, _)) => Outcome::Whole(whole),
            Ok(Asked::Throttled(other) | Asked::Keyless(other) | Asked::Other(other)) => other,
            Err(_) => Outcome::GaveUp {
                error: "an earlier poll of the same task is still unanswered".to_owned(),
                arrived: false,
                keyless: false,
            },
        };
        self.respond(accepted, outcome)
    }

    async fn create_job(&self, accepted: &Accepted) -> Result<Response<Body>, HungUp> {
        let outcome = self.exchange(accepted, Throttled::AskAgain).await;
        if let Outcome::Whole(whole) = &outcome
            && whole.status.is_success()
            && let Some(job) = braket::job_of(&whole.body)
        {
            self.outbox.put(TapEvent::JobCreated { job, at: Timestamp::now() });
        }
        self.respond(accepted, outcome)
    }

    async fn cancel(&self, accepted: &Accepted, arn: &str) -> Result<Response<Body>, HungUp> {
        let outcome = self.exchange(accepted, Throttled::AskAgain).await;
        self.polls.forget(arn);
        let response = self.respond(accepted, outcome)?;
        if let Some(task_id) = braket::arn_of(arn) {
            let (status, at) = (response.status(), Timestamp::now());
            self.outbox.put(TapEvent::CancelRequested { task_id, status, at });
        }
        Ok(response)
    }

    async fn submit(
        self: Arc<Self>,
        mut accepted: Accepted,
        ties: Ties,
    ) -> Result<Response<Body>, HungUp> {
        let place = Place::Region(accepted.claim.region.clone());
        // What is no submission is for the vendor to judge.
        let Some(mut submission) = braket::submission(&accepted.body) else {
            return self.pass(&accepted).await;
        };
        let own_body = accepted.body.clone();
        let asked = Intended { submission: submission.clone(), place: place.clone(), ties };
        let forward = self.ask(&asked, &accepted.gone).await?;
        let own_token = submission.client_token.clone();
        let mut sent_as = own_token.clone();
        match forward {
            // The others ask for what may have been paid for already.
            Forward::Send => {
                if let Some(refused) = self.guarded(&submission).await {
                    self.outbox.put(told(&refused, true, submission, place, &OfBraket));
                    return self.respond(&accepted, refused);
                }
            }
            Forward::SendWith(token) => {
                if let Some(body) = braket::with_token(&own_body, &token) {
                    accepted.body = body.into();
                    accepted.token = true;
                    sent_as = Some(token);
                }
            }
            Forward::Known(task_id) => {
                let response = answer::known_task(&task_id);
                self.gets_known(submission, place, task_id);
                return Ok(response);
            }
        }
        if self.intents.is_some() {
            // The record may have taken nearly all of the time.
            let least = Instant::now() + self.config.limits.send_time;
            accepted.deadline = accepted.deadline.max(least);
        }
        self.begins(&submission, &place);
        let (mut outcome, mut certain) = self.exchange_certain(&accepted).await;
        if accepted.body != own_body && is_token_refused(&outcome) {
            tracing::warn!(
                digest = submission.digest,
                "an earlier run sent the same request in other bytes, so the vendor refuses its \
                 clientToken; the submission goes on under its own, and the earlier task, if there \
                 is one, is paid for as well: look for it in the vendor's list of tasks"
            );
            accepted.body = own_body;
            sent_as = own_token;
            (outcome, certain) = self.exchange_certain(&accepted).await;
        }
        let own = submission.clone();
        submission.client_token = sent_as;
        self.ends(&own, told(&outcome, certain, submission, place, &OfBraket));
        self.respond(&accepted, outcome)
    }

    fn respond(&self, accepted: &Accepted, outcome: Outcome) -> Result<Response<Body>, HungUp> {
        match outcome {
            Outcome::Whole(whole) | Outcome::KeysEnded(whole) => Ok(whole.response()),
            Outcome::Other(response) => Ok(*response),
            Outcome::GaveUp { error, .. } => Ok(answer::away(&format!(
                "Amazon Braket at {} could not be reached: {error}. The Sluice sidecar held the \
                 request for {} s; repeat it, and check the network of the pod.",
                accepted.target.host,
                self.config.hold.as_secs()
            ))),
            Outcome::HungUp { error } => {
                tracing::warn!(
                    host = accepted.target.host,
                    error,
                    "the answer to a request without clientToken was lost; it is not repeated and \
                     the program's connection is closed"
                );
                Err(HungUp)
            }
        }
    }
}

/// The kind of an error, as the vendor names it.
fn kind_of(whole: &Whole) -> Option<&str> {
    whole.headers.get(answer::ERROR_TYPE).and_then(|kind| kind.to_str().ok())
}

/// How Braket answers a submission.
struct OfBraket;

impl Reads for OfBraket {
    fn task_id(&self, whole: &Whole) -> Option<String> {
        braket::task_id_of(&whole.body)
    }

    fn message(&self, whole: &Whole) -> Option<String> {
        braket::message_of(&whole.body)
    }
}

/// Whether the vendor refuses the `clientToken`: it was used with another request.
fn is_token_refused(outcome: &Outcome) -> bool {
    let Outcome::Whole(whole) = outcome else { return false };
    whole.status.is_client_error()
        && braket::message_of(&whole.body).is_some_and(|text| text.contains("clientToken"))
}

//! IBM Quantum Compute Service, `/ibm-quantum-compute-service` with its API below `/api/v1`: jobs
//! that are queued and run, sessions, and a rate limit on submissions.
//!
//! There is no position: only the length of a backend's queue, and the step from Queued to Running.
//! A job of an active session goes to the front. Judged by the client in the `qrmi` wheel 0.26.4,
//! whose requests to `/jobs` carry no `IBM-API-Version`, and which takes results as plain text only.
//!
//! # Choices where the vendor's behaviour is not published
//! * Submissions over the limit (5 a minute and account) are answered 429 without `Retry-After`.
//! * A session that is closed while jobs wait cancels them; their reason names the session.
//! * A session counts as active while a job of it runs and for 60 s after the last.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::session::Session;
use super::{iam, primitive};
use crate::braket::api::values;
use crate::error::{ApiError, Service as Name};
use crate::queue::Lane;
use crate::rest::access::Access;
use crate::rest::compute::time_text;
use crate::rest::machine::{Machine, Status};
use crate::rest::machines::{Job, Machines, Phase, Work};
use crate::rest::{Answer, Performed, Request, Shared, Vendor};

/// Most jobs that one list answers.
const PAGE: usize = 200;

/// The state of the compute service.
#[derive(Debug)]
pub(crate) struct Service {
    machines: Machines,
    sessions: Vec<Session>,
}

/// An operation with what its path names.
enum Operation<'a> {
    GetToken,
    CreateJob,
    ListJobs,
    GetJob(&'a str),
    GetResults(&'a str),
    GetLogs(&'a str),
    GetMetrics(&'a str),
    CancelJob(&'a str),
    CreateSession,
    GetSession(&'a str),
    UpdateSession(&'a str),
    CloseSession(&'a str),
    ListBackends,
    GetBackendStatus(&'a str),
    Unknown,
}

impl<'a> Operation<'a> {
    fn of(request: &Request<'a>) -> Self {
        match (request.method, request.parts().as_slice()) {
            ("POST", &["identity", "token"]) => Self::GetToken,
            (method, ["api", "v1", path @ ..]) => match (method, path) {
                ("POST", ["jobs"]) => Self::CreateJob,
                ("GET", ["jobs"]) => Self::ListJobs,
                ("GET", ["jobs", id]) => Self::GetJob(id),
                ("GET", ["jobs", id, "results"]) => Self::GetResults(id),
                ("GET", ["jobs", id, "logs"]) => Self::GetLogs(id),
                ("GET", ["jobs", id, "metrics"]) => Self::GetMetrics(id),
                ("POST", ["jobs", id, "cancel"]) => Self::CancelJob(id),
                ("POST", ["sessions"]) => Self::CreateSession,
                ("GET", ["sessions", id]) => Self::GetSession(id),
                ("PATCH", ["sessions", id]) => Self::UpdateSession(id),
                ("DELETE", ["sessions", id, "close"]) => Self::CloseSession(id),
                ("GET", ["backends"]) => Self::ListBackends,
                ("GET", ["backends", name, "status"]) => Self::GetBackendStatus(name),
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::GetToken => "ibm-quantum-compute-service:GetToken",
            Self::CreateJob => "ibm-quantum-compute-service:CreateJob",
            Self::ListJobs => "ibm-quantum-compute-service:ListJobs",
            Self::GetJob(_) => "ibm-quantum-compute-service:GetJob",
            Self::GetResults(_) => "ibm-quantum-compute-service:GetResults",
            Self::GetLogs(_) => "ibm-quantum-compute-service:GetLogs",
            Self::GetMetrics(_) => "ibm-quantum-compute-service:GetMetrics",
            Self::CancelJob(_) => "ibm-quantum-compute-service:CancelJob",
            Self::CreateSession => "ibm-quantum-compute-service:CreateSession",
            Self::GetSession(_) => "ibm-quantum-compute-service:GetSession",
            Self::UpdateSession(_) => "ibm-quantum-compute-service:UpdateSession",
            Self::CloseSession(_) => "ibm-quantum-compute-service:CloseSession",
            Self::ListBackends => "ibm-quantum-compute-service:ListBackends",
            Self::GetBackendStatus(_) => "ibm-quantum-compute-service:GetBackendStatus",
            Self::Unknown => "ibm-quantum-compute-service:Unknown",
        }
    }
}

impl Vendor for Service {
    fn operation(&self, request: &Request<'_>) -> &'static str {
        Operation::of(request).name()
    }

    fn account(&self, request: &Request<'_>, access: &Access, now: Timestamp) -> Option<String> {
        iam::account(request, access, now)
    }

    fn perform(
        &mut self,
        request: &Request<'_>,
        shared: &mut Shared<'_>,
        now: Timestamp,
    ) -> Result<Performed, ApiError> {
        let operation = Operation::of(request);
        if matches!(operation, Operation::GetToken) {
            return Ok(iam::token(request, shared.access, now).into());
        }
        let account = iam::account(request, shared.access, now).ok_or_else(iam::unauthorized)?;
        let none = || Answer::text(204, "", String::new());
        let answer = match operation {
            Operation::CreateJob => {
                let service = Name::IbmQuantumComputeService.as_str();
                if !shared.quotas.take_alone(&account, service, operation.name(), now) {
                    let text = "Too many jobs were submitted; submit at most 5 in a minute.";
                    return Err(ApiError::new("1305", text).with_status(429));
                }
                self.create(request, &account, now)?
            }
            Operation::ListJobs => self.list(request, &account),
            Operation::GetJob(id) => Answer::json(200, &shown(self.own(&account, id)?)).about(id),
            Operation::GetResults(id) => self.results(&account, id)?,
            Operation::GetLogs(id) => {
                let text = format!("job {id} {}\n", word(&self.own(&account, id)?.phase));
                Answer::text(200, "text/plain", text).about(id)
            }
            Operation::GetMetrics(id) => {
                Answer::json(200, &metrics(self.own(&account, id)?)).about(id)
            }
            Operation::CancelJob(id) => {
                self.own(&account, id)?;
                if !self.machines.cancel(id, "cancelled by the user", now) {
                    let text = format!("Job {id} is not cancellable: it has ended.");
                    return Err(ApiError::new("1306", text).with_status(409));
                }
                none().about(id)
            }
            Operation::CreateSession => self.open(request, &account, now)?,
            Operation::GetSession(id) => {
                let at = self.session(&account, id)?;
                Answer::json(200, &self.sessions[at].shown(&self.machines, now))
            }
            Operation::UpdateSession(id) => {
                let at = self.session(&account, id)?;
                if request.json()["accepting_jobs"] == json!(false) {
                    self.sessions[at].accepting = false;
                }
                self.close_due(now);
                none()
            }
            Operation::CloseSession(id) => {
                let at = self.session(&account, id)?;
                self.close(at, "by its user", now);
                none()
            }
            Operation::ListBackends => {
                let all: Vec<_> = self.machines.all().map(|one| self.backend(one)).collect();
                Answer::json(200, &json!({ "devices": all }))
            }
            Operation::GetBackendStatus(name) => {
                let machine = self.known(name)?;
                let online = machine.status == Status::Online;
                let body = json!({
                    "state": online, "status": if online { "active" } else { "maintenance" },
                    "message": if online { "available" } else { "maintenance" },
                    "length_queue": self.machines.waiting(name), "backend_version": "1.0.0",
                });
                Answer::json(200, &body)
            }
            Operation::GetToken | Operation::Unknown => {
                let text = format!("{} {} is not served", request.method, request.path);
                return Err(ApiError::new("1200", text).with_status(404));
            }
        };
        Ok(answer.into())
    }

    fn machines(&self) -> &Machines {
        &self.machines
    }

    fn machines_mut(&mut self) -> &mut Machines {
        &mut self.machines
    }

    fn advance(&mut self, now: Timestamp) -> Vec<Work> {
        let work = self.machines.advance(now);
        self.close_due(now);
        work
    }

    fn next_due(&self) -> Option<Timestamp> {
        let open = self.sessions.iter().filter(|session| session.closed.is_none());
        open.filter_map(|one| one.end(&self.machines)).chain(self.machines.next_due()).min()
    }
}

impl Service {
    /// A service without jobs.
    pub(crate) fn new(machines: Machines) -> Self {
        Self { machines, sessions: Vec::new() }
    }

    fn known(&self, name: &str) -> Result<&Machine, ApiError> {
        self.machines.machine(name).ok_or_else(|| {
            ApiError::new("1216", format!("Backend {name} not found.")).with_status(404)
        })
    }

    fn own(&self, account: &str, id: &str) -> Result<&Job, ApiError> {
        self.machines.job_of(account, id).ok_or_else(|| {
            ApiError::new("1291", format!("Job not found. Job ID: {id}.")).with_status(404)
        })
    }

    fn session(&self, account: &str, id: &str) -> Result<usize, ApiError> {
        let fits = |one: &Session| one.id == id && one.account == account;
        self.sessions.iter().position(fits).ok_or_else(|| {
            ApiError::new("1277", format!("Session not found. Session ID: {id}.")).with_status(404)
        })
    }

    /// Closes a session; its jobs that have not ended are cancelled and say why.
    fn close(&mut self, at: usize, how: &str, now: Timestamp) {
        let session = &mut self.sessions[at];
        session.accepting = false;
        session.closed.get_or_insert(now);
        let reason = format!("session {} was closed {how}", session.id);
        for id in session.pending_ids(&self.machines) {
            self.machines.cancel(&id, &reason, now);
        }
    }

    /// Closes the sessions that take no more jobs and have none, and those whose time is over.
    fn close_due(&mut self, now: Timestamp) {
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            if session.closed.is_some() {
                continue;
            }
            if session.end(&self.machines).is_some_and(|end| end <= now) {
                self.close(at, "because its time was over", now);
            } else if !session.accepting && !session.pending(&self.machines) {
                self.close(at, "by its user", now);
            }
        }
    }

    fn open(
        &mut self,
        request: &Request<'_>,
        account: &str,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        let body = request.json();
        let name = body["backend"].as_str().or(body["backend_name"].as_str()).unwrap_or_default();
        let session = Session {
            id: Uuid::new_v4().to_string(),
            account: account.to_owned(),
            backend: self.known(name)?.name.clone(),
            mode: body["mode"].as_str().unwrap_or("dedicated").to_owned(),
            max_ttl: body["max_ttl"].as_u64().unwrap_or(28_800),
            accepting: true,
            created: now,
            closed: None,
        };
        let answer = Answer::json(200, &session.shown(&self.machines, now));
        self.sessions.push(session);
        Ok(answer)
    }

    fn create(
        &mut self,
        request: &Request<'_>,
        account: &str,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        let body = request.json();
        let wrong = |text: String| ApiError::new("1211", text).with_status(400);
        let name = body["backend"].as_str().unwrap_or_default();
        let machine = self.known(name)?.name.clone();
        let program = body["program_id"].as_str().unwrap_or_default();
        if !["sampler", "estimator", "noise-learner"].contains(&program) {
            return Err(wrong(format!("There is no program '{program}'.")));
        }
        let mut lane = Lane::Normal;
        let session = body["session_id"].as_str();
        if let Some(id) = session {
            let session = &self.sessions[self.session(account, id)?];
            if session.closed.is_some() || !session.accepting {
                let text = format!("Session {id} takes no more jobs.");
                return Err(ApiError::new("1217", text).with_status(400));
            }
            if session.state(&self.machines, now) == "active" {
                lane = Lane::Priority;
            }
        }
        // As long as the vendor's ids are.
        let id = format!("d{}", &Uuid::new_v4().simple().to_string()[..19]);
        let mut job = Job::new(id.clone(), account, &machine, body.clone(), now);
        job.group = session.map(str::to_owned);
        job.input = body["params"].clone();
        let read = primitive::read(program, &job.input);
        if let Ok(programs) = &read {
            job.programs.clone_from(programs);
        }
        self.machines.submit(job, lane, now);
        if let Err(problem) = read {
            self.machines.fail(&id, &problem, now);
        }
        let body = json!({ "id": id, "backend": machine, "session_id": session });
        Ok(Answer::json(200, &body).about(&id))
    }

    fn list(&self, request: &Request<'_>, account: &str) -> Answer {
        let text = |name: &str| request.value(name);
        let number = |name: &str| text(name).and_then(|text| text.parse::<usize>().ok());
        let (limit, offset) =
            (number("limit").unwrap_or(PAGE).min(PAGE), number("offset").unwrap_or(0));
        let tags = values(request.query, "tags");
        let time = |name: &str| text(name).and_then(|text| text.parse::<Timestamp>().ok());
        let (after, before) = (time("created_after"), time("created_before"));
        let (backend, session) = (text("backend"), text("session_id"));
        let (program, pending) = (text("program"), text("pending"));
        let fits = |job: &&Job| {
            let of = |wanted: &Option<String>, is: Option<&str>| {
                wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
            };
            let tagged = |tag: &String| {
                let own = job.request["tags"].as_array();
                own.is_some_and(|own| own.iter().any(|one| one == tag))
            };
            job.account == account
                && of(&backend, Some(&job.machine))
                && of(&session, job.group.as_deref())
                && of(&program, job.request["program_id"].as_str())
                && pending.as_deref().is_none_or(|wanted| (wanted == "true") != job.phase.ended())
                && after.is_none_or(|after| job.created >= after)
                && before.is_none_or(|before| job.created <= before)
                && tags.iter().all(tagged)
        };
        let all: Vec<_> = self.machines.jobs().filter(fits).collect();
        let page: Vec<_> = all.iter().skip(offset).take(limit).map(|job| shown(job)).collect();
        let body = json!({ "jobs": page, "count": all.len(), "limit": limit, "offset": offset });
        Answer::json(200, &body)
    }

    fn results(&self, account: &str, id: &str) -> Result<Answer, ApiError> {
        let job = self.own(account, id)?;
        if job.phase != Phase::Completed {
            let text = format!("Job {id} has no result; it is {}.", word(&job.phase));
            return Err(ApiError::new("1292", text).with_status(404));
        }
        let result = primitive::result(&job.input, &job.measured);
        Ok(Answer::text(200, "text/plain", result).about(id))
    }

    fn backend(&self, machine: &Machine) -> Value {
        let status = match machine.status {
            Status::Online => "online",
            Status::Paused => "paused",
            Status::Offline => "offline",
        };
        json!({
            "name": machine.name, "qubits": machine.qubits, "is_simulator": false,
            "status": { "name": status, "reason": "available" },
            "processor_type": { "family": "Falcon", "revision": "5.11" },
            "queue_length": self.machines.waiting(&machine.name),
            "wait_time_seconds": { "average": 10 }, "performance_metrics": {},
        })
    }
}

/// A job as the API shows it.
fn shown(job: &Job) -> Value {
    let status = word(&job.phase);
    let reason = match &job.phase {
        Phase::Failed { reason } | Phase::Cancelled { reason } => Some(reason),
        _ => None,
    };
    json!({
        "id": job.id,
        "backend": job.machine,
        "status": status,
        "state": { "status": status, "reason": reason },
        "program": { "id": job.request["program_id"] },
        "created": time_text(job.created),
        "ended": job.ended.map(time_text),
        "cost": job.request["cost"].as_u64().unwrap_or(600),
        "tags": job.request["tags"].as_array().cloned().unwrap_or_default(),
        "session_id": job.group,
        "usage": { "seconds": 0 },
        "estimated_running_time_seconds": 3.0,
        "params": {},
        "user_id": job.account,
    })
}

fn metrics(job: &Job) -> Value {
    json!({
        "timestamps": {
            "created": time_text(job.created), "running": job.started.map(time_text),
            "finished": job.ended.map(time_text),
        },
        "usage": { "seconds": 0 },
    })
}

/// The vendor's word for a phase.
fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Waiting => "Queued",
        Phase::Running => "Running",
        Phase::Completed => "Completed",
        Phase::Failed { .. } => "Failed",
        Phase::Cancelled { .. } => "Cancelled",
    }
}

//! IBM Quantum Compute Service, `/ibm-quantum-compute-service` with its API below `/api/v1`: jobs
//! that are queued and run, sessions, and a rate limit on submissions.
//!
//! There is no position: only the length of a backend's queue, and the step from Queued to Running.
//! A job of an active session goes to the front. Judged by the client in the `qrmi` wheel 0.26.4,
//! whose requests to `/jobs` carry no `IBM-API-Version`, and which takes results as plain text only,
//! and by IBM's own, `qiskit-ibm-runtime` 0.51.0.
//!
//! # Choices where the vendor's behaviour is not published
//! * Submissions over the limit (5 a minute and account) are answered 429 without `Retry-After`.
//! * A session that is closed cancels its jobs that wait; their reason names the session. One that
//!   only takes no more jobs lets them run.
//! * A session counts as active while a job of it runs and for 60 s after the last.
//! * Answers have the fields of all versions of the API, whichever the client asks for.
//! * An API key in the place of a token is refused: a client sends it when it could not buy one.

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::session::Session;
use super::{backend, iam, job, primitive};
use crate::error::{ApiError, Service as Name};
use crate::queue::Lane;
use crate::rest::access::Access;
use crate::rest::machine::Machine;
use crate::rest::machines::{Job, Machines, Phase, Work};
use crate::rest::{Answer, Performed, Request, Shared, Vendor};
use crate::signature::header;

/// Programs that the vendor runs; the emulator computes the first only.
const PROGRAMS: [&str; 5] = ["sampler", "estimator", "executor", "noise-learner", "calibrate"];

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
    ReplaceTags(&'a str),
    CreateSession,
    GetSession(&'a str),
    UpdateSession(&'a str),
    CloseSession(&'a str),
    ListBackends,
    GetBackendStatus(&'a str),
    GetBackendConfiguration(&'a str),
    GetBackendProperties(&'a str),
    GetUsage,
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
                ("PUT", ["jobs", id, "tags"]) => Self::ReplaceTags(id),
                ("POST", ["sessions"]) => Self::CreateSession,
                ("GET", ["sessions", id]) => Self::GetSession(id),
                ("PATCH", ["sessions", id]) => Self::UpdateSession(id),
                ("DELETE", ["sessions", id, "close"]) => Self::CloseSession(id),
                ("GET", ["backends"]) => Self::ListBackends,
                ("GET", ["backends", name, "status"]) => Self::GetBackendStatus(name),
                ("GET", ["backends", name, "configuration"]) => Self::GetBackendConfiguration(name),
                ("GET", ["backends", name, "properties"]) => Self::GetBackendProperties(name),
                ("GET", ["instances", "usage"]) => Self::GetUsage,
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
            Self::ReplaceTags(_) => "ibm-quantum-compute-service:ReplaceTags",
            Self::CreateSession => "ibm-quantum-compute-service:CreateSession",
            Self::GetSession(_) => "ibm-quantum-compute-service:GetSession",
            Self::UpdateSession(_) => "ibm-quantum-compute-service:UpdateSession",
            Self::CloseSession(_) => "ibm-quantum-compute-service:CloseSession",
            Self::ListBackends => "ibm-quantum-compute-service:ListBackends",
            Self::GetBackendStatus(_) => "ibm-quantum-compute-service:GetBackendStatus",
            Self::GetBackendConfiguration(_) => {
                "ibm-quantum-compute-service:GetBackendConfiguration"
            }
            Self::GetBackendProperties(_) => "ibm-quantum-compute-service:GetBackendProperties",
            Self::GetUsage => "ibm-quantum-compute-service:GetUsage",
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
                    let text = "Too many requests received: limit is 5 jobs per minute.";
                    return Err(ApiError::new("1202", text).with_status(429));
                }
                self.create(request, &account, now)?
            }
            Operation::ListJobs => job::list(request, &self.machines, &account),
            Operation::GetJob(id) => {
                let job = self.own(&account, id)?;
                Answer::json(200, &job::shown(job, job::with_params(request))).about(id)
            }
            Operation::GetResults(id) => self.results(&account, id)?,
            Operation::GetLogs(id) => {
                let text = format!("job {id} {}\n", job::word(&self.own(&account, id)?.phase));
                Answer::text(200, "text/plain", text).about(id)
            }
            Operation::GetMetrics(id) => {
                Answer::json(200, &job::metrics(self.own(&account, id)?)).about(id)
            }
            Operation::CancelJob(id) => {
                self.own(&account, id)?;
                if !self.machines.cancel(id, "cancelled by the user", now) {
                    let text = format!("Job {id} is not cancellable: it has ended.");
                    return Err(ApiError::new("1306", text).with_status(409));
                }
                none().about(id)
            }
            Operation::ReplaceTags(id) => {
                self.own(&account, id)?;
                if let Some(job) = self.machines.job_mut(id) {
                    job.request["tags"] = request.json()["tags"].clone();
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
                let waiting = |one: &Machine| self.machines.waiting(&one.name);
                let listed = |one| backend::listed(one, waiting(one));
                let all: Vec<_> = self.machines.all().map(listed).collect();
                Answer::json(200, &json!({ "devices": all }))
            }
            Operation::GetBackendStatus(name) => {
                let machine = self.known(name)?;
                Answer::json(200, &backend::status(machine, self.machines.waiting(name)))
            }
            Operation::GetBackendConfiguration(name) => {
                Answer::json(200, &backend::configuration(self.known(name)?))
            }
            Operation::GetBackendProperties(name) => {
                let before = request.value("updated_before").and_then(|text| text.parse().ok());
                let at = before.filter(|before| *before < now).unwrap_or(now);
                Answer::json(200, &backend::properties(self.known(name)?, at))
            }
            Operation::GetUsage => {
                let own = self.machines.jobs().filter(|job| job.account == account);
                let body = json!({
                    "instance_id": header(request.headers, "service-crn").unwrap_or_default(),
                    "plan_id": "emulated", "usage_limit_reached": false,
                    "usage_consumed_seconds": own.map(job::charged).sum::<i64>(),
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

    /// Closes a session; its jobs that wait are cancelled and say why. One that runs runs on.
    fn close(&mut self, at: usize, how: &str, now: Timestamp) {
        let session = &mut self.sessions[at];
        session.accepting = false;
        session.closed.get_or_insert(now);
        let reason = format!("session {} was closed {how}", session.id);
        for id in session.waiting_ids(&self.machines) {
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
        if !PROGRAMS.contains(&program) {
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

    fn results(&self, account: &str, id: &str) -> Result<Answer, ApiError> {
        let job = self.own(account, id)?;
        if job.phase != Phase::Completed {
            // The client asks for the result of a failed job too: there may be a text about it.
            return Ok(Answer::text(204, "", String::new()).about(id));
        }
        let result = primitive::result(&job.input, &job.measured);
        Ok(Answer::text(200, "text/plain", result).about(id))
    }
}

//! Felis, the cloud of Alice & Bob, `/felis`: jobs that tell their life as a list of events.
//!
//! A job waits for its input; when it is first in line it is compiled, and only then executed. So
//! COMPILING is not yet running, although the client in the `qrmi` wheel 0.26.4, which judges this,
//! calls it so. Programs (human readable QIR) are not computed: the machine is taken to be all
//! noise ([`Program::Noise`]).
//!
//! # Choices where the vendor's behaviour is not published
//! * Compiling happens at the head of the line.
//! * Input and transpiled program of a job are not kept: asking for them is a conflict, which the
//!   client takes for "not there".
//!
//! The output is a table of two columns, bits and count, without a head: qiskit-alice-bob-provider
//! 3.0.0 reads its first row as a measurement. It also takes what a target can do from the list of
//! targets.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::ApiError;
use crate::queue::Lane;
use crate::rest::access::Access;
use crate::rest::compute::{Program, time_text};
use crate::rest::machine::Machine;
use crate::rest::machines::{Job, Machines, Phase, Work};
use crate::rest::{Answer, Performed, Request, Shared, Vendor};
use crate::signature::header;

/// The state of Felis.
#[derive(Debug)]
pub(crate) struct Felis {
    machines: Machines,
    /// Jobs without input.
    drafts: HashMap<String, Job>,
    /// When the compiler took a job.
    compiled: HashMap<String, Timestamp>,
    /// When the input of a job came.
    ready: HashMap<String, Timestamp>,
}

/// An operation with what its path names.
enum Operation<'a> {
    CreateJob,
    UploadInput(&'a str),
    GetJob(&'a str),
    GetOutput(&'a str),
    GetFile(&'a str, &'a str),
    CancelJob(&'a str),
    ListTargets,
    Unknown,
}

impl<'a> Operation<'a> {
    fn of(request: &Request<'a>) -> Self {
        match (request.method, request.parts().as_slice()) {
            ("POST", &["v1", "jobs"]) => Self::CreateJob,
            ("POST", &["v1", "jobs", id, "input"]) => Self::UploadInput(id),
            ("GET", &["v1", "jobs", id]) => Self::GetJob(id),
            ("GET", &["v1", "jobs", id, "output"]) => Self::GetOutput(id),
            ("GET", &["v1", "jobs", id, file @ ("input" | "transpiled")]) => {
                Self::GetFile(id, file)
            }
            ("DELETE", &["v1", "jobs", id]) => Self::CancelJob(id),
            ("GET", &["v1", "targets"]) => Self::ListTargets,
            _ => Self::Unknown,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::CreateJob => "felis:CreateJob",
            Self::UploadInput(_) => "felis:UploadInput",
            Self::GetJob(_) => "felis:GetJob",
            Self::GetOutput(_) => "felis:GetOutput",
            Self::GetFile(..) => "felis:GetFile",
            Self::CancelJob(_) => "felis:CancelJob",
            Self::ListTargets => "felis:ListTargets",
            Self::Unknown => "felis:Unknown",
        }
    }
}

impl Vendor for Felis {
    fn operation(&self, request: &Request<'_>) -> &'static str {
        Operation::of(request).name()
    }

    fn account(&self, request: &Request<'_>, access: &Access, _now: Timestamp) -> Option<String> {
        let text = header(request.headers, "authorization")?.strip_prefix("Basic ")?;
        access.of_basic(text).map(str::to_owned)
    }

    fn perform(
        &mut self,
        request: &Request<'_>,
        shared: &mut Shared<'_>,
        now: Timestamp,
    ) -> Result<Performed, ApiError> {
        let account = self.account(request, shared.access, now).ok_or_else(|| {
            ApiError::new("unauthorized", "The API key is missing or not valid.").with_status(401)
        })?;
        let answer = match Operation::of(request) {
            Operation::CreateJob => self.create(request, &account, now)?,
            Operation::UploadInput(id) => self.upload(request, &account, id, now)?,
            Operation::GetJob(id) => Answer::json(200, &self.shown(self.own(&account, id)?)),
            Operation::GetOutput(id) => {
                let job = self.own(&account, id)?;
                let Some(measured) = job.measured.first() else {
                    let text = format!("Job '{id}' has no output.");
                    return Err(ApiError::new("conflict", text).with_status(409));
                };
                let rows = measured.counts();
                let rows = rows.iter().map(|(sample, count)| format!("{sample},{count}\n"));
                Answer::text(200, "text/plain", rows.collect::<String>())
            }
            Operation::GetFile(id, file) => {
                self.own(&account, id)?;
                let text = format!("The {file} of job '{id}' is not kept.");
                return Err(ApiError::new("conflict", text).with_status(409));
            }
            Operation::CancelJob(id) => {
                self.own(&account, id)?;
                if let Some(draft) = self.drafts.remove(id) {
                    self.machines.submit(draft, Lane::Normal, now);
                }
                if !self.machines.cancel(id, "cancelled by the user", now) {
                    let text = format!("Job '{id}' has ended.");
                    return Err(ApiError::new("conflict", text).with_status(409));
                }
                Answer::json(200, &self.shown(self.own(&account, id)?)).about(id)
            }
            Operation::ListTargets => Answer::json(200, &self.machines.all().map(target).collect()),
            Operation::Unknown => {
                let text = format!("{} {} is not served", request.method, request.path);
                return Err(ApiError::new("not_found", text).with_status(404));
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
        for job in self.machines.jobs() {
            let first = self.machines.position(&job.id) == Some(1);
            if first || job.started.is_some() {
                self.compiled.entry(job.id.clone()).or_insert(job.started.unwrap_or(now));
            }
        }
        work
    }
}

impl Felis {
    /// A cloud without jobs.
    pub(crate) fn new(machines: Machines) -> Self {
        let (drafts, compiled, ready) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { machines, drafts, compiled, ready }
    }

    fn own(&self, account: &str, id: &str) -> Result<&Job, ApiError> {
        let draft = self.drafts.get(id).filter(|job| job.account == account);
        draft.or_else(|| self.machines.job_of(account, id)).ok_or_else(|| {
            ApiError::new("not_found", format!("There is no job '{id}'.")).with_status(404)
        })
    }

    fn create(
        &mut self,
        request: &Request<'_>,
        account: &str,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        let body = request.json();
        let name = body["target"].as_str().unwrap_or_default();
        if self.machines.machine(name).is_none() {
            let text = format!("There is no target '{name}'.");
            return Err(ApiError::new("unprocessable", text).with_status(422));
        }
        let id = Uuid::new_v4().to_string();
        let job = Job::new(id.clone(), account, name, body.clone(), now);
        let answer = Answer::json(200, &self.shown(&job)).about(&id);
        self.drafts.insert(id, job);
        Ok(answer)
    }

    fn upload(
        &mut self,
        request: &Request<'_>,
        account: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        self.own(account, id)?;
        let Some(mut job) = self.drafts.remove(id) else {
            let text = format!("Job '{id}' has its input.");
            return Err(ApiError::new("conflict", text).with_status(409));
        };
        let source = String::from_utf8_lossy(request.body).into_owned();
        // A program also declares what it calls.
        let calls = |line: &&str| line.contains("call ") && line.contains("@__quantum__qis__m");
        let measured = source.lines().filter(calls).count().max(1);
        let shots = job.request["inputParams"]["nbShots"].as_u64().unwrap_or(1_000);
        let bits = u32::try_from(measured).unwrap_or(1);
        job.programs = vec![Program::Noise { seed: id.to_owned(), bits, shots }];
        self.ready.insert(id.to_owned(), now);
        self.machines.submit(job, Lane::Normal, now);
        Ok(Answer::json(200, &json!({})).about(id))
    }

    /// A job as the API shows it.
    fn shown(&self, job: &Job) -> Value {
        let event = |name: &str, at: Timestamp| json!({ "type": name, "createdAt": time_text(at) });
        let mut events = vec![event("CREATED", job.created)];
        events.extend(self.ready.get(&job.id).map(|at| event("INPUT_READY", *at)));
        if let Some(at) = self.compiled.get(&job.id) {
            let names: &[_] = match job.started {
                None => &["COMPILING"],
                Some(_) => &["COMPILING", "COMPILED", "TRANSPILING", "TRANSPILED"],
            };
            events.extend(names.iter().map(|name| event(name, *at)));
        }
        events.extend(job.started.map(|at| event("EXECUTING", at)));
        let mut errors = Vec::new();
        let last = match &job.phase {
            Phase::Waiting | Phase::Running => None,
            Phase::Completed => Some("SUCCEEDED"),
            Phase::Cancelled { .. } => Some("CANCELLED"),
            Phase::Failed { reason } => {
                errors.push(json!({ "code": "execution_failed", "message": reason }));
                Some("EXECUTION_FAILED")
            }
        };
        events.extend(last.zip(job.ended).map(|(name, at)| event(name, at)));
        json!({
            "id": job.id, "target": job.machine, "events": events, "errors": errors,
            "inputDataFormat": "HUMAN_QIR", "outputDataFormat": "HISTOGRAM",
            "inputParams": job.request["inputParams"], "userName": job.account,
            "userId": job.account, "organizationName": job.account,
        })
    }
}

/// Gates and measurements of every target, as its list of instructions tells them.
const INSTRUCTIONS: [&str; 5] = [
    "__quantum__qis__prepare_z__body:void (i1, %Qubit*)",
    "__quantum__qis__prepare_x__body:void (i1, %Qubit*)",
    "__quantum__qis__x__body:void (%Qubit*)",
    "__quantum__qis__z__body:void (%Qubit*)",
    "__quantum__qis__mz__body:void (%Qubit*, %Result*)",
];

fn target(machine: &Machine) -> Value {
    let instructions: Vec<_> = INSTRUCTIONS.iter().map(|one| json!({ "signature": one })).collect();
    let shots = json!({ "required": true, "default": 1_000,
                        "constraints": [{ "min": 1, "max": 10_000_000 }] });
    json!({ "name": machine.name, "numQubits": machine.qubits, "instructions": instructions,
            "inputParams": { "nbShots": shots } })
}

//! IBM Quantum System (formerly Direct Access), `/ibm-quantum-system`: no queue, but lanes.
//!
//! A job runs as soon as it is taken. While all lanes are full a submission is answered 429 with
//! code 1232, while the machine is reserved 423 with code 1233; the client repeats it with the same
//! id until it is answered 204. A job holds its lane until it is deleted, also when it has ended.
//! Input and results are objects that the client names by presigned URLs; the emulator takes them
//! for objects of its own store.
//!
//! Judged by the client in the `qrmi` wheel 0.26.4.
//!
//! # Choices where the vendor's behaviour is not published
//! * A repeated id is answered 409 with code 1231, also when the first answer was lost.
//! * The signature of a presigned URL is not checked.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{iam, primitive};
use crate::error::ApiError;
use crate::rest::access::Access;
use crate::rest::compute::time_text;
use crate::rest::machine::{Machine, Status};
use crate::rest::machines::{Job, Machines, Phase};
use crate::rest::{Answer, Performed, Request, Shared, Vendor};
use crate::s3::{self, Store};

/// The state of IBM Quantum System.
#[derive(Debug)]
pub(crate) struct System {
    machines: Machines,
}

/// An operation with what its path names.
enum Operation<'a> {
    GetToken,
    CreateJob,
    ListJobs,
    GetJob(&'a str),
    CancelJob(&'a str),
    DeleteJob(&'a str),
    ListBackends,
    GetBackend(&'a str),
    GetLanes(&'a str),
    Unknown,
}

impl<'a> Operation<'a> {
    fn of(request: &Request<'a>) -> Self {
        match (request.method, request.parts().as_slice()) {
            ("POST", &["identity", "token"]) => Self::GetToken,
            ("POST", &["v1", "jobs"]) => Self::CreateJob,
            ("GET", &["v1", "jobs"]) => Self::ListJobs,
            ("GET", &["v1", "jobs", id]) => Self::GetJob(id),
            ("POST", &["v1", "jobs", id, "cancel"]) => Self::CancelJob(id),
            ("DELETE", &["v1", "jobs", id]) => Self::DeleteJob(id),
            ("GET", &["v1", "backends"]) => Self::ListBackends,
            ("GET", &["v1", "backends", name]) => Self::GetBackend(name),
            ("GET", &["v1", "backends", name, "lanes"]) => Self::GetLanes(name),
            _ => Self::Unknown,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::GetToken => "ibm-quantum-system:GetToken",
            Self::CreateJob => "ibm-quantum-system:CreateJob",
            Self::ListJobs => "ibm-quantum-system:ListJobs",
            Self::GetJob(_) => "ibm-quantum-system:GetJob",
            Self::CancelJob(_) => "ibm-quantum-system:CancelJob",
            Self::DeleteJob(_) => "ibm-quantum-system:DeleteJob",
            Self::ListBackends => "ibm-quantum-system:ListBackends",
            Self::GetBackend(_) => "ibm-quantum-system:GetBackend",
            Self::GetLanes(_) => "ibm-quantum-system:GetLanes",
            Self::Unknown => "ibm-quantum-system:Unknown",
        }
    }
}

impl Vendor for System {
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
        let answer = match operation {
            Operation::CreateJob => self.create(request, &account, shared.store, now)?,
            Operation::ListJobs => {
                let own = self.machines.jobs().filter(|job| job.account == account);
                Answer::json(200, &json!({ "jobs": own.map(shown).collect::<Vec<_>>() }))
            }
            Operation::GetJob(id) => Answer::json(200, &shown(self.own(&account, id)?)).about(id),
            Operation::CancelJob(id) => {
                self.own(&account, id)?;
                if !self.machines.cancel(id, "cancelled by the user", now) {
                    let text = format!("Job is not cancellable. Job ID: {id}.");
                    return Err(ApiError::new("1306", text).with_status(409));
                }
                Answer::text(204, "", String::new()).about(id)
            }
            Operation::DeleteJob(id) => {
                if !self.own(&account, id)?.phase.ended() {
                    let text = "Deleting a job in a non-terminal state is not possible.";
                    return Err(ApiError::new("1337", text).with_status(409));
                }
                self.machines.forget(id);
                Answer::text(204, "", String::new()).about(id)
            }
            Operation::ListBackends => {
                let all: Vec<_> = self.machines.all().map(backend).collect();
                Answer::json(200, &json!({ "backends": all }))
            }
            Operation::GetBackend(name) => Answer::json(200, &backend(self.known(name)?)),
            Operation::GetLanes(name) => {
                let lanes = self.known(name)?.pace.capacity;
                let body = json!({
                    "hpc_workload_manager": { "lanes": lanes }, "ibm_quantum_compute": { "lanes": 0 },
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

    fn settle(&mut self, ended: Vec<String>, store: &mut Store, now: Timestamp) {
        for id in ended {
            let Some(job) = self.machines.job(&id) else { continue };
            let mut put = |what: &str, body: String| {
                if let Some((bucket, key)) = object(&job.request, what) {
                    // The client's URL is its right to the object, whoever owns the bucket.
                    let owner = store.owner(&bucket).unwrap_or(&job.account).to_owned();
                    store.deposit(&owner, &bucket, &key, Bytes::from(body), now);
                }
            };
            if job.phase == Phase::Completed {
                let result = primitive::result(&job.input, &job.measured);
                put("results", result);
            }
            put("logs", format!("job {id} {}\n", word(&job.phase)));
        }
    }
}

impl System {
    /// A system without jobs.
    pub(crate) fn new(machines: Machines) -> Self {
        Self { machines }
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

    fn create(
        &mut self,
        request: &Request<'_>,
        account: &str,
        store: &Store,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        let body = request.json();
        let wrong = |text: String| ApiError::new("1211", text).with_status(400);
        let text = |name: &str| {
            let value = body[name].as_str().map(str::to_owned);
            value.ok_or_else(|| wrong(format!("The field '{name}' is missing.")))
        };
        let (id, name, program) = (text("id")?, text("backend")?, text("program_id")?);
        if uuid::Uuid::parse_str(&id).is_err() {
            return Err(wrong(format!("The id '{id}' is not a UUID.")));
        }
        let machine = self.known(&name)?.clone();
        if self.machines.job(&id).is_some() {
            let text = format!("Job with duplicate id already exists. Job ID: {id}");
            return Err(ApiError::new("1231", text).with_status(409));
        }
        if machine.status != Status::Online {
            let text = format!("Backend {name} is not online.");
            return Err(ApiError::new("1233", text).with_status(423));
        }
        if machine.reserved {
            let text = "The requested backend is currently reserved and cannot run jobs outside of \
                        the reservation.";
            return Err(ApiError::new("1233", text).with_status(423));
        }
        let own = self.machines.jobs().filter(|job| job.machine == name).count();
        let taken = u32::try_from(own).unwrap_or(u32::MAX).saturating_add(machine.busy_at(now));
        if taken >= machine.pace.capacity {
            let text = format!(
                "The maximum number of execution lanes for backend {name} has been reached."
            );
            return Err(ApiError::new("1232", text).with_status(429));
        }
        let (input, problem) = match input_of(&body, store) {
            Ok(input) => (input, None),
            Err(problem) => (Value::Null, Some(problem)),
        };
        let read = problem.map_or_else(|| primitive::read(&program, &input), Err);
        let mut job = Job::new(id.clone(), account, &name, body.clone(), now);
        job.input = input;
        match read {
            Ok(programs) => {
                job.programs = programs;
                self.machines.run(job, now);
            }
            // It was taken; that its input is no good is found out when it runs.
            Err(problem) => {
                self.machines.run(job, now);
                self.machines.fail(&id, &problem, now);
            }
        }
        Ok(Answer::text(204, "", String::new()).about(&id))
    }
}

fn input_of(body: &Value, store: &Store) -> Result<Value, String> {
    let (bucket, key) =
        object(body, "input").ok_or("the job names no input that the emulator can read")?;
    let stored = store.contents(&bucket, &key).ok_or("the input was not found in the storage")?;
    serde_json::from_slice(&stored).map_err(|problem| format!("the input is not JSON: {problem}"))
}

/// Bucket and key of a presigned URL of a job, path style.
fn object(body: &Value, what: &str) -> Option<(String, String)> {
    let url = body["storage"][what]["presigned_url"].as_str()?;
    let path = url.split_once("://")?.1.split_once('/')?.1;
    match s3::Operation::of("GET", &format!("/{}", path.split('?').next()?), "")? {
        s3::Operation::GetObject(bucket, key) => Some((bucket, key)),
        _ => None,
    }
}

fn backend(machine: &Machine) -> Value {
    let status = match machine.status {
        Status::Online => "online",
        Status::Paused => "paused",
        Status::Offline => "offline",
    };
    json!({ "name": machine.name, "status": status, "version": "1.0.0", "message": "",
            "locked": machine.reserved })
}

/// A job as the API shows it.
fn shown(job: &Job) -> Value {
    let copy = |name: &str| job.request[name].clone();
    let mut shown = json!({
        "id": job.id,
        "backend": job.machine,
        "program_id": copy("program_id"),
        "log_level": copy("log_level"),
        "timeout_secs": copy("timeout_secs"),
        "storage": copy("storage"),
        "status": word(&job.phase),
        "created_time": time_text(job.created),
        "metrics": { "timestamps": { "created": time_text(job.created) } },
        "usage": { "quantum_nanoseconds": 0 },
    });
    if let Some(ended) = job.ended {
        shown["end_time"] = json!(time_text(ended));
        shown["metrics"]["timestamps"]["finished"] = json!(time_text(ended));
        let ran = ended.duration_since(job.started.unwrap_or(ended)).as_nanos();
        shown["usage"]["quantum_nanoseconds"] = json!(i64::try_from(ran).unwrap_or_default());
    }
    if let Phase::Failed { reason } = &job.phase {
        shown["reason_code"] = json!(1_517);
        shown["reason_message"] = json!(reason);
        shown["reason_solution"] = json!("Correct the input and submit another job.");
    }
    shown
}

/// The vendor's word for a phase; a job never waits.
fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Waiting | Phase::Running => "Running",
        Phase::Completed => "Completed",
        Phase::Failed { .. } => "Failed",
        Phase::Cancelled { .. } => "Cancelled",
    }
}

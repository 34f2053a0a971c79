//! Pasqal Cloud, `/pasqal`: batches of jobs that are pending, run and are done. No position at all.
//!
//! Judged by the client in the `qrmi` wheel 0.26.4, which asks for devices without a token and buys
//! one before its first batch. Sequences of pulses are not computed: the
//! machine is taken to be all noise ([`Program::Noise`]).
//!
//! # Choices where the vendor's behaviour is not published
//! * A batch runs from the start of its first job, and is done when all its jobs have ended.
//! * A cancel of a batch cancels what has not ended, and is no error if nothing is left.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::braket::api::values;
use crate::error::ApiError;
use crate::queue::Lane;
use crate::rest::access::Access;
use crate::rest::compute::{Program, time_text};
use crate::rest::machine::{Machine, Status};
use crate::rest::machines::{Job, Machines, Phase};
use crate::rest::{Answer, Performed, Request, Shared, Vendor};

/// The state of Pasqal Cloud.
#[derive(Debug)]
pub(crate) struct Pasqal {
    machines: Machines,
}

/// An operation with what its path names.
enum Operation<'a> {
    GetToken,
    ListDevices,
    GetSpecs(&'a str),
    CreateBatch,
    GetBatch(&'a str),
    CancelBatch(&'a str),
    GetResults(&'a str),
    GetJob(&'a str),
    CancelJob(&'a str),
    Unknown,
}

impl<'a> Operation<'a> {
    fn of(request: &Request<'a>) -> Self {
        match (request.method, request.parts().as_slice()) {
            ("POST", &["oauth", "token"]) => Self::GetToken,
            (method, ["core-fast", "api", path @ ..]) => match (method, path) {
                ("GET", ["v1", "devices"]) => Self::ListDevices,
                ("GET", ["v1", "devices", "specs", name]) => Self::GetSpecs(name),
                ("POST", ["v1", "batches"]) => Self::CreateBatch,
                ("GET", ["v1", "batches", id, "full_results"]) => Self::GetResults(id),
                ("GET", ["v2", "batches", id]) => Self::GetBatch(id),
                ("PATCH", ["v2", "batches", id, "cancel"]) => Self::CancelBatch(id),
                ("GET", ["v2", "jobs", id]) => Self::GetJob(id),
                ("PATCH", ["v2", "jobs", id, "cancel"]) => Self::CancelJob(id),
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::GetToken => "pasqal:GetToken",
            Self::ListDevices => "pasqal:ListDevices",
            Self::GetSpecs(_) => "pasqal:GetSpecs",
            Self::CreateBatch => "pasqal:CreateBatch",
            Self::GetBatch(_) => "pasqal:GetBatch",
            Self::CancelBatch(_) => "pasqal:CancelBatch",
            Self::GetResults(_) => "pasqal:GetResults",
            Self::GetJob(_) => "pasqal:GetJob",
            Self::CancelJob(_) => "pasqal:CancelJob",
            Self::Unknown => "pasqal:Unknown",
        }
    }
}

impl Vendor for Pasqal {
    fn operation(&self, request: &Request<'_>) -> &'static str {
        Operation::of(request).name()
    }

    fn account(&self, request: &Request<'_>, access: &Access, now: Timestamp) -> Option<String> {
        access.of_token(request.bearer()?, now).map(str::to_owned)
    }

    fn perform(
        &mut self,
        request: &Request<'_>,
        shared: &mut Shared<'_>,
        now: Timestamp,
    ) -> Result<Performed, ApiError> {
        let operation = Operation::of(request);
        if matches!(operation, Operation::GetToken) {
            return Ok(token(request, shared.access, now)?.into());
        }
        // Who asks for devices needs no token.
        let open = matches!(operation, Operation::ListDevices | Operation::GetSpecs(_));
        let account = self.account(request, shared.access, now);
        let account = account.or(open.then(String::new)).ok_or_else(|| {
            ApiError::new("401", "The access token is missing or not valid.").with_status(401)
        })?;
        let body = match operation {
            Operation::ListDevices => {
                let wanted = request.value("device_type");
                let fits = |one: &&Machine| wanted.as_ref().is_none_or(|name| *name == one.name);
                self.machines.all().filter(fits).map(device).collect()
            }
            Operation::GetSpecs(name) => device(self.known(name)?),
            Operation::CreateBatch => {
                let id = self.create(request, &account, now)?;
                let body = json!({ "data": self.batch(&account, &id)? });
                return Ok(Answer::json(201, &body).about(&id).into());
            }
            Operation::GetBatch(id) => self.batch(&account, id)?,
            Operation::CancelBatch(id) => {
                for job in self.jobs_of(&account, id)? {
                    self.machines.cancel(&job, "cancelled by the user", now);
                }
                self.batch(&account, id)?
            }
            Operation::GetResults(id) => {
                let jobs = self.jobs_of(&account, id)?;
                let done = jobs.iter().filter_map(|id| self.machines.job(id));
                let counter = |job: &Job| json!({ "counter": job.measured[0].counts() });
                done.filter(|job| job.phase == Phase::Completed)
                    .map(|job| (job.id.clone(), counter(job)))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }
            Operation::GetJob(id) => shown(self.own(&account, id)?),
            Operation::CancelJob(id) => {
                self.own(&account, id)?;
                self.machines.cancel(id, "cancelled by the user", now);
                shown(self.own(&account, id)?)
            }
            Operation::GetToken | Operation::Unknown => {
                let text = format!("{} {} is not served", request.method, request.path);
                return Err(ApiError::new("404", text).with_status(404));
            }
        };
        Ok(Answer::json(200, &json!({ "status": "success", "data": body })).into())
    }

    fn machines(&self) -> &Machines {
        &self.machines
    }

    fn machines_mut(&mut self) -> &mut Machines {
        &mut self.machines
    }
}

impl Pasqal {
    /// A cloud without jobs.
    pub(crate) fn new(machines: Machines) -> Self {
        Self { machines }
    }

    fn known(&self, name: &str) -> Result<&Machine, ApiError> {
        self.machines.machine(name).ok_or_else(|| {
            ApiError::new("404", format!("There is no device '{name}'.")).with_status(404)
        })
    }

    fn own(&self, account: &str, id: &str) -> Result<&Job, ApiError> {
        self.machines.job_of(account, id).ok_or_else(|| {
            ApiError::new("404", format!("There is no job '{id}'.")).with_status(404)
        })
    }

    /// Ids of the jobs of a batch, oldest first.
    fn jobs_of(&self, account: &str, batch: &str) -> Result<Vec<String>, ApiError> {
        let of_batch = |job: &&Job| job.account == account && job.group.as_deref() == Some(batch);
        let mut ids: Vec<_> =
            self.machines.jobs().filter(of_batch).map(|job| job.id.clone()).collect();
        ids.reverse();
        if ids.is_empty() {
            let text = format!("There is no batch '{batch}'.");
            return Err(ApiError::new("404", text).with_status(404));
        }
        Ok(ids)
    }

    fn create(
        &mut self,
        request: &Request<'_>,
        account: &str,
        now: Timestamp,
    ) -> Result<String, ApiError> {
        let body = request.json();
        let machine = self.known(body["device_type"].as_str().unwrap_or_default())?.clone();
        let wrong = |text: &str| ApiError::new("400", text).with_status(400);
        let sequence = body["sequence_builder"].as_str();
        let sequence = sequence.ok_or_else(|| wrong("The batch has no 'sequence_builder'."))?;
        let jobs = body["jobs"].as_array().filter(|jobs| !jobs.is_empty());
        let jobs = jobs.ok_or_else(|| wrong("The batch has no jobs."))?;
        let batch = Uuid::new_v4().to_string();
        let bits = atoms(sequence).unwrap_or(machine.qubits);
        for one in jobs {
            let shots = one["runs"].as_u64().unwrap_or(1);
            let mut job =
                Job::new(Uuid::new_v4().to_string(), account, &machine.name, one.clone(), now);
            job.group = Some(batch.clone());
            job.programs = vec![Program::Noise { seed: sequence.to_owned(), bits, shots }];
            self.machines.submit(job, Lane::Normal, now);
        }
        Ok(batch)
    }

    /// A batch as the API shows it.
    fn batch(&self, account: &str, id: &str) -> Result<Value, ApiError> {
        let ids = self.jobs_of(account, id)?;
        let jobs: Vec<_> = ids.iter().filter_map(|id| self.machines.job(id)).collect();
        let all = |phase: fn(&Phase) -> bool| jobs.iter().all(|job| phase(&job.phase));
        let any = |phase: fn(&Phase) -> bool| jobs.iter().any(|job| phase(&job.phase));
        let status = if all(|phase| *phase == Phase::Waiting) {
            "PENDING"
        } else if !all(Phase::ended) {
            "RUNNING"
        } else if any(|phase| matches!(phase, Phase::Failed { .. })) {
            "ERROR"
        } else if any(|phase| matches!(phase, Phase::Cancelled { .. })) {
            "CANCELED"
        } else {
            "DONE"
        };
        Ok(json!({
            "id": id, "status": status, "job_ids": ids, "complete": true,
            "device_type": jobs[0].machine, "created_at": time_text(jobs[0].created),
        }))
    }
}

/// Atoms of the register of a sequence; `None`: it holds no register that is understood.
fn atoms(sequence: &str) -> Option<u32> {
    let sequence: Value = serde_json::from_str(sequence).ok()?;
    u32::try_from(sequence.get("register")?.as_array()?.len()).ok().filter(|atoms| *atoms > 0)
}

/// Answers a request for a token: an account as client or as user, in a form or as JSON.
fn token(request: &Request<'_>, access: &mut Access, now: Timestamp) -> Result<Answer, ApiError> {
    let (form, json) = (String::from_utf8_lossy(request.body).into_owned(), request.json());
    let value = |name: &str| {
        let of_json = json[name].as_str().map(str::to_owned);
        of_json.or_else(|| values(&form, name).into_iter().next())
    };
    let pair = value("client_id").zip(value("client_secret"));
    let pair = value("username").zip(value("password")).or(pair);
    let account = pair.and_then(|(name, key)| access.of_pair(&name, &key).map(str::to_owned));
    let account = account.ok_or_else(|| {
        ApiError::new("access_denied", "The credentials are not valid.").with_status(401)
    })?;
    let token = access.issue(&account, now);
    Ok(Answer::json(
        200,
        &json!({
            "access_token": token.text, "token_type": "Bearer", "expires_in": token.seconds,
        }),
    ))
}

fn device(machine: &Machine) -> Value {
    let up = machine.status == Status::Online;
    json!({
        "id": machine.full_name(), "device_type": machine.name,
        "status": if up { "UP" } else { "DOWN" }, "availability": "ACTIVE", "specs": "{}",
    })
}

/// A job as the API shows it.
fn shown(job: &Job) -> Value {
    let (status, errors) = match &job.phase {
        Phase::Waiting => ("PENDING", None),
        Phase::Running => ("RUNNING", None),
        Phase::Completed => ("DONE", None),
        Phase::Failed { reason } => ("ERROR", Some(reason)),
        Phase::Cancelled { .. } => ("CANCELED", None),
    };
    json!({
        "id": job.id, "batch_id": job.group, "status": status, "runs": job.request["runs"],
        "errors": errors.into_iter().collect::<Vec<_>>(), "created_at": time_text(job.created),
        "start_timestamp": job.started.map(time_text), "end_timestamp": job.ended.map(time_text),
        "result": job.measured.first().map(crate::rest::compute::Measured::counts),
    })
}

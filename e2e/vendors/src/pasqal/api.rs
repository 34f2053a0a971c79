//! The operations of Pasqal Cloud.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::batch::{link, result, shown};
use crate::braket::api::values;
use crate::error::ApiError;
use crate::rest::access::Access;
use crate::rest::machine::{Machine, Status};
use crate::rest::machines::{Job, Machines, Phase};
use crate::rest::{Answer, Performed, Request, Shared, Vendor};

/// The state of Pasqal Cloud.
#[derive(Debug)]
pub(crate) struct Pasqal {
    pub(super) machines: Machines,
    /// The batches that take more jobs, each with its sequence.
    pub(super) open: BTreeMap<String, String>,
}

/// An operation with what its path names.
enum Operation<'a> {
    GetToken,
    ListDevices,
    ListSpecs,
    GetSpecs(&'a str),
    CreateBatch,
    GetBatch(&'a str),
    GetBatchStatus(&'a str),
    AddJobs(&'a str),
    CloseBatch(&'a str),
    CancelBatch(&'a str),
    GetResults(&'a str),
    ListJobs,
    GetJob(&'a str),
    CancelJob(&'a str),
    GetResultsLink(&'a str),
    Download(&'a str),
    Unknown,
}

impl<'a> Operation<'a> {
    fn of(request: &Request<'a>) -> Self {
        match (request.method, request.parts().as_slice()) {
            ("POST", &["oauth", "token"]) => Self::GetToken,
            ("GET", &["results", job]) => Self::Download(job),
            (method, ["core-fast", "api", path @ ..]) => match (method, path) {
                ("GET", ["v1", "devices"]) => Self::ListDevices,
                ("GET", ["v1", "devices", "specs"]) => Self::ListSpecs,
                ("GET", ["v1", "devices", "specs", name]) => Self::GetSpecs(name),
                ("POST", ["v1", "batches"]) => Self::CreateBatch,
                ("GET", ["v1", "batches", id, "full_results"]) => Self::GetResults(id),
                ("GET", ["v1", "batches", id, "status"]) => Self::GetBatchStatus(id),
                ("GET", ["v2", "batches", id]) => Self::GetBatch(id),
                ("POST", ["v2", "batches", id, "jobs"]) => Self::AddJobs(id),
                ("PATCH", ["v2", "batches", id, "complete"]) => Self::CloseBatch(id),
                ("PATCH", ["v2", "batches", id, "cancel"]) => Self::CancelBatch(id),
                ("GET", ["v2", "jobs"]) => Self::ListJobs,
                ("GET", ["v2", "jobs", id]) => Self::GetJob(id),
                ("GET", ["v1", "jobs", id, "results_link"]) => Self::GetResultsLink(id),
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
            Self::ListSpecs => "pasqal:ListSpecs",
            Self::GetSpecs(_) => "pasqal:GetSpecs",
            Self::CreateBatch => "pasqal:CreateBatch",
            Self::GetBatch(_) => "pasqal:GetBatch",
            Self::GetBatchStatus(_) => "pasqal:GetBatchStatus",
            Self::AddJobs(_) => "pasqal:AddJobs",
            Self::CloseBatch(_) => "pasqal:CloseBatch",
            Self::CancelBatch(_) => "pasqal:CancelBatch",
            Self::GetResults(_) => "pasqal:GetResults",
            Self::ListJobs => "pasqal:ListJobs",
            Self::GetJob(_) => "pasqal:GetJob",
            Self::CancelJob(_) => "pasqal:CancelJob",
            Self::GetResultsLink(_) => "pasqal:GetResultsLink",
            Self::Download(_) => "pasqal:Download",
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
        if let Operation::Download(job) = operation {
            return self.download(request, job).map(Performed::from);
        }
        // Who asks for devices needs no token.
        let is_open = matches!(operation, Operation::ListDevices | Operation::GetSpecs(_));
        let account = self.account(request, shared.access, now);
        let account = account.or(is_open.then(String::new)).ok_or_else(|| {
            ApiError::new("401", "The access token is missing or not valid.").with_status(401)
        })?;
        let body = match operation {
            Operation::ListDevices => {
                let wanted = request.value("device_type");
                let fits = |one: &&Machine| wanted.as_ref().is_none_or(|name| *name == one.name);
                self.machines.all().filter(fits).map(device).collect()
            }
            Operation::ListSpecs => {
                let specs = |one: &Machine| (one.name.clone(), json!("{}"));
                self.machines.all().map(specs).collect::<serde_json::Map<_, _>>().into()
            }
            Operation::GetSpecs(name) => device(self.known(name)?),
            Operation::CreateBatch => {
                let id = self.create(request, &account, now)?;
                let body = json!({ "data": self.batch(&account, &id)? });
                return Ok(Answer::json(201, &body).about(&id).into());
            }
            Operation::GetBatch(id) => self.batch(&account, id)?,
            Operation::GetBatchStatus(id) => {
                let batch = self.batch(&account, id)?;
                let fields = ["id", "status", "jobs_count", "jobs_count_per_status"];
                let told = fields.map(|name| (name.to_owned(), batch[name].clone()));
                serde_json::Map::from_iter(told).into()
            }
            Operation::AddJobs(id) => {
                self.add(request, &account, id, now)?;
                self.batch(&account, id)?
            }
            Operation::CloseBatch(id) => {
                self.jobs_of(&account, id)?;
                self.open.remove(id);
                self.batch(&account, id)?
            }
            Operation::CancelBatch(id) => {
                self.jobs_of(&account, id)?;
                self.open.remove(id);
                for job in self.jobs_of(&account, id)? {
                    self.machines.cancel(&job, "cancelled by the user", now);
                }
                self.batch(&account, id)?
            }
            Operation::GetResults(id) => {
                let jobs = self.jobs_of(&account, id)?;
                let done = jobs.iter().filter_map(|id| self.machines.job(id));
                done.filter(|job| job.phase == Phase::Completed)
                    .map(|job| (job.id.clone(), result(job)))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }
            Operation::ListJobs => return self.list(request, &account).map(Performed::from),
            Operation::GetResultsLink(id) => {
                let job = self.own(&account, id)?;
                json!({ "results_link": (job.phase == Phase::Completed).then(|| link(request, job)) })
            }
            Operation::GetJob(id) => shown(self.own(&account, id)?),
            Operation::CancelJob(id) => {
                self.own(&account, id)?;
                self.machines.cancel(id, "cancelled by the user", now);
                shown(self.own(&account, id)?)
            }
            Operation::GetToken | Operation::Download(_) | Operation::Unknown => {
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
        Self { machines, open: BTreeMap::new() }
    }

    pub(super) fn known(&self, name: &str) -> Result<&Machine, ApiError> {
        self.machines.machine(name).ok_or_else(|| {
            ApiError::new("404", format!("There is no device '{name}'.")).with_status(404)
        })
    }

    fn own(&self, account: &str, id: &str) -> Result<&Job, ApiError> {
        self.machines.job_of(account, id).ok_or_else(|| {
            ApiError::new("404", format!("There is no job '{id}'.")).with_status(404)
        })
    }
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

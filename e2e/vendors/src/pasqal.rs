//! Pasqal Cloud, `/pasqal`: batches of jobs that are pending, run and are done. No position at all.
//!
//! Judged by the client in the `qrmi` wheel 0.26.4, which asks for devices without a token and buys
//! one before its first batch, and by pasqal-cloud 0.24, which compresses what it sends, asks for a
//! batch's status and fetches results from a link that needs no token. Sequences of pulses are not computed: the
//! machine is taken to be all noise ([`Program::Noise`]).
//!
//! # Choices where the vendor's behaviour is not published
//! * A batch runs from the start of its first job, and is done when all its jobs have ended.
//! * A cancel of a batch cancels what has not ended, and is no error if nothing is left.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::braket::api::values;
use crate::error::{ApiError, Service};
use crate::queue::Lane;
use crate::rest::access::Access;
use crate::rest::compute::{Measured, Program, time_text};
use crate::rest::machine::{Machine, Status};
use crate::rest::machines::{Job, Machines, Phase};
use crate::rest::{Answer, Performed, Request, Shared, Vendor};
use crate::signature::{header, sha256_hex};

/// The project of everybody.
const PROJECT: &str = "project";
/// Most jobs that one list answers.
const PAGE: usize = 100;
/// The largest body that is unpacked, bytes.
const MOST: u64 = 16 << 20;

/// The state of Pasqal Cloud.
#[derive(Debug)]
pub(crate) struct Pasqal {
    machines: Machines,
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
            Operation::CancelBatch(id) => {
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
        let body = sent(request)?;
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
        let mut per_status = BTreeMap::<_, u64>::new();
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
        for job in &jobs {
            *per_status.entry(word(&job.phase)).or_default() += 1;
        }
        let moved = jobs.iter().map(|job| job.ended.or(job.started).unwrap_or(job.created)).max();
        Ok(json!({
            "id": id, "status": status, "job_ids": ids, "complete": true, "open": false,
            "device_type": jobs[0].machine, "created_at": time_text(jobs[0].created),
            "updated_at": moved.map(time_text), "project_id": PROJECT, "user_id": account,
            "jobs_count": ids.len(), "jobs_count_per_status": per_status,
        }))
    }

    /// A page of jobs, oldest first.
    fn list(&self, request: &Request<'_>, account: &str) -> Result<Answer, ApiError> {
        let number = |name: &str| request.value(name).and_then(|text| text.parse::<usize>().ok());
        let (offset, limit) =
            (number("offset").unwrap_or(0), number("limit").unwrap_or(PAGE).min(PAGE));
        let batch = request.value("batch_id").ok_or_else(|| {
            ApiError::new("400", "Jobs are listed by 'batch_id'.").with_status(400)
        })?;
        let all = self.jobs_of(account, &batch)?;
        let of_page = all.iter().skip(offset).take(limit);
        let page: Vec<_> = of_page.filter_map(|id| self.machines.job(id)).map(shown).collect();
        let pagination = json!({ "total": all.len(), "start": offset, "end": offset + page.len() });
        let body = json!({ "status": "success", "data": page, "pagination": pagination });
        Ok(Answer::json(200, &body))
    }

    /// The file behind a link to results: who has the link needs no token.
    fn download(&self, request: &Request<'_>, id: &str) -> Result<Answer, ApiError> {
        let job = self.machines.job(id).filter(|job| job.phase == Phase::Completed);
        let job =
            job.filter(|job| request.value("signature").is_some_and(|told| told == signature(job)));
        let job = job.ok_or_else(|| ApiError::new("403", "Access Denied").with_status(403))?;
        Ok(Answer::json(200, &result(job)).about(id))
    }
}

/// The body as JSON, unpacked first where it is compressed.
fn sent(request: &Request<'_>) -> Result<Value, ApiError> {
    if header(request.headers, "content-encoding") != Some("gzip") {
        return Ok(request.json());
    }
    let unpacked = GzDecoder::new(request.body.as_ref()).take(MOST);
    serde_json::from_reader(unpacked).map_err(|problem| {
        ApiError::new("400", format!("The body is no JSON in gzip: {problem}")).with_status(400)
    })
}

/// What a job measured, as its results hold it.
fn result(job: &Job) -> Value {
    json!({ "counter": job.measured.first().map(Measured::counts) })
}

/// What makes a link to results one that nobody guesses.
fn signature(job: &Job) -> String {
    sha256_hex(format!("{} {}", job.id, job.created).as_bytes())
}

fn link(request: &Request<'_>, job: &Job) -> String {
    let host = header(request.headers, "host").unwrap_or_default();
    let vendor = Service::Pasqal.as_str();
    format!("http://{host}/{vendor}/results/{}?signature={}", job.id, signature(job))
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
    let errors: &[_] = match &job.phase {
        Phase::Failed { reason } => &[reason],
        _ => &[],
    };
    let moved = job.ended.or(job.started).unwrap_or(job.created);
    json!({
        "id": job.id, "batch_id": job.group, "status": word(&job.phase),
        "runs": job.request["runs"], "project_id": PROJECT, "errors": errors,
        "created_at": time_text(job.created), "updated_at": time_text(moved),
        "start_timestamp": job.started.map(time_text), "end_timestamp": job.ended.map(time_text),
        "result": job.measured.first().map(Measured::counts),
    })
}

/// The vendor's word for a phase.
fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Waiting => "PENDING",
        Phase::Running => "RUNNING",
        Phase::Completed => "DONE",
        Phase::Failed { .. } => "ERROR",
        Phase::Cancelled { .. } => "CANCELED",
    }
}

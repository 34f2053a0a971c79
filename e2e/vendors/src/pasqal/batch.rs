//! Batches of Pasqal Cloud: their jobs, how they are shown, and their results.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Pasqal;
use crate::error::{ApiError, Service};
use crate::queue::Lane;
use crate::rest::compute::{Measured, Program, time_text};
use crate::rest::machine::Machine;
use crate::rest::machines::{Job, Phase};
use crate::rest::{Answer, Request};
use crate::signature::{header, sha256_hex};

/// The project of everybody.
const PROJECT: &str = "project";
/// Most jobs that one list answers.
const PAGE: usize = 100;
/// The largest body that is unpacked, bytes.
const MOST: u64 = 16 << 20;

/// What new jobs belong to.
struct Of<'a> {
    account: &'a str,
    batch: &'a str,
    machine: &'a Machine,
    sequence: &'a str,
}

impl Pasqal {
    /// Ids of the jobs of a batch, oldest first.
    pub(super) fn jobs_of(&self, account: &str, batch: &str) -> Result<Vec<String>, ApiError> {
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

    /// Makes a batch with its first jobs.
    pub(super) fn create(
        &mut self,
        request: &Request<'_>,
        account: &str,
        now: Timestamp,
    ) -> Result<String, ApiError> {
        let body = sent(request)?;
        let machine = self.known(body["device_type"].as_str().unwrap_or_default())?.clone();
        let sequence = body["sequence_builder"].as_str();
        let sequence = sequence.ok_or_else(|| wrong("The batch has no 'sequence_builder'."))?;
        let batch = Uuid::new_v4().to_string();
        let of_batch = Of { account, batch: &batch, machine: &machine, sequence };
        self.submit(&of_batch, &body["jobs"], Lane::Normal, now)?;
        if body["open"] == json!(true) {
            self.open.insert(batch.clone(), sequence.to_owned());
        }
        Ok(batch)
    }

    /// Adds jobs to a batch that is open. Once it runs, they go before everybody else's.
    pub(super) fn add(
        &mut self,
        request: &Request<'_>,
        account: &str,
        batch: &str,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let ids = self.jobs_of(account, batch)?;
        let sequence = self.open.get(batch).cloned();
        let sequence = sequence.ok_or_else(|| wrong("The batch is closed."))?;
        let jobs: Vec<_> = ids.iter().filter_map(|id| self.machines.job(id)).collect();
        let has_begun = jobs.iter().any(|job| job.phase != Phase::Waiting);
        let lane = if has_begun { Lane::Priority } else { Lane::Normal };
        let machine = self.known(&jobs[0].machine)?.clone();
        let of_batch = Of { account, batch, machine: &machine, sequence: &sequence };
        self.submit(&of_batch, &sent(request)?, lane, now)
    }

    fn submit(
        &mut self,
        of_batch: &Of<'_>,
        jobs: &Value,
        lane: Lane,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let jobs = jobs.as_array().filter(|jobs| !jobs.is_empty());
        let jobs = jobs.ok_or_else(|| wrong("The batch has no jobs."))?;
        let Of { account, batch, machine, sequence } = *of_batch;
        let bits = atoms(sequence).unwrap_or(machine.qubits);
        for one in jobs {
            let shots = one["runs"].as_u64().unwrap_or(1);
            let id = Uuid::new_v4().to_string();
            let mut job = Job::new(id, account, &machine.name, one.clone(), now);
            job.group = Some(batch.to_owned());
            job.programs = vec![Program::Noise { seed: sequence.to_owned(), bits, shots }];
            self.machines.submit(job, lane, now);
        }
        Ok(())
    }

    /// A batch as the API shows it.
    pub(super) fn batch(&self, account: &str, id: &str) -> Result<Value, ApiError> {
        let ids = self.jobs_of(account, id)?;
        let mut per_status = BTreeMap::<_, u64>::new();
        let jobs: Vec<_> = ids.iter().filter_map(|id| self.machines.job(id)).collect();
        let all = |phase: fn(&Phase) -> bool| jobs.iter().all(|job| phase(&job.phase));
        let any = |phase: fn(&Phase) -> bool| jobs.iter().any(|job| phase(&job.phase));
        let status = if all(|phase| *phase == Phase::Waiting) {
            "PENDING"
        } else if !all(Phase::ended) || self.open.contains_key(id) {
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
            "id": id, "status": status, "job_ids": ids,
            "open": self.open.contains_key(id), "complete": !self.open.contains_key(id),
            "device_type": jobs[0].machine, "created_at": time_text(jobs[0].created),
            "updated_at": moved.map(time_text), "project_id": PROJECT, "user_id": account,
            "jobs_count": ids.len(), "jobs_count_per_status": per_status,
        }))
    }

    /// A page of jobs, oldest first.
    pub(super) fn list(&self, request: &Request<'_>, account: &str) -> Result<Answer, ApiError> {
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
    pub(super) fn download(&self, request: &Request<'_>, id: &str) -> Result<Answer, ApiError> {
        let job = self.machines.job(id).filter(|job| job.phase == Phase::Completed);
        let job =
            job.filter(|job| request.value("signature").is_some_and(|told| told == signature(job)));
        let job = job.ok_or_else(|| ApiError::new("403", "Access Denied").with_status(403))?;
        Ok(Answer::json(200, &result(job)).about(id))
    }
}

fn wrong(text: &str) -> ApiError {
    ApiError::new("400", text).with_status(400)
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
pub(super) fn result(job: &Job) -> Value {
    json!({ "counter": job.measured.first().map(Measured::counts) })
}

/// What makes a link to results one that nobody guesses.
fn signature(job: &Job) -> String {
    sha256_hex(format!("{} {}", job.id, job.created).as_bytes())
}

/// Where the results of a job can be fetched without a token.
pub(super) fn link(request: &Request<'_>, job: &Job) -> String {
    let host = header(request.headers, "host").unwrap_or_default();
    let vendor = Service::Pasqal.as_str();
    format!("http://{host}/{vendor}/results/{}?signature={}", job.id, signature(job))
}

/// Atoms of the register of a sequence; `None`: it holds no register that is understood.
fn atoms(sequence: &str) -> Option<u32> {
    let sequence: Value = serde_json::from_str(sequence).ok()?;
    u32::try_from(sequence.get("register")?.as_array()?.len()).ok().filter(|atoms| *atoms > 0)
}

/// A job as the API shows it.
pub(super) fn shown(job: &Job) -> Value {
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

//! The operations of IQM Server.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::architecture;
use super::program::{self, Keys};
use crate::error::ApiError;
use crate::queue::{Lane, millis};
use crate::rest::access::Access;
use crate::rest::compute::time_text;
use crate::rest::machine::{Machine, Status};
use crate::rest::machines::{Job, Machines, Phase};
use crate::rest::{Answer, Performed, Request, Shared, Vendor};

/// Seconds that a long poll lasts when the client names none.
const LONG_POLL: u64 = 10;

/// The state of IQM Server.
#[derive(Debug)]
pub(crate) struct Iqm {
    machines: Machines,
    keys: HashMap<String, Vec<Keys>>,
    long_poll_ms: u64,
}

/// An operation with what its path names.
enum Operation<'a> {
    SubmitJob(&'a str, &'a str),
    CancelJob(&'a str),
    GetJob(&'a str),
    GetArtifact(&'a str, &'a str),
    ListQuantumComputers,
    GetQuantumComputer(&'a str),
    GetHealth(&'a str),
    GetQueueAvailability(&'a str),
    GetStaticArchitectures(&'a str),
    GetDynamicArchitecture(&'a str, &'a str),
    Unknown,
}

impl<'a> Operation<'a> {
    fn of(request: &Request<'a>) -> Self {
        match (request.method, request.parts().as_slice()) {
            ("POST", &["api", "v1", "jobs", id, "cancel"]) => Self::CancelJob(id),
            ("POST", &["api", "v1", "jobs", qc, kind]) => Self::SubmitJob(qc, kind),
            ("GET", &["api", "v1", "jobs", id]) => Self::GetJob(id),
            ("GET", &["api", "v1", "jobs", id, "artifacts", kind]) => Self::GetArtifact(id, kind),
            ("GET", &["api", "v1", "quantum-computers"]) => Self::ListQuantumComputers,
            ("GET", &["api", "v1", "quantum-computers", qc]) => Self::GetQuantumComputer(qc),
            ("GET", &["api", "v1", "quantum-computers", qc, "health"]) => Self::GetHealth(qc),
            ("GET", &["api", "v1", "quantum-computers", qc, "queue-availability"]) => {
                Self::GetQueueAvailability(qc)
            }
            (
                "GET",
                &[
                    "api",
                    "v1",
                    "quantum-computers",
                    qc,
                    "artifacts",
                    "static-quantum-architectures",
                ],
            ) => Self::GetStaticArchitectures(qc),
            (
                "GET",
                &["api", "v1", "calibration-sets", qc, set, "dynamic-quantum-architecture"],
            ) => Self::GetDynamicArchitecture(qc, set),
            _ => Self::Unknown,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::SubmitJob(..) => "iqm:SubmitJob",
            Self::CancelJob(_) => "iqm:CancelJob",
            Self::GetJob(_) => "iqm:GetJob",
            Self::GetArtifact(..) => "iqm:GetArtifact",
            Self::ListQuantumComputers => "iqm:ListQuantumComputers",
            Self::GetQuantumComputer(_) => "iqm:GetQuantumComputer",
            Self::GetHealth(_) => "iqm:GetHealth",
            Self::GetQueueAvailability(_) => "iqm:GetQueueAvailability",
            Self::GetStaticArchitectures(_) => "iqm:GetStaticArchitectures",
            Self::GetDynamicArchitecture(..) => "iqm:GetDynamicArchitecture",
            Self::Unknown => "iqm:Unknown",
        }
    }
}

impl Vendor for Iqm {
    fn operation(&self, request: &Request<'_>) -> &'static str {
        Operation::of(request).name()
    }

    fn account(&self, request: &Request<'_>, access: &Access, _now: Timestamp) -> Option<String> {
        access.of_key(request.bearer()?).map(str::to_owned)
    }

    fn perform(
        &mut self,
        request: &Request<'_>,
        shared: &mut Shared<'_>,
        now: Timestamp,
    ) -> Result<Performed, ApiError> {
        let account = self.account(request, shared.access, now).ok_or_else(|| {
            ApiError::new("unauthorized", "The API token is missing or not valid.").with_status(401)
        })?;
        let answer = match Operation::of(request) {
            Operation::SubmitJob(qc, kind) => self.submit(request, &account, qc, kind, now)?,
            Operation::GetJob(id) => return self.get(request, &account, id, now),
            Operation::CancelJob(id) => self.cancel(&account, id, now)?,
            Operation::GetArtifact(id, kind) => self.artifact(&account, id, kind)?,
            Operation::ListQuantumComputers => {
                let all: Vec<_> = self.machines.all().map(|one| self.details(one, now)).collect();
                Answer::json(200, &json!({ "quantum_computers": all }))
            }
            Operation::GetQuantumComputer(qc) => {
                Answer::json(200, &self.details(self.known(qc)?, now))
            }
            Operation::GetHealth(qc) => Answer::json(200, &health(self.known(qc)?, now)),
            Operation::GetQueueAvailability(qc) => {
                let length = self.machines.waiting(&self.known(qc)?.name);
                Answer::json(200, &json!({ "available": [], "queue_length": length }))
            }
            Operation::GetStaticArchitectures(qc) => {
                Answer::json(200, &json!([architecture::fixed(self.known(qc)?)]))
            }
            Operation::GetDynamicArchitecture(qc, set) => {
                let told = architecture::calibrated(self.known(qc)?, set).ok_or_else(|| {
                    let text = format!("There is no calibration set '{set}' of '{qc}'.");
                    ApiError::new("calibration_set_not_found", text).with_status(404)
                })?;
                Answer::json(200, &told)
            }
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
}

impl Iqm {
    /// A server without jobs; long polls end after some milliseconds at the latest.
    pub(crate) fn new(machines: Machines, long_poll_ms: u64) -> Self {
        Self { machines, keys: HashMap::new(), long_poll_ms }
    }

    fn known(&self, qc: &str) -> Result<&Machine, ApiError> {
        let found = self.machines.all().find(|one| one.name == qc || machine_id(one) == qc);
        found.ok_or_else(|| {
            let text = format!("There is no quantum computer '{qc}'.");
            ApiError::new("qc_not_found", text).with_status(404)
        })
    }

    fn own(&self, account: &str, id: &str) -> Result<&Job, ApiError> {
        self.machines.job_of(account, id).ok_or_else(|| {
            ApiError::new("job_not_found", format!("There is no job '{id}'.")).with_status(404)
        })
    }

    fn submit(
        &mut self,
        request: &Request<'_>,
        account: &str,
        qc: &str,
        kind: &str,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        let machine = self.known(qc)?.name.clone();
        let refused = |code: &str, text: String| ApiError::new(code, text).with_status(400);
        if kind != "circuit" {
            let text = format!("Jobs of type '{kind}' are not supported; allowed: 'circuit'.");
            return Err(refused("unsupported_job_type", text));
        }
        let body = request.json();
        let (programs, keys) =
            program::read(&body).map_err(|problem| refused("invalid_job_payload", problem))?;
        let id = Uuid::new_v4().to_string();
        let mut job = Job::new(id.clone(), account, &machine, body, now);
        job.programs = programs;
        job.group = request.value("tag");
        self.keys.insert(id.clone(), keys);
        self.machines.submit(job, Lane::Normal, now);
        Ok(Answer::json(200, &self.job(&id)).about(&id))
    }

    fn get(
        &self,
        request: &Request<'_>,
        account: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<Performed, ApiError> {
        let job = self.own(account, id)?;
        let asked = request.value("wait_until_terminal").as_deref() == Some("true");
        let seconds = request.value("timeout_seconds").and_then(|text| text.parse().ok());
        let longest = (seconds.unwrap_or(LONG_POLL) * 1_000).min(self.long_poll_ms);
        let until = request.arrived + millis(longest);
        let waits = asked && !job.phase.ended();
        if waits && now < until {
            return Ok(Performed::Wait(until));
        }
        let mut answer = Answer::json(200, &self.job(id)).about(id);
        if waits {
            answer.headers.push(("iqm-long-poll-timed-out", "true".to_owned()));
        }
        Ok(answer.into())
    }

    fn cancel(&mut self, account: &str, id: &str, now: Timestamp) -> Result<Answer, ApiError> {
        let word = word(&self.own(account, id)?.phase);
        if !self.machines.cancel(id, "cancelled by the user", now) {
            let text = format!("A job that is {word} cannot be cancelled.");
            return Err(ApiError::new("illegal_job_status", text).with_status(403));
        }
        Ok(Answer::json(200, &self.job(id)).about(id))
    }

    fn artifact(&self, account: &str, id: &str, kind: &str) -> Result<Answer, ApiError> {
        let job = self.own(account, id)?;
        let keys = self.keys.get(id).map_or(&[][..], Vec::as_slice);
        let circuits = job.measured.iter().zip(keys);
        let body: Value = match kind {
            _ if job.phase != Phase::Completed => Value::Null,
            "measurements" => circuits
                .map(|(measured, keys)| {
                    let mut first = 0;
                    let mut of_key = serde_json::Map::new();
                    for (key, bits) in keys {
                        let part = first..first + bits;
                        first += bits;
                        let rows = measured.rows().iter().map(|row| row.get(part.clone()));
                        of_key.insert(key.clone(), json!(rows.collect::<Vec<_>>()));
                    }
                    Value::from(of_key)
                })
                .collect(),
            "measurement_counts" => circuits
                .map(|(measured, keys)| {
                    let names: Vec<_> = keys.iter().map(|(key, _)| key).collect();
                    json!({ "counts": measured.counts(), "measurement_keys": names })
                })
                .collect(),
            _ => Value::Null,
        };
        if body.is_null() {
            let text = format!("Job '{id}' has no artifact '{kind}'.");
            return Err(ApiError::new("job_artifact_not_found", text).with_status(404));
        }
        Ok(Answer::json(200, &body).about(id))
    }

    /// A job as the API shows it.
    fn job(&self, id: &str) -> Value {
        let Some(job) = self.machines.job(id) else { return Value::Null };
        let qc = self.machines.machine(&job.machine);
        let artifacts: &[&str] = match job.phase {
            Phase::Completed => &["measurements", "measurement_counts"],
            _ => &[],
        };
        let event = |status: &str, at: Timestamp| json!({ "source": "iqm-server", "status": status, "timestamp": time_text(at) });
        let mut timeline = vec![event("created", job.created)];
        timeline.extend(job.started.map(|at| event("processing", at)));
        timeline.extend(job.ended.map(|at| event(word(&job.phase), at)));
        let mut shown = json!({
            "id": job.id,
            "type": "circuit",
            "status": word(&job.phase),
            "qc": { "id": qc.map(machine_id), "alias": job.machine },
            // Jobs ahead.
            "queue_position": self.machines.position(id).map(|place| place.saturating_sub(1)),
            "tag": job.group,
            "artifacts": artifacts.iter().map(|kind| json!({ "type": kind })).collect::<Vec<_>>(),
            "messages": [],
            "timeline": timeline,
        });
        if let Phase::Failed { reason } = &job.phase {
            let source = "iqm-station-control";
            let error = json!({ "source": source, "error_code": "job_failed", "message": reason });
            shown["errors"] = json!([error]);
        }
        if let (Some(started), Some(ended)) = (job.started, job.ended) {
            let ran: SignedDuration = ended.duration_since(started);
            shown["runtime_ms"] = json!(i64::try_from(ran.as_millis()).unwrap_or_default());
        }
        shown
    }

    fn details(&self, machine: &Machine, now: Timestamp) -> Value {
        let status = if machine.status == Status::Online { "online" } else { "maintenance" };
        json!({
            "id": machine_id(machine),
            "alias": machine.name,
            "display_name": machine.name,
            "description": format!("{}-qubit QPU", machine.qubits),
            "backend_type": "qpu",
            "number_of_qubits": machine.qubits,
            "pulla_enabled": false,
            "limits": {
                "max_instructions_per_circuit": 10_000, "max_shots_per_circuit": 100_000,
                "max_circuits_per_job": 200, "max_executions_per_job": 1_000_000,
                "max_queued_jobs_per_user": 10,
            },
            "operational": status,
            "operational_status": status,
            "health": health(machine, now),
            // Older clients look for it here.
            "status": { "health": health(machine, now) },
            "queue_length": self.machines.waiting(&machine.name),
            "pricing": { "payg_price_per_second": "0.30" },
            "additional_info": {
                "academy_url": "", "best_suited_for": [], "documentation_url": "", "mock_url": "",
            },
        })
    }
}

fn health(machine: &Machine, now: Timestamp) -> Value {
    json!({ "healthy": machine.status == Status::Online, "updated_at": time_text(now) })
}

/// The vendor's word for a phase.
fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Running => "processing",
        Phase::Completed => "completed",
        Phase::Failed { .. } => "failed",
        Phase::Cancelled { .. } => "cancelled",
    }
}

/// The id of a machine.
fn machine_id(machine: &Machine) -> String {
    super::id_of(&machine.full_name())
}

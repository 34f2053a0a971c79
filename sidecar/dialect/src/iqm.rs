//! IQM Server: jobs of a quantum computer, with their place in its queue.
//!
//! Sources: QRMI 0.26.4, iqm-client. A status word is one of `waiting`, `processing`, `completed`,
//! `failed`, `cancelled`. `queue_position` is the number of jobs ahead (`JobData` of
//! iqm-client): 0 stands for the next, our place 1.
//!
//! The vendor knows no token for a repeated request and lists no jobs.

use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::Value;
use sluice_shared::resource::Service;
use sluice_shared::task::{Position, TaskState};

use crate::digest::{canonical, sha256_hex};
use crate::reading::{is_uuid, json, list, string};
use crate::{
    Abilities, Answer, Call, DeviceFacts, Dialect, Ending, LONGEST_POLL, Lost, MESSAGE, Operation,
    Request, Resume, Running, SignIn, Submission, TaskFacts, Waits, quote,
};

/// The dialect.
#[derive(Debug)]
pub(crate) struct Iqm;

impl Dialect for Iqm {
    fn service(&self) -> Service {
        Service::IqmServer
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            position: true,
            queue: true,
            resume: Resume::ByRecord,
            running: Running::Executes,
            waits: Waits::Inside,
            lost: Lost::HangUp,
        }
    }

    fn operation(&self, request: Request<'_>) -> Operation {
        match (request.method.as_str(), request.segments().as_slice()) {
            ("POST", ["api", "v1", "jobs", id, "cancel"]) => Operation::Cancel((*id).to_owned()),
            ("POST", ["api", "v1", "jobs", _, _]) => Operation::Submit,
            ("GET", ["api", "v1", "jobs", id]) => Operation::Poll((*id).to_owned()),
            _ => Operation::Other,
        }
    }

    fn submission(&self, request: Request<'_>) -> Option<Submission> {
        let ["api", "v1", "jobs", qc, kind] = request.segments()[..] else { return None };
        let body: Value = serde_json::from_slice(request.body).ok()?;
        Some(Submission {
            digest: sha256_hex(format!("{qc} {kind} {}", canonical(&body)).as_bytes()),
            client_token: None,
            device: Some(qc.to_owned()),
            shots: body.get("shots").and_then(Value::as_u64),
        })
    }

    fn accepted(&self, _request: Request<'_>, answer: Answer<'_>) -> Option<String> {
        string(&json(answer)?, "id")
    }

    fn task(&self, _id: &str, answer: Answer<'_>) -> Option<TaskFacts> {
        let root = json(answer)?;
        let state = state(root.get("status")?.as_str()?);
        let ahead = root.get("queue_position").and_then(Value::as_u64);
        let place = ahead.map(|ahead| ahead.saturating_add(1));
        let told = list(&root, "errors").chain(list(&root, "messages"));
        let errors: Vec<_> = told.filter_map(|one| string(one, "message")).collect();
        let device = root.get("qc").and_then(|qc| string(qc, "alias"));
        let failed = state.is_unsuccessful() && !errors.is_empty();
        Some(TaskFacts {
            device,
            position: place.map_or(Position::Unknown, |place| {
                Position::At(u32::try_from(place).unwrap_or(u32::MAX))
            }),
            position_text: place.map(|place| place.to_string()),
            failure_reason: failed.then(|| quote(&errors.join("; "), MESSAGE)),
            created_at: first_time(&root),
            ..TaskFacts::new(string(&root, "id")?, state)
        })
    }

    fn long_poll(&self, request: Request<'_>) -> u64 {
        if request.value("wait_until_terminal") != Some("true") {
            return 0;
        }
        let seconds = request.value("timeout_seconds").and_then(|text| text.parse().ok());
        seconds.unwrap_or(0).min(LONGEST_POLL)
    }

    fn message(&self, answer: Answer<'_>) -> Option<String> {
        let root: Value = serde_json::from_slice(answer.body).ok()?;
        let text = string(&root, "message").or_else(|| string(&root, "detail"))?;
        Some(quote(&text, MESSAGE))
    }

    fn is_task_id(&self, id: &str) -> bool {
        is_uuid(id)
    }

    fn ask_task(&self, id: &str) -> Call {
        Call::new(Method::GET, format!("/api/v1/jobs/{id}"))
    }

    fn ask_device(&self, device: &str) -> Vec<Call> {
        let of = |what| format!("/api/v1/quantum-computers/{device}/{what}");
        ["health", "queue-availability"].map(|what| Call::new(Method::GET, of(what))).into()
    }

    fn device(&self, _device: &str, answers: &[Option<Answer<'_>>]) -> Option<DeviceFacts> {
        let [health, queue] = answers else { return None };
        let health = health.and_then(json)?;
        let is_online = health.get("healthy")?.as_bool()?;
        let queue = queue.and_then(json).and_then(|q| q.get("queue_length")?.as_u64());
        let status = if is_online { "healthy" } else { "not healthy" }.to_owned();
        Some(DeviceFacts { is_online, status, reason: None, queue })
    }

    fn cancel(&self, id: &str) -> Call {
        Call::new(Method::POST, format!("/api/v1/jobs/{id}/cancel"))
    }

    fn cancelled(&self, answer: Answer<'_>) -> Option<Ending> {
        match answer.status {
            StatusCode::FORBIDDEN if is_over(answer) => Some(Ending::Over),
            status if status.is_success() => Some(Ending::Ending(TaskState::Cancelled)),
            _ => None,
        }
    }

    fn sign_in(&self, variable: &dyn Fn(&str) -> Option<String>) -> SignIn {
        match variable("QRMI_IQM_ISA_TOKEN").or_else(|| variable("IQM_TOKEN")) {
            Some(token) => SignIn::Fixed(vec![("authorization", format!("Bearer {token}").into())]),
            None => SignIn::Nothing { wanted: "QRMI_IQM_ISA_TOKEN" },
        }
    }
}

/// The state behind a word of the vendor.
fn state(word: &str) -> TaskState {
    match word {
        "waiting" | "pending" => TaskState::Queued,
        "processing" | "running" => TaskState::Running,
        "completed" | "ready" => TaskState::Completed,
        "failed" => TaskState::Failed,
        "cancelled" | "aborted" => TaskState::Cancelled,
        other => TaskState::Unknown(quote(other, 64)),
    }
}

/// Whether a refused cancel says that the job had ended.
fn is_over(answer: Answer<'_>) -> bool {
    let root = serde_json::from_slice::<Value>(answer.body).ok();
    root.and_then(|root| string(&root, "error_code")).as_deref() == Some("illegal_job_status")
}

/// When the job was made: the first entry of its timeline.
fn first_time(root: &Value) -> Option<Timestamp> {
    let first = root.get("timeline")?.as_array()?.first()?;
    string(first, "timestamp")?.parse().ok()
}

//! IBM Quantum Compute Service: queued jobs and sessions. The place in the queue is not told any
//! more; the length of the backend's queue is.
//!
//! Sources: QRMI 0.26.4, qiskit-ibm-runtime 0.51. The endpoint holds the path `/api/v1` already.
//! A job of a session that is active goes before others. When a session ends, its jobs that wait
//! are cancelled.

use http::{Method, StatusCode};
use serde_json::Value;
use sluice_shared::resource::Service;

use crate::digest::{canonical, sha256_hex};
use crate::reading::{ending, is_name, json, list, string};
use crate::{
    Abilities, Answer, Call, DeviceFacts, Dialect, Ending, Lost, MESSAGE, Operation, Request,
    Resume, Running, SignIn, Submission, TaskFacts, Token, Waits, ibm, quote,
};

/// The dialect.
#[derive(Debug)]
pub(crate) struct IbmService;

/// The path below the version of the API.
fn path<'a>(request: &Request<'a>) -> Vec<&'a str> {
    request.segments().into_iter().skip_while(|part| ["api", "v1"].contains(part)).collect()
}

impl Dialect for IbmService {
    fn service(&self) -> Service {
        Service::IbmQuantumComputeService
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            position: false,
            queue: true,
            resume: Resume::ByRecord,
            running: Running::Served,
            waits: Waits::Inside,
            lost: Lost::HangUp,
        }
    }

    fn operation(&self, request: Request<'_>) -> Operation {
        match (request.method.as_str(), path(&request).as_slice()) {
            ("POST", ["jobs"]) => Operation::Submit,
            ("GET", ["jobs", id]) => Operation::Poll((*id).to_owned()),
            ("POST", ["jobs", id, "cancel"]) => Operation::Cancel((*id).to_owned()),
            ("POST", ["sessions"]) => Operation::OpenSession,
            ("PATCH", ["sessions", id]) | ("DELETE", ["sessions", id, "close"]) => {
                Operation::CloseSession((*id).to_owned())
            }
            _ => Operation::Other,
        }
    }

    fn submission(&self, request: Request<'_>) -> Option<Submission> {
        let Value::Object(mut fields) = serde_json::from_slice(request.body).ok()? else {
            return None;
        };
        // A program that is started again opens a session of its own.
        fields.remove("session_id");
        let root = Value::Object(fields);
        Some(Submission {
            digest: sha256_hex(canonical(&root).as_bytes()),
            client_token: None,
            device: string(&root, "backend"),
            shots: root.get("params").and_then(shots),
        })
    }

    fn accepted(&self, _request: Request<'_>, answer: Answer<'_>) -> Option<String> {
        string(&json(answer)?, "id")
    }

    /// 5 jobs a minute and user; the answer does not say when to come again.
    fn is_rate_limit(&self, answer: Answer<'_>) -> bool {
        answer.status == StatusCode::TOO_MANY_REQUESTS
    }

    fn task(&self, _id: &str, answer: Answer<'_>) -> Option<TaskFacts> {
        let root = json(answer)?;
        let of_state = root.get("state");
        let word =
            of_state.and_then(|s| string(s, "status")).or_else(|| string(&root, "status"))?;
        let (state, why) = ibm::state(&word);
        let told = of_state.and_then(|state| string(state, "reason")).or(why);
        let reason = told.filter(|_| state.is_unsuccessful()).map(|text| quote(&text, MESSAGE));
        Some(TaskFacts {
            device: string(&root, "backend"),
            session: string(&root, "session_id"),
            failure_reason: reason,
            created_at: string(&root, "created").and_then(|text| text.parse().ok()),
            ended_at: string(&root, "ended").and_then(|text| text.parse().ok()),
            ..TaskFacts::new(string(&root, "id")?, state)
        })
    }

    fn session(&self, answer: Answer<'_>) -> Option<String> {
        string(&json(answer)?, "id")
    }

    fn message(&self, answer: Answer<'_>) -> Option<String> {
        ibm::message(answer)
    }

    fn is_task_id(&self, id: &str) -> bool {
        is_name(id)
    }

    fn ask_task(&self, id: &str) -> Call {
        Call::new(Method::GET, format!("/jobs/{id}?exclude_params=true"))
    }

    fn ask_device(&self, device: &str) -> Vec<Call> {
        vec![Call::new(Method::GET, format!("/backends/{device}/status"))]
    }

    fn device(&self, _device: &str, answers: &[Option<Answer<'_>>]) -> Option<DeviceFacts> {
        let root = json((*answers.first()?)?)?;
        let status = string(&root, "status")?;
        let works = root.get("state").and_then(Value::as_bool);
        let is_online = works.unwrap_or(status == "active") && status == "active";
        Some(DeviceFacts {
            is_online,
            status: quote(&status, 64),
            reason: string(&root, "message").map(|text| quote(&text, 64)),
            queue: root.get("length_queue").and_then(Value::as_u64),
        })
    }

    fn cancel(&self, id: &str) -> Call {
        Call::new(Method::POST, format!("/jobs/{id}/cancel"))
    }

    fn cancelled(&self, answer: Answer<'_>) -> Option<Ending> {
        ending(answer)
    }

    fn ask_session(&self, id: &str) -> Option<Call> {
        Some(Call::new(Method::GET, format!("/sessions/{id}")))
    }

    fn session_ended(&self, answer: Answer<'_>) -> Option<String> {
        let root = json(answer)?;
        let is_closed = string(&root, "state")? == "closed";
        let reason = string(&root, "state_reason").filter(|text| !text.is_empty());
        is_closed.then(|| reason.map_or_else(|| "it was closed".to_owned(), |r| quote(&r, 128)))
    }

    fn sign_in(&self, variable: &dyn Fn(&str) -> Option<String>) -> SignIn {
        let of = |name: &str| {
            let new = variable(&format!("QRMI_IBM_QCS_{name}"));
            new.or_else(|| variable(&format!("QRMI_IBM_QRS_{name}")))
        };
        ibm::sign_in(
            of("IAM_APIKEY").or_else(|| variable("QISKIT_IBM_TOKEN")),
            of("IAM_ENDPOINT").or_else(|| variable("IAM_URL")),
            of("SERVICE_CRN").or_else(|| variable("QISKIT_IBM_INSTANCE")),
            "QRMI_IBM_QCS_IAM_APIKEY",
        )
    }

    fn token(&self, answer: Answer<'_>) -> Option<Token> {
        ibm::token(answer)
    }
}

/// Shots of the input of a primitive: of the whole, or third in each of its circuits.
fn shots(params: &Value) -> Option<u64> {
    let of_whole = params.get("shots").and_then(Value::as_u64);
    let of_each =
        list(params, "pubs").try_fold(0_u64, |sum, one| sum.checked_add(one.get(2)?.as_u64()?));
    of_whole.or(of_each.filter(|shots| *shots > 0))
}

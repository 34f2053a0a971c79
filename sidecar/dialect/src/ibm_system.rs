//! IBM Quantum System: lanes and no queue. A submission is refused until a lane is free; one that
//! is taken runs.
//!
//! Source: QRMI 0.26.4. The client chooses the id of the job and repeats the request under it. A
//! second request under an id that was taken is answered 409. Program and result are objects that
//! presigned URLs name, so that no two submissions are equal.

use http::{Method, StatusCode};
use serde_json::Value;
use sluice_shared::resource::Service;

use crate::digest::{canonical, sha256_hex};
use crate::reading::{ending, is_uuid, json, string};
use crate::{
    Abilities, Answer, Call, DeviceFacts, Dialect, Ending, Lost, MESSAGE, Operation, Request,
    Resume, Running, SignIn, Submission, TaskFacts, Token, Waits, ibm, quote,
};

/// The dialect.
#[derive(Debug)]
pub(crate) struct IbmSystem;

impl Dialect for IbmSystem {
    fn service(&self) -> Service {
        Service::IbmQuantumSystem
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            position: false,
            queue: false,
            resume: Resume::No,
            running: Running::Executes,
            waits: Waits::AtTheDoor,
            lost: Lost::SendAgainUnless { taken: 409 },
        }
    }

    fn operation(&self, request: Request<'_>) -> Operation {
        match (request.method.as_str(), request.segments().as_slice()) {
            ("POST", ["v1", "jobs"]) => Operation::Submit,
            ("GET", ["v1", "jobs", id]) => Operation::Poll((*id).to_owned()),
            ("POST", ["v1", "jobs", id, "cancel"]) => Operation::Cancel((*id).to_owned()),
            _ => Operation::Other,
        }
    }

    fn submission(&self, request: Request<'_>) -> Option<Submission> {
        let Value::Object(mut fields) = serde_json::from_slice(request.body).ok()? else {
            return None;
        };
        let id = fields.remove("id").and_then(|id| id.as_str().map(str::to_owned));
        let root = Value::Object(fields);
        Some(Submission {
            digest: sha256_hex(canonical(&root).as_bytes()),
            client_token: id,
            device: string(&root, "backend"),
            shots: None,
        })
    }

    fn accepted(&self, request: Request<'_>, answer: Answer<'_>) -> Option<String> {
        answer.status.is_success().then(|| self.submission(request)?.client_token).flatten()
    }

    fn accepted_status(&self) -> StatusCode {
        StatusCode::NO_CONTENT
    }

    fn waits(&self, answer: Answer<'_>) -> Option<String> {
        match answer.status {
            StatusCode::TOO_MANY_REQUESTS => Some("all lanes are busy".to_owned()),
            StatusCode::LOCKED => Some(
                ibm::message(answer)
                    .filter(|_| ibm::code(answer).is_some())
                    .unwrap_or_else(|| "the machine is reserved".to_owned()),
            ),
            _ => None,
        }
    }

    fn task(&self, _id: &str, answer: Answer<'_>) -> Option<TaskFacts> {
        let root = json(answer)?;
        let (state, why) = ibm::state(&string(&root, "status")?);
        let told = string(&root, "reason_message").or(why);
        let reason = told.filter(|_| state.is_unsuccessful()).map(|text| quote(&text, MESSAGE));
        Some(TaskFacts {
            device: string(&root, "backend"),
            failure_reason: reason,
            created_at: string(&root, "created_time").and_then(|text| text.parse().ok()),
            ended_at: string(&root, "end_time").and_then(|text| text.parse().ok()),
            ..TaskFacts::new(string(&root, "id")?, state)
        })
    }

    fn message(&self, answer: Answer<'_>) -> Option<String> {
        ibm::message(answer)
    }

    fn is_task_id(&self, id: &str) -> bool {
        is_uuid(id)
    }

    fn ask_task(&self, id: &str) -> Call {
        Call::new(Method::GET, format!("/v1/jobs/{id}"))
    }

    fn ask_device(&self, device: &str) -> Vec<Call> {
        vec![Call::new(Method::GET, format!("/v1/backends/{device}"))]
    }

    fn device(&self, _device: &str, answers: &[Option<Answer<'_>>]) -> Option<DeviceFacts> {
        let root = json((*answers.first()?)?)?;
        let status = string(&root, "status")?;
        let is_locked = root.get("locked").and_then(Value::as_bool).unwrap_or(false);
        Some(DeviceFacts {
            is_online: status == "online" && !is_locked,
            status: quote(&status, 64),
            reason: is_locked.then(|| "reserved".to_owned()),
            queue: None,
        })
    }

    fn cancel(&self, id: &str) -> Call {
        Call::new(Method::POST, format!("/v1/jobs/{id}/cancel"))
    }

    fn cancelled(&self, answer: Answer<'_>) -> Option<Ending> {
        ending(answer)
    }

    fn sign_in(&self, variable: &dyn Fn(&str) -> Option<String>) -> SignIn {
        let of = |name: &str| variable(&format!("QRMI_IBM_QS_{name}"));
        ibm::sign_in(
            of("IAM_APIKEY"),
            of("IAM_ENDPOINT"),
            of("SERVICE_CRN"),
            "QRMI_IBM_QS_IAM_APIKEY",
        )
    }

    fn token(&self, answer: Answer<'_>) -> Option<Token> {
        ibm::token(answer)
    }
}

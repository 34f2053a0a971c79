//! Felis, the cloud of Alice & Bob: jobs that tell their life as a list of events. No place in the
//! queue, no length of it.
//!
//! Sources: QRMI 0.26.4, qiskit-alice-bob-provider. A job is made without its program, which
//! follows in a request of its own; so what a submission asks for cannot be compared. Compiling is
//! not yet running, although QRMI calls it so.

use http::Method;
use serde_json::Value;
use sluice_shared::resource::Service;
use sluice_shared::task::TaskState;

use crate::digest::{canonical, sha256_hex};
use crate::reading::{ending, is_name, json, list, string};
use crate::{
    Abilities, Answer, Call, DeviceFacts, Dialect, Ending, Lost, MESSAGE, Operation, Request,
    Resume, Running, SignIn, Submission, TaskFacts, Waits, quote,
};

/// The dialect.
#[derive(Debug)]
pub(crate) struct Felis;

impl Dialect for Felis {
    fn service(&self) -> Service {
        Service::AliceBobFelis
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            position: false,
            queue: false,
            resume: Resume::No,
            running: Running::Executes,
            waits: Waits::Inside,
            lost: Lost::HangUp,
        }
    }

    fn operation(&self, request: Request<'_>) -> Operation {
        match (request.method.as_str(), request.segments().as_slice()) {
            ("POST", ["v1", "jobs"]) => Operation::Submit,
            ("GET", ["v1", "jobs", id]) => Operation::Poll((*id).to_owned()),
            ("DELETE", ["v1", "jobs", id]) => Operation::Cancel((*id).to_owned()),
            _ => Operation::Other,
        }
    }

    fn submission(&self, request: Request<'_>) -> Option<Submission> {
        let root: Value = serde_json::from_slice(request.body).ok()?;
        let shots = root.get("inputParams").and_then(|params| params.get("nbShots")?.as_u64());
        Some(Submission {
            digest: sha256_hex(canonical(&root).as_bytes()),
            client_token: None,
            device: string(&root, "target"),
            shots,
        })
    }

    fn accepted(&self, _request: Request<'_>, answer: Answer<'_>) -> Option<String> {
        string(&json(answer)?, "id")
    }

    fn task(&self, _id: &str, answer: Answer<'_>) -> Option<TaskFacts> {
        let root = json(answer)?;
        let events: Vec<_> = list(&root, "events").collect();
        let word = string(events.last()?, "type")?;
        let time = |event: Option<&&Value>| string(event?, "createdAt")?.parse().ok();
        let state = state(&word);
        let errors: Vec<_> =
            list(&root, "errors").filter_map(|one| string(one, "message")).collect();
        let failed = state.is_unsuccessful() && !errors.is_empty();
        Some(TaskFacts {
            device: string(&root, "target"),
            shots: root.get("inputParams").and_then(|params| params.get("nbShots")?.as_u64()),
            failure_reason: failed.then(|| quote(&errors.join("; "), MESSAGE)),
            message: (state == TaskState::Queued).then(|| quote(&word.to_lowercase(), 64)),
            created_at: time(events.first()),
            ended_at: time(events.last()).filter(|_| state.is_final()),
            ..TaskFacts::new(string(&root, "id")?, state)
        })
    }

    fn message(&self, answer: Answer<'_>) -> Option<String> {
        let root: Value = serde_json::from_slice(answer.body).ok()?;
        let text = root.get("error").and_then(|error| string(error, "message"));
        text.or_else(|| string(&root, "message")).map(|text| quote(&text, MESSAGE))
    }

    fn is_task_id(&self, id: &str) -> bool {
        is_name(id)
    }

    fn ask_task(&self, id: &str) -> Call {
        Call::new(Method::GET, format!("/v1/jobs/{id}"))
    }

    fn ask_device(&self, _device: &str) -> Vec<Call> {
        vec![Call::new(Method::GET, "/v1/targets/")]
    }

    fn device(&self, device: &str, answers: &[Option<Answer<'_>>]) -> Option<DeviceFacts> {
        let root = json((*answers.first()?)?)?;
        let all = root.as_array()?;
        let is_online = all.iter().any(|one| string(one, "name").as_deref() == Some(device));
        let status = if is_online { "available" } else { "not listed" }.to_owned();
        Some(DeviceFacts { is_online, status, reason: None, queue: None })
    }

    fn cancel(&self, id: &str) -> Call {
        Call::new(Method::DELETE, format!("/v1/jobs/{id}"))
    }

    fn cancelled(&self, answer: Answer<'_>) -> Option<Ending> {
        ending(answer)
    }

    fn sign_in(&self, variable: &dyn Fn(&str) -> Option<String>) -> SignIn {
        match variable("QRMI_AB_FELIS_API_KEY") {
            Some(key) => SignIn::Fixed(vec![("authorization", format!("Basic {key}").into())]),
            None => SignIn::Nothing { wanted: "QRMI_AB_FELIS_API_KEY" },
        }
    }
}

/// The state behind the last event.
fn state(word: &str) -> TaskState {
    match word {
        "CREATED" => TaskState::Created,
        "FETCHING_INPUT" | "INPUT_READY" | "COMPILING" | "COMPILED" | "TRANSPILING"
        | "TRANSPILED" => TaskState::Queued,
        "EXECUTING" => TaskState::Running,
        "SUCCEEDED" => TaskState::Completed,
        "CANCELLED" => TaskState::Cancelled,
        "TIMED_OUT" => TaskState::Failed,
        word if word == "FAILED" || word.ends_with("_FAILED") => TaskState::Failed,
        other => TaskState::Unknown(quote(other, 64)),
    }
}

//! Pasqal Cloud: batches of jobs. No place in the queue, no length of it.
//!
//! Sources: QRMI 0.26.4, pasqal-cloud. The task is the batch. It waits (`PENDING`) until its first
//! job runs.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::Value;
use sluice_shared::resource::Service;
use sluice_shared::task::TaskState;

use crate::digest::{canonical, sha256_hex};
use crate::reading::{is_name, json, list, string};
use crate::{
    Abilities, Answer, Call, DeviceFacts, Dialect, Ending, Lost, MESSAGE, Operation, Request,
    Resume, Running, SignIn, Submission, TaskFacts, Token, TokenCall, Waits, quote,
};

/// The dialect.
#[derive(Debug)]
pub(crate) struct Pasqal;

/// Where tokens are bought when no variable says so.
const TOKENS: &str = "https://authenticate.pasqal.cloud/oauth/token";
/// How a user signs in, as QRMI and pasqal-cloud do.
const PASSWORD_GRANT: &str = "http://auth0.com/oauth/grant-type/password-realm";
/// Whose users they are.
const REALM: &str = "pcs-users";
/// The client as which everybody's programs sign in.
const PUBLIC_CLIENT: &str = "PeZvo7Atx7IVv3iel59asJSb4Ig7vuSB";
/// What a token is for.
const AUDIENCE: &str = "https://apis.pasqal.cloud/account/api/v1";

impl Dialect for Pasqal {
    fn service(&self) -> Service {
        Service::PasqalCloud
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            position: false,
            queue: false,
            resume: Resume::ByRecord,
            running: Running::Executes,
            waits: Waits::Inside,
            lost: Lost::HangUp,
        }
    }

    fn operation(&self, request: Request<'_>) -> Operation {
        match (request.method.as_str(), request.segments().as_slice()) {
            ("POST", ["core-fast", "api", "v1", "batches"]) => Operation::Submit,
            // QRMI asks for the batch, pasqal-cloud mostly for its status.
            (
                "GET",
                ["core-fast", "api", _, "batches", id]
                | ["core-fast", "api", _, "batches", id, "status"],
            ) => Operation::Poll((*id).to_owned()),
            ("PATCH", ["core-fast", "api", _, "batches", id, "cancel"]) => {
                Operation::Cancel((*id).to_owned())
            }
            _ => Operation::Other,
        }
    }

    fn submission(&self, request: Request<'_>) -> Option<Submission> {
        let root: Value = serde_json::from_slice(request.body).ok()?;
        let runs = list(&root, "jobs")
            .try_fold(0_u64, |sum, job| sum.checked_add(job.get("runs")?.as_u64()?));
        Some(Submission {
            digest: sha256_hex(canonical(&root).as_bytes()),
            client_token: None,
            device: Some(string(&root, "device_type")?),
            shots: runs,
        })
    }

    fn accepted(&self, _request: Request<'_>, answer: Answer<'_>) -> Option<String> {
        string(json(answer)?.get("data")?, "id")
    }

    fn accepted_status(&self) -> StatusCode {
        StatusCode::CREATED
    }

    fn task(&self, id: &str, answer: Answer<'_>) -> Option<TaskFacts> {
        let root = json(answer)?;
        let batch = root.get("data")?;
        let (state, why) = state(&string(batch, "status")?);
        Some(TaskFacts {
            device: string(batch, "device_type"),
            failure_reason: why,
            created_at: string(batch, "created_at").and_then(|text| text.parse().ok()),
            ended_at: string(batch, "end_timestamp").and_then(|text| text.parse().ok()),
            ..TaskFacts::new(string(batch, "id").unwrap_or_else(|| id.to_owned()), state)
        })
    }

    fn message(&self, answer: Answer<'_>) -> Option<String> {
        let root: Value = serde_json::from_slice(answer.body).ok()?;
        let data = || root.get("data").and_then(|data| string(data, "description"));
        string(&root, "message").or_else(data).map(|text| quote(&text, MESSAGE))
    }

    fn is_task_id(&self, id: &str) -> bool {
        is_name(id)
    }

    fn ask_task(&self, id: &str) -> Call {
        Call::new(Method::GET, format!("/core-fast/api/v2/batches/{id}"))
    }

    fn ask_device(&self, device: &str) -> Vec<Call> {
        vec![Call::new(Method::GET, format!("/core-fast/api/v1/devices?device_type={device}"))]
    }

    fn device(&self, device: &str, answers: &[Option<Answer<'_>>]) -> Option<DeviceFacts> {
        let root = json((*answers.first()?)?)?;
        let is_it = |one: &&Value| string(one, "device_type").as_deref() == Some(device);
        let found = list(&root, "data").find(is_it)?;
        let status = string(found, "status")?;
        let availability = string(found, "availability");
        let is_active = availability.as_deref().is_none_or(|word| word == "ACTIVE");
        Some(DeviceFacts {
            is_online: status == "UP" && is_active,
            status: quote(&status, 64),
            reason: availability.filter(|_| !is_active).map(|word| quote(&word, 64)),
            queue: None,
        })
    }

    fn cancel(&self, id: &str) -> Call {
        Call::new(Method::PATCH, format!("/core-fast/api/v2/batches/{id}/cancel"))
    }

    fn cancelled(&self, answer: Answer<'_>) -> Option<Ending> {
        let facts = self.task("", answer)?;
        Some(match facts.state {
            TaskState::Completed | TaskState::Failed => Ending::Over,
            state => Ending::Ending(state),
        })
    }

    fn sign_in(&self, variable: &dyn Fn(&str) -> Option<String>) -> SignIn {
        let of = |name: &str| variable(&format!("QRMI_PASQAL_CLOUD_{name}"));
        if let Some(token) = of("AUTH_TOKEN") {
            return SignIn::Fixed(vec![("authorization", format!("Bearer {token}").into())]);
        }
        let url = of("AUTH_ENDPOINT").unwrap_or_else(|| TOKENS.to_owned());
        let of_client = of("CLIENT_ID").zip(of("CLIENT_SECRET"));
        let of_user = || variable("PASQAL_USERNAME").zip(variable("PASQAL_PASSWORD"));
        let mut fields = vec![("audience", AUDIENCE.into())];
        let json = of_client.is_some();
        if let Some((id, secret)) = of_client {
            fields.extend([
                ("grant_type", "client_credentials".into()),
                ("client_id", id.into()),
                ("client_secret", secret.into()),
            ]);
        } else if let Some((user, password)) = of_user() {
            fields.extend([
                ("grant_type", PASSWORD_GRANT.into()),
                ("realm", REALM.into()),
                ("client_id", PUBLIC_CLIENT.into()),
                ("username", user.into()),
                ("password", password.into()),
            ]);
        } else {
            return SignIn::Nothing {
                wanted: "QRMI_PASQAL_CLOUD_CLIENT_ID and QRMI_PASQAL_CLOUD_CLIENT_SECRET, \
                         PASQAL_USERNAME and PASQAL_PASSWORD, or QRMI_PASQAL_CLOUD_AUTH_TOKEN",
            };
        }
        SignIn::Token(TokenCall { url, fields, json, beside: Vec::new() })
    }

    fn token(&self, answer: Answer<'_>) -> Option<Token> {
        let root = json(answer)?;
        let seconds = root.get("expires_in").and_then(Value::as_u64);
        Some(Token {
            text: string(&root, "access_token")?.into(),
            lifetime: seconds.map(Duration::from_secs),
        })
    }
}

/// The state behind a word of the vendor, and why it ended, where the word tells.
fn state(word: &str) -> (TaskState, Option<String>) {
    let state = match word {
        "PENDING" | "PAUSED" => TaskState::Queued,
        "RUNNING" => TaskState::Running,
        "DONE" => TaskState::Completed,
        "ERROR" => TaskState::Failed,
        "TIMED_OUT" => return (TaskState::Failed, Some("timed out".to_owned())),
        "CANCELED" | "CANCELLED" => TaskState::Cancelled,
        other => TaskState::Unknown(quote(other, 64)),
    };
    (state, None)
}

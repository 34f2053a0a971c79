//! Hybrid jobs, as far as clients see them: made, read, and named by the tasks that carry their
//! token. Their container is not run; it keeps running.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::{Caller, permit};
use super::time_text;
use super::world::World;
use crate::error::ApiError;

/// One hybrid job.
#[derive(Debug, Clone)]
pub struct HybridJob {
    /// `arn:aws:braket:<region>:<account>:job/<name>`.
    pub arn: String,
    /// What its container finds in `AMZN_BRAKET_JOB_TOKEN` and sends with each submission.
    pub token: String,
    client_token: String,
    request: Value,
    created: Timestamp,
}

/// Fields that the vendor asks for, and answers as they were sent.
const FIELDS: [&str; 5] =
    ["jobName", "roleArn", "algorithmSpecification", "outputDataConfig", "instanceConfig"];

/// Makes a job and answers its ARN; the same `clientToken` again gives the same job.
pub(super) fn create(
    world: &mut World,
    caller: Caller<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Value, ApiError> {
    let request: Value = serde_json::from_slice(body)
        .map_err(|problem| ApiError::validation(format!("request body: {problem}")))?;
    let text = |name: &str| request[name].as_str().filter(|text| !text.is_empty());
    let missing = |name: &str| ApiError::validation(format!("{name}: is required"));
    if let Some(name) = FIELDS.iter().find(|name| request[**name].is_null()) {
        return Err(missing(name));
    }
    let name = text("jobName").ok_or_else(|| missing("jobName"))?;
    let client_token = text("clientToken").ok_or_else(|| missing("clientToken"))?.to_owned();
    let arn = format!("arn:aws:braket:{}:{}:job/{name}", caller.region, caller.principal.account);
    if let Some(known) = world.jobs().find(|job| job.arn == arn) {
        if known.client_token == client_token {
            return Ok(json!({ "jobArn": arn }));
        }
        return Err(ApiError::new(
            "ConflictException",
            format!("There is a job named {name} already."),
        ));
    }
    let token = Uuid::new_v4().to_string();
    world.add_job(HybridJob { arn: arn.clone(), token, client_token, request, created: now });
    Ok(json!({ "jobArn": arn }))
}

/// The answer of `GetJob`.
pub(super) fn details(world: &World, arn: &str, caller: Caller<'_>) -> Result<Value, ApiError> {
    let account = arn.split(':').nth(4).unwrap_or_default();
    if account != caller.principal.account {
        permit(&caller.principal.clone().denied(&["*"]), "braket:GetJob", arn)?;
    }
    let job = world
        .jobs()
        .find(|job| job.arn == arn && arn.split(':').nth(3) == Some(caller.region))
        .ok_or_else(|| ApiError::not_found(format!("Job {arn} does not exist.")))?;
    let mut answer = json!({
        "jobArn": job.arn, "status": "RUNNING", "createdAt": time_text(job.created),
        "startedAt": time_text(job.created),
    });
    for name in FIELDS.iter().chain(["deviceConfig", "tags"].iter()) {
        if !job.request[*name].is_null() {
            answer[*name] = job.request[*name].clone();
        }
    }
    Ok(answer)
}

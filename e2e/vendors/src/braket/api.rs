//! The REST operations of Braket: from a request to an answer or an error.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::device::{Device, Status, knows_openqasm};
use super::job;
use super::search::{self, Search};
use super::task::{Phase, Pretence, Task};
use super::world::World;
use crate::error::ApiError;
use crate::identity::Principal;
use crate::queue::{Lane, millis};

/// An operation with what its path names. The ARN is one URL-encoded path segment; decoded here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// `POST /quantum-task`.
    CreateQuantumTask,
    /// `GET /quantum-task/{arn}`; whether the queue is asked for.
    GetQuantumTask(String, bool),
    /// `PUT /quantum-task/{arn}/cancel`.
    CancelQuantumTask(String),
    /// `POST /quantum-tasks`.
    SearchQuantumTasks,
    /// `GET /device/{arn}`.
    GetDevice(String),
    /// `POST /devices`.
    SearchDevices,
    /// `POST /job`.
    CreateJob,
    /// `GET /job/{arn}`.
    GetJob(String),
    /// `GET /tags/{arn}`.
    ListTagsForResource(String),
    /// `POST /tags/{arn}`.
    TagResource(String),
    /// `DELETE /tags/{arn}?tagKeys=…`.
    UntagResource(String, Vec<String>),
}

impl Operation {
    /// Finds the operation of a request; the path and the query are raw.
    #[must_use]
    pub fn of(method: &str, path: &str, query: &str) -> Option<Self> {
        let segments: Vec<_> = path.strip_prefix('/')?.split('/').map(decode).collect();
        let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
        Some(match (method, parts.as_slice()) {
            ("POST", ["quantum-task"]) => Self::CreateQuantumTask,
            ("GET", ["quantum-task", arn]) => {
                let asked = values(query, "additionalAttributeNames");
                Self::GetQuantumTask(
                    (*arn).to_owned(),
                    asked.iter().any(|name| name == "QueueInfo"),
                )
            }
            ("PUT", ["quantum-task", arn, "cancel"]) => Self::CancelQuantumTask((*arn).to_owned()),
            ("POST", ["quantum-tasks"]) => Self::SearchQuantumTasks,
            ("GET", ["device", arn]) => Self::GetDevice((*arn).to_owned()),
            ("POST", ["devices"]) => Self::SearchDevices,
            ("POST", ["job"]) => Self::CreateJob,
            ("GET", ["job", arn]) => Self::GetJob((*arn).to_owned()),
            ("GET", ["tags", arn]) => Self::ListTagsForResource((*arn).to_owned()),
            ("POST", ["tags", arn]) => Self::TagResource((*arn).to_owned()),
            ("DELETE", ["tags", arn]) => {
                Self::UntagResource((*arn).to_owned(), values(query, "tagKeys"))
            }
            _ => return None,
        })
    }

    /// The vendor's name of the operation.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateQuantumTask => "CreateQuantumTask",
            Self::GetQuantumTask(..) => "GetQuantumTask",
            Self::CancelQuantumTask(_) => "CancelQuantumTask",
            Self::SearchQuantumTasks => "SearchQuantumTasks",
            Self::GetDevice(_) => "GetDevice",
            Self::SearchDevices => "SearchDevices",
            Self::CreateJob => "CreateJob",
            Self::GetJob(_) => "GetJob",
            Self::ListTagsForResource(_) => "ListTagsForResource",
            Self::TagResource(_) => "TagResource",
            Self::UntagResource(..) => "UntagResource",
        }
    }

    /// The ARN in the path, if there is one.
    #[must_use]
    pub fn arn(&self) -> Option<&str> {
        match self {
            Self::GetQuantumTask(arn, _)
            | Self::CancelQuantumTask(arn)
            | Self::GetDevice(arn)
            | Self::GetJob(arn)
            | Self::ListTagsForResource(arn)
            | Self::TagResource(arn)
            | Self::UntagResource(arn, _) => Some(arn),
            _ => None,
        }
    }
}

/// Who asks, and from where.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The caller.
    pub principal: &'a Principal,
    /// Region of the credential scope.
    pub region: &'a str,
    /// `User-Agent`.
    pub user_agent: &'a str,
}

/// An answer that is not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// JSON body.
    pub body: Value,
}

/// Carries an operation out.
///
/// # Errors
/// The error that the vendor answers.
pub fn perform(
    world: &mut World,
    operation: &Operation,
    caller: Caller<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Answer, ApiError> {
    let body = match operation {
        Operation::CreateQuantumTask => {
            let arn = create(world, caller, body, now)?;
            return Ok(Answer { status: 201, body: json!({ "quantumTaskArn": arn }) });
        }
        Operation::CreateJob => {
            let body = job::create(world, caller, body, now)?;
            return Ok(Answer { status: 201, body });
        }
        Operation::GetJob(arn) => job::details(world, arn, caller)?,
        Operation::GetQuantumTask(arn, queue_info) => {
            let task = own_task(world, arn, caller)?;
            task.details(world.position(task), *queue_info, now)
        }
        Operation::CancelQuantumTask(arn) => {
            let id = own_task(world, arn, caller)?.id.clone();
            let status = world.cancel(&id, now)?;
            json!({ "quantumTaskArn": arn, "cancellationStatus": status })
        }
        Operation::SearchQuantumTasks => search_tasks(world, caller, body, now)?,
        Operation::GetDevice(arn) => {
            let device = known_device(world, arn, caller.region)?;
            device.details(
                |lane| world.waiting(device, caller.region, lane),
                knows_openqasm(caller.user_agent),
                now,
            )
        }
        Operation::SearchDevices => search_devices(world, caller, body)?,
        Operation::ListTagsForResource(arn) => {
            json!({ "tags": own_task(world, arn, caller)?.tags })
        }
        Operation::TagResource(arn) => {
            let request: Tags = read(body)?;
            own_task(world, arn, caller)?;
            if let Some(task) = world.task_mut(arn) {
                task.tags.extend(request.tags);
            }
            json!({})
        }
        Operation::UntagResource(arn, keys) => {
            own_task(world, arn, caller)?;
            if let Some(task) = world.task_mut(arn) {
                task.tags.retain(|key, _| !keys.contains(key));
            }
            json!({})
        }
    };
    Ok(Answer { status: 200, body })
}

#[derive(Deserialize)]
struct Tags {
    tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Creation {
    client_token: String,
    device_arn: String,
    device_parameters: Option<String>,
    shots: u64,
    #[serde(rename = "outputS3Bucket")]
    bucket: String,
    #[serde(rename = "outputS3KeyPrefix")]
    prefix: String,
    action: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    job_token: Option<String>,
    #[serde(default)]
    associations: Vec<Value>,
    experimental_capabilities: Option<Value>,
}

impl Creation {
    /// What the vendor's model and the device ask of a submission. Returns the action's type.
    fn check(&self, device: &Device) -> Result<String, ApiError> {
        let length = |name: &str, text: &str, least: usize, most: usize| {
            if (least..=most).contains(&text.len()) {
                return Ok(());
            }
            Err(ApiError::validation(format!("{name}: length must be from {least} to {most}")))
        };
        length("clientToken", &self.client_token, 1, 64)?;
        length("outputS3Bucket", &self.bucket, 3, 63)?;
        length("outputS3KeyPrefix", &self.prefix, 1, 1024)?;
        if let Some(parameters) = &self.device_parameters {
            length("deviceParameters", parameters, 1, 48_000)?;
        }
        if self.associations.len() > 1 {
            return Err(ApiError::validation("associations: at most one is allowed"));
        }
        let (least, most) = device.shots;
        if !(least..=most).contains(&self.shots) {
            return Err(ApiError::validation(format!(
                "shots: {} takes from {least} to {most}, not {}",
                device.name, self.shots
            )));
        }
        let action: Value = serde_json::from_str(&self.action)
            .map_err(|problem| ApiError::validation(format!("action: not JSON: {problem}")))?;
        let name = action["braketSchemaHeader"]["name"].as_str().ok_or_else(|| {
            ApiError::validation("action: there is no braketSchemaHeader that names its type")
        })?;
        Ok(name.to_owned())
    }
}

fn create(
    world: &mut World,
    caller: Caller<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<String, ApiError> {
    let request: Value = read(body)?;
    let creation: Creation = read(body)?;
    let Caller { principal, region, .. } = caller;
    if !creation.tags.is_empty() {
        permit(principal, "braket:TagResource", &creation.device_arn)?;
    }
    // One token names one submission: the same again is answered with the task that exists,
    // another body under it is the caller's mistake.
    if let Some((known, id)) = world.known_token(&principal.account, region, &creation.client_token)
    {
        if *known != request {
            return Err(ApiError::validation(
                "clientToken: was used before with other parameters; use a new one",
            ));
        }
        return Ok(task_arn(region, &principal.account, id));
    }
    // The vendor's model knows no ResourceNotFoundException here.
    let device = known_device(world, &creation.device_arn, region)
        .map_err(|error| ApiError::validation(error.message))?;
    match device.status {
        Status::Offline => {
            return Err(ApiError::new(
                "DeviceOfflineException",
                format!("Device {} is offline.", device.arn),
            ));
        }
        Status::Retired => {
            return Err(ApiError::new(
                "DeviceRetiredException",
                format!("Device {} is retired.", device.arn),
            ));
        }
        Status::Online | Status::Paused => {}
    }
    let action_type = creation.check(device)?;
    // The vendor tells milliseconds, and searches must find what it tells.
    let created = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
    let queued_at = now + millis(device.pace.created_ms);
    let id = Uuid::new_v4().to_string();
    let arn = task_arn(region, &principal.account, &id);
    let task = Task {
        arn: arn.clone(),
        account: principal.account.clone(),
        region: region.to_owned(),
        device: creation.device_arn,
        shots: creation.shots,
        bucket: creation.bucket,
        directory: format!("{}/{id}", creation.prefix.trim_end_matches('/')),
        action: creation.action,
        action_type,
        device_parameters: creation.device_parameters.unwrap_or_else(|| "{}".to_owned()),
        tags: creation.tags,
        associations: creation.associations,
        experimental: creation.experimental_capabilities,
        job: creation.job_token.as_ref().and_then(|token| world.job_of(token)),
        // Tasks of hybrid jobs carry a job token and are served first.
        lane: if creation.job_token.is_some() { Lane::Priority } else { Lane::Normal },
        created,
        ended: None,
        phase: Phase::Waiting { queued_at },
        pretence: Pretence::default(),
        id,
    };
    world.submit(task, &creation.client_token, request, now);
    Ok(arn)
}

fn search_tasks(
    world: &World,
    caller: Caller<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Value, ApiError> {
    let search = Search::parse(body)?;
    let mut hits = Vec::new();
    for task in world.tasks() {
        let own = task.account == caller.principal.account && task.region == caller.region;
        if own && search.takes_task(task, now)? {
            hits.push(task);
        }
    }
    let (page, token) = search.page(hits, |task| task.id.clone())?;
    let page = page.into_iter().map(|task| task.summary(now)).collect();
    Ok(search::answer("quantumTasks", page, token))
}

fn search_devices(world: &World, caller: Caller<'_>, body: &[u8]) -> Result<Value, ApiError> {
    let search = Search::parse(body)?;
    let mut hits = Vec::new();
    for device in world.devices().iter().filter(|device| device.in_region(caller.region)) {
        if search.takes_device(device)? {
            hits.push(device);
        }
    }
    let (page, token) = search.page(hits, |device| device.short_name().to_owned())?;
    let page = page.into_iter().map(Device::summary).collect();
    Ok(search::answer("devices", page, token))
}

/// Whether a principal may do something; the text is the vendor's.
///
/// # Errors
/// `AccessDeniedException`.
pub fn permit(principal: &Principal, action: &str, resource: &str) -> Result<(), ApiError> {
    if principal.may(action) {
        return Ok(());
    }
    Err(ApiError::new(
        "AccessDeniedException",
        format!(
            "User: {} is not authorized to perform: {action} on resource: {resource} because no \
             identity-based policy allows the {action} action",
            principal.arn()
        ),
    ))
}

fn known_device<'a>(world: &'a World, arn: &str, region: &str) -> Result<&'a Device, ApiError> {
    world
        .device(arn, region)
        .ok_or_else(|| ApiError::not_found(format!("Device {arn} does not exist in {region}.")))
}

fn own_task<'a>(world: &'a World, arn: &str, caller: Caller<'_>) -> Result<&'a Task, ApiError> {
    let parts: Vec<_> = arn.split(':').collect();
    let [_, _, "braket", region, account, path] = parts[..] else {
        return Err(ApiError::validation(format!("{arn} is not the ARN of a quantum task")));
    };
    if !path.starts_with("quantum-task/") {
        return Err(ApiError::validation(format!("{arn} is not the ARN of a quantum task")));
    }
    if account != caller.principal.account {
        permit(&caller.principal.clone().denied(&["*"]), "braket:GetQuantumTask", arn)?;
    }
    world.task(arn).filter(|task| task.arn == arn && region == caller.region).ok_or_else(|| {
        let region = caller.region;
        ApiError::not_found(format!("Quantum task {arn} does not exist in {region}."))
    })
}

fn task_arn(region: &str, account: &str, id: &str) -> String {
    format!("arn:aws:braket:{region}:{account}:quantum-task/{id}")
}

fn read<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body)
        .map_err(|problem| ApiError::validation(format!("request body: {problem}")))
}

/// Undoes percent-encoding of one path segment or query part.
#[must_use]
pub(crate) fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// All values of a query parameter.
#[must_use]
pub(crate) fn values(query: &str, name: &str) -> Vec<String> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('=').or(Some((pair, ""))))
        .filter(|(key, _)| decode(key) == name)
        .map(|(_, value)| decode(&value.replace('+', " ")))
        .collect()
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;

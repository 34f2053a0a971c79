//! What passes on the wire, read into values. Garbage reads as nothing, never as an error.

use std::collections::BTreeMap;

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use sluice_shared::task::{Position, TaskState};

use crate::quote::quote;
use crate::signature::{hex, sha256_hex};

/// Longest text of the vendor that is repeated, characters.
const MESSAGE: usize = 1024;

/// What an answer of `GetQuantumTask` tells about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFacts {
    /// ARN of the task.
    pub task_id: String,
    /// State, with words kept that nobody has seen yet.
    pub state: TaskState,
    /// ARN of the device.
    pub device: Option<String>,
    /// ARN of the hybrid job that it belongs to.
    pub job: Option<String>,
    /// Number of shots.
    pub shots: Option<u64>,
    /// Place in the queue; unknown when it was not asked for.
    pub position: Position,
    /// The vendor's own text of the place, for people.
    pub position_text: Option<String>,
    /// `QUANTUM_TASKS_QUEUE` or `JOBS_QUEUE`.
    pub queue: Option<String>,
    /// `Normal` or `Priority`.
    pub priority: Option<String>,
    /// What the vendor says about the place.
    pub message: Option<String>,
    /// Why the task failed.
    pub failure_reason: Option<String>,
    /// When the vendor accepted it.
    pub created_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl TaskFacts {
    /// Reads an answer. Only id and status are needed; every other field may be absent or odd.
    #[must_use]
    pub fn of(body: &[u8]) -> Option<Self> {
        let root: Value = serde_json::from_slice(body).ok()?;
        let queue = root.get("queueInfo");
        let of_queue = |name| queue.and_then(|queue| string(queue, name));
        let position_text = of_queue("position");
        Some(Self {
            task_id: string(&root, "quantumTaskArn")?,
            state: TaskState::from(string(&root, "status")?.as_str()),
            device: string(&root, "deviceArn"),
            job: string(&root, "jobArn"),
            shots: root.get("shots").and_then(Value::as_u64),
            position: Position::of(position_text.as_deref()),
            position_text,
            queue: of_queue("queue"),
            priority: of_queue("queuePriority"),
            message: of_queue("message"),
            failure_reason: string(&root, "failureReason").map(|text| quote(&text, MESSAGE)),
            created_at: time(&root, "createdAt"),
            ended_at: time(&root, "endedAt"),
        })
    }
}

/// What the request of `CreateQuantumTask` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// SHA-256 of the canonical request without its `clientToken`: equal for submissions that ask
    /// for the same thing.
    pub digest: String,
    /// Idempotency token that the SDK chose.
    pub client_token: Option<String>,
    /// ARN of the device.
    pub device: Option<String>,
    /// Number of shots.
    pub shots: Option<u64>,
}

impl Submission {
    /// Reads a request. `None` when it is no JSON object.
    #[must_use]
    pub fn of(body: &[u8]) -> Option<Self> {
        let raw = raw_fields(body)?;
        let client_token = token_of(&raw);
        if body.len() > LARGE {
            return Some(Self {
                digest: raw_digest(&raw),
                client_token,
                device: raw.get("deviceArn").and_then(|raw| serde_json::from_str(raw.get()).ok()),
                shots: raw.get("shots").and_then(|raw| serde_json::from_str(raw.get()).ok()),
            });
        }
        let Value::Object(mut fields) = serde_json::from_slice(body).ok()? else { return None };
        fields.remove("clientToken");
        // Both are JSON in a string; what they say counts, not how it is spaced.
        for name in ["action", "deviceParameters"] {
            if let Some(Value::String(text)) = fields.get(name)
                && let Ok(inner @ Value::Object(_)) = serde_json::from_str(text)
            {
                fields.insert(name.to_owned(), inner);
            }
        }
        if let Some(Value::String(source)) =
            fields.get_mut("action").and_then(|action| action.get_mut("source"))
        {
            *source = with_sorted_inputs(source);
        }
        let root = Value::Object(fields);
        Some(Self {
            digest: sha256_hex(canonical(&root).as_bytes()),
            client_token,
            device: string(&root, "deviceArn"),
            shots: root.get("shots").and_then(Value::as_u64),
        })
    }
}

/// Requests from this size on are compared as they are written: taking them apart would need
/// several times their size in memory.
const LARGE: usize = 2 << 20;

/// The fields of an object, not yet taken apart: costs no memory but that of the names.
fn raw_fields(body: &[u8]) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_slice(body).ok()
}

fn token_of(fields: &BTreeMap<String, &RawValue>) -> Option<String> {
    let token: String = serde_json::from_str(fields.get("clientToken")?.get()).ok()?;
    Some(token).filter(|token| !token.is_empty())
}

fn raw_digest(fields: &BTreeMap<String, &RawValue>) -> String {
    let mut digest = Sha256::new();
    for (name, value) in fields.iter().filter(|(name, _)| *name != "clientToken") {
        // Lengths first, so that no two requests run together to the same text.
        for part in [name.as_str(), value.get()] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
    }
    hex(&digest.finalize())
}

/// The request under another `clientToken`, every other field as it was written.
pub(crate) fn with_token(body: &[u8], token: &str) -> Option<Vec<u8>> {
    let mut fields = raw_fields(body)?;
    let token = serde_json::value::to_raw_value(token).ok()?;
    fields.insert("clientToken".to_owned(), &token);
    serde_json::to_vec(&fields).ok()
}

/// Whether the body carries a `clientToken`.
pub(crate) fn has_token(body: &[u8]) -> bool {
    raw_fields(body).as_ref().and_then(token_of).is_some()
}

/// The ARN in the answer of `CreateQuantumTask`.
#[must_use]
pub(crate) fn task_id_of(body: &[u8]) -> Option<String> {
    string(&serde_json::from_slice(body).ok()?, "quantumTaskArn")
}

/// The ARN in the answer of `CreateJob`.
#[must_use]
pub(crate) fn job_of(body: &[u8]) -> Option<String> {
    string(&serde_json::from_slice(body).ok()?, "jobArn")
}

/// The message of an error in Braket's form.
#[must_use]
pub(crate) fn message_of(body: &[u8]) -> Option<String> {
    let root: Value = serde_json::from_slice(body).ok()?;
    let message = string(&root, "message").or_else(|| string(&root, "Message"));
    message.map(|message| quote(&message, MESSAGE))
}

/// The ARN of a path segment.
#[must_use]
pub(crate) fn arn_of(segment: &str) -> Option<String> {
    percent_decode_str(segment).decode_utf8().ok().map(Into::into)
}

fn string(root: &Value, name: &str) -> Option<String> {
    root.get(name)?.as_str().map(str::to_owned)
}

/// Braket sends RFC 3339; the protocol also allows seconds since 1970.
fn time(root: &Value, name: &str) -> Option<Timestamp> {
    match root.get(name)? {
        Value::String(text) => text.parse().ok(),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "milliseconds are enough; `as` saturates"
        )]
        Value::Number(seconds) => {
            Timestamp::from_millisecond((seconds.as_f64()? * 1000.0) as i64).ok()
        }
        _ => None,
    }
}

/// JSON with sorted keys and no spaces, whatever the map of the JSON library keeps.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(canonical).collect();
            format!("[{}]", values.join(","))
        }
        plain => plain.to_string(),
    }
}

/// The program with its `input` lines in order: SDKs write them in the order of a set.
fn with_sorted_inputs(source: &str) -> String {
    let is_input = |line: &&str| line.trim_start().starts_with("input ");
    let mut inputs: Vec<&str> = source.split('\n').filter(is_input).collect();
    inputs.sort_unstable();
    let mut inputs = inputs.into_iter();
    let lines: Vec<&str> = source
        .split('\n')
        .map(|line| if is_input(&line) { inputs.next().unwrap_or(line) } else { line })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

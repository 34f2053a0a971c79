//! Amazon Braket: what its REST API sends and takes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use sluice_shared::task::{Position, TaskState};

use crate::abilities::{Abilities, Lost, Resume, Running, Waits};
use crate::digest::{canonical, hex, sha256_hex};
use crate::facts::{MESSAGE, Submission, TaskFacts};
use crate::quote::quote;

/// What Braket can tell and do.
pub const ABILITIES: Abilities = Abilities {
    position: true,
    queue: true,
    resume: Resume::ByToken,
    running: Running::Executes,
    waits: Waits::Inside,
    lost: Lost::SendAgain,
};

/// What an answer of `GetQuantumTask` tells. Only id and status are needed; every other field may be
/// absent or odd.
#[must_use]
pub fn task(body: &[u8]) -> Option<TaskFacts> {
    let root: Value = serde_json::from_slice(body).ok()?;
    let queue = root.get("queueInfo");
    let of_queue = |name| queue.and_then(|queue| string(queue, name));
    let position_text = of_queue("position");
    Some(TaskFacts {
        task_id: string(&root, "quantumTaskArn")?,
        state: TaskState::from(string(&root, "status")?.as_str()),
        device: string(&root, "deviceArn"),
        job: string(&root, "jobArn"),
        session: None,
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

/// What the request of `CreateQuantumTask` asks for. `None` when it is no JSON object.
#[must_use]
pub fn submission(body: &[u8]) -> Option<Submission> {
    let raw = raw_fields(body)?;
    let client_token = token_of(&raw);
    if body.len() > LARGE {
        return Some(Submission {
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
    Some(Submission {
        digest: sha256_hex(canonical(&root).as_bytes()),
        client_token,
        device: string(&root, "deviceArn"),
        shots: root.get("shots").and_then(Value::as_u64),
    })
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
#[must_use]
pub fn with_token(body: &[u8], token: &str) -> Option<Vec<u8>> {
    let mut fields = raw_fields(body)?;
    let token = serde_json::value::to_raw_value(token).ok()?;
    fields.insert("clientToken".to_owned(), &token);
    serde_json::to_vec(&fields).ok()
}

/// Whether the body carries a `clientToken`.
#[must_use]
pub fn has_token(body: &[u8]) -> bool {
    raw_fields(body).as_ref().and_then(token_of).is_some()
}

/// The ARN in the answer of `CreateQuantumTask`.
#[must_use]
pub fn task_id_of(body: &[u8]) -> Option<String> {
    string(&serde_json::from_slice(body).ok()?, "quantumTaskArn")
}

/// The ARN in the answer of `CreateJob`.
#[must_use]
pub fn job_of(body: &[u8]) -> Option<String> {
    string(&serde_json::from_slice(body).ok()?, "jobArn")
}

/// The message of an error in Braket's form.
#[must_use]
pub fn message_of(body: &[u8]) -> Option<String> {
    let root: Value = serde_json::from_slice(body).ok()?;
    let message = string(&root, "message").or_else(|| string(&root, "Message"));
    message.map(|message| quote(&message, MESSAGE))
}

/// The ARN of a path segment.
#[must_use]
pub fn arn_of(segment: &str) -> Option<String> {
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
#[path = "braket_tests.rs"]
mod tests;

//! Readings that several vendors share.

use http::StatusCode;
use serde_json::Value;
use sluice_shared::task::TaskState;

use crate::{Answer, Ending};

/// The JSON of an answer that is no error.
pub(crate) fn json(answer: Answer<'_>) -> Option<Value> {
    answer.status.is_success().then(|| serde_json::from_slice(answer.body).ok()).flatten()
}

/// A field with a text.
pub(crate) fn string(root: &Value, name: &str) -> Option<String> {
    root.get(name)?.as_str().map(str::to_owned)
}

/// The items of a field with a list; none when it is not there.
pub(crate) fn list<'a>(root: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    root.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// What the answer to a cancel means where 409 says that the task had ended.
pub(crate) fn ending(answer: Answer<'_>) -> Option<Ending> {
    match answer.status {
        StatusCode::CONFLICT => Some(Ending::Over),
        status if status.is_success() => Some(Ending::Ending(TaskState::Cancelled)),
        _ => None,
    }
}

/// Longest id of a task: the schema of the gang.
const MAX_ID: usize = 256;

/// Whether an id is made of letters, digits, `-` and `_`: it becomes part of a path, so nothing
/// else may pass.
pub(crate) fn is_name(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(fits)
}

/// Whether an id is a UUID.
pub(crate) fn is_uuid(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_another_path_is_no_id() {
        for id in ["", "a/b", "..", "a?b", "a%2fb", "a b", &"a".repeat(257)] {
            assert!(!is_name(id), "{id}");
        }
        assert!(is_name("d1234567890123456789") && is_name("batch-1"));
        assert!(is_uuid("834b21ed-0000-4000-8000-000000000000") && !is_uuid("834b21ed"));
    }
}

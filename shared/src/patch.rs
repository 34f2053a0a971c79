//! JSON patches that lose nothing.

use json_patch::Patch;
use serde::Serialize;

/// The difference between two typed objects, as a JSON patch for the raw one.
///
/// Both sides go through the same type, so a field that our API types do not know is in neither
/// and the patch leaves it alone. Comparing the raw object with a typed one would remove it.
///
/// # Errors
/// When one of the objects cannot be written as JSON.
pub fn lossless<T: Serialize>(before: &T, after: &T) -> Result<Patch, serde_json::Error> {
    Ok(json_patch::diff(&serde_json::to_value(before)?, &serde_json::to_value(after)?))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_survive() {
        let raw = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "futureKnob": 1}], "futureField": {"a": 1}},
        });
        let before: Pod = serde_json::from_value(raw.clone()).unwrap();
        let mut after = before.clone();
        after.metadata.labels = Some([("a/b".to_owned(), "c".to_owned())].into());
        let patch = lossless(&before, &after).unwrap();
        let mut patched = raw.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        let mut expected = raw;
        expected["metadata"]["labels"] = json!({"a/b": "c"});
        assert_eq!(patched, expected);
    }
}

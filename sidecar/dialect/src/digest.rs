//! What makes two submissions the same.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of some bytes, in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing into a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// JSON with sorted keys and no spaces, whatever the map of the JSON library keeps.
pub(crate) fn canonical(value: &Value) -> String {
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

//! Environment of a container as a list in which the last entry of a name wins.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector};

/// The entry that counts.
#[must_use]
pub fn get<'a>(env: &'a [EnvVar], name: &str) -> Option<&'a EnvVar> {
    env.iter().rev().find(|e| e.name == name)
}

/// The literal value that counts, empty for a reference.
#[must_use]
pub fn literal<'a>(env: &'a [EnvVar], name: &str) -> Option<&'a str> {
    get(env, name).map(|e| e.value.as_deref().unwrap_or_default())
}

/// Replaces the entry that counts in place, or appends one.
pub fn set(env: &mut Vec<EnvVar>, wanted: EnvVar) {
    match env.iter_mut().rev().find(|e| e.name == wanted.name) {
        Some(entry) => *entry = wanted,
        None => env.push(wanted),
    }
}

/// Appends an entry unless the name is there.
pub fn add(env: &mut Vec<EnvVar>, wanted: EnvVar) {
    if get(env, &wanted.name).is_none() {
        env.push(wanted);
    }
}

/// A literal.
#[must_use]
pub fn value(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None }
}

/// A field of the pod, by downward API. The API version is written out, because the API server
/// would add it and a second look would see a difference.
#[must_use]
pub fn field(name: &str, path: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".to_owned()),
                field_path: path.into(),
            }),
            ..EnvVarSource::default()
        }),
    }
}

/// An annotation of the pod, by downward API: read when the container starts.
#[must_use]
pub fn annotation(name: &str, key: &str) -> EnvVar {
    field(name, format!("metadata.annotations['{key}']"))
}

/// The names that a value refers to as `$(NAME)`.
pub fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split("$(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_counts_and_is_replaced_in_place() {
        let mut env = vec![value("A", "1"), value("B", "2"), value("A", "3"), value("C", "4")];
        assert_eq!(literal(&env, "A"), Some("3"));
        set(&mut env, value("A", "5"));
        assert_eq!(literal(&env, "A"), Some("5"));
        assert_eq!(env[2].value.as_deref(), Some("5"));
        add(&mut env, value("A", "6"));
        assert_eq!(env.len(), 4);
    }

    #[test]
    fn references_are_found() {
        assert_eq!(references("http://$(HOST):$(PORT)/$(").collect::<Vec<_>>(), ["HOST", "PORT"]);
    }
}

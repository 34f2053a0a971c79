//! One file, one case: the object, and what becomes of it.

use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::{create, mk_admission, patch_of};

/// Fills in what the API server fills in after a webhook, as far as we write such fields.
fn defaulted(mut object: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(map) => {
                if map.contains_key("fieldPath") {
                    map.entry("apiVersion").or_insert(json!("v1"));
                }
                if let Some(Value::Object(probe)) = map.get_mut("startupProbe") {
                    for (field, value) in [
                        ("timeoutSeconds", 1),
                        ("periodSeconds", 10),
                        ("successThreshold", 1),
                        ("failureThreshold", 3),
                    ] {
                        probe.entry(field).or_insert(json!(value));
                    }
                }
                if let Some(Value::Object(projected)) = map.get_mut("projected") {
                    projected.entry("defaultMode").or_insert(json!(420));
                }
                if map.contains_key("image") {
                    map.entry("terminationMessagePath").or_insert(json!("/dev/termination-log"));
                    map.entry("imagePullPolicy").or_insert(json!("IfNotPresent"));
                }
                map.values_mut().for_each(walk);
            }
            Value::Array(list) => list.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut object);
    object
}

fn case(resource: &'static str, path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut object: Value = serde_saphyr::from_str(&text).unwrap();
    let overrides = object.as_object_mut().unwrap().remove("config").unwrap_or_default();
    let admission = mk_admission(&overrides);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (response, stored) = runtime.block_on(create(&admission, resource, &object));
    insta::assert_yaml_snapshot!(
        resource,
        json!({
            "allowed": response["allowed"],
            "refused": response["status"]["message"].as_str().filter(|m| !m.is_empty()),
            "warnings": response["warnings"],
            "patch": patch_of(&response),
            "object": (stored != object).then_some(&stored),
        })
    );
    // Doing it again changes nothing, as stored and with the API server's defaults.
    for stored in [stored.clone(), defaulted(stored)] {
        let (again, _) = runtime.block_on(create(&admission, resource, &stored));
        assert_eq!(again["allowed"], response["allowed"], "{again}");
        assert_eq!(patch_of(&again), None, "a second look at {}", path.display());
    }
}

#[test]
fn pods() {
    insta::glob!("..", "pods/*.yaml", |path| case("pods", path));
}

#[test]
fn jobs() {
    insta::glob!("..", "jobs/*.yaml", |path| case("jobs", path));
}

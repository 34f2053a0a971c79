//! Jobs and pods of the stories, as a user would write them.

use serde_json::{Value, json};
use sluice_shared::names;

/// The device that most stories use.
pub const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
/// The vendor's account that everything belongs to.
pub const ACCOUNT: &str = "123456789012";
/// The bucket of all results.
pub const BUCKET: &str = "amazon-braket-stories";
/// The container that runs the user's program.
pub const PROGRAM: &str = "program";

/// A Job to be: the parts that stories vary.
#[derive(Debug, Clone)]
pub struct Draft {
    name: String,
    body: Value,
}

impl Draft {
    /// An Indexed Job of `pods` pods that request a qpu and run `container`'s command.
    ///
    /// `container` gives `image`, `command`, `env` and mounts; `volumes` goes with it.
    #[must_use]
    pub fn new(name: &str, pods: u32, container: &Value, volumes: &Value) -> Self {
        let mut container = container.clone();
        container["name"] = json!(PROGRAM);
        container["resources"] = json!({"limits": {names::QPU_RESOURCE: "1"}});
        let body = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completions": pods,
                "parallelism": pods,
                "completionMode": "Indexed",
                "backoffLimit": 2,
                "template": {
                    "metadata": {},
                    "spec": {
                        "restartPolicy": "Never",
                        "terminationGracePeriodSeconds": 5,
                        "containers": [container],
                        "volumes": volumes,
                    },
                },
            },
        });
        Self { name: name.to_owned(), body }
    }

    /// The Job's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An annotation on the Job.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.body["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// One more variable in the program's environment; a value, or a whole entry such as
    /// `{"valueFrom": …}`.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<Value>) -> Self {
        let entry = match value.into() {
            Value::Object(mut entry) => {
                entry.insert("name".into(), json!(name));
                Value::Object(entry)
            }
            value => json!({"name": name, "value": value}),
        };
        let env = &mut self.body["spec"]["template"]["spec"]["containers"][0]["env"];
        match env.as_array_mut() {
            Some(list) => {
                list.retain(|e| e["name"] != name);
                list.push(entry);
            }
            None => *env = json!([entry]),
        }
        self
    }

    /// Without a variable.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        let env = &mut self.body["spec"]["template"]["spec"]["containers"][0]["env"];
        if let Some(list) = env.as_array_mut() {
            list.retain(|e| e["name"] != name);
        }
        self
    }

    /// A folder `/scratch` that outlives the containers of a pod, not the pod.
    #[must_use]
    pub fn scratch(mut self) -> Self {
        let spec = &mut self.body["spec"]["template"]["spec"];
        for (list, entry) in [
            ("/volumes", json!({"name": "scratch", "emptyDir": {}})),
            ("/containers/0/volumeMounts", json!({"name": "scratch", "mountPath": "/scratch"})),
        ] {
            if let Some(Value::Array(list)) = spec.pointer_mut(list) {
                list.push(entry);
            }
        }
        self
    }

    /// Any other change, by JSON pointer; missing parents are made.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        let mut place = &mut self.body;
        for part in pointer.trim_start_matches('/').split('/') {
            let part = part.replace("~1", "/").replace("~0", "~");
            place = match part.parse::<usize>() {
                Ok(index) if place.is_array() => &mut place[index],
                _ => &mut place[part.as_str()],
            };
        }
        *place = value;
        self
    }

    /// The Job.
    #[must_use]
    pub fn job(&self) -> Value {
        self.body.clone()
    }

    /// The same as a pod without an owner.
    #[must_use]
    pub fn bare_pod(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name},
            "spec": self.body["spec"]["template"]["spec"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_is_replaced_and_pointers_make_their_parents() {
        let draft = Draft::new("j", 2, &json!({"env": [{"name": "A", "value": "1"}]}), &json!([]))
            .env("A", "2")
            .env("B", json!({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}))
            .set("/spec/template/metadata/labels/a~1b", json!("c"));
        let job = draft.job();
        let env = &job["spec"]["template"]["spec"]["containers"][0]["env"];
        assert_eq!(env.as_array().map(Vec::len), Some(2));
        assert_eq!(env[0]["value"], "2");
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["a/b"], "c");
    }
}

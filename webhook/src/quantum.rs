//! The qpu request: finding it, taking it off, and remembering it.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sluice_shared::names;

/// Who requests a qpu in a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    /// Containers by name, with the quantity.
    pub containers: Vec<(String, String)>,
    /// The first init container that does.
    pub init: Option<String>,
}

impl Requests {
    /// Reads the requests of a pod or of a template. A quantity of 0 is no request.
    #[must_use]
    pub fn of(spec: &PodSpec) -> Self {
        Self {
            containers: spec
                .containers
                .iter()
                .filter_map(|c| Some((c.name.clone(), of_container(c)?)))
                .collect(),
            init: spec
                .init_containers
                .iter()
                .flatten()
                .find(|c| of_container(c).is_some())
                .map(|c| c.name.clone()),
        }
    }

    /// Whether anybody requests a qpu.
    #[must_use]
    pub const fn any(&self) -> bool {
        !self.containers.is_empty() || self.init.is_some()
    }
}

fn of_container(container: &Container) -> Option<String> {
    let resources = container.resources.as_ref()?;
    [&resources.limits, &resources.requests]
        .into_iter()
        .filter_map(|map| map.as_ref()?.get(names::QPU_RESOURCE))
        .find(|q| !is_zero(q))
        .map(|q| q.0.clone())
}

/// Whether a quantity is nothing, however it is written: `0`, `0.0`, `0Mi`, `-0`.
fn is_zero(quantity: &Quantity) -> bool {
    let mut digits = quantity
        .0
        .trim_start_matches(['+', '-'])
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.');
    !digits.any(|c| ('1'..='9').contains(&c))
}

/// Takes the qpu off every container and adds it to the record on the pod.
pub fn strip(pod: &mut Pod) {
    let Some(spec) = pod.spec.as_mut() else { return };
    let mut taken = Vec::new();
    for container in &mut spec.containers {
        let quantity = of_container(container);
        let Some(resources) = container.resources.as_mut() else { continue };
        for map in [&mut resources.limits, &mut resources.requests] {
            if let Some(inner) = map
                && inner.remove(names::QPU_RESOURCE).is_some()
                && inner.is_empty()
            {
                *map = None;
            }
        }
        taken.extend(quantity.map(|q| (container.name.clone(), q)));
    }
    if taken.is_empty() {
        return;
    }
    let mut record = recorded(pod);
    record.retain(|(name, _)| taken.iter().all(|(t, _)| t != name));
    record.extend(taken);
    let text: Vec<String> = record.into_iter().map(|(n, q)| format!("{n}={q}")).collect();
    pod.metadata
        .annotations
        .get_or_insert_default()
        .insert(names::QPU_REQUEST.to_owned(), text.join(","));
}

/// What was taken off the pod earlier: containers by name, with the quantity.
#[must_use]
pub fn recorded(pod: &Pod) -> Vec<(String, String)> {
    pod.metadata
        .annotations
        .iter()
        .filter_map(|a| a.get(names::QPU_REQUEST))
        .flat_map(|text| text.split(','))
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, quantity)| (name.to_owned(), quantity.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_pod(container: &serde_json::Value, init: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({"spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, container],
            "initContainers": [init],
        }}))
        .unwrap()
    }

    #[test]
    fn the_table_of_requests() {
        let qpu = names::QPU_RESOURCE;
        let none = json!({"name": "i"});
        let rows = [
            ("limits", json!({"limits": {qpu: "1"}}), true),
            ("requests", json!({"requests": {qpu: "1"}}), true),
            ("a number", json!({"limits": {qpu: 1}}), true),
            ("thousand", json!({"limits": {qpu: "1k"}}), true),
            ("exponent", json!({"limits": {qpu: "1e3"}}), true),
            ("zero", json!({"limits": {qpu: "0"}}), false),
            ("zero, long", json!({"limits": {qpu: "0.00"}}), false),
            ("zero, unit", json!({"limits": {qpu: "0Mi"}}), false),
            ("zero, exponent", json!({"limits": {qpu: "0e9"}}), false),
            ("zero and one", json!({"limits": {qpu: "0"}, "requests": {qpu: "1"}}), true),
            ("nothing", json!({}), false),
        ];
        for (name, resources, expected) in rows {
            let container = json!({"name": "b", "resources": resources});
            let pod = mk_pod(&container, &none);
            let found = Requests::of(pod.spec.as_ref().unwrap());
            assert_eq!(found.any(), expected, "{name}");
            let init = mk_pod(&none, &container);
            let found = Requests::of(init.spec.as_ref().unwrap());
            assert_eq!(found.init.is_some(), expected, "{name} in an init container");
        }
    }

    #[test]
    fn what_is_taken_is_remembered() {
        let qpu = names::QPU_RESOURCE;
        let mut pod = mk_pod(
            &json!({"name": "b", "resources": {"limits": {qpu: "2"}, "requests": {qpu: "2", "cpu": "1"}}}),
            &json!({"name": "i"}),
        );
        strip(&mut pod);
        assert_eq!(recorded(&pod), [("b".to_owned(), "2".to_owned())]);
        let resources = pod.spec.as_ref().unwrap().containers[1].resources.clone().unwrap();
        assert_eq!(resources.limits, None);
        assert_eq!(resources.requests.unwrap().len(), 1);
        let again = pod.clone();
        strip(&mut pod);
        assert_eq!(pod, again);
    }
}

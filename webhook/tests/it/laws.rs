//! What holds for every pod and every body.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sluice_shared::names;

use crate::fixture::{create, mk_admission, mk_review, patch_of, post};

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn arb_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/.~-]{0,12}".prop_map(Value::from),
        Just(json!(names::QPU_RESOURCE)),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((arb_key(), inner), 0..5)
                .prop_map(|pairs| Value::from(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn arb_key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("metadata".to_owned()),
        Just("annotations".to_owned()),
        Just("labels".to_owned()),
        Just("spec".to_owned()),
        Just("template".to_owned()),
        Just("containers".to_owned()),
        Just("initContainers".to_owned()),
        Just("env".to_owned()),
        Just("name".to_owned()),
        Just("resources".to_owned()),
        Just("limits".to_owned()),
        Just("request".to_owned()),
        Just("uid".to_owned()),
        Just(names::QPU_RESOURCE.to_owned()),
        Just(names::STAMP.to_owned()),
        "[a-zA-Z/~.]{0,10}",
    ]
}

fn arb_env() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("AWS_ENDPOINT_URL_BRAKET"),
        Just("BRAKET_ENDPOINT"),
        Just("AWS_ENDPOINT_URL"),
        Just("AWS_PROFILE"),
        Just("AWS_USE_FIPS_ENDPOINT"),
        Just("HTTPS_PROXY"),
        Just("NO_PROXY"),
        Just("no_proxy"),
        Just("HOME"),
        Just("MINE"),
        Just("garnet_QRMI_IQM_ISA_ENDPOINT"),
        Just("garnet_QRMI_IQM_ISA_TOKEN"),
        Just("QRMI_AB_FELIS_BASE_ENDPOINT"),
        Just("FLUENCE_COORDINATION_ROLE"),
        Just("FLUENCE_QUANTUM_JOB_ID"),
        Just("SLUICE_URL"),
        Just("FLUXION_BACKEND"),
    ];
    let value = prop_oneof![
        Just(json!({"value": "true"})),
        Just(json!({"value": "http://127.0.0.1:8731"})),
        Just(json!({"value": "$(MINE)/$(AWS_PROFILE)/$(BRAKET_ENDPOINT)"})),
        Just(json!({"value": "127.0.0.1"})),
        Just(json!({"value": "*"})),
        Just(json!({})),
        Just(json!({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})),
    ];
    proptest::collection::vec((name, value), 0..6).prop_map(|entries| {
        entries
            .into_iter()
            .map(|(name, mut value)| {
                value["name"] = json!(name);
                value
            })
            .collect()
    })
}

prop_compose! {
    fn arb_container(name: &'static str)(
        env in proptest::option::of(arb_env()),
        qpu in prop_oneof![Just(None), Just(Some("0")), Just(Some("1"))],
        source in any::<bool>(),
        mount in any::<bool>(),
    ) -> Value {
        let mut c = json!({"name": name, "image": "i", "future": {"knob": 1}});
        if let Some(env) = env { c["env"] = env; }
        if let Some(qpu) = qpu { c["resources"] = json!({"limits": {names::QPU_RESOURCE: qpu}}); }
        if source { c["envFrom"] = json!([{"configMapRef": {"name": "m"}}]); }
        if mount { c["volumeMounts"] = json!([{"name": "v", "mountPath": "/home/a/.aws"}]); }
        c
    }
}

prop_compose! {
    fn arb_pod()(
        a in arb_container("a"),
        b in arb_container("b"),
        init in proptest::option::of(Just(json!([{"name": "i", "image": "i", "args": ["1"]}]))),
        index in proptest::option::of(0u32..4),
        mode in prop_oneof![Just("shared"), Just("independent")],
        size in 0u32..5,
        discovery in prop_oneof![Just("auto"), Just("announce"), Just("tap")],
        host_network in any::<bool>(),
        priority in proptest::option::of(0i32..3),
        group in any::<bool>(),
        owned in any::<bool>(),
        gates in proptest::option::of(Just(json!([{"name": "other"}]))),
        labels in proptest::option::of(Just(json!({"x/y~z": "1"}))),
    ) -> Value {
        let mut annotations = json!({
            names::STAMP: sluice_shared::stamp::Stamp {
                mode: mode.parse().unwrap(),
                size,
                discovery: discovery.parse().unwrap(),
                backend: Some("garnet".to_owned()),
                ..Default::default()
            }.to_annotation(),
            "fluence.flux-framework.org/attr-max-shots": "10",
        });
        if let Some(index) = index { annotations[names::COMPLETION_INDEX] = json!(index.to_string()); }
        let mut pod = json!({
            "metadata": {"generateName": "j-", "annotations": annotations},
            "spec": {
                "containers": [a, b],
                "serviceAccountName": "mine",
                "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
                "futureField": [1],
            },
        });
        if owned {
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}]);
        }
        if let Some(labels) = labels { pod["metadata"]["labels"] = labels; }
        if let Some(init) = init { pod["spec"]["initContainers"] = init; }
        if host_network { pod["spec"]["hostNetwork"] = json!(true); }
        if let Some(priority) = priority { pod["spec"]["priority"] = json!(priority); }
        if group { pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"}); }
        if let Some(gates) = gates { pod["spec"]["schedulingGates"] = gates; }
        pod
    }
}

fn names_in(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|e| e["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

proptest! {
    #[test]
    fn no_body_is_answered_with_a_failure_of_ours(value in arb_json(), junk in ".{0,40}") {
        let admission = mk_admission(&Value::Null);
        for resource in ["pods", "jobs"] {
            let path = format!("/admit/{resource}");
            let bodies = [
                serde_json::to_vec(&value).unwrap(),
                serde_json::to_vec(&mk_review(resource, &value)).unwrap(),
                junk.clone().into_bytes(),
            ];
            for body in bodies {
                let (status, _) = run(post(&admission, &path, body));
                prop_assert!([200, 400].contains(&status), "{status}");
            }
        }
    }

    #[test]
    fn shaping_is_idempotent_and_only_appends(pod in arb_pod(), pod_groups in any::<bool>()) {
        let admission = mk_admission(&json!({"podGroups": pod_groups, "priorityClass": "c"}));
        let (response, stored) = run(create(&admission, "pods", &pod));
        let (again, _) = run(create(&admission, "pods", &stored));
        prop_assert_eq!(&again["allowed"], &response["allowed"]);
        prop_assert_eq!(patch_of(&again), None);

        let (old, new) = (&pod["spec"], &stored["spec"]);
        prop_assert_eq!(&new["serviceAccountName"], &old["serviceAccountName"]);
        prop_assert_eq!(&new["futureField"], &old["futureField"]);
        prop_assert_eq!(names_in(&new["containers"]), names_in(&old["containers"]));
        for list in ["initContainers", "volumes", "schedulingGates"] {
            let (old, new) = (names_in(&old[list]), names_in(&new[list]));
            prop_assert_eq!(&new[..old.len()], &old[..], "{}", list);
        }
        for (old, new) in old["containers"].as_array().unwrap().iter()
            .zip(new["containers"].as_array().unwrap())
        {
            let (was, is) = (names_in(&old["env"]), names_in(&new["env"]));
            prop_assert_eq!(&is[..was.len()], &was[..]);
            for field in ["future", "image", "envFrom", "volumeMounts"] {
                prop_assert_eq!(&new[field], &old[field]);
            }
        }
        for field in ["annotations", "labels", "ownerReferences"] {
            if let Some(old) = pod["metadata"][field].as_object() {
                for (key, value) in old.iter().filter(|(k, _)| *k != names::STAMP) {
                    prop_assert_eq!(&stored["metadata"][field][key], value);
                }
            }
        }
    }

    #[test]
    fn the_role_decides_gate_sidecar_and_group(pod in arb_pod(), pod_groups in any::<bool>()) {
        let admission = mk_admission(&json!({"podGroups": pod_groups}));
        let (_, stored) = run(create(&admission, "pods", &pod));
        let gated = names_in(&stored["spec"]["schedulingGates"]).contains(&names::GATE.to_owned());
        let sidecar = stored["spec"]["initContainers"].as_array().into_iter().flatten()
            .find(|c| c["name"] == names::SIDECAR_CONTAINER);
        let group = &stored["spec"]["schedulingGroup"];
        match stored["metadata"]["labels"][names::ROLE].as_str() {
            Some("consumer") => {
                prop_assert!(gated && sidecar.is_none());
                prop_assert!(!pod_groups || group["podGroupName"].as_str().unwrap().starts_with("j-"));
            }
            Some(_) => {
                prop_assert!(!gated && group.is_null());
                prop_assert_eq!(&sidecar.unwrap()["restartPolicy"], "Always");
                let upstream = sidecar.unwrap()["env"].as_array().unwrap().iter()
                    .filter(|e| e["name"].as_str().unwrap().starts_with("SLUICE_UPSTREAM_"));
                for entry in upstream {
                    prop_assert_ne!(&entry["value"], "http://127.0.0.1:8731");
                }
            }
            None => prop_assert_eq!(stored, pod),
        }
    }
}

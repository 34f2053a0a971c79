//! The manifests agree with the code.

use std::path::PathBuf;

use clap::Parser;
use serde_json::Value;
use sluice_shared::names;
use sluice_webhook::app::crd;
use sluice_webhook::args::Args;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/base").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn documents(name: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&text(name)).unwrap()
}

/// Set `SLUICE_UPDATE=1` to write the file after a change of the types.
#[test]
fn the_definition_of_the_gang_is_the_generated_one() {
    let generated = crd().unwrap();
    if std::env::var_os("SLUICE_UPDATE").is_some() {
        std::fs::write(path("crd.yaml"), &generated).unwrap();
    }
    assert_eq!(text("crd.yaml"), generated, "run this test with SLUICE_UPDATE=1");
}

/// A field of the status that the policy does not name could be written by anybody's program.
#[test]
fn the_status_policy_names_every_field() {
    let policy = text("policy-gang-status.yaml");
    let schema = serde_saphyr::from_str::<Value>(&crd().unwrap()).unwrap();
    let status = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
        ["properties"]
        .as_object()
        .unwrap()
        .clone();
    assert!(status.len() > 5);
    for field in status.keys() {
        let pinned = format!("object.?status.?{field} == oldObject.?status.?{field}");
        assert!(policy.contains(&pinned), "policy-gang-status.yaml does not pin {field}");
    }
}

#[test]
fn names_and_ports_are_those_of_the_code() {
    let args = Args::parse_from(["sluice-webhook"]).serve;
    let webhook = &documents("webhook.yaml")[0];
    assert_eq!(webhook["metadata"]["name"], args.webhook_configuration.as_str());
    for hook in webhook["webhooks"].as_array().unwrap() {
        let service = &hook["clientConfig"]["service"];
        assert_eq!(service["name"], args.service.as_str());
        assert_eq!(service["namespace"], args.namespace.as_str());
        assert_eq!(hook["failurePolicy"], "Fail");
        assert_eq!(hook["sideEffects"], "None");
        assert!(hook["timeoutSeconds"].as_u64().unwrap() <= 5);
        let condition = hook["matchConditions"][0]["expression"].as_str().unwrap();
        assert!(condition.contains(names::QPU_RESOURCE));
    }
    let deployment = &documents("deployment.yaml")[0];
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let ports: Vec<u64> = container["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["containerPort"].as_u64().unwrap())
        .collect();
    assert_eq!(ports, [args.listen.port(), args.admin_listen.port()].map(u64::from));
    let variables = container["env"].as_array().unwrap();
    let known: Vec<String> = <Args as clap::CommandFactory>::command()
        .get_arguments()
        .filter_map(|a| a.get_env().map(|e| e.to_string_lossy().into_owned()))
        .collect();
    for variable in variables {
        let name = variable["name"].as_str().unwrap();
        assert!(known.iter().any(|k| k == name), "{name} is no flag");
    }
    let rbac = text("rbac.yaml");
    for name in [
        names::GANG_ROLE,
        names::KEEPER_VERB,
        &args.certificate_secret,
        &args.webhook_configuration,
        &sluice_keeper::KeeperConfig::new("n", "i").lease,
    ] {
        assert!(rbac.contains(name), "rbac.yaml does not know {name}");
    }
    let policy = text("policy-pods.yaml");
    for name in [
        names::ROLE,
        names::STAMP,
        names::SIDECAR_CONTAINER,
        names::ENV_ROLE,
        names::ENV_URL,
        names::ENV_QUANTUM_JOB_IDS,
    ] {
        assert!(policy.contains(name), "policy-pods.yaml does not know {name}");
    }
    let class = &documents("priorityclass.yaml")[0];
    let wanted = variables.iter().find(|v| v["name"] == "SLUICE_PRIORITY_CLASS").unwrap();
    assert_eq!(class["metadata"]["name"], wanted["value"]);
    assert_eq!(class["preemptionPolicy"], "Never");
}

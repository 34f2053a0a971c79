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
    let policy = text("policy-jobs.yaml");
    for name in [names::STAMP, names::JOB_LABEL, names::QPU_RESOURCE] {
        assert!(policy.contains(name), "policy-jobs.yaml does not know {name}");
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

/// The lines between two comments of a page, the comments left out.
const SETTINGS: [&str; 2] = ["<!-- settings", "<!-- end of settings -->"];

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/install.md")
}

/// Every flag with its variable, its default and what it says of itself.
fn settings() -> String {
    let head = "\n| flag | variable | default | meaning |\n|---|---|---|---|\n".to_owned();
    let command = <Args as clap::CommandFactory>::command();
    let rows = command.get_arguments().filter_map(|a| {
        let default = a.get_default_values().iter().map(|d| d.to_string_lossy());
        let default = default.collect::<Vec<_>>().join(",");
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        Some(format!(
            "| `--{}` | `{}` | {default} | {} |\n",
            a.get_long()?,
            a.get_env()?.to_string_lossy(),
            a.get_help()?
        ))
    });
    rows.fold(head, |page, row| page + &row) + "\n"
}

/// Set `SLUICE_UPDATE=1` to write the page after a change of the flags.
#[test]
fn the_page_for_administrators_knows_all_settings() {
    let text = std::fs::read_to_string(page()).unwrap();
    let (before, rest) = text.split_once(SETTINGS[0]).unwrap();
    let (comment, rest) = rest.split_once('\n').unwrap();
    let (table, after) = rest.split_once(SETTINGS[1]).unwrap();
    if std::env::var_os("SLUICE_UPDATE").is_some() {
        let new = [before, SETTINGS[0], comment, "\n", &settings(), SETTINGS[1], after].concat();
        std::fs::write(page(), new).unwrap();
        return;
    }
    assert_eq!(table, settings(), "run this test with SLUICE_UPDATE=1");
}

/// A message that nobody writes any more would mislead whoever looks for it.
#[test]
fn the_page_for_administrators_quotes_what_is_really_said() {
    let text = std::fs::read_to_string(page()).unwrap();
    let table = text.split_once("## Troubleshooting").unwrap().1;
    let folder = |name: &str| {
        let files =
            std::fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        files.map(|f| f.unwrap().path()).filter(|p| p.is_file())
    };
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = ["../manifests/base", "src", "src/tls", "src/shape", "../shared/src"]
        .into_iter()
        .flat_map(folder)
        .map(|p| squeezed(&std::fs::read_to_string(p).unwrap().replace("\\\n", "\n")))
        .collect();
    for quoted in [
        "waiting for: ",
        "the certificate",
        "the CA bundle in the webhook configuration",
        "cannot keep the certificate up to date, trying again; what is served stays",
        "; delete it, and it is made anew",
        "name the image of the sidecar",
        "its scheduling gate is missing: another webhook removed it",
        "its container sluice-sidecar is missing or has lost restartPolicy Always",
        "the pod carries a mark of Sluice but not its label",
        "of the pod template is written by Sluice when the Job is created and stays as it is",
        "the Job requests 0 of fluxion.flux-framework.org/qpu",
        "sluice-critical-pods",
        names::EVENT_NOT_STAMPED,
        names::EVENT_FOREIGN_GATE,
        names::EVENT_UNSCHEDULABLE,
    ] {
        assert!(table.contains(quoted), "docs/install.md does not quote {quoted:?}");
        assert!(said.contains(quoted), "nothing says {quoted:?} any more");
    }
}

#[test]
fn every_manifest_is_applied() {
    let listed = documents("kustomization.yaml")[0]["resources"].clone();
    let mut listed: Vec<String> = serde_json::from_value(listed).unwrap();
    listed.push("kustomization.yaml".to_owned());
    let mut there: Vec<String> = std::fs::read_dir(path("."))
        .unwrap()
        .map(|f| f.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    listed.sort();
    there.sort();
    assert_eq!(there, listed);
}

/// The keeper may take away what it gave, and nobody else's rights.
#[test]
fn rights_are_taken_away_by_name_only() {
    let all = documents("rbac.yaml");
    let rules = all.iter().flat_map(|r| r["rules"].as_array().into_iter().flatten());
    let mut seen = 0;
    for rule in rules {
        let has = |field: &str, word: &str| {
            rule[field].as_array().is_some_and(|l| l.iter().any(|v| v == word))
        };
        assert!(!has("verbs", "*") && !has("resources", "*"), "{rule}");
        for (resource, verb) in [
            ("rolebindings", "delete"),
            ("clusterroles", "bind"),
            ("secrets", "get"),
            ("mutatingwebhookconfigurations", "patch"),
        ] {
            if has("resources", resource) && has("verbs", verb) {
                assert_eq!(rule["resourceNames"].as_array().map(Vec::len), Some(1), "{rule}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 4);
}

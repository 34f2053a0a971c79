//! Where credentials come from: the real sidecar and an ordinary program with the same environment,
//! for every source that the AWS SDKs know.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use sluice_vendors::{Emulator, Running as Vendor};
use tempfile::TempDir;
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::parent::{self, Running};

const PATIENCE: Duration = Duration::from_mins(2);

type Vars = Vec<(&'static str, String)>;

/// A vendor, a gang, and a folder that stands for what is mounted in both containers.
struct Pod {
    vendor: Vendor,
    cluster: Cluster,
    folder: TempDir,
}

impl Pod {
    async fn new() -> Self {
        let vendor = Emulator::start(sluice_vendors::Config::for_testing()).await.unwrap();
        let cluster = Cluster::start().await;
        cluster.create_gang("g-1");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kube"), cluster.kubeconfig()).unwrap();
        Self { vendor, cluster, folder }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The sidecar, with what the webhook copies from the program's container.
    async fn sidecar(&self, vars: &Vars) -> Running {
        let mut command = parent::command();
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_REGION", "eu-north-1")
            .env("AWS_ENDPOINT_URL_STS", self.vendor.braket_url())
            .env("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", self.vendor.braket_url())
            .env("KUBECONFIG", self.folder.path().join("kube"))
            .envs(vars.iter().map(|(name, value)| (name, value)));
        Running::of(command).await
    }

    /// The program, with the endpoint that the webhook sets.
    async fn program(&self, sidecar: &Running, vars: &Vars) -> Value {
        let python = match std::env::var_os("SLUICE_PYTHON") {
            Some(path) => path.into(),
            None => sluice_lab::python_env().unwrap().python(),
        };
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/source.py");
        let output = Command::new(python)
            .arg(program)
            .env_clear()
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_REGION", "eu-north-1")
            .env("AWS_ENDPOINT_URL_STS", self.vendor.braket_url())
            .env("AWS_ENDPOINT_URL_BRAKET", sidecar.tap_url())
            .envs(vars.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, output).await.unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}\n{}", sidecar.log());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Key ids with which the vendor was asked for an operation.
    fn keys(&self, operation: &str) -> Vec<String> {
        let entries = self.vendor.journal().into_iter().filter(|e| e.operation == operation);
        entries.filter_map(|entry| entry.access_key_id).collect()
    }
}

fn vars(list: &[(&'static str, &str)]) -> Vars {
    list.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

const KEYS: &str = "aws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = secret\n";

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_stand_somewhere_are_the_same_for_program_and_sidecar() {
    let pod = Pod::new().await;
    let credentials = pod.write("keys/credentials", &format!("[lab]\n{KEYS}"));
    let config = pod.write("keys/config", "[profile lab]\nregion = eu-north-1\n");
    pod.write("home/.aws/credentials", &format!("[default]\n{KEYS}"));
    let home = pod.folder.path().join("home");
    for (name, vars) in [
        (
            "environment",
            vars(&[("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret")]),
        ),
        (
            "session in the environment",
            vars(&[
                ("AWS_ACCESS_KEY_ID", "ASIASESSION"),
                ("AWS_SECRET_ACCESS_KEY", "session-secret"),
                ("AWS_SESSION_TOKEN", "session-token"),
                // A role beside literal keys: those go first in every SDK.
                ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod"),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", &pod.write("token", "a.b.c")),
            ]),
        ),
        (
            "profile by name",
            vars(&[
                ("AWS_PROFILE", "lab"),
                ("AWS_SHARED_CREDENTIALS_FILE", &credentials),
                ("AWS_CONFIG_FILE", &config),
            ]),
        ),
        ("profile in the home", vars(&[("HOME", home.to_str().unwrap())])),
    ] {
        let sidecar = pod.sidecar(&vars).await;
        let seen = pod.program(&sidecar, &vars).await;
        assert!(seen["task"].is_string(), "{name}: {seen}");
        let used = pod.keys("CreateQuantumTask").pop().unwrap();
        assert_eq!(seen["key"], used.as_str(), "{name}");
        let (_, log) = sidecar.end().await;
        assert!(!log.contains("as the pod's role"), "{name}: its signature was checked\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_give_program_and_sidecar_keys_of_their_own_and_the_program_runs_all_the_same() {
    let pod = Pod::new().await;
    let (token, agent) = (pod.write("token", "a.b.c"), pod.write("agent", "container-token"));
    let role = "arn:aws:iam::123456789012:role/pod";
    let profile = pod.write(
        "config",
        &format!("[profile lab]\nrole_arn = {role}\nsource_profile = base\n[profile base]\n{KEYS}"),
    );
    let url = pod.vendor.container_credentials_url();
    for (name, vars) in [
        (
            "service account (IRSA)",
            vars(&[("AWS_ROLE_ARN", role), ("AWS_WEB_IDENTITY_TOKEN_FILE", &token)]),
        ),
        (
            "EKS Pod Identity",
            vars(&[
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &agent),
                // A proxy is not for what is in the pod or on the node.
                ("HTTP_PROXY", "http://127.0.0.1:9"),
                ("NO_PROXY", "127.0.0.1"),
            ]),
        ),
        (
            "container credentials with a token in the environment",
            vars(&[
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token"),
            ]),
        ),
        ("role of a profile", vars(&[("AWS_PROFILE", "lab"), ("AWS_CONFIG_FILE", &profile)])),
    ] {
        let sidecar = pod.sidecar(&vars).await;
        let seen = pod.program(&sidecar, &vars).await;
        assert!(seen["task"].is_string(), "{name}: {seen}");
        let used = pod.keys("CreateQuantumTask").pop().unwrap();
        assert_ne!(seen["key"], used.as_str(), "{name}: each has its own");
        let (_, log) = sidecar.end().await;
        assert!(log.contains("as the pod's role") && log.contains(&used), "{name}: {log}");
        assert!(log.contains(seen["key"].as_str().unwrap()), "{name}: both keys are named\n{log}");
    }
    assert!(pod.cluster.vendor().unwrap().problem.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_takes_on_a_role_of_another_account_is_told_to_announce() {
    let pod = Pod::new().await;
    let token = pod.write("token", "a.b.c");
    let vars = vars(&[
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
        ("OTHER_ROLE", "arn:aws:iam::210987654321:role/lab"),
    ]);
    let sidecar = pod.sidecar(&vars).await;
    let error = pod.program(&sidecar, &vars).await;
    assert_eq!(error["Code"], "AccessDeniedException", "{error}");
    let message = error["Message"].as_str().unwrap();
    for part in ["123456789012", "210987654321", "announce"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(pod.vendor.tasks().is_empty(), "nobody pays from the wrong account");
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn short_sessions_are_renewed_again_and_again() {
    let pod = Pod::new().await;
    let role = sluice_vendors::ContainerRole { seconds: 4, ..Default::default() };
    pod.vendor.set_container(role);
    let url = pod.vendor.container_credentials_url();
    let vars = vars(&[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token"),
    ]);
    let sidecar = pod.sidecar(&vars).await;
    let id = crate::worker::submit(&pod.vendor.braket_url(), crate::worker::GARNET).await;
    let pretend = sluice_vendors::Pretence { status: Some("QUEUED".into()), ..Default::default() };
    let change = sluice_vendors::StateChange { pretend: Some(pretend), ..Default::default() };
    pod.vendor.change_state(&id, change).unwrap();
    let told = reqwest::Client::new()
        .post(format!("http://{}/v1/tasks", sidecar.control))
        .json(&serde_json::json!({"id": id}))
        .send();
    assert_eq!(told.await.unwrap().status().as_u16(), 202);
    let looks = crate::await_some("looks with three keys", async || {
        let mut keys = pod.keys("GetQuantumTask");
        keys.dedup();
        (keys.len() >= 3).then_some(keys)
    });
    looks.await;
    let refused = pod.vendor.counts().get("GetQuantumTask 403").copied();
    assert_eq!(refused, None, "renewed in time, not after a refusal");
    sidecar.end().await;
}

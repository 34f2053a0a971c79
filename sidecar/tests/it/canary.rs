//! No secret anywhere: the real sidecar at the most talkative level, led through everything that
//! can go wrong, with a distinctive text in every place where a secret can be.

use std::fmt::Write as _;

use aws_credential_types::Credentials;
use aws_sdk_braket::Client;
use aws_sdk_braket::config::retry::RetryConfig;
use aws_sdk_braket::config::{BehaviorVersion, Region};
use sluice_vendors::{
    Action, Ahead, ContainerRole, Emulator, Fault, Principal, Running as Vendor, Stage, StateChange,
};
use tempfile::TempDir;

use crate::await_some;
use crate::cluster::Cluster;
use crate::parent::{self, Running};
use crate::worker::{GARNET, await_position};

/// In every secret of these tests.
const CANARY: &str = "canary";
/// More than a user can ask for: libraries that see headers, by name.
const LOUD: &str = "trace,aws_config=trace,aws_sdk_sts=trace,aws_smithy_runtime=trace,\
                    aws_smithy_runtime::client::orchestrator=trace,aws_sigv4=trace,hyper=trace,\
                    hyper_util=trace,h2=trace,reqwest=trace,rustls=trace,kube_client=trace";

struct Scene {
    vendor: Vendor,
    cluster: Cluster,
    folder: TempDir,
    /// Everything that was said and can be read by others.
    said: String,
}

impl Scene {
    async fn new() -> Self {
        let config =
            sluice_vendors::Config::for_testing().by_hand(Ahead { normal: 2, priority: 0 });
        let vendor = Emulator::start(config).await.unwrap();
        let user = Principal::user("ASIALIVE", "canary-secret", "123456789012", "alice");
        vendor.add_principal(user.with_session("canary-session", None));
        let cluster = Cluster::start().await;
        cluster.create_gang("g-1");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kube"), cluster.kubeconfig()).unwrap();
        Self { vendor, cluster, folder, said: String::new() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    async fn sidecar(&self, format: &str, vars: &[(&str, &str)]) -> Running {
        let mut command = parent::command();
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_REGION", "eu-north-1")
            .env("AWS_ENDPOINT_URL_STS", self.vendor.braket_url())
            .env("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", self.vendor.braket_url())
            .env("HTTPS_PROXY", "http://me:canary-proxy@127.0.0.1:9")
            .env("SLUICE_LOG", LOUD)
            .env("SLUICE_LOG_FORMAT", format)
            .env("KUBECONFIG", self.path("kube"))
            .envs(vars.iter().copied());
        Running::of(command).await
    }

    async fn problem(&self, part: &str) {
        await_some(&format!("a problem with {part:?}"), async || {
            self.cluster.vendor()?.problem.filter(|text| text.contains(part))
        })
        .await;
    }

    async fn listen(&mut self, sidecar: &Running) {
        let state = reqwest::get(format!("http://{}/v1/state", sidecar.control)).await.unwrap();
        let state = state.text().await.unwrap();
        writeln!(self.said, "{state}").unwrap();
    }

    async fn end(&mut self, sidecar: Running) -> String {
        self.listen(&sidecar).await;
        let (_, log) = sidecar.end().await;
        self.said.push_str(&log);
        log
    }

    fn judge(mut self, log: &str) {
        for (_, patch) in self.cluster.patches() {
            writeln!(self.said, "{patch}").unwrap();
        }
        assert!(log.contains("TRACE") || log.contains("DEBUG"), "it was talkative");
        let seen: Vec<&str> = self.said.lines().filter(|line| line.contains(CANARY)).collect();
        assert!(seen.is_empty(), "{seen:#?}");
        assert!(!self.said.contains("Credential="), "a signature's header");
    }
}

fn client(url: &str, keys: Credentials) -> Client {
    let config = aws_sdk_braket::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-north-1"))
        .credentials_provider(keys)
        .retry_config(RetryConfig::disabled())
        .endpoint_url(url);
    Client::from_conf(config.build())
}

fn keys(id: &str, secret: &str, token: &str) -> Credentials {
    Credentials::new(id, secret, Some(token.to_owned()), None, "program")
}

async fn submit(client: &Client) -> Option<String> {
    let sent = client
        .create_quantum_task()
        .device_arn(GARNET)
        .shots(1)
        .output_s3_bucket("amazon-braket-x")
        .output_s3_key_prefix("k")
        .action(
            r#"{"braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
                "source": "OPENQASM 3.0; qubit[1] q; h q[0];", "inputs": {}}"#,
        );
    sent.send().await.ok().map(|made| made.quantum_task_arn)
}

/// As the vendor answers a signature that it does not accept: with the request as it saw it.
fn telling(code: &str) -> Action {
    Action::Error {
        code: code.to_owned(),
        status: None,
        message: "The Canonical String for this request should have been\n'GET\n/x\n\nhost:b\n\
                  x-amz-security-token:canary-session\n\nhost' (Authorization: AWS4-HMAC-SHA256 \
                  Credential=ASIALIVE/x, Signature=canary-signature)"
            .to_owned(),
        retry_after: None,
        when: Stage::Before,
    }
}

async fn ask(url: &str, path: &str, authorization: &str) {
    let sent = reqwest::Client::new()
        .get(format!("{url}{path}"))
        .header("authorization", authorization)
        .header("x-amz-date", "20261129T155034Z")
        .send();
    assert!(sent.await.unwrap().status().is_client_error());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_a_file_never_show() {
    let mut scene = Scene::new().await;
    let good = "[default]\naws_access_key_id = ASIALIVE\naws_secret_access_key = canary-secret\n\
                aws_session_token = canary-session\n";
    let file = scene.write("credentials", good);
    let sidecar = scene.sidecar("text", &[("AWS_SHARED_CREDENTIALS_FILE", &file)]).await;
    let url = sidecar.tap_url();
    let own = client(&url, keys("ASIALIVE", "canary-secret", "canary-session"));

    // Signatures that are wrong, foreign, unreadable; a presigned URL that came to the wrong place.
    assert_eq!(
        submit(&client(&url, keys("ASIALIVE", "canary-guess", "canary-session"))).await,
        None
    );
    assert_eq!(
        submit(&client(&url, keys("ASIAOTHER", "canary-other", "canary-token"))).await,
        None
    );
    let device = "/device/arn%3Aaws%3Abraket%3A%3A%3Adevice%2Fx";
    ask(&url, device, "Bearer canary-bearer").await;
    ask(&url, device, "AWS4-HMAC-SHA256 canary=1, Signature=canary-signature").await;
    ask(&url, &format!("{device}?b=<canary"), "AWS4-HMAC-SHA256 x").await;
    let presigned =
        "/bucket/key?X-Amz-Signature=canary-presigned&X-Amz-Security-Token=canary-token";
    ask(&url, presigned, "none").await;
    scene.problem("not forwarded").await;

    // A vendor that tells too much, breaks off, hands out a presigned URL, and ends the session.
    scene.vendor.add_fault(Fault::next(
        1,
        "CreateQuantumTask",
        telling("InvalidSignatureException"),
    ));
    assert_eq!(submit(&own).await, None);
    await_some("the refusal in the log", async || {
        sidecar.log().contains("The Canonical String").then_some(())
    })
    .await;
    let id = submit(&own).await.unwrap();
    await_position(&scene.cluster, "3").await;
    scene.vendor.add_fault(Fault::next(2, "GetQuantumTask", telling("AccessDeniedException")));
    scene.problem("refuses the sidecar's credentials").await;
    scene.vendor.clear_faults();
    scene.vendor.add_fault(Fault::next(1, "GetQuantumTask", Action::Close { when: Stage::Before }));
    let _ = own.get_quantum_task().quantum_task_arn(&id).send().await;
    assert!(scene.vendor.expire("ASIALIVE"));
    scene.problem("ExpiredToken").await;
    scene.listen(&sidecar).await;
    // A file that is half written, then one with other keys.
    scene.write("credentials", "[default\naws_secret_access_key canary-broken\n");
    scene.problem("no AWS credentials").await;
    scene.listen(&sidecar).await;
    scene.write("credentials", &good.replace("ASIALIVE", "ASIANEXT"));
    let user = Principal::user("ASIANEXT", "canary-secret", "123456789012", "alice");
    scene.vendor.add_principal(user.with_session("canary-session", None));
    let reason = "see https://b.s3/x?X-Amz-Signature=canary-presigned&X-Amz-Security-Token=canary";
    let failed = StateChange {
        state: Some("FAILED".into()),
        reason: Some(reason.into()),
        ..StateChange::default()
    };
    scene.vendor.change_state(&id, failed).unwrap();
    await_some("the failed task in the gang", async || {
        scene.cluster.vendor()?.tasks.first()?.reason.clone().filter(|r| r.contains("b.s3/x"))
    })
    .await;
    let log = scene.end(sidecar).await;
    assert!(log.contains("ASIAOTHER") && log.contains("ExpiredToken"), "{log}");
    scene.judge(&log);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_identities_and_services_never_show() {
    let mut scene = Scene::new().await;
    let token = scene.write("token", "eyJ.canary-identity.sig");
    let role = ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod");
    let identity = [role, ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str())];
    let url = scene.vendor.container_credentials_url();
    let container = |token: &str| ContainerRole {
        authorization: token.to_owned().into(),
        ..ContainerRole::default()
    };
    scene.vendor.set_container(container("canary-container"));
    let service = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "canary-container"),
    ];
    let mut log = String::new();
    for (operation, vars) in
        [("AssumeRoleWithWebIdentity", identity), ("ContainerCredentials", service)]
    {
        let mut sidecar = scene.sidecar("json", &vars).await;
        let program = keys("ASIAPROGRAM", "canary-program", "canary-token");
        assert!(
            submit(&client(&sidecar.tap_url(), program.clone())).await.is_some(),
            "{operation}"
        );
        log += &scene.end(sidecar).await;
        // A source that says too much, and nothing of use.
        let body = r#"{"SecretAccessKey": "canary-half", "Token": "canary-half"}"#;
        let half = Action::Answer {
            status: 200,
            content_type: "application/json".into(),
            body: body.into(),
            when: Stage::Before,
        };
        scene.vendor.add_fault(Fault::next(100, operation, half));
        sidecar = scene.sidecar("json", &vars).await;
        assert_eq!(submit_briefly(&sidecar, program).await, None, "{operation}");
        scene.problem("no AWS credentials").await;
        log += &scene.end(sidecar).await;
        scene.vendor.clear_faults();
    }
    scene.judge(&log);
}

/// A submission whose program does not wait until the hold is over.
async fn submit_briefly(sidecar: &Running, program: Credentials) -> Option<String> {
    let client = client(&sidecar.tap_url(), program);
    let sent = submit(&client);
    tokio::time::timeout(std::time::Duration::from_secs(3), sent).await.ok().flatten()
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_named_without_their_secrets() {
    let mut command = parent::command();
    command
        .env("SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET", "https://me:canary-user@braket.example/")
        .env("HTTPS_PROXY", "http://me:canary proxy@[")
        .env("SLUICE_LOG", LOUD);
    let output = command.output().await.unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && log.contains("AWS_ENDPOINT_URL_BRAKET"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
}

#[tokio::test]
async fn no_key_and_no_token_of_a_resource_is_in_any_text() {
    let mut scene = Scene::new().await;
    let at = |name: &str| format!("{}/{name}", scene.vendor.braket_url());
    let (iqm, pasqal, tokens) = (at("iqm"), at("pasqal"), at("pasqal/oauth/token"));
    let vars = [
        ("SLUICE_RESOURCES", r#"["iqm-server/garnet", "pasqal-cloud/FRESNEL", "iqm-server/x"]"#),
        ("SLUICE_UPSTREAM_garnet_QRMI_IQM_ISA_ENDPOINT", iqm.as_str()),
        ("garnet_QRMI_IQM_ISA_TOKEN", "canary-token"),
        ("SLUICE_UPSTREAM_x_QRMI_IQM_ISA_ENDPOINT", "https://me:canary-password@iqm.example"),
        ("SLUICE_UPSTREAM_FRESNEL_QRMI_PASQAL_CLOUD_BASE_URL", pasqal.as_str()),
        ("FRESNEL_QRMI_PASQAL_CLOUD_AUTH_ENDPOINT", tokens.as_str()),
        ("FRESNEL_QRMI_PASQAL_CLOUD_CLIENT_ID", "team"),
        ("FRESNEL_QRMI_PASQAL_CLOUD_CLIENT_SECRET", "team-key"),
    ];
    let sidecar = scene.sidecar("text", &vars).await;
    let url = format!("http://{}/v1/tasks", sidecar.control);
    for (id, resource) in [
        ("834b21ed-0000-4000-8000-000000000000", "garnet"),
        ("834b21ed-0000-4000-8000-000000000001", "FRESNEL"),
        ("834b21ed-0000-4000-8000-000000000002", "x"),
    ] {
        let body = serde_json::json!({"id": id, "resource": resource});
        let answer = reqwest::Client::new().post(&url).json(&body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 202, "{resource}");
    }
    scene.problem("iqm-server/garnet refuses the credentials").await;
    await_some("a look with a token that was bought", async || {
        scene.vendor.counts().contains_key("pasqal:GetBatch 404").then_some(())
    })
    .await;
    let log = scene.end(sidecar).await;
    assert!(log.contains("x_QRMI_IQM_ISA_ENDPOINT of the program"), "a hint");
    // A token of the emulator is a JSON web token.
    for secret in ["eyJ", "team-key"] {
        let seen: Vec<_> = scene.said.lines().filter(|line| line.contains(secret)).collect();
        assert!(seen.is_empty(), "{seen:#?}");
    }
    scene.judge(&log);
}

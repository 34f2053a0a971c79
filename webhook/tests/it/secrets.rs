//! What an admission sees and does not tell, and identities that others add.

use std::cell::RefCell;
use std::io::Write;

use serde_json::{Value, json};
use sluice_shared::names;
use sluice_shared::stamp::Stamp;
use tracing_subscriber::EnvFilter;

use crate::fixture::{create, mk_admission, mk_review, post};

thread_local! {
    /// The log of this thread, where it is wanted.
    static PAGE: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

struct Page;

impl Write for Page {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        PAGE.with_borrow_mut(|page| page.iter_mut().for_each(|p| p.extend_from_slice(text)));
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Keeps the log of this thread from now on. One subscriber for the whole process: one of this
/// thread alone misses lines that another test has reached before.
fn listen() {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("trace"))
        .with_writer(|| Page)
        .with_ansi(false)
        .init();
    PAGE.set(Some(Vec::new()));
}

fn mk_pod() -> Value {
    json!({
        "metadata": {
            "name": "maxcut-0",
            "annotations": {
                names::STAMP: Stamp { size: 8, ..Stamp::default() }.to_annotation(),
                names::COMPLETION_INDEX: "0",
            },
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "maxcut", "uid": "u"},
            ],
        },
        "spec": {"containers": [{
            "name": "main",
            "image": "i",
            "resources": {"limits": {names::QPU_RESOURCE: "1"}},
            "env": [
                {"name": "AWS_ACCESS_KEY_ID", "value": "AKIDEXAMPLE"},
                {"name": "AWS_SECRET_ACCESS_KEY", "value": "canary-secret"},
                {"name": "AWS_SESSION_TOKEN", "value": "canary-session"},
                {"name": "AWS_CONTAINER_AUTHORIZATION_TOKEN", "value": "canary-container"},
                {"name": "HTTPS_PROXY", "value": "http://me:canary-proxy@proxy:3128"},
                {"name": "OTHER", "value": "canary-other"},
            ],
        }]},
    })
}

fn at<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    value.pointer_mut(path).unwrap()
}

/// On one thread, so that the log of this test alone is caught.
#[tokio::test]
async fn literal_secrets_of_a_pod_are_in_no_log_warning_or_metric() {
    listen();
    let mut registry = prometheus_client::registry::Registry::default();
    let mut admission = mk_admission(&Value::Null);
    admission.metrics = sluice_webhook::metrics::Metrics::register(&mut registry);
    let admit = async |object: &Value| {
        let body = serde_json::to_vec(&mk_review("pods", object)).unwrap();
        let (_, body) = post(&admission, "/admit/pods", body).await;
        let review: Value = serde_json::from_slice(&body).unwrap_or_default();
        let response = &review["response"];
        // What others than the sender see: warnings are shown, audit annotations are stored.
        let mut told = response["warnings"].to_string();
        told += &response["auditAnnotations"].to_string();
        (response["allowed"] == true, told)
    };
    let env = "/spec/containers/0/env";
    let (allowed, mut told) = admit(&mk_pod()).await;
    assert!(allowed, "{told}");
    // Refused: the tap is insisted upon and impossible; with a warning: it is not.
    for discovery in ["tap", "auto"] {
        let mut pod = mk_pod();
        let stamp = Stamp { size: 8, discovery: discovery.parse().unwrap(), ..Stamp::default() };
        pod["metadata"]["annotations"][names::STAMP] = json!(stamp.to_annotation());
        let entries = at(&mut pod, env).as_array_mut().unwrap();
        entries.push(json!({"name": "AWS_USE_FIPS_ENDPOINT", "value": "true"}));
        let (allowed, more) = admit(&pod).await;
        assert_eq!(allowed, discovery == "auto");
        told += &more;
    }
    // Values of wrong types, which errors of the parser like to repeat.
    for (path, wrong) in [
        ("/spec/containers/0/env", json!("canary-type")),
        ("/spec/containers/0/env/1", json!("canary-type")),
        ("/spec/containers/0/env/1/valueFrom", json!("canary-type")),
        ("/spec/hostNetwork", json!("canary-type")),
    ] {
        let mut pod = mk_pod();
        pod["spec"]["hostNetwork"] = json!(false);
        at(&mut pod, "/spec/containers/0/env/1")["valueFrom"] = Value::Null;
        *at(&mut pod, path) = wrong;
        assert!(!admit(&pod).await.0, "{path}");
    }
    let (status, _) = post(&admission, "/admit/pods", br#"{"kind": "canary-body"#.to_vec()).await;
    assert_eq!(status, 400);
    prometheus_client::encoding::text::encode(&mut told, &registry).unwrap();
    let log = String::from_utf8(PAGE.take().unwrap()).unwrap();
    assert!(log.contains("admitted") && log.contains("cannot be read"), "it was caught: {log}");
    for text in [log, told] {
        assert!(!text.contains("canary"), "{text}");
    }
}

#[tokio::test]
async fn an_identity_that_is_added_after_us_reaches_the_sidecar_by_the_second_call() {
    let admission = mk_admission(&Value::Null);
    let mut plain = mk_pod();
    *at(&mut plain, "/spec/containers/0/env") = json!([]);
    let (_, mut stored) = create(&admission, "pods", &plain).await;
    // As the webhook of EKS does it, told to leave the sidecar alone.
    let folder = "/var/run/secrets/eks.amazonaws.com/serviceaccount";
    let added = [
        json!({"name": "AWS_ROLE_ARN", "value": "arn:aws:iam::123456789012:role/quantum"}),
        json!({"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": format!("{folder}/token")}),
    ];
    let entries = at(&mut stored, "/spec/containers/0/env").as_array_mut().unwrap();
    entries.extend(added.clone());
    let mount = json!({"name": "aws-iam-token", "mountPath": folder, "readOnly": true});
    stored["spec"]["containers"][0]["volumeMounts"] = json!([mount.clone()]);
    let volumes = at(&mut stored, "/spec/volumes").as_array_mut().unwrap();
    volumes.push(json!({"name": "aws-iam-token", "projected": {"sources": []}}));
    let (_, repaired) = create(&admission, "pods", &stored).await;
    let sidecar = &repaired["spec"]["initContainers"][0];
    let env = sidecar["env"].as_array().unwrap();
    assert!(added.iter().all(|entry| env.contains(entry)), "{sidecar:#}");
    assert!(sidecar["volumeMounts"].as_array().unwrap().contains(&mount), "{sidecar:#}");
    assert_eq!(create(&admission, "pods", &repaired).await.1, repaired, "and a third is none");
}

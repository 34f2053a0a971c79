//! Credentials on the real cluster: a mounted file whose keys end while the task waits, and the
//! role of a service account.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_shared::gang::QuantumGang;
use sluice_shared::names;
use sluice_stories::job::{ACCOUNT, Draft};
use sluice_stories::stage::{Stage, gated, started};
use sluice_stories::world::World;
use sluice_vendors::{Ahead, Principal};

crate::stories![
    keys_of_a_mounted_file_end_and_are_renewed_while_the_task_waits,
    the_role_of_a_service_account,
];

/// In every secret of the first story.
const CANARY: &str = "canary";
const FILE: &str = "session";

/// Lets a session in at the vendor, and returns the file that holds its keys.
fn session(stage: &Stage<'_>, name: &str) -> String {
    let (key, token) = (format!("ASIA{name}"), format!("canary-token-{name}"));
    let user = Principal::user(&key, "canary-secret", ACCOUNT, "alice").with_session(&token, None);
    stage.vendor.add_principal(user);
    format!(
        "[default]\naws_access_key_id = {key}\naws_secret_access_key = canary-secret\n\
         aws_session_token = {token}\n"
    )
}

fn mounted(draft: Draft, name: &str, path: &str, volume: &Value) -> Draft {
    let pod = "/spec/template/spec";
    let mut job = draft.job();
    let mut list = |pointer: &str, entry: Value| {
        let place = job.pointer_mut(pointer).and_then(Value::as_array_mut);
        place.map(|list| {
            list.push(entry);
            Value::from(list.clone())
        })
    };
    let (mounts, volumes) = (format!("{pod}/containers/0/volumeMounts"), format!("{pod}/volumes"));
    let mut entry = volume.clone();
    entry["name"] = json!(name);
    let all = [
        (mounts.clone(), list(&mounts, json!({"name": name, "mountPath": path}))),
        (volumes.clone(), list(&volumes, entry)),
    ];
    all.into_iter().fold(draft, |draft, (pointer, value)| match value {
        Some(value) => draft.set(&pointer, value),
        None => draft,
    })
}

fn message(gang: &QuantumGang) -> &str {
    gang.status.as_ref().and_then(|s| s.message.as_deref()).unwrap_or_default()
}

async fn keys_of_a_mounted_file_end_and_are_renewed_while_the_task_waits(
    world: &World,
) -> Result<()> {
    let stage = world
        .stage_with("keys-end", |config| config.by_hand(Ahead { normal: 2, priority: 0 }))
        .await?;
    let secrets = stage.api::<Secret>();
    let file = json!({"metadata": {"name": FILE}, "stringData": {"keys": session(&stage, "OLD")}});
    secrets.create(&PostParams::default(), &serde_json::from_value(file)?).await?;
    let draft = stage
        .draft("j", 2, "patient.py")
        .set("/spec/template/spec/containers/0/envFrom", json!([]))
        .env("AWS_SHARED_CREDENTIALS_FILE", "/keys/keys")
        .env(names::ENV_LOG, "trace");
    let draft = mounted(draft, FILE, "/keys", &json!({"secret": {"secretName": FILE}}));
    let job = stage.submit(&draft).await?;
    stage
        .gang(&job, "position 3 is shown", |g| {
            g.status.as_ref().and_then(|s| s.position.as_deref()) == Some("3")
        })
        .await?;

    ensure!(stage.vendor.expire("ASIAOLD"), "the vendor does not know the key");
    // At the front meanwhile: nobody is told, so nobody is released.
    stage.vendor.step(Some("Garnet"), 2).await?;
    let gang = stage
        .gang(&job, "it says that the keys have ended", |g| {
            message(g).contains("credentials have ended") && message(g).contains("mounted file")
        })
        .await?;
    let pods = stage.pods("j", "both pods", |p| p.len() == 2).await?;
    ensure!(gated(&pods[1]), "released without keys: {:?}", gang.status);

    let renewed = json!({"stringData": {"keys": session(&stage, "NEW")}});
    secrets.patch(FILE, &PatchParams::default(), &Patch::Merge(&renewed)).await?;
    // A change of the pod has the kubelet look at once; without it this takes about a minute.
    let touched = json!({"metadata": {"annotations": {"story": "renewed"}}});
    let producer = pods[0].name_any();
    stage.api::<Pod>().patch(&producer, &PatchParams::default(), &Patch::Merge(&touched)).await?;
    stage.pods("j", "the gate is open", |p| p.len() == 2 && !gated(&p[1])).await?;
    stage.run_task().await?;
    stage.completed("j").await?;
    ensure!(stage.vendor.tasks().len() == 1, "paid twice: {:?}", stage.vendor.tasks());

    // Everything of it that anybody can read.
    let pods = stage.pods("j", "both pods", |p| p.len() == 2).await?;
    let log = stage.log(&pods[0], names::SIDECAR_CONTAINER).await?;
    ensure!(log.contains("DEBUG"), "the sidecar was not talkative:\n{log}");
    let gangs = stage.api::<QuantumGang>().list(&ListParams::default()).await?;
    let events = stage.api::<Event>().list(&ListParams::default()).await?;
    let system = world.system_log().await?;
    for (what, text) in [
        ("the sidecar's log", log),
        ("the gang", json!(gangs.items).to_string()),
        ("the Events", json!(events.items).to_string()),
        ("the log of webhook and keeper", system),
    ] {
        let seen: Vec<&str> = text.lines().filter(|line| line.contains(CANARY)).collect();
        ensure!(seen.is_empty(), "a secret in {what}: {seen:#?}");
    }
    stage.strike().await
}

async fn the_role_of_a_service_account(world: &World) -> Result<()> {
    let stage = world.stage("role").await?;
    // As the identity webhook of EKS writes it.
    let folder = "/var/run/secrets/eks.amazonaws.com/serviceaccount";
    let draft = stage
        .draft("j", 2, "fanout.py")
        .set("/spec/template/spec/containers/0/envFrom", json!([]))
        .env("AWS_ROLE_ARN", format!("arn:aws:iam::{ACCOUNT}:role/quantum"))
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", format!("{folder}/token"));
    let token = json!({"projected": {"sources": [
        {"serviceAccountToken": {"audience": "sts.amazonaws.com", "path": "token"}},
    ]}});
    stage.submit(&mounted(draft, "aws-iam-token", folder, &token)).await?;
    stage.pods("j", "the gate is open", |p| p.len() == 2 && !gated(&p[1])).await?;
    stage.run_task().await?;
    stage.completed("j").await?;
    let pods = stage.pods("j", "both pods ran", |p| p.len() == 2 && p.iter().all(started)).await?;
    let log = stage.sidecar_says(&pods[0], "as the pod's role").await?;
    let made = stage.vendor.journal();
    let made = made.iter().find(|e| e.operation == "CreateQuantumTask").context("no submission")?;
    let key = made.access_key_id.as_deref().unwrap_or_default();
    ensure!(key.starts_with("ASIA") && log.contains(key), "{key} is not named:\n{log}");
    ensure!(stage.vendor.tasks().len() == 1, "paid twice: {:?}", stage.vendor.tasks());
    stage.strike().await
}

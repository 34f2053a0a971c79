//! The three policies that check after everyone: pods at their creation, who writes what of a
//! gang, what the keeper writes on pods.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sluice_lab::await_value;
use sluice_shared::gang::QuantumGang;
use sluice_shared::{gate, names};
use sluice_stories::stage::{LIMIT, Stage, gated};
use sluice_stories::world::{SYSTEM, World};
use sluice_vendors::Ahead;

crate::stories![
    only_the_producer_writes_its_gang,
    the_keeper_is_narrowed,
    a_stamp_stays_as_it_is;
    alone:
    a_pod_that_lost_what_makes_its_role_is_refused,
];

/// A client with the token of a service account, bound to a pod if one is given.
async fn client_of(stage: &Stage<'_>, pod: Option<&Pod>) -> Result<Client> {
    let accounts = stage.api::<ServiceAccount>();
    let bound = pod.map(|pod| BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some(pod.name_any()),
        uid: pod.uid(),
    });
    let request = TokenRequest {
        spec: Some(TokenRequestSpec { bound_object_ref: bound, ..Default::default() }),
        ..Default::default()
    };
    let answer = accounts.create_token_request("default", &PostParams::default(), &request).await?;
    let token = answer.status.and_then(|s| s.token).context("no token")?;
    Ok(stage.world.lab().client_as(&token).await?)
}

/// What came of an attempt: nothing, or the API server's refusal.
async fn attempt(
    client: &Client,
    namespace: &str,
    gang: &str,
    patch: Value,
) -> std::result::Result<(), String> {
    let gangs: Api<QuantumGang> = Api::namespaced(client.clone(), namespace);
    gangs
        .patch_status(gang, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(|_| ())
        .map_err(|e| e.to_string())
}

async fn only_the_producer_writes_its_gang(world: &World) -> Result<()> {
    let stage = world
        .stage_with("policy", |config| config.by_hand(Ahead { normal: 9, priority: 0 }))
        .await?;
    let job = stage.submit(&stage.draft("j", 3, "fanout.py")).await?;
    let gang = stage
        .gang(&job, "position 10 is shown", |g| {
            g.status.as_ref().and_then(|s| s.position.as_deref()) == Some("10")
        })
        .await?;
    let name = gang.name_any();
    let pods = stage.pods("j", "three pods", |p| p.len() == 3).await?;
    let (producer, consumer) = (&pods[0], &pods[1]);

    let problem = || json!({"status": {"vendor": {"problem": "a story writes this"}}});
    let order = json!({"status": {"vendor": {"order": {
        "reason": "front", "taskId": "stolen", "at": "2026-11-29T00:00:00.000000Z",
    }}}});
    let own = client_of(&stage, Some(producer)).await?;
    attempt(&own, stage.namespace(), &name, problem())
        .await
        .map_err(anyhow::Error::msg)
        .context("the producer's own token")?;
    let usurp = json!({"status": {"producer": {"pod": "x", "uid": "y"}}});
    for (who, client, patch) in [
        ("the producer, another producer", own.clone(), usurp),
        ("the producer, another phase", own, json!({"status": {"phase": "Released"}})),
        ("a consumer's token", client_of(&stage, Some(consumer)).await?, order.clone()),
        ("a token of no pod", client_of(&stage, None).await?, order),
    ] {
        let Err(refusal) = attempt(&client, stage.namespace(), &name, patch).await else {
            bail!("{who} was accepted");
        };
        ensure!(refusal.contains("sluice"), "{who}: refused without a word of ours: {refusal}");
    }
    let pods = stage.pods("j", "three pods", |p| p.len() == 3).await?;
    ensure!(pods[1..].iter().all(gated), "an attempt opened a gate");
    stage.strike().await
}

async fn the_keeper_is_narrowed(world: &World) -> Result<()> {
    let stage = world.stage("keeper-policy").await?;
    stage.submit(&stage.shell("j", 2, "sleep 3600")).await?;
    let pods = stage.pods("j", "two pods", |p| p.len() == 2).await?;
    let (name, uid) = (pods[1].name_any(), pods[1].uid().unwrap_or_default());
    let plain: Pod = serde_json::from_value(json!({
        "metadata": {"name": "plain"},
        "spec": {
            "containers": [{"name": "c", "image": "none"}],
            "schedulingGates": [{"name": "example.com/other"}, {"name": names::GATE}],
        },
    }))?;
    stage.api::<Pod>().create(&PostParams::default(), &plain).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.kube(), SYSTEM);
    let account = accounts
        .list(&ListParams::default())
        .await?
        .into_iter()
        .map(|a| a.name_any())
        .find(|name| name.starts_with("sluice"))
        .context("no service account of the keeper")?;
    let token = world.lab().service_account_token(SYSTEM, &account).await?;
    let keeper: Api<Pod> = Api::namespaced(world.lab().client_as(&token).await?, stage.namespace());
    let open =
        |gate: &str| json!({"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}});
    let refused = [
        ("a foreign gate", "plain", open("example.com/other")),
        ("a pod of somebody else", "plain", open(names::GATE)),
        ("a label", name.as_str(), json!({"metadata": {"labels": {"a": "b"}}})),
        ("a foreign annotation", &name, json!({"metadata": {"annotations": {"a": "b"}}})),
        (
            "an image",
            &name,
            json!({"spec": {"containers": [{"name": "program", "image": "other"}]}}),
        ),
        ("a finalizer", &name, json!({"metadata": {"finalizers": ["example.com/f"]}})),
        (
            "a toleration",
            &name,
            json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
        ),
    ];
    for (what, pod, patch) in refused {
        match keeper.patch(pod, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(_) => bail!("the keeper could change {what}"),
            Err(error) => {
                let text = error.to_string();
                ensure!(text.contains("sluice"), "{what}: refused without a word of ours: {text}");
            }
        }
    }
    let release = gate::release_patch(&uid, names::GATE, &["arn:story".to_owned()]);
    let pod = keeper.patch(&name, &PatchParams::default(), &Patch::Strategic(release)).await?;
    ensure!(!gated(&pod), "the release patch left the gate");
    stage.strike().await
}

/// A patch of an annotation of the pod template.
fn note(key: &str, value: &Value) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {key: value}}}}})
}

/// The template of a suspended Job can be changed without the webhook seeing it.
async fn a_stamp_stays_as_it_is(world: &World) -> Result<()> {
    let stage = world.stage("stamp").await?;
    stage.submit(&stage.shell("j", 2, "true").set("/spec/suspend", json!(true))).await?;
    let plain = stage
        .shell("plain", 1, "true")
        .set("/spec/suspend", json!(true))
        .set("/spec/template/spec/containers/0/resources", json!({}));
    stage.submit(&plain).await?;
    let jobs = stage.api::<Job>();
    let refused = [
        ("another stamp", "j", note(names::STAMP, &json!("{\"gate\":\"example.com/other\"}"))),
        ("no stamp", "j", note(names::STAMP, &Value::Null)),
        ("a stamp by hand", "plain", note(names::STAMP, &json!("{}"))),
        ("no label", "j", json!({"metadata": {"labels": {names::JOB_LABEL: null}}})),
    ];
    for (what, job, patch) in refused {
        match jobs.patch(job, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => bail!("{what} was accepted"),
            Err(error) => {
                let text = error.to_string();
                ensure!(text.contains("sluice-jobs"), "{what}: {text}");
            }
        }
    }
    // What queueing systems write there is nobody's business.
    let mut patch = note("example.com/queue", &json!("admitted"));
    patch["spec"]["suspend"] = json!(false);
    jobs.patch("j", &PatchParams::default(), &Patch::Merge(patch)).await?;
    stage.strike().await
}

async fn a_pod_that_lost_what_makes_its_role_is_refused(world: &World) -> Result<()> {
    use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
    let stage = world.stage("stripped").await?;
    // Without our webhook nothing repairs the pods; the policy stands alone.
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(world.kube());
    for ours in webhooks.list(&ListParams::default()).await? {
        if ours.name_any().starts_with("sluice") {
            webhooks.delete(&ours.name_any(), &DeleteParams::default()).await?;
        }
    }
    let tried = try_stripped_pods(&stage).await;
    world.install().await?;
    tried?;
    stage.strike().await
}

async fn try_stripped_pods(stage: &Stage<'_>) -> Result<()> {
    let pods = stage.api::<Pod>();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let container = json!([{"name": "c", "image": "none"}]);
    let sidecar = json!([{"name": names::SIDECAR_CONTAINER, "image": "none"}]);
    let rows = [
        ("a consumer without its gate", "consumer", json!({"containers": container})),
        ("a producer without its sidecar", "producer", json!({"containers": container})),
        (
            "a single whose sidecar lost its restart policy",
            "single",
            json!({"containers": container, "initContainers": sidecar}),
        ),
    ];
    for (what, role, spec) in rows {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"generateName": "p-", "labels": {names::ROLE: role}}, "spec": spec,
        }))?;
        // The API server needs a moment to forget the webhook: until then it may still be asked.
        await_value(what, LIMIT, async || match pods.create(&dry, &pod).await {
            Ok(_) => Err("it was accepted".to_owned()),
            Err(error) if error.to_string().contains("ValidatingAdmissionPolicy") => Ok(()),
            Err(error) => Err(error.to_string()),
        })
        .await?;
    }
    Ok(())
}

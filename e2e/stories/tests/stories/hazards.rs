//! The known hazards of gang scheduling and admission, each on the real scheduler.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use serde_json::json;
use sluice_lab::await_value;
use sluice_shared::names;
use sluice_stories::stage::{LIMIT, Stage, gated, index_of, phase, started};
use sluice_stories::world::World;
use sluice_vendors::Ahead;

crate::stories![
    h1_a_common_pod_group_does_not_deadlock,
    h2_a_retried_consumer_of_a_finished_gang_runs,
    priority_survives_the_second_round_of_admission,
];

const GARNET: Option<&str> = Some("Garnet");

fn group_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.scheduling_group.as_ref()?.pod_group_name.as_deref()
}

/// What the Job controller does with `WorkloadWithJob`: one group for all pods of the Job, index
/// 0 included. A gang of three with two gated members would never start.
async fn h1_a_common_pod_group_does_not_deadlock(world: &World) -> Result<()> {
    let stage =
        world.stage_with("h1", |config| config.by_hand(Ahead { normal: 3, priority: 0 })).await?;
    let kind = ApiResource {
        group: "scheduling.k8s.io".into(),
        version: "v1alpha2".into(),
        api_version: "scheduling.k8s.io/v1alpha2".into(),
        kind: "PodGroup".into(),
        plural: "podgroups".into(),
    };
    let groups: kube::Api<DynamicObject> =
        kube::Api::namespaced_with(stage.client(), stage.namespace(), &kind);
    let group = DynamicObject::new("common", &kind)
        .data(json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}));
    groups.create(&PostParams::default(), &group).await?;
    let draft = stage
        .draft("j", 3, "fanout.py")
        .set("/spec/template/spec/schedulingGroup", json!({"podGroupName": "common"}));
    let job = stage.submit(&draft).await?;
    let pods = stage.pods("j", "the producer runs", |p| p.len() == 3 && started(&p[0])).await?;
    ensure!(group_of(&pods[0]).is_none(), "the producer is in a group: {:?}", group_of(&pods[0]));
    ensure!(
        pods[1..].iter().all(|p| group_of(p).is_some_and(|g| g != "common") && gated(p)),
        "consumers kept the common group"
    );
    stage
        .gang(&job, "position 4 is shown", |g| {
            g.status.as_ref().and_then(|s| s.position.as_deref()) == Some("4")
        })
        .await?;
    stage.vendor.step(GARNET, 3).await?;
    stage.pods("j", "every gate is open", |p| p.iter().all(|p| !gated(p))).await?;
    stage.run_task().await?;
    stage.completed("j").await?;
    stage.strike().await
}

/// The members of a group have finished; the only new pod is fewer than `minCount`.
async fn h2_a_retried_consumer_of_a_finished_gang_runs(world: &World) -> Result<()> {
    let stage = world.stage("h2").await?;
    // Index 3 works on while the others end; then its pod is lost and made again.
    let command = "case $FLUENCE_COORDINATION_ROLE$JOB_COMPLETION_INDEX in \
                   producer0) sleep 3600;; consumer3) sleep 3600;; *) true;; esac";
    let draft = stage.shell("j", 4, command);
    let job = stage.submit(&draft).await?;
    let gang = stage.gang(&job, "it is there", |_| true).await?;
    let order = json!({"spec": {"release": {"by": "story", "reason": "h2"}}});
    stage.patch_gang(&gang, order).await?;
    let pods = stage
        .pods("j", "two have succeeded and index 3 runs", |pods| {
            pods.len() == 4
                && pods[1..3].iter().all(|p| phase(p) == "Succeeded")
                && phase(&pods[3]) == "Running"
        })
        .await?;
    ensure!(group_of(&pods[3]).is_some(), "the cluster serves pod groups, and none is used");
    let lost = pods[3].name_any();
    stage.api::<Pod>().delete(&lost, &DeleteParams::default().grace_period(0)).await?;
    stage
        .pods("j", "the new pod of index 3 runs", |pods| {
            pods.iter()
                .any(|p| index_of(p) == Some(3) && p.name_any() != lost && phase(p) == "Running")
        })
        .await?;
    stage.strike().await
}

/// Changes every pod that we have shaped, so that admission runs again: a label that is only added
/// once our role label is there.
async fn second_round(stage: &Stage<'_>) -> Result<()> {
    let name = stage.namespace();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["pods"],
                }],
            },
            // No match condition: what was skipped in the first round is not asked in the second.
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": format!(
                    "has(object.metadata.labels) && '{}' in object.metadata.labels \
                     ? Object{{metadata: Object.metadata{{labels: {{'second-round': 'yes'}}}}}} \
                     : Object{{}}", names::ROLE)},
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    });
    for (plural, object) in
        [("mutatingadmissionpolicies", policy), ("mutatingadmissionpolicybindings", binding)]
    {
        let kind = ApiResource {
            group: "admissionregistration.k8s.io".into(),
            version: "v1".into(),
            api_version: "admissionregistration.k8s.io/v1".into(),
            kind: object["kind"].as_str().unwrap_or_default().to_owned(),
            plural: plural.into(),
        };
        let object: DynamicObject = serde_json::from_value(object)?;
        kube::Api::<DynamicObject>::all_with(stage.client(), &kind)
            .create(&PostParams::default(), &object)
            .await?;
    }
    // Policies are compiled in the background: probe with a quantum pod that is never stored.
    let probe = json!({
        "metadata": {"generateName": "probe-"},
        "spec": {"containers": [{
            "name": "c", "image": "none", "resources": {"limits": {names::QPU_RESOURCE: "1"}},
        }]},
    });
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let pods = stage.api::<Pod>();
    let probe: Pod = serde_json::from_value(probe)?;
    await_value("the second webhook works", LIMIT, async || {
        match pods.create(&dry, &probe).await {
            Ok(pod) if pod.labels().contains_key("second-round") => Ok(()),
            Ok(pod) => Err(format!("{:?}", pod.labels())),
            Err(error) => Err(error.to_string()),
        }
    })
    .await?;
    Ok(())
}

/// Admission runs twice when another webhook changes the pod; the priority must be right after
/// both rounds. A webhook that clears it in both leaves none.
async fn priority_survives_the_second_round_of_admission(world: &World) -> Result<()> {
    let stage = world.stage("priority").await?;
    second_round(&stage).await?;
    let priority = |p: &Pod| p.spec.as_ref().and_then(|s| s.priority);
    let class = |p: &Pod| p.spec.as_ref().and_then(|s| s.priority_class_name.clone());
    stage.submit(&stage.shell("j", 3, "sleep 3600")).await?;
    let pods = stage.pods("j", "three pods", |p| p.len() == 3).await?;
    let consumer = &pods[1];
    ensure!(
        pods.iter().all(|p| p.labels().contains_key("second-round")),
        "admission did not run a second time, so this story shows nothing"
    );
    ensure!(class(consumer).is_some(), "no class on consumers");
    ensure!(
        priority(consumer).is_some_and(|p| p > 0),
        "{:?} with class {:?}",
        priority(consumer),
        class(consumer)
    );
    // A class of the user's own stays.
    let draft = stage
        .shell("own", 3, "sleep 3600")
        .set("/spec/template/spec/priorityClassName", json!("system-cluster-critical"));
    stage.submit(&draft).await?;
    let pods = stage.pods("own", "three pods", |p| p.len() == 3).await?;
    ensure!(class(&pods[1]).as_deref() == Some("system-cluster-critical"));
    ensure!(priority(&pods[1]) == Some(2_000_000_000), "{:?}", priority(&pods[1]));
    stage.strike().await
}

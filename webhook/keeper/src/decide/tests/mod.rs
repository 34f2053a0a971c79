//! The story of a gang, look by look: what is done and what is written.

mod events;
mod scene;
mod sentences;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use sluice_shared::gang::{Order, OrderReason};
use sluice_shared::names;
use sluice_shared::stamp::StampError;

use self::scene::{ARN, Scene, at, condition, mk_task};
use super::fixtures::{mk_job, mk_order};
use super::*;
use crate::facts::job::JobEnd;

#[test]
fn a_new_job_gets_its_binding_before_its_gang() {
    let scene = Scene::new();
    let seen = Seen { gang: Gang::Absent, memory: Memory::default(), ..scene.seen() };
    let steps = decide(&seen, &Rules::default(), at(0)).steps;
    let [Step::Bind, Step::MakeGang(spec)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((spec.size, spec.owner.uid.as_str(), spec.policy.as_str()), (3, "job-uid", "front"));
}

#[test]
fn only_jobs_that_live_get_a_gang() {
    let mut ended = mk_job(3);
    ended.end = Some(JobEnd::Failed);
    let mut leaving = mk_job(3);
    leaving.deleting = true;
    for (name, job) in [("ended", &ended), ("being deleted", &leaving)] {
        let scene = Scene::new();
        let seen = Seen { gang: Gang::Absent, owner: Owner::Job(job), ..scene.seen() };
        assert_eq!(decide(&seen, &Rules::default(), at(0)), Decision::default(), "{name}");
    }
}

#[test]
fn what_cannot_be_kept_is_said() {
    let mut unstamped = mk_job(3);
    unstamped.stamp = None;
    let mut newer = mk_job(3);
    newer.stamp = Some(Err(StampError::Newer { found: 9 }));
    let other = owner_ref("Job", "other", "other-uid");
    let (absent, taken) = (Gang::Absent, Gang::Taken(&other));
    let good = mk_job(3);
    for (job, gang, reason, word) in [
        (&unstamped, absent, names::EVENT_NOT_STAMPED, "no stamp"),
        (&newer, absent, names::EVENT_NOT_STAMPED, "version 9"),
        (&good, taken, names::EVENT_NAME_TAKEN, "other-uid"),
    ] {
        let scene = Scene::new();
        let seen = Seen { gang, owner: Owner::Job(job), ..scene.seen() };
        let steps = decide(&seen, &Rules::default(), at(0)).steps;
        let [Step::Tell(tiding)] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(tiding.reason, reason);
        assert!(tiding.note.contains(word), "{}", tiding.note);
    }
}

#[test]
fn a_gang_that_nobody_needs_goes() {
    let scene = Scene::new();
    let gone = Seen { owner: Owner::Gone, pods: Vec::new(), ..scene.seen() };
    let steps = decide(&gone, &Rules::default(), at(0)).steps;
    assert_eq!(steps, vec![Step::DropGang { uid: "gang-uid".into() }]);
    // A Job that lost our label is found alive; it is not looked for again at once.
    let memory = Memory { owner_found: Some(at(0)), ..gone.memory.clone() };
    let found = Seen { memory, ..gone };
    let later = decide(&found, &Rules::default(), at(1));
    assert_eq!((later.steps, later.look_again), (Vec::new(), Some(at(60))));
    assert_eq!(decide(&found, &Rules::default(), at(60)).steps, steps);
    // While pods end it goes with its Job, but not if they are to outlive the Job.
    for owned in [true, false] {
        let mut scene = Scene::new();
        scene.gang.owned = owned;
        let with_pods = Seen { owner: Owner::Gone, ..scene.seen() };
        let steps = decide(&with_pods, &Rules::default(), at(0)).steps;
        let dropped = steps.iter().any(|s| matches!(s, Step::DropGang { .. }));
        assert_eq!(dropped, owned, "{steps:?}");
        let steps = scene.decide().steps;
        let dropped = steps.iter().any(|s| matches!(s, Step::DropGang { .. }));
        assert!(!dropped, "the Job lives: {steps:?}");
        // `kubectl delete job --cascade=foreground`: the Job is there until its pods are gone.
        (scene.job.deleting, scene.job.takes_along) = (true, true);
        let steps = scene.decide().steps;
        let dropped = steps.iter().any(|s| matches!(s, Step::DropGang { .. }));
        assert_eq!(dropped, owned, "{steps:?}");
    }
}

#[test]
fn the_order_is_recorded_first_and_opens_gates_only_then() {
    let mut scene = Scene::new().with_task(mk_task("RUNNING", None));
    let order = Order { reason: "front".into(), task_id: ARN.into(), at: MicroTime(at(1)) };
    scene.gang.status.vendor.as_mut().unwrap().order = Some(order);
    let open = |d: &Decision| d.steps.iter().filter(|s| matches!(s, Step::Open { .. })).count();
    assert_eq!(open(&scene.decide()), 0);
    let status = scene.status();
    let order = status.order.clone().unwrap();
    assert_eq!((order.reason, order.task_id.as_str()), (OrderReason::PolicyMet, ARN));
    scene.gang.status = status;
    assert_eq!(open(&scene.decide()), 2);
    // Withdrawn, and nothing opens any more.
    scene.gang.status.vendor.as_mut().unwrap().tasks[0].state = "FAILED".into();
    assert_eq!(open(&scene.decide()), 0);
    let status = scene.status();
    assert!(status.order.as_ref().is_some_and(|o| o.withdrawn));
    assert_eq!(condition(&status, "Released"), ("False".into(), "OrderWithdrawn".into()));
}

#[test]
fn numbers_wait_for_the_floor_and_words_do_not() {
    let rules = Rules::default();
    let scene = Scene::new().with_task(mk_task("RUNNING", None)).with_order(false, None);
    let status = scene.status();
    let now = at(57_800);
    let memory = Memory { status_at: Some(now), bound: true, ..Memory::default() };
    let one_more =
        Scene { gang: GangSeen { status, ..scene.gang.clone() }, memory, ..scene }.open(1);
    let decision = one_more.decide();
    assert!(!decision.steps.iter().any(|s| matches!(s, Step::Status(_))), "{decision:?}");
    assert_eq!(decision.look_again, Some(now + rules.status_floor));
    // The last gate is news.
    let all = one_more.open(2);
    assert!(all.decide().steps.iter().any(|s| matches!(s, Step::Status(_))));
}

#[test]
fn transition_times_are_those_of_changes() {
    let scene = Scene::new();
    let mut status = scene.status();
    for condition in &mut status.conditions {
        condition.last_transition_time = Time(at(7));
    }
    let task = Scene { gang: GangSeen { status, ..scene.gang.clone() }, ..scene };
    let after = task.with_task(mk_task("QUEUED", Some("3"))).status();
    let since = |kind| {
        let found = after.conditions.iter().find(|c| c.type_ == kind).unwrap();
        (found.last_transition_time.0, found.observed_generation)
    };
    assert_eq!(since("Submitted"), (at(57_800), Some(2)));
    assert_eq!(since("AtFront"), (at(7), Some(2)));
}

#[test]
fn fields_that_end_are_taken_off() {
    let mut scene = Scene::new();
    scene.gang.status.position = Some("3".into());
    scene.gang.status.waiting_since = Some(Time(at(1)));
    scene.gang.status.order = Some(mk_order(OrderReason::PolicyMet, "old"));
    let steps = scene.decide().steps;
    let patch = steps.iter().find_map(|s| if let Step::Status(p) = s { Some(p) } else { None });
    let patch = patch.unwrap();
    assert_eq!(patch["status"]["position"], Value::Null);
    assert!(patch["status"].as_object().unwrap().contains_key("waitingSince"));
    assert_eq!(patch["metadata"]["resourceVersion"], "5");
    assert!(patch["status"].get("vendor").is_none());
}

#[test]
fn open_pods_without_a_node_are_reported_after_a_while() {
    let mut scene = Scene::new()
        .with_task(mk_task("RUNNING", None))
        .with_order(false, Some(at(57_790)))
        .open(2);
    scene.pods[1].unschedulable = Some("0/3 nodes are available".into());
    let decision = scene.decide();
    assert_eq!(condition(&scene.status(), "Stalled").1, "AsExpected");
    assert_eq!(decision.look_again, Some(at(57_820)));
    scene.gang.status.order.as_mut().unwrap().opened_at = Some(MicroTime(at(57_760)));
    let status = scene.status();
    assert_eq!(condition(&status, "Stalled"), ("True".into(), "Unschedulable".into()));
    assert!(status.message.unwrap().contains("pod c-1 is released, but finds no node"));
    assert!(scene.reasons().contains(&names::EVENT_UNSCHEDULABLE));
}

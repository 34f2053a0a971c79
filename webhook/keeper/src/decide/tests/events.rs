//! What is told as an Event, to whom, and how often.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use sluice_shared::gang::{Folded, OrderReason, PodRef, Task};
use sluice_shared::names;

use super::scene::{Scene, at, mk_task};
use crate::decide::fixtures::mk_order;
use crate::decide::tidings::About;
use crate::decide::*;
use crate::facts::indexes::Indexes;

#[test]
fn events_tell_what_is_recorded_and_news() {
    let released = Scene::new()
        .with_task(mk_task("RUNNING", None))
        .with_order(false, Some(at(57_701)))
        .open(2);
    let reasons = released.reasons();
    assert_eq!(reasons.iter().filter(|r| **r == names::EVENT_RELEASED).count(), 2, "{reasons:?}");
    let long_ago =
        Scene::new().with_task(mk_task("RUNNING", None)).with_order(false, Some(at(1))).open(2);
    assert!(!long_ago.reasons().contains(&names::EVENT_RELEASED));

    let mut left = Scene::new().with_task(mk_task("QUEUED", Some("3")));
    left.job.succeeded = Indexes::parse("0");
    assert!(!left.reasons().contains(&names::EVENT_PRODUCER_LEFT_EARLY), "not recorded yet");
    left.gang.status = left.status();
    let reasons = left.reasons();
    assert!(reasons.contains(&names::EVENT_PRODUCER_SUCCEEDED), "{reasons:?}");
    assert!(reasons.contains(&names::EVENT_PRODUCER_LEFT_EARLY), "{reasons:?}");

    let mut late = mk_task("QUEUED", Some("3"));
    late.id = "late".into();
    late.submitted_at = Some(Time(at(57_750)));
    let mut after = Scene::new()
        .with_task(mk_task("RUNNING", None))
        .with_order(false, Some(at(57_701)))
        .open(2);
    after.gang.status.vendor.as_mut().unwrap().tasks.push(late);
    assert!(after.reasons().contains(&names::EVENT_QUEUED_AFTER_RELEASE));
}

#[test]
fn a_task_elsewhere_than_on_the_backend_is_told_of_with_its_price() {
    let mut task = mk_task("QUEUED", Some("3"));
    task.submitted_at = Some(Time(at(57_700)));
    task.cost = "1.75".parse().ok();
    let mut scene = Scene::new().with_task(task);
    assert!(scene.told(names::EVENT_TASK_FOUND)[0].note.ends_with(", 1.75 USD by list price"));
    scene.gang.spec.backend = Some("garnet".into());
    assert_eq!(scene.told(names::EVENT_BACKEND_MISMATCH).len(), 0);
    scene.gang.spec.backend = Some("emerald".into());
    let told = scene.told(names::EVENT_BACKEND_MISMATCH);
    assert!(told[0].note.contains("is on iqm Garnet, but the chosen backend is emerald"));
}

/// A task that is submitted in the second `at`, after the release of most scenes.
fn mk_late(id: &str, state: &str, second: i64) -> Task {
    Task { id: id.into(), submitted_at: Some(Time(at(second))), ..mk_task(state, Some("3")) }
}

#[test]
fn a_loop_that_queues_again_is_told_of_once_a_gang() {
    let mut scene = Scene::new()
        .with_task(mk_task("COMPLETED", None))
        .with_order(false, Some(at(57_701)))
        .open(2);
    let told = |scene: &Scene| scene.told(names::EVENT_QUEUED_AFTER_RELEASE);
    assert!(told(&scene).is_empty());
    for (round, state) in ["QUEUED", "RUNNING", "QUEUED"].into_iter().enumerate() {
        let second = 57_750 + i64::try_from(round).unwrap();
        let late = mk_late(&format!("late{round}"), state, second);
        scene.gang.status.vendor.as_mut().unwrap().tasks.push(late);
        assert_eq!(told(&scene).len(), 1, "round {round}");
    }
    let first = told(&scene);
    scene.gang.status.vendor.as_mut().unwrap().tasks.remove(1);
    let next = told(&scene);
    assert_ne!(first[0].note, next[0].note, "another task");
    assert_eq!(first[0].which, next[0].which, "and the same Event");
    // A simulator beside the QPU, a task from before, and one at the front are no such news.
    for change in [
        |t: &mut Task| t.counts = false,
        |t: &mut Task| t.submitted_at = Some(Time(at(57_000))),
        |t: &mut Task| t.front = true,
        |t: &mut Task| t.state = "RUNNING".into(),
    ] {
        let tasks = &mut scene.gang.status.vendor.as_mut().unwrap().tasks;
        tasks.truncate(1);
        tasks.push(mk_late("late", "QUEUED", 57_750));
        change(&mut tasks[1]);
        assert!(told(&scene).is_empty());
    }
}

#[test]
fn found_and_failed_tasks_are_told_at_the_job_and_at_the_producer() {
    let mut scene = Scene::new();
    let mut failed = mk_late("bad", "FAILED", 57_700);
    failed.reason = Some("calibration".into());
    scene.gang.status.vendor =
        Some(VendorStatus { tasks: vec![failed], ..VendorStatus::default() });
    let found = |scene: &Scene| scene.told(names::EVENT_TASK_FOUND).len();
    let told = scene.told(names::EVENT_TASK_FAILED);
    assert_eq!(told.iter().map(|t| t.about).collect::<Vec<_>>(), [About::Owner, About::Producer]);
    assert!(told.iter().all(|t| t.note == "task bad is FAILED on iqm Garnet: calibration"));
    assert_eq!(found(&scene), 2);

    let mut order = mk_order(OrderReason::PolicyMet, "bad");
    order.opened_at = Some(MicroTime(at(57_701)));
    order.withdrawn = true;
    scene.gang.status.order = Some(order);
    let note = &scene.told(names::EVENT_TASK_FAILED)[0].note;
    assert!(note.contains("calibration; the consumers were released for it"), "{note}");

    let vendor = scene.gang.status.vendor.as_mut().unwrap();
    vendor.tasks.extend((0..30).map(|n| mk_late(&format!("t-{n}"), "COMPLETED", 57_700)));
    assert_eq!(found(&scene), 20, "ten tasks, each twice");
    let vendor = scene.gang.status.vendor.as_mut().unwrap();
    vendor.folded = Some(Folded { completed: 8, ..Folded::default() });
    assert_eq!(found(&scene), 4);
    scene.gang.spec.index = Some(3);
    assert_eq!(found(&scene), 2, "the pod alone");
}

#[test]
fn a_new_task_beside_a_live_one_of_an_earlier_run_is_told_once() {
    let run = |id: &str, state: &str, run: &str| Task {
        incarnation: Some(run.into()),
        digest: Some("d".into()),
        ..mk_late(id, state, 57_700)
    };
    let told = |restarts: u32, tasks: Vec<Task>| {
        let mut scene = Scene::new();
        let producer = PodRef { pod: "p".into(), uid: "u".into(), restarts, ..PodRef::default() };
        scene.gang.status.producer = Some(producer);
        scene.gang.status.vendor = Some(VendorStatus { tasks, ..VendorStatus::default() });
        scene.told(names::EVENT_EARLIER_TASK_LIVES)
    };
    let old = || run("old", "QUEUED", "u/0");
    let news = told(1, vec![old(), run("new", "QUEUED", "u/1"), run("more", "QUEUED", "u/1")]);
    assert_eq!(news.iter().map(|t| t.about).collect::<Vec<_>>(), [About::Owner, About::Producer]);
    assert!(news.iter().all(|t| t.warning && t.which == "old"), "{news:?}");
    let note = &news[0].note;
    assert!(note.contains("task old") && note.contains("QUEUED on iqm Garnet"), "{note}");
    assert!(note.contains("has submitted new instead"), "{note}");
    // Nothing to tell:
    assert!(told(1, vec![old()]).is_empty(), "it has submitted nothing yet");
    assert!(told(0, vec![old(), run("more", "QUEUED", "u/0")]).is_empty(), "one run");
    let ended = run("old", "COMPLETED", "u/0");
    assert!(told(1, vec![ended, run("new", "QUEUED", "u/1")]).is_empty(), "the old one has ended");
    let taken = Task { resumed: true, ..run("old", "QUEUED", "u/1") };
    assert!(told(1, vec![taken.clone(), run("new", "QUEUED", "u/1")]).is_empty(), "taken up");
    assert!(told(1, vec![taken, old()]).is_empty(), "the other one may still be taken up");
    let foreign = Task { digest: None, ..old() };
    assert!(told(1, vec![foreign, run("new", "QUEUED", "u/1")]).is_empty(), "of another place");
    let long_ago = Task { submitted_at: Some(Time(at(1))), ..run("new", "QUEUED", "u/1") };
    assert!(told(1, vec![old(), long_ago]).is_empty(), "no news");
}

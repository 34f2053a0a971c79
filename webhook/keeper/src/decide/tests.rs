//! The story of a gang, look by look: what is written and what people read.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use sluice_shared::gang::{Folded, Order, OrderReason, Phase, PodRef, QuantumGangStatus, Task};
use sluice_shared::names;
use sluice_shared::stamp::StampError;

use super::fixtures::{mk_consumer, mk_job, mk_order, mk_place, mk_producer};
use super::tidings::{About, Tiding};
use super::*;
use crate::facts::indexes::Indexes;
use crate::facts::job::JobEnd;
use crate::facts::pod::PodPhase;

const ARN: &str = "arn:aws:braket:eu-north-1:123456789012:quantum-task/834b21ed-0000-4000-8000-0";
const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn mk_task(state: &str, position: Option<&str>) -> Task {
    Task {
        id: ARN.into(),
        device: GARNET.into(),
        state: state.into(),
        position: position.map(Into::into),
        counts: true,
        submitted_at: Some(Time(at(0))),
        observed_at: Some(Time(at(57_720))),
        ..Task::default()
    }
}

fn mk_gang(job: &JobSeen) -> GangSeen {
    let stamp = job.readable_stamp().unwrap();
    GangSeen {
        place: mk_place("gang", "gang-uid"),
        resource_version: "5".into(),
        generation: 2,
        deleting: false,
        owned: true,
        spec: spec_of(stamp, owner_ref("Job", "job", "job-uid"), None),
        status: QuantumGangStatus::default(),
    }
}

/// One look at a Job of three with these pods and this gang.
struct Scene {
    job: JobSeen,
    pods: Vec<PodSeen>,
    gang: GangSeen,
    memory: Memory,
}

impl Scene {
    fn new() -> Self {
        let job = mk_job(3);
        let gang = mk_gang(&job);
        let mut producer = mk_producer();
        producer.phase = PodPhase::Running;
        let memory = Memory { bound: true, ..Memory::default() };
        Self { job, pods: vec![producer, mk_consumer(1), mk_consumer(2)], gang, memory }
    }

    fn with_task(mut self, task: Task) -> Self {
        self.gang.status.vendor =
            Some(VendorStatus { tasks: vec![task], ..VendorStatus::default() });
        self
    }

    fn with_order(mut self, withdrawn: bool, opened_at: Option<Timestamp>) -> Self {
        let order = mk_order(OrderReason::PolicyMet, ARN);
        self.gang.status.order = Some(KeeperOrder {
            withdrawn,
            opened_at: opened_at.map(MicroTime),
            at: MicroTime(at(57_700)),
            ..order
        });
        self
    }

    fn open(mut self, pods: usize) -> Self {
        self.pods.iter_mut().skip(1).take(pods).for_each(|p| p.gates.clear());
        self
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            name: "gang",
            index: None,
            owner: Owner::Job(&self.job),
            pods: self.pods.iter().collect(),
            gang: Gang::Ours(&self.gang),
            group: Group::NotServed,
            memory: self.memory.clone(),
        }
    }

    fn decide(&self) -> Decision {
        decide(&self.seen(), &Rules::default(), at(57_800))
    }

    /// The status after the write of this look.
    fn status(&self) -> QuantumGangStatus {
        let mut status = serde_json::to_value(&self.gang.status).unwrap();
        for step in self.decide().steps {
            if let Step::Status(patch) = step {
                json_patch::merge(&mut status, &patch["status"]);
            }
        }
        serde_json::from_value(status).unwrap()
    }

    /// The Events of this look with that reason.
    fn told(&self, reason: &str) -> Vec<Tiding> {
        let tell = |step| if let Step::Tell(t) = step { Some(t) } else { None };
        self.decide().steps.into_iter().filter_map(tell).filter(|t| t.reason == reason).collect()
    }

    fn reasons(&self) -> Vec<&'static str> {
        let tell = |step| if let Step::Tell(t) = step { Some(t.reason) } else { None };
        self.decide().steps.into_iter().filter_map(tell).collect()
    }
}

fn condition(status: &QuantumGangStatus, kind: &str) -> (String, String) {
    let found = status.conditions.iter().find(|c| c.type_ == kind).unwrap();
    (found.status.clone(), found.reason.clone())
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn the_sentences() {
    let front = Task { front: true, ..mk_task("QUEUED", Some("1")) };
    let failed = Task { reason: Some("calibration".into()), ..mk_task("FAILED", None) };
    let no_producer = {
        let mut scene = Scene::new();
        scene.pods.remove(0);
        scene
    };
    let pending = {
        let mut scene = Scene::new();
        scene.pods[0].phase = PodPhase::Pending;
        scene
    };
    let suspended = {
        let mut scene = Scene::new();
        scene.job.suspended = true;
        scene.pods.clear();
        scene
    };
    let missing = {
        let mut scene = Scene::new().with_task(front.clone()).with_order(false, None).open(2);
        scene.pods.pop();
        scene
    };
    let done = {
        let mut scene = Scene::new();
        scene.job.end = Some(JobEnd::Complete);
        scene
    };
    let problem = {
        let mut scene = Scene::new().with_task(mk_task("QUEUED", Some("2")));
        scene.gang.status.vendor.as_mut().unwrap().problem = Some("credentials expired".into());
        scene
    };
    let rows = vec![
        ("no producer", no_producer, Phase::Starting, "waits for the producer pod to be created"),
        ("pending", pending, Phase::Starting, "waits for the producer pod p to start"),
        ("no task", Scene::new(), Phase::Starting, "waits for the program to submit a task"),
        ("suspended", suspended, Phase::Starting, "the Job is suspended"),
        (
            "queued",
            Scene::new().with_task(mk_task("QUEUED", Some("14"))),
            Phase::Queued,
            "waits for 834b21ed on iqm Garnet, position 14, read 16:02",
        ),
        (
            "of a hybrid job",
            Scene::new().with_task(Task {
                job: Some("arn:aws:braket:us-west-2:123456789012:job/qaoa-7".into()),
                ..mk_task("QUEUED", Some("14"))
            }),
            Phase::Queued,
            "waits for 834b21ed of hybrid job qaoa-7 on iqm Garnet, position 14, read 16:02",
        ),
        (
            "held",
            Scene::new().with_task(Task {
                reason: Some("iqm Garnet is outside its window until 14:00 UTC".into()),
                ..mk_task("QUEUED", Some("1"))
            }),
            Phase::Queued,
            "waits for 834b21ed on iqm Garnet, position 1, read 16:02: iqm Garnet is outside its \
             window until 14:00 UTC",
        ),
        (
            "position unknown",
            Scene::new().with_task(mk_task("CREATED", Some("None"))),
            Phase::Queued,
            "waits for 834b21ed on iqm Garnet, position not told, read 16:02",
        ),
        (
            "far back",
            Scene::new().with_task(mk_task("QUEUED", Some(">2000"))),
            Phase::Queued,
            "waits for 834b21ed on iqm Garnet, position >2000, read 16:02",
        ),
        (
            "front",
            Scene::new().with_task(front.clone()),
            Phase::Front,
            "834b21ed is next on iqm Garnet, read 16:02; release policy front is not met yet",
        ),
        (
            "new word",
            Scene::new().with_task(mk_task("PONDERING", None)),
            Phase::Front,
            "834b21ed is PONDERING on iqm Garnet, read 16:02; release policy front is not met yet",
        ),
        (
            "failed",
            Scene::new().with_task(failed.clone()),
            Phase::Starting,
            "834b21ed FAILED on iqm Garnet (calibration); waits for the program to submit another \
             task",
        ),
        (
            "problem",
            problem,
            Phase::Queued,
            "waits for 834b21ed on iqm Garnet, position 2, read 16:02; credentials expired",
        ),
        (
            "releasing",
            Scene::new().with_task(front.clone()).with_order(false, None).open(1),
            Phase::Releasing,
            "1/2 consumers released for 834b21ed",
        ),
        (
            "not all there",
            missing,
            Phase::Releasing,
            "1/2 consumers released for 834b21ed; 1 not created yet",
        ),
        (
            "released",
            Scene::new().with_task(front).with_order(false, None).open(2),
            Phase::Released,
            "2/2 consumers released for 834b21ed",
        ),
        (
            "released early",
            Scene::new().with_task(mk_task("QUEUED", Some("9"))).with_order(false, None).open(2),
            Phase::Released,
            "2/2 consumers released for 834b21ed; the task is still QUEUED",
        ),
        ("done", done, Phase::Finished, "the Job has completed"),
    ];
    for (name, scene, phase, message) in rows {
        let status = scene.status();
        assert_eq!(status.message.as_deref(), Some(message), "{name}");
        assert_eq!(status.phase, Some(phase), "{name}");
        // A second look at the written status changes nothing.
        let again = Scene { gang: GangSeen { status, ..scene.gang.clone() }, ..scene };
        let writes = again.decide().steps.into_iter().filter(|s| matches!(s, Step::Status(_)));
        assert_eq!(writes.count(), 0, "{name}");
    }
}

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

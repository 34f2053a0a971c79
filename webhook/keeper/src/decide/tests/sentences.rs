//! What people read of each state.

use sluice_shared::gang::{Phase, Task};

use super::scene::{Scene, mk_task};
use crate::decide::*;
use crate::facts::job::JobEnd;
use crate::facts::pod::PodPhase;

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

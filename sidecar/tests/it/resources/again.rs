//! Programs that are started again, and workers that die, at vendors without tokens.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use sluice_vendors::{Action, Fault, Stage};

use super::scene::{IQM, Scene, as_it_is};
use crate::await_some;

/// What the emulator calls a submission to it.
const SUBMIT: &str = "iqm:SubmitJob";

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_dies_with_its_worker_is_told_of_by_the_next_one() {
    let scene = Scene::start(IQM, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    scene.vendor.add_fault(Fault::next(1, SUBMIT, Action::Hang { ms: 60_000, when: Stage::After }));
    let (path, body) = (IQM.submit)();
    let (sent, ()) = tokio::join!(scene.try_send(&sidecar, path, &body), async {
        await_some("the job at the vendor", async || {
            (scene.vendor.jobs().len() == 1).then_some(())
        })
        .await;
        assert_eq!(scene.cluster.vendor().unwrap().intents.len(), 1, "written before");
        kill_process(sidecar.worker().unwrap(), Signal::KILL).unwrap();
    });
    assert!(sent.is_err(), "{sent:?}");
    // The client repeats its request.
    let id = scene.submit(&sidecar).await;
    assert_eq!(scene.vendor.jobs().len(), 2);
    scene.task("the second", |task| task.id == id).await;
    await_some("one record less", async || {
        scene.cluster.vendor()?.intents.is_empty().then_some(())
    })
    .await;
    let (_, log) = sidecar.end().await;
    assert!(log.contains("was about to submit to iqm-server/garnet"), "{log}");
    assert!(log.contains("the same was submitted to iqm-server/garnet before"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_started_again_while_the_vendor_breaks_does_not_pay_twice() {
    // Far from the front the sidecar looks seldom of its own accord.
    let mut scene = Scene::start(IQM, 200).await;
    let sidecar = scene.sidecar(as_it_is).await;
    let first = scene.whole_program(&sidecar);
    scene.task("its place", |task| task.position.as_deref() == Some("201")).await;
    let again = json!({"pod": "maxcut-0-abcde", "uid": "pod-uid-1", "restarts": 1});
    scene.cluster.set_producer(again);
    let submitted = || {
        let count = |entry: &&sluice_vendors::Entry| entry.operation == SUBMIT;
        scene.vendor.journal().iter().filter(count).count()
    };
    // The sidecar's own look passes; the question for the program does not.
    let broken = Action::Error {
        code: "500".into(),
        status: Some(500),
        message: "out of order".into(),
        retry_after: None,
        when: Stage::Before,
    };
    scene.vendor.add_fault(Fault { skip: 1, ..Fault::next(1, "iqm:GetJob", broken) });
    let (path, body) = (IQM.submit)();
    let answer = scene.send(&sidecar, path, &body).await;
    assert_eq!((answer.status().as_u16(), submitted()), (500, 1), "nothing is sent");
    let answer: Value = scene.send(&sidecar, path, &body).await.json().await.unwrap();
    assert_eq!((answer["id"].as_str(), submitted()), (Some(first.as_str()), 1));
    let task = scene.task("whose it is", |task| task.resumed).await;
    assert_eq!(task.incarnation.as_deref(), Some("pod-uid-1/1"));
    sidecar.end().await;
}

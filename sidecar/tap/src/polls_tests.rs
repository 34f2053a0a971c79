use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

fn key(target: &str) -> Key {
    Key { region: "us-east-1".into(), target: target.into() }
}

const ONE: &str = "/quantum-task/a?additionalAttributeNames=QueueInfo";

fn whole(status: &str, position: &str) -> Asked<()> {
    let body = format!(
        r#"{{"quantumTaskArn": "a", "status": "{status}", "queueInfo": {{"position": "{position}"}}}}"#
    );
    let facts = TaskFacts::of(body.as_bytes());
    let whole =
        Whole { status: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::from(body) };
    Asked::Whole(Arc::new(whole), facts.map(Box::new))
}

fn text(asked: &Asked<()>) -> String {
    match asked {
        Asked::Whole(whole, _) => String::from_utf8(whole.body.to_vec()).unwrap(),
        Asked::Other(()) => "other".to_owned(),
    }
}

struct Vendor<'a> {
    polls: &'a Polls,
    calls: AtomicUsize,
}

impl Vendor<'_> {
    /// A poll of a vendor that takes 100 ms and says this.
    async fn poll(&self, target: &str, status: &str, position: &str) -> String {
        let asked = self
            .polls
            .answer(key(target), Instant::now(), async || {
                self.calls.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(100)).await;
                whole(status, position)
            })
            .await;
        text(&asked)
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn vendor(polls: &Polls) -> Vendor<'_> {
    Vendor { polls, calls: AtomicUsize::new(0) }
}

#[tokio::test(start_paused = true)]
async fn polls_at_one_time_are_one_question_whatever_its_answer() {
    for status in ["QUEUED", "RUNNING", "COMPLETED"] {
        let polls = Polls::default();
        let vendor = vendor(&polls);
        let all = futures::future::join_all((0..50).map(|_| vendor.poll(ONE, status, "1"))).await;
        assert_eq!(vendor.calls(), 1, "{status}");
        assert!(all.iter().all(|answer| answer.contains(status)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_task_is_answered_from_memory_until_the_interval_has_passed() {
    let polls = Polls::default();
    let vendor = vendor(&polls);
    // 2.3 polls a second, as the Braket SDK does, for a minute.
    let start = Instant::now();
    while start.elapsed() < Duration::from_mins(1) {
        vendor.poll(ONE, "QUEUED", "2000").await;
        tokio::time::sleep(Duration::from_millis(430)).await;
    }
    // Once a second at first, then every tenth of the wait.
    let calls = vendor.calls();
    assert!((15..40).contains(&calls), "{calls} of 140");

    tokio::time::advance(Duration::from_secs(7)).await;
    let answer = vendor.poll(ONE, "RUNNING", "None").await;
    assert!(answer.contains("RUNNING"));
}

#[tokio::test(start_paused = true)]
async fn running_and_ended_tasks_are_asked_for_each_time() {
    let polls = Polls::default();
    let vendor = vendor(&polls);
    for status in ["RUNNING", "CANCELLING", "COMPLETED", "FAILED", "PONDERING"] {
        vendor.poll(ONE, status, "None").await;
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(vendor.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn other_attributes_and_other_regions_are_other_questions() {
    let polls = Polls::default();
    let vendor = vendor(&polls);
    vendor.poll(ONE, "QUEUED", "9").await;
    vendor.poll("/quantum-task/a", "QUEUED", "9").await;
    let elsewhere = Key { region: "eu-north-1".into(), target: ONE.into() };
    polls
        .answer(elsewhere, Instant::now(), async || {
            vendor.calls.fetch_add(1, Ordering::SeqCst);
            whole("QUEUED", "9")
        })
        .await;
    assert_eq!(vendor.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_is_asked_for_again() {
    let polls = Polls::default();
    let vendor = vendor(&polls);
    vendor.poll(ONE, "QUEUED", "9").await;
    vendor.poll("/quantum-task/ab", "QUEUED", "9").await;
    polls.forget("a");
    assert!(vendor.poll(ONE, "CANCELLED", "None").await.contains("CANCELLED"));
    assert_eq!(vendor.calls(), 3);
    vendor.poll("/quantum-task/ab", "QUEUED", "9").await;
    assert_eq!(vendor.calls(), 3, "the other task is still known");
}

#[tokio::test(start_paused = true)]
async fn one_who_gives_up_does_not_take_the_others_down() {
    let polls = Polls::default();
    let vendor = vendor(&polls);
    let first = vendor.poll(ONE, "QUEUED", "1");
    let gone = tokio::time::timeout(Duration::from_millis(10), first);
    let (gone, answer) = tokio::join!(gone, vendor.poll(ONE, "QUEUED", "1"));
    assert!(gone.is_err() && answer.contains("QUEUED"));
    assert_eq!(vendor.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let polls = Polls::default();
    let vendor = vendor(&polls);
    for index in 0..ROOM * 2 {
        vendor.poll(&format!("/quantum-task/{index}"), "QUEUED", "2000").await;
    }
    assert!(polls.lock().len() <= ROOM);
}

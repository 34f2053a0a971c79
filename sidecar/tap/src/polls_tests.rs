use super::*;
use sluice_dialect::braket;
use std::sync::atomic::{AtomicUsize, Ordering};

fn polls() -> Polls {
    Polls::new(Arc::default())
}

fn key(target: &str) -> Key {
    Key { region: "us-east-1".into(), target: target.into() }
}

const ONE: &str = "/quantum-task/a?additionalAttributeNames=QueueInfo";

fn whole(status: &str, position: &str) -> Asked<()> {
    let body = format!(
        r#"{{"quantumTaskArn": "a", "status": "{status}", "queueInfo": {{"position": "{position}"}}}}"#
    );
    let facts = braket::task(body.as_bytes());
    let whole =
        Whole { status: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::from(body) };
    Asked::Whole(Arc::new(whole), facts.map(Box::new))
}

fn text(asked: &Asked<()>) -> String {
    match asked {
        Asked::Whole(whole, _) => String::from_utf8(whole.body.to_vec()).unwrap(),
        Asked::Throttled(()) => "throttled".to_owned(),
        Asked::Keyless(()) => "keyless".to_owned(),
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
            .answer(key(target), Instant::now(), async |_, _| {
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
        let polls = polls();
        let vendor = vendor(&polls);
        let all = futures::future::join_all((0..50).map(|_| vendor.poll(ONE, status, "1"))).await;
        assert_eq!(vendor.calls(), 1, "{status}");
        assert!(all.iter().all(|answer| answer.contains(status)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_task_is_answered_from_memory_until_the_interval_has_passed() {
    let polls = polls();
    let vendor = vendor(&polls);
    // 2.3 polls a second, as the Braket SDK does, for a minute.
    let start = Instant::now();
    while start.elapsed() < Duration::from_mins(1) {
        vendor.poll(ONE, "QUEUED", "2000").await;
        tokio::time::sleep(Duration::from_millis(430)).await;
    }
    // At its submission, and 45 s later.
    assert_eq!(vendor.calls(), 2, "of 140");

    tokio::time::advance(Duration::from_mins(3)).await;
    let answer = vendor.poll(ONE, "RUNNING", "None").await;
    assert!(answer.contains("RUNNING"));
}

#[tokio::test(start_paused = true)]
async fn ended_tasks_are_asked_for_each_time() {
    let polls = polls();
    let vendor = vendor(&polls);
    for status in ["CANCELLING", "COMPLETED", "FAILED", "PONDERING"] {
        vendor.poll(ONE, status, "None").await;
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(vendor.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_running_task_is_asked_for_at_a_tenth_of_its_running_time() {
    let polls = polls();
    let vendor = vendor(&polls);
    let start = Instant::now();
    while start.elapsed() < Duration::from_mins(1) {
        vendor.poll(ONE, "RUNNING", "None").await;
        tokio::time::sleep(Duration::from_millis(430)).await;
    }
    // Each time for the first 5 s, then at ages that grow by a tenth.
    let calls = vendor.calls();
    assert!((25..45).contains(&calls), "{calls} of 113");
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(vendor.poll(ONE, "COMPLETED", "None").await.contains("COMPLETED"));
}

/// A poll that is throttled, whatever is done about it; what was to be done.
async fn throttled(polls: &Polls, calls: &mut u32) -> (Asked<()>, Option<Throttled>) {
    let mut told = None;
    let asked = polls
        .answer(key(ONE), Instant::now(), async |throttled, _| {
            *calls += 1;
            told = Some(throttled);
            polls.quota.throttled(Asks::Tasks, None);
            Asked::Throttled(())
        })
        .await;
    (asked, told)
}

#[tokio::test(start_paused = true)]
async fn a_throttled_poll_is_answered_with_what_the_vendor_said_last() {
    let polls = polls();
    let vendor = vendor(&polls);
    vendor.poll(ONE, "QUEUED", "2").await;
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed() + Duration::from_secs(1) < LONGEST_KEPT {
        tokio::time::sleep(Duration::from_millis(430)).await;
        let (asked, told) = throttled(&polls, &mut calls).await;
        assert!(text(&asked).contains("QUEUED"), "the program is told {}", text(&asked));
        assert_ne!(told, Some(Throttled::AskAgain), "the program need not wait");
    }
    // After 1, 2, 4 s, then every 8 s, instead of 1,400 times.
    assert!((60..90).contains(&calls), "{calls} questions");
    // The vendor has not said anything for long: the program is told that.
    tokio::time::advance(Duration::from_mins(3)).await;
    let (asked, told) = throttled(&polls, &mut calls).await;
    assert_eq!((text(&asked).as_str(), told), ("throttled", Some(Throttled::AskAgain)));
}

#[tokio::test(start_paused = true)]
async fn nothing_stands_in_for_an_answer_that_never_came_or_was_final() {
    for before in [None, Some("COMPLETED"), Some("FAILED")] {
        let polls = polls();
        if let Some(status) = before {
            vendor(&polls).poll(ONE, status, "None").await;
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let (asked, told) = throttled(&polls, &mut 0).await;
        assert_eq!(text(&asked), "throttled", "{before:?}");
        assert_eq!(told, Some(Throttled::AskAgain), "{before:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_vendor_that_wants_to_be_left_alone_is() {
    let polls = polls();
    let vendor = vendor(&polls);
    vendor.poll(ONE, "QUEUED", "1").await;
    polls.quota.throttled(Asks::Tasks, Some(Duration::from_mins(1)));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(59) {
        tokio::time::sleep(Duration::from_millis(430)).await;
        assert!(vendor.poll(ONE, "RUNNING", "None").await.contains("QUEUED"));
    }
    assert_eq!(vendor.calls(), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(vendor.poll(ONE, "RUNNING", "None").await.contains("RUNNING"));
}

#[tokio::test(start_paused = true)]
async fn other_attributes_and_other_regions_are_other_questions() {
    let polls = polls();
    let vendor = vendor(&polls);
    vendor.poll(ONE, "QUEUED", "9").await;
    vendor.poll("/quantum-task/a", "QUEUED", "9").await;
    let elsewhere = Key { region: "eu-north-1".into(), target: ONE.into() };
    polls
        .answer(elsewhere, Instant::now(), async |_, _| {
            vendor.calls.fetch_add(1, Ordering::SeqCst);
            whole("QUEUED", "9")
        })
        .await;
    assert_eq!(vendor.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_is_asked_for_again() {
    let polls = polls();
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
    let polls = polls();
    let vendor = vendor(&polls);
    let first = vendor.poll(ONE, "QUEUED", "1");
    let gone = tokio::time::timeout(Duration::from_millis(10), first);
    let (gone, answer) = tokio::join!(gone, vendor.poll(ONE, "QUEUED", "1"));
    assert!(gone.is_err() && answer.contains("QUEUED"));
    assert_eq!(vendor.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let polls = polls();
    let vendor = vendor(&polls);
    for index in 0..ROOM * 2 {
        vendor.poll(&format!("/quantum-task/{index}"), "QUEUED", "2000").await;
    }
    assert!(polls.lock().len() <= ROOM);
}

/// A poll of a vendor that does not take our keys. Tells whether there was a last answer to give.
async fn keyless(polls: &Polls, calls: &AtomicUsize) -> (Asked<()>, Option<bool>) {
    let mut had_last = None;
    let asked = polls
        .answer(key(ONE), Instant::now(), async |_, has_last| {
            calls.fetch_add(1, Ordering::SeqCst);
            had_last = Some(has_last);
            Asked::Keyless(())
        })
        .await;
    (asked, had_last)
}

#[tokio::test(start_paused = true)]
async fn without_keys_the_last_answer_of_a_live_task_is_given_again_and_no_other() {
    let polls = polls();
    let (vendor, calls) = (vendor(&polls), AtomicUsize::new(0));
    let (asked, had_last) = keyless(&polls, &calls).await;
    assert_eq!((text(&asked).as_str(), had_last), ("keyless", Some(false)), "nothing is known yet");
    vendor.poll(ONE, "QUEUED", "9").await;
    tokio::time::advance(Duration::from_hours(1)).await;
    let (asked, had_last) = keyless(&polls, &calls).await;
    assert!(text(&asked).contains("QUEUED"), "{}", text(&asked));
    assert_eq!(had_last, Some(true));
    // Not at every poll of a program that asks twice a second.
    for _ in 0..5 {
        assert!(text(&keyless(&polls, &calls).await.0).contains("QUEUED"));
        tokio::time::advance(KEYLESS / 10).await;
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    tokio::time::advance(KEYLESS).await;
    assert!(vendor.poll(ONE, "COMPLETED", "None").await.contains("COMPLETED"), "it goes on");
    tokio::time::advance(Duration::from_millis(1)).await;
    let (asked, had_last) = keyless(&polls, &calls).await;
    assert_eq!(
        (text(&asked).as_str(), had_last),
        ("keyless", Some(false)),
        "no task is live any more"
    );
}

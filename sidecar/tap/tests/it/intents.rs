//! The seam before a submission.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sluice_tap::{Asked, Forward, Intents, TapEvent, Ties};
use sluice_vendors::{Action, Config, Fault, Stage};

use crate::bench::{Bench, Setup, asked, emulator, submit, until};

#[derive(Default)]
struct Book {
    seen: Mutex<Vec<(Option<String>, String)>>,
    ties: Mutex<Vec<Ties>>,
    dropped: AtomicBool,
    hangs: bool,
    known: Option<String>,
    token: Option<String>,
}

/// Tells when it is dropped.
struct Told<'a>(&'a AtomicBool);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Intents for Book {
    fn before<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Forward> {
        async move {
            assert!(asked.ties.since.is_some(), "the program is connected");
            self.ties.lock().unwrap().push(asked.ties.clone());
            let _told = Told(&self.dropped);
            let entry = (asked.submission.client_token.clone(), asked.place.to_string());
            self.seen.lock().unwrap().push(entry);
            if self.hangs {
                std::future::pending::<()>().await;
            }
            if let Some(token) = &self.token {
                return Forward::SendWith(token.clone());
            }
            self.known.clone().map_or(Forward::Send, Forward::Known)
        }
        .boxed()
    }

    fn returned<'a>(&'a self, _: &'a Asked, id: &'a str, _: bool) -> BoxFuture<'a, ()> {
        unreachable!("Braket is not asked for a known task: {id}")
    }
}

async fn bench(url: &str, book: Arc<Book>) -> Bench {
    let mut setup = Setup::to(url);
    setup.intents = Some(book);
    setup.config.limits.intent_time = Duration::from_millis(100);
    setup.start().await
}

#[tokio::test]
async fn an_intent_is_recorded_and_then_the_submission_goes_on() {
    let vendor = emulator(Config::for_testing()).await;
    for hangs in [false, true] {
        let book = Arc::new(Book { hangs, ..Book::default() });
        let bench = bench(&vendor.braket_url(), Arc::clone(&book)).await;
        submit(&bench.own(), "token").await.unwrap();
        let seen = book.seen.lock().unwrap().clone();
        assert_eq!(seen, [(Some("token".to_owned()), "us-east-1".to_owned())]);
    }
}

#[tokio::test]
async fn a_known_submission_gets_its_task_and_nothing_is_sent() {
    let vendor = emulator(Config::for_testing()).await;
    let arn = "arn:aws:braket:us-east-1:123456789012:quantum-task/earlier";
    let book = Arc::new(Book { known: Some(arn.to_owned()), ..Book::default() });
    let mut bench = bench(&vendor.braket_url(), book).await;
    assert_eq!(submit(&bench.own(), "token").await.unwrap(), arn);
    assert_eq!(asked(&vendor, "CreateQuantumTask"), 0);
    let TapEvent::Submitted { task_id, known, .. } = bench.event().await else {
        panic!("the task is told")
    };
    assert_eq!((task_id.as_str(), known), (arn, true));
}

#[tokio::test]
async fn a_submission_of_an_earlier_run_goes_out_under_its_token() {
    let vendor = emulator(Config::for_testing()).await;
    let first = bench(&vendor.braket_url(), Arc::default()).await;
    let arn = submit(&first.own(), "first").await.unwrap();
    let token = Some("first".to_owned());
    let mut later = bench(&vendor.braket_url(), Arc::new(Book { token, ..Book::default() })).await;
    assert_eq!(submit(&later.own(), "second").await.unwrap(), arn);
    assert_eq!(vendor.tasks().len(), 1);
    let told = later.event_where(|event| match event {
        TapEvent::Submitted { submission, .. } => submission.client_token.clone(),
        _ => None,
    });
    assert_eq!(told.await, "first", "the token under which it was sent");
}

#[tokio::test]
async fn a_program_that_goes_away_takes_its_question_back() {
    let vendor = emulator(Config::for_testing()).await;
    let book = Arc::new(Book { hangs: true, ..Book::default() });
    let mut setup = Setup::to(&vendor.braket_url());
    setup.intents = Some(Arc::clone(&book) as Arc<dyn Intents>);
    let bench = setup.start().await;
    let program = {
        let client = bench.own();
        tokio::spawn(async move { submit(&client, "token").await })
    };
    until("the question", || !book.seen.lock().unwrap().is_empty()).await;
    assert!(!book.dropped.load(Ordering::SeqCst));
    program.abort();
    until("its end", || book.dropped.load(Ordering::SeqCst)).await;
    bench.end().await;
    assert_eq!(asked(&vendor, "CreateQuantumTask"), 0);
}

#[tokio::test]
async fn what_the_program_names_over_any_connection_ties_it_to_its_tasks() {
    let vendor = emulator(Config::for_testing()).await;
    let book = Arc::<Book>::default();
    let bench = bench(&vendor.braket_url(), Arc::clone(&book)).await;
    // Each client has connections of its own; the last one stays.
    let first = submit(&bench.own(), "first").await.unwrap();
    let client = bench.own();
    submit(&client, "second").await.unwrap();
    client.get_quantum_task().quantum_task_arn(&first).send().await.unwrap();
    submit(&client, "third").await.unwrap();
    let ties = book.ties.lock().unwrap().clone();
    assert!(ties[..2].iter().all(|t| t.named.is_empty()), "{ties:?}");
    assert!(ties[2].named.contains(&first), "{ties:?}");
    assert!(ties[1].since <= ties[2].since);
}

#[tokio::test]
async fn only_a_first_and_only_refusal_is_certain() {
    let refusal = || Action::Error {
        code: "AccessDeniedException".to_owned(),
        status: Some(403),
        message: "expired".to_owned(),
        retry_after: None,
        when: Stage::Before,
    };
    let lost = || Action::Close { when: Stage::After };
    let away = || Action::Error {
        code: "ServiceUnavailableException".to_owned(),
        status: Some(503),
        message: "away".to_owned(),
        retry_after: None,
        when: Stage::After,
    };
    // An error of the vendor's own goes back to the program, and the task may exist.
    let rows = [(None, 403, true), (Some(lost()), 403, false), (Some(away()), 503, false)];
    for (before, status, expected) in rows {
        let vendor = emulator(Config::for_testing()).await;
        if let Some(action) = before.clone() {
            vendor.add_fault(Fault::next(1, "CreateQuantumTask", action));
        }
        vendor.add_fault(Fault::next(1, "CreateQuantumTask", refusal()));
        let mut bench = bench(&vendor.braket_url(), Arc::default()).await;
        assert_eq!(submit(&bench.own(), "token").await.unwrap_err().0, status, "{before:?}");
        let found = bench
            .event_where(|event| match event {
                TapEvent::SubmissionRefused { void, submission, .. } => {
                    Some((*void, submission.client_token.clone()))
                }
                _ => None,
            })
            .await;
        assert_eq!(found, (expected, Some("token".to_owned())), "{before:?}");
    }
}

//! The seam before a submission.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sluice_tap::{Asked, Forward, Intents, TapEvent};
use sluice_vendors::Config;

use crate::bench::{Bench, Setup, asked, emulator, submit};

#[derive(Default)]
struct Book {
    seen: Mutex<Vec<(Option<String>, String)>>,
    hangs: bool,
    known: Option<String>,
    token: Option<String>,
}

impl Intents for Book {
    fn before<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Forward> {
        async move {
            assert!(asked.connected_since.is_some(), "the program is connected");
            let entry = (asked.submission.client_token.clone(), asked.region.clone());
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
    let later = bench(&vendor.braket_url(), Arc::new(Book { token, ..Book::default() })).await;
    assert_eq!(submit(&later.own(), "second").await.unwrap(), arn);
    assert_eq!(vendor.tasks().len(), 1);
}

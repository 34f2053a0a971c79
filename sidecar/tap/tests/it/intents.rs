//! The seam before a submission.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sluice_tap::{Forward, Intents, Submission, TapEvent};
use sluice_vendors::Config;

use crate::bench::{Bench, Setup, asked, emulator, submit};

#[derive(Default)]
struct Book {
    seen: Mutex<Vec<(Option<String>, String)>>,
    hangs: bool,
    known: Option<String>,
}

impl Intents for Book {
    fn before<'a>(&'a self, submission: &'a Submission, region: &'a str) -> BoxFuture<'a, Forward> {
        async move {
            let entry = (submission.client_token.clone(), region.to_owned());
            self.seen.lock().unwrap().push(entry);
            if self.hangs {
                std::future::pending::<()>().await;
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

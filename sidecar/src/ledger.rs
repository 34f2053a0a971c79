//! The seam of the tap: asks the follower before each submission and waits until the answer is
//! written down.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sluice_tap::{Asked, Forward, Intents};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::follow::resume::{Ask, Verdict};
use crate::follow::state::{Seen, State};
use crate::follow::watch::Clock;

/// How long a submission waits for its record; below the tap's own limit and, with the submission
/// itself, below the minute after which SDKs give up.
const PATIENCE: Duration = Duration::from_secs(48);
/// The same after the record has failed once, until one succeeds.
const BLIND: Duration = Duration::from_secs(5);

/// Longest token of an intent, in characters: the schema of the gang.
const MAX_NAME: usize = 64;
/// Longest place of an intent, likewise.
const MAX_PLACE: usize = 192;

/// Asks the follower.
pub struct Ledger {
    seen: mpsc::Sender<Seen>,
    shown: watch::Receiver<Arc<State>>,
    clock: Clock,
    next: AtomicU64,
    blind: AtomicBool,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ledger")
    }
}

impl Ledger {
    /// Asks over `seen` and reads the answers from `shown`.
    #[must_use]
    pub fn new(seen: mpsc::Sender<Seen>, shown: watch::Receiver<Arc<State>>, clock: Clock) -> Self {
        Self { seen, shown, clock, next: AtomicU64::new(0), blind: AtomicBool::new(false) }
    }

    async fn ask(&self, asked: &Asked) -> Forward {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let ask = Ask {
            ticket,
            digest: asked.submission.digest.clone(),
            place: asked.place.clone(),
            client_token: recordable(asked),
            ties: asked.ties.clone(),
            at: self.clock.now(),
        };
        let mut question = Question { ticket, seen: Some(&self.seen) };
        let mut shown = self.shown.clone();
        let recorded = async {
            self.seen.send(Seen::Asked(ask)).await.ok()?;
            let recorded =
                |state: &Arc<State>| state.ledger.answer(ticket).is_some_and(|(_, is)| is);
            shown.wait_for(recorded).await.ok().map(|_| ())
        };
        let limit = if self.blind.load(Ordering::Relaxed) { BLIND } else { PATIENCE };
        let is_recorded = matches!(timeout(limit, recorded).await, Ok(Some(())));
        let verdict = self.shown.borrow().ledger.answer(ticket).map(|(verdict, _)| verdict.clone());
        question.seen = None;
        if !is_recorded {
            // A follower that has ended needs no word.
            let _ = self.seen.send(Seen::WentOn { ticket }).await;
        }
        if is_recorded {
            if self.blind.swap(false, Ordering::Relaxed) {
                info!("submissions are written down again before they are sent");
            }
        } else if !self.blind.swap(true, Ordering::Relaxed) {
            warn!(
                "a submission could not be written down within {} s, because the gang cannot be \
                 read or written; submissions go on, but a program that is started again now may \
                 pay for the same task twice; check that the keeper runs and that the pod reaches \
                 the API server",
                limit.as_secs()
            );
        }
        match verdict {
            None | Some(Verdict::Send) => Forward::Send,
            Some(Verdict::SendWith(token)) => Forward::SendWith(token),
            Some(Verdict::Known(id)) => Forward::Known(id),
        }
    }
}

/// A question under way. Dropped before its answer, it takes the question back.
struct Question<'a> {
    ticket: u64,
    seen: Option<&'a mpsc::Sender<Seen>>,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let Some(seen) = self.seen.take() else { return };
        let ticket = self.ticket;
        if let Err(TrySendError::Full(news)) = seen.try_send(Seen::Withdrawn { ticket }) {
            let seen = seen.clone();
            tokio::spawn(async move { seen.send(news).await });
        }
    }
}

/// The token, if the gang can hold it. The vendor refuses longer ones.
fn recordable(asked: &Asked) -> Option<String> {
    let fits = |text: &str| text.chars().count() <= MAX_NAME;
    let token = asked.submission.client_token.as_deref();
    token
        .filter(|token| fits(token) && asked.place.to_string().chars().count() <= MAX_PLACE)
        .map(str::to_owned)
}

impl Intents for Ledger {
    fn before<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Forward> {
        self.ask(asked).boxed()
    }

    fn returned<'a>(
        &'a self,
        asked: &'a Asked,
        task_id: &'a str,
        unknown: bool,
    ) -> BoxFuture<'a, ()> {
        let token = recordable(asked);
        let news = Seen::Returned { token, id: task_id.to_owned(), unknown };
        // A follower that has ended needs no word. What is asked next comes after it.
        self.seen.send(news).map(drop).boxed()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sluice_dialect::braket;
    use sluice_shared::policy::{Follow, Mismatch, ReleasePolicy};
    use sluice_shared::resource::Place;
    use sluice_shared::role::Role;
    use sluice_tap::Ties;
    use tokio::time::Instant;

    use super::*;
    use crate::follow::state::Rules;

    #[tokio::test(start_paused = true)]
    async fn submissions_go_on_when_nothing_can_be_written_and_later_ones_wait_less() {
        let rules = Rules {
            role: Role::Single,
            policy: ReleasePolicy::Front,
            needed: 1,
            follow: Follow::Any,
            backend: None,
            max_cost: None,
            mismatch: Mismatch::default(),
            hints: Vec::new(),
            incarnation: "pod-0".into(),
            gang: "ns/g".into(),
            announce_url: "http://127.0.0.1:1".into(),
        };
        let (seen, mut questions) = mpsc::channel(8);
        let shown = watch::Sender::new(Arc::new(State::new(rules, Timestamp::UNIX_EPOCH)));
        let ledger = Ledger::new(seen, shown.subscribe(), Clock::wall());
        let asked = Asked {
            submission: braket::submission(br#"{"clientToken": "t"}"#).unwrap(),
            place: Place::Region("eu-north-1".into()),
            ties: Ties::default(),
        };
        for limit in [PATIENCE, BLIND, BLIND] {
            let begun = Instant::now();
            assert_eq!(ledger.before(&asked).await, Forward::Send);
            let took = begun.elapsed();
            assert!(took >= limit && took < limit + Duration::from_secs(1), "{took:?}");
            let Some(Seen::Asked(ask)) = questions.recv().await else { panic!("it is asked") };
            assert_eq!(ask.client_token.as_deref(), Some("t"));
            let Some(Seen::WentOn { ticket }) = questions.recv().await else {
                panic!("it is told")
            };
            assert_eq!(ticket, ask.ticket);
        }
        // The program goes away.
        let gone = timeout(Duration::from_secs(1), ledger.before(&asked)).await;
        assert!(gone.is_err());
        let Some(Seen::Asked(ask)) = questions.recv().await else { panic!("it is asked") };
        let Some(Seen::Withdrawn { ticket }) = questions.recv().await else { panic!("it is told") };
        assert_eq!(ticket, ask.ticket);
    }

    #[test]
    fn a_token_that_the_gang_cannot_hold_is_left_to_the_vendor() {
        let asked = |token: &str, region: &str| Asked {
            submission: braket::submission(format!(r#"{{"clientToken": "{token}"}}"#).as_bytes())
                .unwrap(),
            place: Place::Region(region.into()),
            ties: Ties::default(),
        };
        let long = "é".repeat(65);
        assert_eq!(recordable(&asked(&long[2..], "r")).map(|t| t.chars().count()), Some(64));
        assert_eq!(recordable(&asked(&long, "r")), None);
        assert_eq!(recordable(&asked("t", &"é".repeat(193))), None);
    }
}

//! The guard of the tap: which submissions are refused for their device or their price.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sluice_dialect::Submission;
use sluice_shared::names;
use sluice_shared::policy::Mismatch;
use sluice_shared::price::{Estimate, Usd, estimate};
use sluice_shared::task::device_name;
use sluice_tap::{Guard, Refusal};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::follow::cost;
use crate::follow::state::{Rules, State};

/// How long a submission waits for the gang, which holds what was paid before.
const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps the ceiling and the backend.
pub struct Till {
    shown: watch::Receiver<Arc<State>>,
    /// Prices of submissions that passed and are no task of the state yet, by their key.
    out: Mutex<BTreeMap<String, Usd>>,
}

impl fmt::Debug for Till {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Till")
    }
}

impl Till {
    /// A till that reads what was spent from `shown`; `None` where nothing is ever refused.
    #[must_use]
    pub fn of(rules: &Rules, shown: watch::Receiver<Arc<State>>) -> Option<Self> {
        let needed = rules.max_cost.is_some() || rules.mismatch == Mismatch::Refuse;
        needed.then(|| Self { shown, out: Mutex::default() })
    }

    async fn judge(&self, submission: &Submission) -> Result<(), Refusal> {
        let mut shown = self.shown.clone();
        let rules = shown.borrow().rules.clone();
        elsewhere(&rules, submission)?;
        let Some(max) = rules.max_cost else { return Ok(()) };
        let Some(price) = price(max, submission)? else { return Ok(()) };
        // What earlier runs have spent is in the gang.
        let read = timeout(PATIENCE, shown.wait_for(|state| state.gang.is_some())).await;
        if !matches!(read, Ok(Ok(_))) {
            return Err(Refusal {
                again: true,
                message: format!(
                    "The gang could not be read within {} s, so it is not known what was spent of \
                     {max} ({}). Repeat the request; check that the pod reaches the API server.",
                    PATIENCE.as_secs(),
                    names::MAX_COST
                ),
            });
        }
        let state = Arc::clone(&self.shown.borrow());
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.retain(|key, _| !is_task(&state, key));
        let key = key(submission);
        // The client's own repeat of a request makes no second task.
        if out.contains_key(&key) || is_task(&state, &key) {
            return Ok(());
        }
        let spent = cost::of_gang(&state).map_or(Usd::default(), |cost| cost.total)
            + out.values().copied().sum::<Usd>();
        affordable(max, spent, price)?;
        out.insert(key, price);
        Ok(())
    }
}

impl Guard for Till {
    fn check<'a>(&'a self, submission: &'a Submission) -> BoxFuture<'a, Result<(), Refusal>> {
        self.judge(submission).boxed()
    }

    fn refused(&self, submission: &Submission) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.remove(&key(submission));
    }
}

/// Names a submission until it is a task: by its token, which every SDK sends.
fn key(submission: &Submission) -> String {
    submission.client_token.clone().unwrap_or_else(|| submission.digest.clone())
}

fn is_task(state: &State, key: &str) -> bool {
    state.tasks.iter().any(|t| t.client_token.as_deref() == Some(key))
}

/// A QPU that is not the backend, where that is refused. PURE.
fn elsewhere(rules: &Rules, submission: &Submission) -> Result<(), Refusal> {
    let backend = rules.backend.as_deref();
    match (&submission.device, backend) {
        (Some(device), Some(backend))
            if rules.mismatch == Mismatch::Refuse && Mismatch::is_elsewhere(device, backend) =>
        {
            Err(Refusal {
                again: false,
                message: format!(
                    "Sluice refused the submission to {}: the chosen backend is {backend}, and \
                     annotation {} is \"refuse\". Nothing was sent.",
                    device_name(device),
                    names::MISMATCH
                ),
            })
        }
        _ => Ok(()),
    }
}

/// The price of a submission; `None` for simulators, which are charged by the minute. PURE.
fn price(max: Usd, submission: &Submission) -> Result<Option<Usd>, Refusal> {
    let refused = |message: String| Err(Refusal { again: false, message });
    let Some(device) = submission.device.as_deref() else {
        // The vendor refuses it too, in its own words.
        return Ok(None);
    };
    match estimate(device, submission.shots) {
        Estimate::Fixed(price) => Ok(Some(price)),
        Estimate::Minute(_) => Ok(None),
        Estimate::Unknown => refused(format!(
            "Sluice refused the submission to {}: no list price is known for it, so {} ({max}) \
             cannot be kept. Nothing was sent. Take the annotation off the Job, or use another \
             device.",
            device_name(device),
            names::MAX_COST
        )),
    }
}

/// Whether `price` fits on top of what was spent. PURE.
fn affordable(max: Usd, spent: Usd, price: Usd) -> Result<(), Refusal> {
    if spent + price <= max {
        return Ok(());
    }
    Err(Refusal {
        again: false,
        message: format!(
            "Sluice refused the submission: it costs {price} by list price, {spent} of at most \
             {max} ({}) are spent. Nothing was sent. Raise the annotation on a new Job, or send \
             less.",
            names::MAX_COST
        ),
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use sluice_dialect::braket;

    use super::*;
    use crate::follow::followed::Followed;
    use sluice_shared::policy::{Follow, ReleasePolicy};
    use sluice_shared::role::Role;

    const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
    const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";

    fn submission(device: &str, shots: u64, token: &str) -> Submission {
        let body =
            format!(r#"{{"deviceArn": "{device}", "shots": {shots}, "clientToken": "{token}"}}"#);
        braket::submission(body.as_bytes()).unwrap()
    }

    fn till(max: &str) -> (Till, watch::Sender<Arc<State>>) {
        let rules = Rules {
            role: Role::Producer,
            policy: ReleasePolicy::Front,
            needed: 1,
            follow: Follow::Any,
            backend: Some("garnet".into()),
            mismatch: Mismatch::Refuse,
            max_cost: max.parse().ok(),
            incarnation: "pod-1".into(),
            gang: "ns/g".into(),
            announce_url: "http://127.0.0.1:8730".into(),
            hints: Vec::new(),
        };
        let mut state = State::new(rules.clone(), Timestamp::UNIX_EPOCH);
        state.gang = Some("g-1".into());
        let shown = watch::Sender::new(Arc::new(state));
        (Till::of(&rules, shown.subscribe()).unwrap(), shown)
    }

    fn take_in(shown: &watch::Sender<Arc<State>>, token: &str, state: &str) {
        shown.send_modify(|known| {
            let known = Arc::make_mut(known);
            let mut task = Followed::found(token.into(), Timestamp::UNIX_EPOCH, Timestamp::MAX);
            task.reading.device = Some(GARNET.into());
            task.reading.state = state.into();
            task.reading.shots = Some(1000);
            task.client_token = Some(token.into());
            known.tasks.retain(|t| t.reading.id != token);
            known.tasks.push(task);
        });
    }

    #[tokio::test]
    async fn the_ceiling_counts_what_is_on_its_way_and_what_is_a_task_once() {
        let (till, shown) = till("4.00");
        let send = async |token: &str| till.check(&submission(GARNET, 1000, token)).await;
        assert_eq!(send("a").await, Ok(()));
        assert_eq!(send("b").await, Ok(()));
        let refusal = send("c").await.unwrap_err();
        assert!(!refusal.again);
        let expected = "costs 1.75 USD by list price, 3.50 USD of at most 4.00 USD";
        assert!(refusal.message.contains(expected), "{}", refusal.message);
        // A repeat is no new task, before and after it is known.
        assert_eq!(send("a").await, Ok(()));
        take_in(&shown, "a", "QUEUED");
        assert_eq!(send("a").await, Ok(()));
        assert!(send("c").await.is_err());
        // What gave no task, or no result, is free again.
        till.refused(&submission(GARNET, 1000, "b"));
        assert_eq!(send("c").await, Ok(()));
        assert!(send("d").await.is_err());
        take_in(&shown, "a", "FAILED");
        assert_eq!(send("d").await, Ok(()));
    }

    #[tokio::test]
    async fn another_qpu_and_one_without_a_price_are_refused_and_a_simulator_is_not() {
        let (till, _shown) = till("4.00");
        assert_eq!(till.check(&submission(SV1, 1000, "a")).await, Ok(()));
        let emerald = "arn:aws:braket:eu-north-1::device/qpu/iqm/Emerald";
        let refusal = till.check(&submission(emerald, 1, "b")).await.unwrap_err();
        assert!(refusal.message.contains("the chosen backend is garnet"), "{}", refusal.message);
        let new = "arn:aws:braket:eu-north-1::device/qpu/new/Garnet";
        let refusal = till.check(&submission(new, 1, "c")).await.unwrap_err();
        assert!(refusal.message.contains("no list price is known"), "{}", refusal.message);
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_gang_nothing_is_spent_and_the_program_may_try_again() {
        let (till, shown) = till("4.00");
        shown.send_modify(|state| Arc::make_mut(state).gang = None);
        let refusal = till.check(&submission(GARNET, 1, "a")).await.unwrap_err();
        assert!(refusal.again && refusal.message.contains("Repeat the request"));
    }

    proptest! {
        /// In whatever order submissions pass, fail and become tasks: the ceiling is kept.
        #[test]
        fn the_ceiling_is_never_passed(moves in prop::collection::vec((0u8..4, 0u8..6), 1..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let (till, shown) = till("5.00");
            let mut sent = std::collections::BTreeSet::new();
            for (what, which) in moves {
                let token = format!("t{which}");
                match what {
                    0 | 1 => {
                        let passed =
                            runtime.block_on(till.check(&submission(GARNET, 1000, &token)));
                        if passed.is_ok() {
                            sent.insert(token);
                        }
                    }
                    2 if sent.contains(&token) => take_in(&shown, &token, "QUEUED"),
                    3 if sent.contains(&token) && !is_task(&shown.borrow(), &token) => {
                        till.refused(&submission(GARNET, 1000, &token));
                        sent.remove(&token);
                    }
                    _ => {}
                }
                // 1.75 each: two fit, three do not.
                prop_assert!(sent.len() <= 2, "{sent:?}");
            }
        }
    }
}

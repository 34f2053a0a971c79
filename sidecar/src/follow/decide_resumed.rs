//! A worker that is started again anywhere beside one that is not: both see the same, at Braket
//! and at every resource of the table. The one that knows less never orders earlier.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use sluice_dialect::{Waits, abilities};
use sluice_shared::gang::VendorStatus;
use sluice_shared::policy::ReleasePolicy;
use sluice_shared::resource::{Resource, TABLE};

use super::play::{Play, mk_failure, mk_gang, mk_rules};
use super::*;
use crate::follow::passing::{Submitted, Waiting};
use crate::follow::state::DeviceId;
use crate::follow::timing::after;
use crate::vendor::{DeviceReading, FailureKind, Reading};

/// A follower and what the API server holds of its writes.
struct Worker {
    play: Play,
    pending: Option<VendorStatus>,
    persisted: Option<VendorStatus>,
    orders: BTreeMap<String, Order>,
}

impl Worker {
    fn new(rules: crate::follow::state::Rules) -> Self {
        let play = Play::new(rules);
        Self { play, pending: None, persisted: None, orders: BTreeMap::new() }
    }

    fn see(&mut self, seen: Seen, at: Timestamp) {
        self.play.now = at;
        self.play.see(seen);
        for step in std::mem::take(&mut self.play.steps) {
            if let Step::Write(status) = step {
                self.pending = Some(*status);
            }
        }
    }

    fn land(&mut self) {
        let Some(status) = self.pending.take() else { return };
        if let Some(order) = &status.order {
            let known = self.orders.entry(order.task_id.clone()).or_insert_with(|| order.clone());
            assert_eq!(known, order, "ordered twice");
        }
        self.persisted = Some(status);
    }

    fn gang(&mut self, at: Timestamp) {
        self.see(Seen::Gang(Some(mk_gang(self.persisted.clone()))), at);
    }

    fn restart(&mut self, lands: bool, at: Timestamp) {
        if lands {
            self.land();
        }
        self.pending = None;
        self.play.state = State::new(self.play.state.rules.clone(), at);
    }
}

/// One thing that happens; the numbers choose a task or a place.
#[derive(Debug, Clone, Copy)]
enum Event {
    Submit(usize),
    Advance(usize, usize),
    Poll(usize),
    Look(usize, usize),
    Device(usize, usize),
    Gang,
    Pass(u32),
    /// Of the one that is started again alone.
    Restart(bool),
    Land,
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..6_usize).prop_map(Event::Submit),
        6 => (0..4_usize, 0..8_usize).prop_map(|(task, how)| Event::Advance(task, how)),
        6 => (0..4_usize).prop_map(Event::Poll),
        6 => (0..4_usize, 0..6_usize).prop_map(|(task, how)| Event::Look(task, how)),
        5 => (0..6_usize, 0..6_usize).prop_map(|(place, how)| Event::Device(place, how)),
        5 => Just(Event::Gang),
        3 => (1..200_000_u32).prop_map(Event::Pass),
        4 => any::<bool>().prop_map(Event::Restart),
        2 => Just(Event::Land),
    ]
}

/// The places: Braket, then one resource of each service.
fn place(n: usize) -> Option<Resource> {
    let row = n.checked_sub(1).map(|n| &TABLE[n % TABLE.len()])?;
    Some(Resource { service: row.service, name: "machine".to_owned() })
}

fn device_of(resource: Option<&Resource>) -> DeviceId {
    match resource {
        Some(resource) => {
            DeviceId { resource: Some(resource.clone()), name: resource.name.clone() }
        }
        None => super::play::GARNET.into(),
    }
}

/// Both workers, and the vendors.
struct Pair {
    at: Timestamp,
    whole: Worker,
    broken: Worker,
    truth: Vec<Reading>,
}

impl Pair {
    fn new(policy: ReleasePolicy, needed: u32) -> Self {
        let rules = crate::follow::state::Rules { needed, ..mk_rules(Role::Producer, policy) };
        let whole = Worker::new(rules.clone());
        Self { at: whole.play.now, whole, broken: Worker::new(rules), truth: Vec::new() }
    }

    fn both(&mut self, seen: &Seen) {
        self.whole.see(seen.clone(), self.at);
        self.broken.see(seen.clone(), self.at);
    }

    fn happen(&mut self, event: Event) {
        // Every look takes time.
        self.at = after(self.at, Duration::from_millis(1));
        match event {
            Event::Submit(n) if self.truth.len() < 4 => self.submit(place(n)),
            Event::Submit(_) => {}
            Event::Advance(task, how) => self.advance(task, how),
            Event::Poll(task) => {
                if let Some(truth) = self.task(task).filter(is_known) {
                    self.both(&Seen::Polled(truth, self.at));
                }
            }
            Event::Look(task, how) => {
                let Some(truth) = self.task(task) else { return };
                let outcome = match how {
                    0 => Err(mk_failure(FailureKind::Away)),
                    1 => Err(mk_failure(FailureKind::Throttled)),
                    _ if is_known(&truth) => Ok(truth.clone()),
                    _ => Err(mk_failure(FailureKind::NotFound)),
                };
                self.both(&Seen::Read(truth.id, self.at, outcome));
            }
            Event::Device(n, how) => {
                let status = if how.is_multiple_of(2) { "ONLINE" } else { "OFFLINE" }.to_owned();
                let outcome = match how {
                    0 => Err(mk_failure(FailureKind::Denied)),
                    1 => Err(mk_failure(FailureKind::Away)),
                    _ => Ok(DeviceReading { status, ..DeviceReading::default() }),
                };
                self.both(&Seen::DeviceRead(device_of(place(n).as_ref()), outcome));
            }
            Event::Gang => {
                self.whole.gang(self.at);
                self.broken.gang(self.at);
            }
            Event::Pass(millis) => {
                self.at = after(self.at, Duration::from_millis(millis.into()));
                self.both(&Seen::Time);
            }
            Event::Restart(lands) => self.broken.restart(lands, self.at),
            Event::Land => self.broken.land(),
        }
        self.whole.land();
        let (whole, broken) = (&self.whole.play.state, &self.broken.play.state);
        assert!(
            broken.order.is_none() || !self.whole.orders.is_empty() || whole.order.is_some(),
            "earlier than without the restart: {:?}",
            broken.order
        );
    }

    fn task(&self, n: usize) -> Option<Reading> {
        self.truth.get(n % self.truth.len().max(1)).cloned()
    }

    fn submit(&mut self, resource: Option<Resource>) {
        let at_the_door = abilities(resource.as_ref()).waits == Waits::AtTheDoor;
        let device = device_of(resource.as_ref()).name;
        let state = if at_the_door { TaskState::Queued } else { TaskState::Created };
        let truth = Reading {
            device: Some(device.clone()),
            resource: resource.clone(),
            ..Reading::new(format!("t{}", self.truth.len()), state)
        };
        let id = truth.id.clone();
        self.truth.push(truth);
        if at_the_door {
            let (device, reason) = (Some(device), "all lanes are busy".to_owned());
            self.both(&Seen::Waits(Waiting { id, device, reason, resource }));
        } else {
            self.both(&submitted(id, device, resource));
        }
    }

    fn advance(&mut self, task: usize, how: usize) {
        let at = self.at;
        let count = self.truth.len().max(1);
        let Some(truth) = self.truth.get_mut(task % count) else { return };
        let can = abilities(truth.resource.as_ref());
        if !is_known(truth) {
            // A lane is free: the client sends it again, and it is taken.
            truth.state = TaskState::Running;
            let device = truth.device.clone().unwrap();
            let seen = submitted(truth.id.clone(), device, truth.resource.clone());
            self.whole.see(seen.clone(), at);
            self.broken.see(seen, at);
            return;
        }
        let (state, position) = match (truth.state.as_str(), how) {
            ("CREATED" | "RUNNING", 0) => ("FAILED", None),
            ("CREATED", _) => ("QUEUED", Some("3")),
            ("QUEUED", 0) => ("CANCELLED", None),
            ("QUEUED", 1) => ("QUEUED", Some(">2000")),
            ("QUEUED", 2..=5) => ("QUEUED", Some(["2", "1"][how % 2])),
            ("QUEUED" | "PONDERING", _) => ("RUNNING", None),
            ("RUNNING", 1) => ("PONDERING", None),
            ("RUNNING", 2) if can.waits == Waits::Inside => ("QUEUED", Some("1")),
            ("RUNNING", _) => ("COMPLETED", None),
            _ => return,
        };
        truth.state = state.into();
        truth.position = position.filter(|_| can.position).map(str::to_owned);
    }
}

/// Whether the vendor knows it: one that waits at its door is not there yet.
fn is_known(truth: &Reading) -> bool {
    let can = abilities(truth.resource.as_ref());
    can.waits == Waits::Inside || truth.state != TaskState::Queued
}

fn submitted(id: String, device: String, resource: Option<Resource>) -> Seen {
    Seen::Submitted(Submitted {
        id,
        device: Some(device),
        shots: None,
        digest: Some("d".into()),
        client_token: None,
        resource,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 2000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_worker_that_is_started_again_orders_no_earlier_and_nothing_twice(
        policy in prop_oneof![
            Just("front"), Just("running"), Just("completed"), Just("position<=2"),
        ],
        needed in 1..3_u32,
        events in prop::collection::vec(events(), 10..80),
    ) {
        let mut pair = Pair::new(policy.parse().unwrap(), needed);
        pair.whole.gang(pair.at);
        for event in events {
            pair.happen(event);
        }
    }
}

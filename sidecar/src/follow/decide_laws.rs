//! Laws of the decision, tried in random worlds and with a restart after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use sluice_shared::gang::VendorStatus;
use sluice_shared::policy::ReleasePolicy;

use super::play::{GARNET, Play, mk_failure, mk_gang, mk_reading, online, submitted};
use super::*;
use crate::follow::plan::next_due;
use crate::follow::state::Line;
use crate::follow::timing::after;
use crate::vendor::{DeviceReading, FailureKind, Reading};

/// The world around a follower: vendor, gang, program. Each move is a number.
struct World {
    play: Play,
    policy: ReleasePolicy,
    truth: BTreeMap<String, Reading>,
    /// Tasks that satisfied the policy at some time, by what the vendor would have said.
    met: BTreeSet<String>,
    device: DeviceReading,
    was_online: bool,
    persisted: Option<VendorStatus>,
    pending: Option<VendorStatus>,
    orders: BTreeMap<String, Order>,
    looks: Vec<String>,
    device_looks: usize,
}

impl World {
    fn new(policy: ReleasePolicy) -> Self {
        Self {
            play: Play::producer(policy),
            policy,
            truth: BTreeMap::new(),
            met: BTreeSet::new(),
            device: online(),
            was_online: true,
            persisted: None,
            pending: None,
            orders: BTreeMap::new(),
            looks: Vec::new(),
            device_looks: 0,
        }
    }

    fn see(&mut self, seen: Seen) {
        self.play.see(seen);
        for step in std::mem::take(&mut self.play.steps) {
            match step {
                Step::Read { id, .. } => self.looks.push(id),
                Step::ReadDevice { .. } => self.device_looks += 1,
                Step::Write(status) => {
                    assert!(status.tasks.len() <= MAX_TASKS);
                    if let Some(order) = &status.order {
                        assert!(self.met.contains(&order.task_id), "early: {order:?}");
                    }
                    self.pending = Some(*status);
                }
                Step::Say(Line { text, .. }) => assert!(!text.is_empty()),
            }
        }
        let due = next_due(&self.play.state);
        let live = self.play.state.tasks.iter().any(|t| !t.reading.state.is_final());
        assert!(!live || due.is_some(), "nothing is planned");
    }

    fn land(&mut self) {
        let Some(status) = self.pending.take() else { return };
        if let Some(order) = &status.order {
            let known = self.orders.entry(order.task_id.clone()).or_insert_with(|| order.clone());
            assert_eq!(known, order, "a second order for one task");
        }
        self.persisted = Some(status);
    }

    fn note(&mut self) {
        for (id, truth) in &self.truth {
            let front = truth.state == TaskState::Queued
                && truth.position.as_deref() == Some("1")
                && self.was_online;
            let ok = match self.policy {
                ReleasePolicy::Front => {
                    front || matches!(truth.state, TaskState::Running | TaskState::Completed)
                }
                ReleasePolicy::Running => {
                    matches!(truth.state, TaskState::Running | TaskState::Completed)
                }
                ReleasePolicy::Completed => truth.state == TaskState::Completed,
                ReleasePolicy::Position(most) => {
                    let place = truth.position.as_deref().and_then(|p| p.parse::<u32>().ok());
                    let near = place.is_some_and(|place| place <= most.get());
                    (truth.state == TaskState::Queued && near && self.was_online)
                        || matches!(truth.state, TaskState::Running | TaskState::Completed)
                }
                // The law of the program's word has tests of its own.
                ReleasePolicy::Manual => false,
            };
            if ok {
                self.met.insert(id.clone());
            }
        }
    }

    fn submit(&mut self, told: bool) {
        if self.truth.len() >= 4 {
            return;
        }
        let id = format!("t{}", self.truth.len());
        self.truth.insert(id.clone(), mk_reading(&id, "CREATED", None));
        if told {
            self.see(submitted(&id));
        }
    }

    fn pick(&self, n: usize) -> Option<String> {
        let ids: Vec<_> = self.truth.keys().cloned().collect();
        (!ids.is_empty()).then(|| ids[n % ids.len()].clone())
    }

    fn advance(&mut self, n: usize) {
        let Some(id) = self.pick(n) else { return };
        let truth = self.truth.get_mut(&id).unwrap();
        let next = match (truth.state.as_str(), n % 7) {
            ("CREATED" | "RUNNING", 0) => ("FAILED", None),
            ("CREATED", _) => ("QUEUED", Some("3")),
            ("QUEUED", 0) => ("CANCELLED", None),
            ("QUEUED", 1) => ("QUEUED", Some("2")),
            ("QUEUED", 2) => ("QUEUED", Some(">2000")),
            ("QUEUED", 3) => ("QUEUED", None),
            ("QUEUED", 4 | 5) | ("RUNNING", 2) => ("QUEUED", Some("1")),
            ("QUEUED" | "PONDERING", _) => ("RUNNING", None),
            ("RUNNING", 1) => ("PONDERING", None),
            ("RUNNING", _) => ("COMPLETED", None),
            _ => return,
        };
        *truth = mk_reading(&id, next.0, next.1);
        self.note();
    }

    fn answer(&mut self, n: usize) {
        if let Some(id) = (!self.looks.is_empty()).then(|| self.looks.remove(0)) {
            let outcome = match n % 9 {
                0 => Err(mk_failure(FailureKind::NotFound)),
                1 => Err(mk_failure(FailureKind::Denied)),
                2 => Err(mk_failure(FailureKind::Throttled)),
                3 => Err(mk_failure(FailureKind::Away)),
                _ => Ok(self.truth[&id].clone()),
            };
            let at = self.play.now;
            self.see(Seen::Read(id, at, outcome));
        } else if self.device_looks > 0 {
            self.device_looks -= 1;
            let outcome = match n % 5 {
                0 => Err(mk_failure(FailureKind::Away)),
                _ => Ok(self.device.clone()),
            };
            self.see(Seen::DeviceRead(GARNET.into(), outcome));
        }
    }

    fn gang(&mut self) {
        self.see(Seen::Gang(Some(mk_gang(self.persisted.clone()))));
    }

    fn restart(&mut self, lands: bool) {
        if lands {
            self.land();
        }
        self.pending = None;
        self.looks.clear();
        self.device_looks = 0;
        let now = self.play.now;
        self.play.state = State::new(self.play.state.rules.clone(), now);
    }

    fn turn(&mut self, kind: u8, n: usize) {
        match kind % 11 {
            0 => self.submit(!n.is_multiple_of(3)),
            1..=3 => self.advance(n),
            4 => {
                if let Some(id) = self.pick(n) {
                    let (truth, at) = (self.truth[&id].clone(), self.play.now);
                    self.see(Seen::Polled(truth, at));
                }
            }
            5 => self.answer(n),
            6 => {
                self.device.status = if n.is_multiple_of(2) { "ONLINE" } else { "OFFLINE" }.into();
                self.was_online |= self.device.status == "ONLINE";
            }
            7 => self.gang(),
            8 => self.restart(n.is_multiple_of(2)),
            9 => self.land(),
            _ => {
                let pause = Duration::from_millis(n as u64 % 120_000);
                self.play.now = after(self.play.now, pause);
                self.see(Seen::Time);
            }
        }
        // Every look takes time: what is seen later is seen at a later time.
        self.play.now = after(self.play.now, Duration::from_millis(1));
    }

    /// Lets everything come to its end, with a vendor and an API server that answer.
    fn settle(&mut self) {
        self.gang();
        // The program asks for each of its tasks in the end.
        for id in self.truth.keys().cloned().collect::<Vec<_>>() {
            let truth = self.truth.get_mut(&id).unwrap();
            if !truth.state.is_final() {
                *truth = mk_reading(&id, "COMPLETED", None);
            }
        }
        self.note();
        for (id, truth) in self.truth.clone() {
            if self.play.state.task(&id).is_none() {
                let at = self.play.now;
                self.see(Seen::Polled(truth, at));
            }
        }
        for _ in 0..200 {
            while let Some(id) = self.looks.pop() {
                let (truth, at) = (self.truth[&id].clone(), self.play.now);
                self.see(Seen::Read(id, at, Ok(truth)));
            }
            self.device_looks = 0;
            self.land();
            self.gang();
            let live = self.play.state.tasks.iter().any(|t| !t.reading.state.is_final());
            if !live {
                return;
            }
            let due = next_due(&self.play.state).unwrap();
            self.play.now = due.max(after(self.play.now, Duration::from_millis(5)));
            self.see(Seen::Time);
        }
        panic!("tasks are live for ever: {:?}", self.play.state.tasks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn never_early_never_twice_always_ends(
        policy in prop_oneof![
            Just("front"), Just("running"), Just("completed"), Just("position<=1"),
            Just("position<=2"), Just("position<=3"), Just("manual"),
        ],
        turns in proptest::collection::vec((any::<u8>(), 0usize..200_000), 0..80),
    ) {
        let policy: ReleasePolicy = policy.parse().unwrap();
        let mut world = World::new(policy);
        for (kind, n) in turns {
            world.turn(kind, n);
        }
        world.settle();
        let completed = policy != ReleasePolicy::Manual
            && world.truth.values().any(|t| t.state == TaskState::Completed);
        let order = world.persisted.as_ref().and_then(|p| p.order.as_ref());
        prop_assert!(!completed || order.is_some(), "stranded: {:?}", world.persisted);
        if completed {
            let order = order.unwrap();
            prop_assert!(!world.truth[&order.task_id].state.is_unsuccessful(), "{order:?}");
        }
    }

    #[test]
    fn it_never_turns_on_the_spot(
        turns in proptest::collection::vec((any::<u8>(), 0usize..200_000), 0..60),
    ) {
        let mut world = World::new(ReleasePolicy::Front);
        for (kind, n) in turns {
            world.turn(kind, n);
            world.see(Seen::Time);
            let due = next_due(&world.play.state);
            prop_assert!(due.is_none_or(|due| due > world.play.now), "{due:?}");
        }
    }
}

/// One story, with a restart after each of its events: the order is the same each time.
#[test]
fn a_restart_at_any_step_gives_the_same_order() {
    let story: [fn(&mut World); 9] = [
        |w| w.submit(true),
        World::gang,
        |w| w.truth.insert("t0".into(), mk_reading("t0", "QUEUED", Some("3"))).map_or((), drop),
        |w| w.turn(4, 0),
        World::land,
        |w| {
            w.truth.insert("t0".into(), mk_reading("t0", "QUEUED", Some("1")));
            w.note();
        },
        |w| w.turn(4, 0),
        |w| w.see(Seen::DeviceRead(GARNET.into(), Ok(online()))),
        World::land,
    ];
    for restart_after in 0..=story.len() {
        for lands in [false, true] {
            let mut world = World::new(ReleasePolicy::Front);
            for (index, event) in story.iter().enumerate() {
                if index == restart_after {
                    world.restart(lands);
                }
                event(&mut world);
                world.play.now = after(world.play.now, Duration::from_millis(1));
            }
            if restart_after == story.len() {
                world.restart(lands);
            }
            // The program polls on, the vendor answers.
            for _ in 0..4 {
                world.gang();
                world.turn(4, 0);
                world.see(Seen::DeviceRead(GARNET.into(), Ok(online())));
                world.land();
            }
            let orders: Vec<_> = world.orders.values().map(|o| (&*o.task_id, &*o.reason)).collect();
            assert_eq!(orders, [("t0", "front")], "restart after {restart_after}, {lands}");
        }
    }
}

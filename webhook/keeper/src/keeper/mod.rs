//! The loop: observe, decide, act.

mod answer;
mod send;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::gang::{KeeperOrder, OwnerRef};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::act::{Effect, Hands, Target};
use crate::call::CallError;
use crate::complaint::Complaint;
use crate::decide::{Gang, Owner, Rules, Seen, Step, decide};
use crate::desk::Desk;
use crate::facts::job::StrayJob;
use crate::metrics::{Metrics, WriteKind};
use crate::observe::Observation;
use crate::world::{Key, World};

/// Every gang is looked at this often even if nothing happened to it.
const SWEEP: Duration = Duration::from_mins(1);
/// How often the gauges are set.
const GAUGES: Duration = Duration::from_secs(5);
/// How often the `RoleBinding`s are gone through.
const BINDINGS: Duration = Duration::from_mins(5);
/// How long a `RoleBinding` that was seen counts as being there.
const BOUND: Duration = Duration::from_mins(10);
/// Most things that are taken in before decisions are made.
const BATCH: usize = 1024;

/// What came back from a write.
enum Report {
    Control {
        key: Key,
        before: Option<Box<KeeperOrder>>,
        results: Vec<(WriteKind, Result<Effect, CallError>)>,
    },
    Gate {
        key: Key,
        uid: String,
        gate: String,
        result: Result<Effect, CallError>,
    },
    Told {
        key: Option<Key>,
        event: String,
        result: Result<(), CallError>,
    },
    Bindings(Result<Vec<(String, String)>, CallError>),
    Unbound {
        namespace: String,
        result: Result<(), CallError>,
    },
}

/// What the loop is made with.
pub(crate) struct Setting {
    pub hands: Hands,
    pub rules: Rules,
    pub identity: String,
    pub gates_in_flight: usize,
    pub binding_idle: Duration,
    pub metrics: Metrics,
}

/// The loop's state.
pub(crate) struct Keeper {
    setting: Setting,
    world: World,
    desks: HashMap<Key, Desk>,
    dirty: HashSet<Key>,
    timers: BinaryHeap<Reverse<(Instant, Key)>>,
    writes: JoinSet<Report>,
    permits: Arc<Semaphore>,
    /// Namespaces whose `RoleBinding` was seen, and when.
    bound: HashMap<String, Instant>,
    /// Namespaces that have a `RoleBinding` and no gang, and since when.
    unused: HashMap<String, Instant>,
    strays: HashMap<String, StrayJob>,
    leading: bool,
    /// Whether it leads and knows enough to decide.
    acts: bool,
    trouble: Complaint,
}

impl Keeper {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(setting.gates_in_flight.max(1))),
            setting,
            world: World::new(),
            desks: HashMap::new(),
            dirty: HashSet::new(),
            timers: BinaryHeap::new(),
            writes: JoinSet::new(),
            bound: HashMap::new(),
            unused: HashMap::new(),
            strays: HashMap::new(),
            leading: false,
            acts: false,
            trouble: Complaint::new(),
        }
    }

    /// Runs until `stop`, or until the watches end.
    pub(crate) async fn run(
        mut self,
        mut observations: mpsc::Receiver<Observation>,
        mut leading: watch::Receiver<bool>,
        stop: CancellationToken,
    ) {
        let mut sweep = ticks(SWEEP);
        let mut gauges = ticks(GAUGES);
        let mut bindings = ticks(BINDINGS);
        loop {
            let next = self.timers.peek().map(|Reverse((at, _))| *at);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Ok(()) = leading.changed() => {
                    let leads = *leading.borrow_and_update();
                    self.lead(leads);
                }
                Some(report) = self.writes.join_next(), if !self.writes.is_empty() => {
                    self.take_report(report);
                    while let Some(report) = self.writes.try_join_next() {
                        self.take_report(report);
                    }
                }
                observation = observations.recv() => {
                    let Some(observation) = observation else { return };
                    self.take_in(observation);
                    for _ in 0..BATCH {
                        let Ok(observation) = observations.try_recv() else { break };
                        self.take_in(observation);
                    }
                }
                () = tokio::time::sleep_until(next.unwrap_or_else(far)), if next.is_some() => {
                    self.ring();
                }
                _ = sweep.tick() => self.dirty.extend(self.world.keys()),
                _ = gauges.tick() => self.set_gauges(),
                _ = bindings.tick() => self.ask_bindings(),
            }
            self.look_at_dirty();
        }
    }

    fn lead(&mut self, leads: bool) {
        self.leading = leads;
        self.setting.metrics.leading.set(i64::from(leads));
        self.bound.clear();
        if leads {
            self.ask_bindings();
            let strays: Vec<StrayJob> = self.strays.drain().map(|(_, s)| s).collect();
            for stray in strays {
                self.tell_stray(stray);
            }
        }
    }

    fn take_in(&mut self, observation: Observation) {
        if let Observation::Stray(stray) = observation {
            if self.leading {
                self.tell_stray(stray);
            } else {
                self.strays.insert(stray.place.uid.clone(), stray);
            }
            return;
        }
        let keys = self.world.take_in(observation);
        self.dirty.extend(keys);
    }

    /// Timers that have run out.
    fn ring(&mut self) {
        let now = Instant::now();
        while self.timers.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            if let Some(Reverse((_, key))) = self.timers.pop() {
                self.dirty.insert(key);
            }
        }
    }

    fn look_at_dirty(&mut self) {
        let acts = self.leading && self.world.ready();
        if acts && !self.acts {
            self.dirty.extend(self.world.keys());
        }
        self.acts = acts;
        if !acts {
            // What is dirty now is looked at when this keeper begins to act.
            self.dirty.clear();
            return;
        }
        for key in std::mem::take(&mut self.dirty) {
            self.look(&key);
        }
    }

    /// One look at one gang.
    fn look(&mut self, key: &Key) {
        let bound = self.bound.get(&key.namespace).is_some_and(|at| at.elapsed() < BOUND);
        let Some(name) = self.world.name_of(key) else {
            self.clear_desk(key);
            return;
        };
        let desk = self.desks.entry(key.clone()).or_default();
        if let Err(at) = desk.look() {
            if desk.next_look.replace(at).is_none() {
                self.timers.push(Reverse((at, key.clone())));
            }
            return;
        }
        let group_pause = desk.group_pause();
        let Some(mut seen) = self.world.seen(key, &name, desk.memory(bound)) else {
            self.clear_desk(key);
            return;
        };
        seen.group = desk.group(seen.group);
        let now = Timestamp::now();
        let decision = decide(&seen, &self.setting.rules, now);
        desk.short_since = decision.short_since;
        let living: HashSet<&str> = seen.pods.iter().map(|p| p.place.uid.as_str()).collect();
        desk.gates.retain(|uid, gate| gate.in_flight || living.contains(uid.as_str()));

        let target = target_of(key, &name, &seen);
        let before = match seen.gang {
            Gang::Ours(gang) => gang.status.order.clone().map(Box::new),
            Gang::Absent | Gang::Taken(_) => None,
        };
        let again = decision.look_again.map(|at| until(at, now));
        let mut control = Vec::new();
        let mut gates = Vec::new();
        let mut tidings = Vec::new();
        for step in decision.steps {
            match step {
                Step::Open { pod, uid, gate, ids } => gates.push((pod, uid, gate, ids)),
                Step::Tell(tiding) => tidings.push(tiding),
                other => control.push(other),
            }
        }
        for at in again.into_iter().chain(group_pause) {
            self.timers.push(Reverse((at, key.clone())));
        }
        self.open_gates(key, gates);
        self.write(key, target, before, control);
        for tiding in tidings {
            self.tell(key, &tiding);
        }
    }

    fn clear_desk(&mut self, key: &Key) {
        if self.desks.get(key).is_some_and(Desk::idle) {
            self.desks.remove(key);
        }
    }

    fn set_gauges(&self) {
        let metrics = &self.setting.metrics;
        metrics.gangs.clear();
        for (phase, count) in self.world.phases() {
            metrics.gangs.get_or_create(&phase.into()).set(count);
        }
        let (gated, releasing) = self.world.gated();
        metrics.gated.set(gated);
        metrics.releasing.set(releasing);
    }

    fn ask_bindings(&mut self) {
        if !self.leading {
            return;
        }
        let hands = self.setting.hands.clone();
        self.writes.spawn(async move { Report::Bindings(hands.bindings().await) });
    }

    /// Removes the `RoleBinding`s of namespaces that have had no gang for long.
    fn take_bindings(&mut self, list: Vec<(String, String)>) {
        if !self.leading || !self.world.ready() {
            return;
        }
        let used = self.world.namespaces();
        self.unused.retain(|namespace, _| list.iter().any(|(n, _)| n == namespace));
        for (namespace, uid) in list {
            if used.contains(&namespace) {
                self.unused.remove(&namespace);
                continue;
            }
            let since = *self.unused.entry(namespace.clone()).or_insert_with(Instant::now);
            if since.elapsed() < self.setting.binding_idle {
                continue;
            }
            self.unused.remove(&namespace);
            self.bound.remove(&namespace);
            let hands = self.setting.hands.clone();
            self.writes.spawn(async move {
                let result = hands.unbind(&namespace, &uid).await;
                Report::Unbound { namespace, result }
            });
        }
    }
}

fn target_of(key: &Key, name: &str, seen: &Seen) -> Target {
    let owner = |kind: &str, name: &str| OwnerRef {
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: key.owner.clone(),
    };
    let (uid, recorded) = match seen.gang {
        Gang::Ours(gang) => (gang.place.uid.clone(), Some(gang.spec.owner.clone())),
        Gang::Absent | Gang::Taken(_) => (String::new(), None),
    };
    let owner = match seen.owner {
        Owner::Job(job) => owner("Job", &job.place.name),
        Owner::Pod(pod) => owner("Pod", &pod.place.name),
        Owner::Gone => recorded.unwrap_or_default(),
    };
    Target { namespace: key.namespace.clone(), name: name.to_owned(), uid, owner }
}

/// A moment of the wall clock as one of the timers' clock, never a busy loop.
fn until(at: Timestamp, now: Timestamp) -> Instant {
    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    Instant::now() + wait.clamp(Duration::from_millis(5), SWEEP)
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn far() -> Instant {
    Instant::now() + SWEEP
}

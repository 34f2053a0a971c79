//! The loop: observe, decide, act.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use sluice_shared::gang::{KeeperOrder, OwnerRef, QuantumGangStatus};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::act::{Effect, Hands, Target};
use crate::call::CallError;
use crate::complaint::Complaint;
use crate::decide::tidings::{About, Tiding, not_stamped};
use crate::decide::{Gang, Owner, Rules, Seen, Step, decide};
use crate::desk::Desk;
use crate::event::{Regarding, mk_event, name_of};
use crate::facts::job::StrayJob;
use crate::metrics::{Metrics, Outcome, WriteKind, WriteLabel};
use crate::observe::Observation;
use crate::world::{Key, Served, World};

/// Every gang is looked at this often even if nothing happened to it.
const SWEEP: Duration = Duration::from_secs(60);
/// How often the gauges are set.
const GAUGES: Duration = Duration::from_secs(5);
/// How often the `RoleBinding`s are gone through.
const BINDINGS: Duration = Duration::from_secs(300);
/// How long a `RoleBinding` that was seen counts as being there.
const BOUND: Duration = Duration::from_secs(600);
/// Most things that are taken in before decisions are made.
const BATCH: usize = 1024;

/// What came back from a write.
enum Report {
    Control {
        key: Key,
        before: Option<KeeperOrder>,
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
            self.dirty.extend(self.world.keys());
            self.ask_bindings();
            let strays: Vec<StrayJob> = self.strays.drain().map(|(_, s)| s).collect();
            strays.into_iter().for_each(|s| self.tell_stray(s));
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
        if !self.leading || !self.world.ready() {
            // What is dirty now is looked at when this keeper takes over.
            self.dirty.clear();
            return;
        }
        for key in std::mem::take(&mut self.dirty) {
            self.look(key);
        }
    }

    /// One look at one gang.
    fn look(&mut self, key: Key) {
        let bound = self.bound.get(&key.namespace).is_some_and(|at| at.elapsed() < BOUND);
        let Some(name) = self.world.name_of(&key) else {
            self.clear_desk(&key);
            return;
        };
        let desk = self.desks.entry(key.clone()).or_default();
        let group_pause = desk.group_pause();
        let Some(mut seen) = self.world.seen(&key, &name, desk.memory(bound)) else {
            self.clear_desk(&key);
            return;
        };
        seen.group = desk.group(seen.group);
        let now = Timestamp::now();
        let decision = decide(&seen, &self.setting.rules, now);
        desk.short_since = decision.short_since;
        let living: HashSet<&str> = seen.pods.iter().map(|p| p.place.uid.as_str()).collect();
        desk.gates.retain(|uid, gate| gate.in_flight || living.contains(uid.as_str()));

        let target = target_of(&key, &name, &seen);
        let before = match seen.gang {
            Gang::Ours(gang) => gang.status.order.clone(),
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
        self.open_gates(&key, gates);
        self.write(&key, target, before, control);
        for tiding in tidings {
            self.tell(&key, &tiding);
        }
    }

    fn clear_desk(&mut self, key: &Key) {
        if self.desks.get(key).is_some_and(Desk::idle) {
            self.desks.remove(key);
        }
    }

    /// Sends the gate patches that are not on their way yet.
    fn open_gates(&mut self, key: &Key, gates: Vec<(String, String, String, Vec<String>)>) {
        let Some(desk) = self.desks.get_mut(key) else { return };
        for (pod, uid, gate, ids) in gates {
            let attempt = desk.gates.entry(uid.clone()).or_default();
            if attempt.in_flight {
                continue;
            }
            if let Some(until) = attempt.pause.ends() {
                self.timers.push(Reverse((until, key.clone())));
                continue;
            }
            attempt.in_flight = true;
            let (hands, permits) = (self.setting.hands.clone(), Arc::clone(&self.permits));
            let key = key.clone();
            self.writes.spawn(async move {
                // The semaphore is never closed; without a permit the patch would go all the same.
                let _permit = permits.acquire().await;
                let result = hands.open(&key.namespace, &pod, &uid, &gate, &ids).await;
                Report::Gate { key, uid, gate, result }
            });
        }
    }

    /// Sends the other writes of one look, unless those of an earlier look are on their way.
    fn write(&mut self, key: &Key, target: Target, before: Option<KeeperOrder>, steps: Vec<Step>) {
        let Some(desk) = self.desks.get_mut(key) else { return };
        if steps.is_empty() || desk.busy {
            return;
        }
        if let Some(until) = desk.pause.ends() {
            self.timers.push(Reverse((until, key.clone())));
            return;
        }
        desk.busy = true;
        let hands = self.setting.hands.clone();
        let served = self.world.served.clone();
        let key = key.clone();
        self.writes.spawn(async move {
            let (first, rest): (Vec<Step>, Vec<Step>) =
                steps.into_iter().partition(|s| matches!(s, Step::Bind));
            let mut results = Vec::new();
            for step in first {
                results.push(perform(&hands, &target, &served, step).await);
            }
            // The order of the rest does not matter, and the release should not wait for it.
            let rest = rest.into_iter().map(|step| perform(&hands, &target, &served, step));
            results.extend(join_all(rest).await);
            Report::Control { key, before, results }
        });
    }

    fn tell(&mut self, key: &Key, tiding: &Tiding) {
        let Some(regarding) = self.regarding(key, tiding.about) else { return };
        let name = name_of(&regarding, tiding);
        let Some(desk) = self.desks.get_mut(key) else { return };
        if desk.told.insert(name.clone()) {
            self.send_event(Some(key.clone()), name, &regarding, tiding);
        }
    }

    fn tell_stray(&mut self, stray: StrayJob) {
        let regarding = Regarding {
            kind: "Job",
            namespace: stray.place.namespace.clone(),
            name: stray.place.name.clone(),
            uid: stray.place.uid.clone(),
        };
        let tiding = not_stamped(
            "the Job asks for a quantum processor, but was created before Sluice was ready",
        );
        // Its name is the same each time, so the API server keeps one of them.
        if self.strays.insert(stray.place.uid.clone(), stray).is_none() {
            self.send_event(None, name_of(&regarding, &tiding), &regarding, &tiding);
        }
    }

    fn send_event(
        &mut self,
        key: Option<Key>,
        name: String,
        regarding: &Regarding,
        tiding: &Tiding,
    ) {
        let event = mk_event(regarding, tiding, &self.setting.identity, Timestamp::now());
        let hands = self.setting.hands.clone();
        self.writes.spawn(async move {
            let result = hands.tell(event).await;
            Report::Told { key, event: name, result }
        });
    }

    fn regarding(&self, key: &Key, about: About) -> Option<Regarding> {
        let job = self.world.job(&key.owner).map(|j| ("Job", &j.place));
        let pod = self.world.pod(&key.owner).map(|p| ("Pod", &p.place));
        let (kind, place) = match about {
            About::Owner => job.or(pod)?,
            About::Producer => {
                let name = self.world.name_of(key)?;
                let gang = self.world.gang(&key.namespace, &name)?;
                let uid = &gang.status.producer.as_ref()?.uid;
                ("Pod", &self.world.pod(uid)?.place)
            }
        };
        Some(Regarding {
            kind,
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            uid: place.uid.clone(),
        })
    }

    fn take_report(&mut self, report: Result<Report, tokio::task::JoinError>) {
        match report {
            Ok(Report::Control { key, before, results }) => {
                if let Some(desk) = self.desks.get_mut(&key) {
                    desk.busy = false;
                }
                let mut failed = false;
                for (write, result) in results {
                    failed |= self.take_result(&key, write, before.as_ref(), result);
                }
                if let Some(desk) = self.desks.get_mut(&key) {
                    if failed { desk.pause.failed() } else { desk.pause.worked() }
                }
                self.dirty.insert(key);
            }
            Ok(Report::Gate { key, uid, gate, result }) => self.take_gate(key, &uid, &gate, result),
            Ok(Report::Told { key, event, result }) => {
                self.count(WriteKind::Event, &result);
                let Err(error) = result else { return };
                self.trouble.raise(|| format!("an Event is lost for now: {error}"));
                if let Some(desk) = key.and_then(|k| self.desks.get_mut(&k)) {
                    desk.told.remove(&event);
                }
            }
            Ok(Report::Bindings(Ok(list))) => self.take_bindings(list),
            Ok(Report::Bindings(Err(error))) => {
                self.trouble.raise(|| format!("unused RoleBindings are kept for now: {error}"));
            }
            Ok(Report::Unbound { namespace, result }) => {
                self.count(WriteKind::Binding, &result);
                match result {
                    Ok(()) => tracing::info!(namespace, "no gang for long, RoleBinding removed"),
                    Err(error) => {
                        self.trouble.raise(|| format!("{error} in namespace {namespace}"));
                    }
                }
            }
            // A task that panicked or was aborted: the next look does its work again.
            Err(error) => {
                tracing::error!("a write ended without a result, looking again: {error}");
                self.desks.values_mut().for_each(|d| *d = Desk::default());
                self.dirty.extend(self.world.keys());
            }
        }
    }

    /// Takes in what one write showed. Says whether it failed.
    fn take_result(
        &mut self,
        key: &Key,
        write: WriteKind,
        before: Option<&KeeperOrder>,
        result: Result<Effect, CallError>,
    ) -> bool {
        self.count(write, &result);
        let effect = match result {
            Ok(effect) => effect,
            Err(error) => {
                self.trouble.raise(|| format!("{error} (namespace {})", key.namespace));
                let desk = self.desks.entry(key.clone()).or_default();
                // A PodGroup that is refused must not keep the gates shut.
                if write == WriteKind::Group && error.is_refusal() {
                    desk.refuse_group(&error);
                    return false;
                }
                return true;
            }
        };
        match effect {
            Effect::Bound => {
                self.bound.insert(key.namespace.clone(), Instant::now());
            }
            Effect::Gang(gang) => {
                if write == WriteKind::Status {
                    self.desks.entry(key.clone()).or_default().status_at = Some(Timestamp::now());
                    self.note_order(&gang.place.name, before, &gang.status);
                }
                self.dirty.extend(self.world.put_gang(gang));
            }
            Effect::NoGang(uid) => self.dirty.extend(self.world.drop_gang(&uid)),
            Effect::Group(group) => {
                let foreign = !group.owners.contains(&key.owner);
                self.desks.entry(key.clone()).or_default().group_foreign = foreign;
                if !foreign {
                    self.dirty.extend(self.world.put_group(group));
                }
            }
            Effect::GroupAgain(uid, group) => {
                tracing::info!(group = group.place.name, min = group.min, "PodGroup made again");
                self.dirty.extend(self.world.drop_group(&uid));
                self.dirty.extend(self.world.put_group(group));
            }
            Effect::Opened(_) | Effect::NoPod | Effect::Nothing => {}
        }
        false
    }

    /// Logs and counts what happened to the order.
    fn note_order(&self, gang: &str, before: Option<&KeeperOrder>, status: &QuantumGangStatus) {
        let Some(order) = &status.order else { return };
        let message = status.message.as_deref().unwrap_or_default();
        let same = before.filter(|b| b.at == order.at);
        if same.is_none() {
            self.setting.metrics.orders.get_or_create(&order.reason.into()).inc();
            tracing::info!(
                gang,
                reason = order.reason.as_str(),
                task = order.task_id,
                "order taken up"
            );
        }
        if order.withdrawn && same.is_none_or(|b| !b.withdrawn) {
            tracing::warn!(gang, task = order.task_id, "order withdrawn: {message}");
        }
        if let Some(opened) = &order.opened_at
            && same.is_none_or(|b| b.opened_at.is_none())
        {
            let took = opened.0.duration_since(order.at.0);
            self.setting.metrics.release.observe(took.as_secs_f64());
            tracing::info!(gang, ms = took.as_millis(), "gates open: {message}");
        }
    }

    fn take_gate(&mut self, key: Key, uid: &str, gate: &str, result: Result<Effect, CallError>) {
        self.count(WriteKind::Gate, &result);
        let desk = self.desks.entry(key.clone()).or_default();
        match result {
            Ok(effect) => {
                desk.gates.remove(uid);
                match effect {
                    Effect::Opened(version) => self.world.opened(uid, gate, version),
                    _ => self.dirty.extend(self.world.drop_pod(uid)),
                }
            }
            Err(error) => {
                let attempt = desk.gates.entry(uid.to_owned()).or_default();
                attempt.in_flight = false;
                attempt.pause.failed();
                attempt.refused = error.is_refusal().then(|| error.to_string());
                self.trouble.raise(|| format!("{error} (namespace {})", key.namespace));
            }
        }
        self.dirty.insert(key);
    }

    fn count<T>(&self, write: WriteKind, result: &Result<T, CallError>) {
        let outcome = match result {
            Ok(_) => Outcome::Done,
            Err(error) if error.is_refusal() => Outcome::Refused,
            Err(_) => Outcome::Failed,
        };
        self.setting.metrics.writes.get_or_create(&WriteLabel { write, outcome }).inc();
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

/// One write, and what it was for.
async fn perform(
    hands: &Hands,
    target: &Target,
    served: &Served,
    step: Step,
) -> (WriteKind, Result<Effect, CallError>) {
    match step {
        Step::Bind => (WriteKind::Binding, hands.bind(&target.namespace).await),
        Step::MakeGang(spec) => (WriteKind::Gang, hands.make_gang(target, *spec).await),
        Step::DropGang { uid } => (WriteKind::Gang, hands.drop_gang(target, &uid).await),
        Step::Status(patch) => (WriteKind::Status, hands.write_status(target, &patch).await),
        Step::MakeGroup { min, priority_class } => {
            let Served::Yes(resource) = served else {
                return (WriteKind::Group, Ok(Effect::Nothing));
            };
            let made = hands.make_group(target, resource, min, priority_class.as_deref());
            (WriteKind::Group, made.await)
        }
        Step::ShrinkGroup { uid, min, priority_class } => {
            let Served::Yes(resource) = served else {
                return (WriteKind::Group, Ok(Effect::Nothing));
            };
            let class = priority_class.as_deref();
            (WriteKind::Group, hands.shrink_group(target, resource, &uid, min, class).await)
        }
        // These have ways of their own.
        Step::Open { .. } | Step::Tell(_) => (WriteKind::Event, Ok(Effect::Nothing)),
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

//! The decisions under random schedules: two keepers with late and torn views of an API server
//! made of values. Pods appear, end and vanish, tasks run and fail, answers are lost, keepers
//! restart, and afterwards the laws of the release must hold.

mod laws;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use sluice_shared::gang::{
    KeeperOrder, Order, OrderReason, PersonOrder, QuantumGangSpec, QuantumGangStatus, Task,
    VendorStatus,
};
use sluice_shared::names::GATE;
use sluice_shared::role::Role;

use super::fixtures::{mk_consumer, mk_job, mk_place, mk_producer};
use super::*;
use crate::facts::indexes::Indexes;
use crate::facts::pod::PodPhase;

const SIZE: u32 = 4;
const NAME: &str = "gang";
const FOREIGN: &str = "other.example/gate";

/// What happens in the cluster.
#[derive(Debug, Clone)]
enum Act {
    /// The Job controller makes the pod of an index, maybe with a foreign gate.
    Create {
        index: u32,
        foreign: bool,
    },
    /// The pod of an index is deleted.
    Delete(u32),
    /// The pod of an index ends; a failure may be for good.
    End {
        index: u32,
        success: bool,
        for_good: bool,
    },
    /// The scheduler places the open pods.
    Place,
    /// The program submits a task.
    Submit,
    /// The vendor says something about a task.
    Vendor {
        task: usize,
        state: &'static str,
    },
    /// The sidecar orders the release for a task.
    Order(usize),
    /// A person orders the release.
    Person,
    Suspend(bool),
    DeleteGang,
    Tick(i64),
    /// A keeper's watch of one kind catches up.
    Sync {
        keeper: usize,
        kind: usize,
    },
    /// A keeper looks and sends its writes.
    Look(usize),
    /// One write of a keeper arrives, or is lost; its answer arrives, or is lost.
    Write {
        keeper: usize,
        at: usize,
        lost: bool,
        answered: bool,
    },
    Restart(usize),
}

/// The state of the cluster, all versions of it.
#[derive(Debug, Clone)]
struct Api {
    job: JobSeen,
    pods: BTreeMap<String, PodSeen>,
    gang: Option<GangSeen>,
    group: Option<GroupSeen>,
}

#[derive(Debug)]
struct Keeper {
    view: Api,
    memory: Memory,
    /// Writes on their way, each with the order that was recorded when it was decided.
    sent: Vec<Step>,
}

/// A cluster with its history.
#[derive(Debug)]
struct Model {
    api: Api,
    keepers: [Keeper; 2],
    now: Timestamp,
    version: u64,
    uids: u32,
    /// Task ids that the sidecar ordered, ever.
    sidecar_orders: BTreeSet<String>,
    /// Orders that were on the gang, ever.
    recorded: Vec<(OrderReason, String)>,
    /// The id that each opened pod was given.
    given: BTreeMap<String, String>,
    person: bool,
    succeeded: bool,
    failed: bool,
}

impl Model {
    fn new() -> Self {
        let api = Api { job: mk_job(SIZE), pods: BTreeMap::new(), gang: None, group: None };
        let keeper = || Keeper { view: api.clone(), memory: Memory::default(), sent: Vec::new() };
        Self {
            keepers: [keeper(), keeper()],
            api,
            now: Timestamp::UNIX_EPOCH,
            version: 1,
            uids: 0,
            sidecar_orders: BTreeSet::new(),
            recorded: Vec::new(),
            given: BTreeMap::new(),
            person: false,
            succeeded: false,
            failed: false,
        }
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    fn version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn living(&mut self, index: u32) -> Option<&mut PodSeen> {
        self.api.pods.values_mut().find(|p| p.index == Some(index) && p.lives())
    }

    fn vendor(&mut self, change: impl FnOnce(&mut VendorStatus)) {
        let version = self.version();
        if let Some(gang) = &mut self.api.gang {
            change(gang.status.vendor.get_or_insert_with(VendorStatus::default));
            gang.resource_version = version.to_string();
        }
    }

    fn indexes(list: &mut Indexes, index: u32) {
        let with = (0..SIZE).filter(|i| *i == index || list.contains(*i));
        let text = with.map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        *list = Indexes::parse(&text);
    }

    fn happen(&mut self, act: &Act) {
        match act {
            Act::Create { index, foreign } => {
                let job = &self.api.job;
                let done = job.succeeded.contains(*index) || job.failed.contains(*index);
                if done || job.suspended || self.living(*index).is_some() {
                    return;
                }
                let uid = self.uid();
                let mut pod = if *index == 0 { mk_producer() } else { mk_consumer(*index) };
                pod.place = mk_place(&format!("pod-{uid}"), &uid);
                pod.created = Some(self.now);
                if pod.role == Role::Consumer {
                    pod.group = Some(NAME.into());
                    if *foreign {
                        pod.gates.insert(0, FOREIGN.into());
                    }
                }
                self.api.pods.insert(uid, pod);
            }
            Act::Delete(index) => {
                if let Some(uid) = self.living(*index).map(|p| p.place.uid.clone()) {
                    self.api.pods.remove(&uid);
                }
            }
            Act::End { index, success, for_good } => {
                let held = |p: &&mut PodSeen| p.gates.is_empty();
                let Some(pod) = self.living(*index).filter(held) else { return };
                pod.phase = if *success { PodPhase::Succeeded } else { PodPhase::Failed };
                if *success {
                    Self::indexes(&mut self.api.job.succeeded, *index);
                    self.succeeded |= *index == 0;
                } else if *for_good {
                    Self::indexes(&mut self.api.job.failed, *index);
                    self.failed |= *index == 0;
                }
            }
            Act::Place => {
                let open = |p: &&mut PodSeen| p.lives() && p.gates.is_empty();
                self.api.pods.values_mut().filter(open).for_each(|p| p.placed = true);
            }
            Act::Submit | Act::Vendor { .. } | Act::Order(_) => self.sidecar(act),
            Act::Person => {
                let version = self.version();
                if let Some(gang) = &mut self.api.gang {
                    self.person = true;
                    gang.spec.release = Some(PersonOrder::default());
                    gang.resource_version = version.to_string();
                }
            }
            Act::Suspend(suspended) => {
                self.api.job.suspended = *suspended;
                if *suspended {
                    self.api.pods.retain(|_, p| !p.lives());
                }
            }
            Act::DeleteGang => {
                self.api.gang = None;
                self.person = false;
            }
            Act::Tick(ms) => self.now += SignedDuration::from_millis(*ms),
            Act::Sync { keeper, kind } => {
                let (view, api) = (&mut self.keepers[*keeper].view, &self.api);
                match kind {
                    0 => view.job.clone_from(&api.job),
                    1 => view.pods.clone_from(&api.pods),
                    2 => view.gang.clone_from(&api.gang),
                    _ => view.group.clone_from(&api.group),
                }
            }
            Act::Look(keeper) => {
                let steps = self.look(*keeper);
                self.keepers[*keeper].sent.extend(steps);
            }
            Act::Write { keeper, at, lost, answered } => {
                let sent = &mut self.keepers[*keeper].sent;
                if sent.is_empty() {
                    return;
                }
                let step = sent.remove(at % sent.len());
                if !lost {
                    self.write(*keeper, step, *answered);
                }
            }
            Act::Restart(keeper) => {
                let keeper = &mut self.keepers[*keeper];
                keeper.memory = Memory::default();
                keeper.sent.clear();
            }
        }
    }

    /// What the sidecar writes.
    fn sidecar(&mut self, act: &Act) {
        match act {
            Act::Submit => self.vendor(|v| {
                let id = format!("task-{}", v.tasks.len());
                let task = Task { id, state: "QUEUED".into(), counts: true, ..Task::default() };
                v.tasks.push(task);
            }),
            Act::Vendor { task, state } => self.vendor(|v| {
                if let Some(task) = v.tasks.get_mut(*task) {
                    task.state = (*state).into();
                }
            }),
            Act::Order(task) => {
                let now = self.now;
                let mut ordered = None;
                self.vendor(|v| {
                    if let Some(task) = v.tasks.get(*task) {
                        ordered = Some(task.id.clone());
                        let at = MicroTime(now);
                        v.order =
                            Some(Order { reason: "front".into(), task_id: task.id.clone(), at });
                    }
                });
                self.sidecar_orders.extend(ordered);
            }
            _ => {}
        }
    }

    /// What a keeper decides from its view, Events left out.
    fn look(&mut self, keeper: usize) -> Vec<Step> {
        let now = self.now;
        let Keeper { view, memory, .. } = &mut self.keepers[keeper];
        let seen = Seen {
            name: NAME,
            index: None,
            owner: Owner::Job(&view.job),
            pods: view.pods.values().collect(),
            gang: view.gang.as_ref().map_or(Gang::Absent, Gang::Ours),
            group: view.group.clone().map_or(Group::Absent, Group::Ours),
            memory: memory.clone(),
        };
        let decision = decide(&seen, &Rules::default(), now);
        memory.short_since = decision.short_since;
        let standing =
            view.gang.as_ref().and_then(|g| g.status.order.as_ref()).filter(|o| !o.withdrawn);
        for step in &decision.steps {
            if let Step::Open { gate, ids, .. } = step {
                let order = standing.expect("a gate is opened under a standing order only");
                let vendor = view.gang.as_ref().and_then(|g| g.status.vendor.as_ref());
                let task = order::task_of(vendor, &order.task_id);
                let failed = task.is_some_and(|t| t.task_state().is_unsuccessful());
                assert!(!failed, "a gate is opened for a task that is known to have failed");
                assert_eq!(gate, GATE, "only our gate is opened");
                assert_eq!(ids.first().map_or("", |i| i), order.task_id, "with the order's task");
            }
        }
        decision.steps.into_iter().filter(|s| !matches!(s, Step::Tell(_))).collect()
    }

    /// One write reaches the API server.
    fn write(&mut self, keeper: usize, step: Step, answered: bool) {
        match step {
            Step::Bind => self.keepers[keeper].memory.bound = true,
            Step::MakeGang(spec) => {
                if self.api.gang.is_none() {
                    let uid = self.uid();
                    let version = self.version();
                    self.api.gang = Some(mk_gang(&uid, version, *spec));
                }
            }
            Step::DropGang { .. } => panic!("the Job lives"),
            Step::Status(patch) => self.write_status(keeper, &patch),
            Step::MakeGroup { min, .. } => {
                if self.api.group.is_none() {
                    let uid = self.uid();
                    self.api.group = Some(mk_group_of(&uid, min));
                }
            }
            Step::ShrinkGroup { uid, min, .. } => {
                let same = self.api.group.as_ref().is_some_and(|g| g.place.uid == uid);
                if same {
                    let uid = self.uid();
                    self.api.group = Some(mk_group_of(&uid, min));
                }
            }
            Step::Open { uid, gate, ids, .. } => {
                let id = ids.first().cloned().unwrap_or_default();
                assert!(
                    self.recorded.iter().any(|(_, task)| *task == id),
                    "the order is recorded before a gate is opened"
                );
                if let Some(pod) = self.api.pods.get_mut(&uid) {
                    pod.gates.retain(|g| *g != gate);
                    self.given.insert(uid, id);
                }
            }
            Step::Tell(_) => {}
        }
        if answered {
            self.keepers[keeper].view.gang.clone_from(&self.api.gang);
            self.keepers[keeper].view.group.clone_from(&self.api.group);
        }
    }

    fn write_status(&mut self, keeper: usize, patch: &Value) {
        let version = self.version();
        let Some(gang) = &mut self.api.gang else { return };
        if patch["metadata"]["resourceVersion"] != gang.resource_version.as_str() {
            return;
        }
        assert!(patch["status"].get("vendor").is_none(), "vendor is the sidecar's");
        let mut status = serde_json::to_value(&gang.status).unwrap();
        json_patch::merge(&mut status, &patch["status"]);
        gang.status = serde_json::from_value::<QuantumGangStatus>(status).unwrap();
        gang.resource_version = version.to_string();
        let order = gang.status.order.clone();
        self.keepers[keeper].memory.status_at = Some(self.now);
        if let Some(order) = order.filter(|o| !o.withdrawn) {
            self.check_order(&order);
            self.recorded.push((order.reason, order.task_id));
        }
    }

    /// An order is there only for one of the four reasons.
    fn check_order(&self, order: &KeeperOrder) {
        let grounds = match order.reason {
            OrderReason::PolicyMet => self.sidecar_orders.contains(&order.task_id),
            OrderReason::Person => self.person,
            OrderReason::ProducerSucceeded => self.succeeded,
            OrderReason::ProducerFailed => self.failed && order.task_id.is_empty(),
        };
        assert!(grounds, "an order without grounds: {order:?}");
    }

    /// Everything arrives, and time passes, until there is nothing left to write.
    fn settle(&mut self) {
        for _ in 0..60 {
            self.now += SignedDuration::from_mins(5);
            let mut wrote = false;
            for keeper in 0..2 {
                self.keepers[keeper].view = self.api.clone();
                let mut steps = std::mem::take(&mut self.keepers[keeper].sent);
                steps.extend(self.look(keeper));
                for step in steps {
                    wrote = true;
                    self.write(keeper, step, false);
                }
            }
            if !wrote {
                return;
            }
        }
        panic!("the keepers never come to rest: {:#?}", self.api);
    }
}

fn mk_gang(uid: &str, version: u64, spec: QuantumGangSpec) -> GangSeen {
    GangSeen {
        place: mk_place(NAME, uid),
        resource_version: version.to_string(),
        generation: 1,
        deleting: false,
        owned: true,
        spec,
        status: QuantumGangStatus::default(),
    }
}

fn mk_group_of(uid: &str, min: u32) -> GroupSeen {
    let mut group = super::fixtures::mk_group(min);
    group.place.uid = uid.to_owned();
    group
}

//! What to do about one gang, as a plain function of what is known and of `now`.
//!
//! ```text
//!            no gang ──▶ Bind, MakeGang ──▶ Status(producer)
//!                                              │  order?
//!                                              ▼
//!                     Status(order) ‖ MakeGroup ──▶ Open, Open, … ──▶ Status(opened) ──▶ Tell
//! ```
//!
//! Every step is decided from what the API server has confirmed: gates are opened only under an
//! order that is on the gang already.

pub(crate) mod crew;
pub(crate) mod message;
pub(crate) mod order;
pub(crate) mod release;
pub(crate) mod stall;
pub(crate) mod status;
pub(crate) mod tidings;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use sluice_shared::gang::{KeeperOrder, OwnerRef, PodRef, QuantumGangSpec, VendorStatus};
use sluice_shared::stamp::{Mode, Stamp};

use crate::facts::gang::GangSeen;
use crate::facts::group::GroupSeen;
use crate::facts::job::JobSeen;
use crate::facts::pod::PodSeen;
use crew::Crew;
use order::{OrderFacts, Verdict};
use tidings::Tiding;

/// How long an owner that was found to exist is not asked for again.
const OWNER_AGAIN: Duration = Duration::from_mins(1);

/// The times that decisions keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// How long the release waits for consumers that do not exist yet.
    pub gather: Duration,
    /// Shortest time between two writes of numbers into one status.
    pub status_floor: Duration,
    /// How long an open pod may be without a node before that is reported.
    pub unplaced_grace: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            gather: Duration::from_secs(3),
            status_floor: Duration::from_secs(1),
            unplaced_grace: Duration::from_secs(30),
        }
    }
}

/// The object whose gang it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owner<'a> {
    /// A Job.
    Job(&'a JobSeen),
    /// A pod of its own.
    Pod(&'a PodSeen),
    /// It does not exist any more, or never did.
    Gone,
}

/// The gang of that name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gang<'a> {
    Absent,
    Ours(&'a GangSeen),
    /// It belongs to another object.
    Taken(&'a OwnerRef),
}

/// The `PodGroup` of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Group {
    /// This cluster has none.
    NotServed,
    Absent,
    Ours(GroupSeen),
    /// It belongs to another object.
    Foreign,
    /// The API server refuses to make it, in these words.
    Refused(String),
}

/// What a keeper remembers of a gang between two looks. Losing it costs time, nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// When the status was last written.
    pub status_at: Option<Timestamp>,
    /// Since when the `PodGroup` has had too few members.
    pub short_since: Option<Timestamp>,
    /// What the API server said to a gate patch that it refused for good.
    pub refused: Option<String>,
    /// Whether the namespace has its `RoleBinding`.
    pub bound: bool,
    /// When the owner was last found to exist although it is not seen: a Job that lost our label.
    pub owner_found: Option<Timestamp>,
}

/// What is known about one gang.
#[derive(Debug, Clone)]
pub(crate) struct Seen<'a> {
    /// The gang's name.
    pub name: &'a str,
    /// Completion index, for a gang of one in `independent` mode.
    pub index: Option<u32>,
    pub owner: Owner<'a>,
    pub pods: Vec<&'a PodSeen>,
    pub gang: Gang<'a>,
    pub group: Group,
    pub memory: Memory,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// The `RoleBinding` of the namespace.
    Bind,
    /// The gang.
    MakeGang(Box<QuantumGangSpec>),
    /// The gang has neither owner nor pods.
    DropGang { uid: String },
    /// A merge patch for the status of the gang at this version.
    Status(Value),
    /// The `PodGroup`.
    MakeGroup { min: u32, priority_class: Option<String> },
    /// The `PodGroup` wants more members than there are.
    ShrinkGroup { uid: String, min: u32, priority_class: Option<String> },
    /// One gate.
    Open { pod: String, uid: String, gate: String, ids: Vec<String> },
    /// One Event.
    Tell(Tiding),
}

/// What to do, and when to look again without being called.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Decision {
    pub steps: Vec<Step>,
    pub look_again: Option<Timestamp>,
    /// For [`Memory::short_since`].
    pub short_since: Option<Timestamp>,
}

impl Decision {
    fn only(steps: Vec<Step>) -> Self {
        Self { steps, ..Self::default() }
    }

    fn wait_until(&mut self, at: Option<Timestamp>) {
        self.look_again = [self.look_again, at].into_iter().flatten().min();
    }
}

/// A gang with everything that status, message and Events are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picture<'a> {
    pub job: Option<&'a JobSeen>,
    pub gang: &'a GangSeen,
    pub crew: &'a Crew<'a>,
    pub order: Option<&'a KeeperOrder>,
    pub group: &'a Group,
    pub memory: &'a Memory,
    pub rules: &'a Rules,
    /// Whether the owner has ended or is gone.
    pub over: bool,
    pub now: Timestamp,
}

impl<'a> Picture<'a> {
    /// What the sidecar wrote.
    pub(crate) const fn vendor(&self) -> Option<&'a VendorStatus> {
        self.gang.status.vendor.as_ref()
    }

    /// The producer as it should be recorded.
    pub(crate) fn producer(&self) -> Option<PodRef> {
        self.crew.producer(self.gang.status.producer.as_ref(), self.vendor())
    }

    /// The gate that holds the consumers.
    pub(crate) const fn gate(&self) -> &'a str {
        self.gang.spec.gate.as_str()
    }

    /// Whether the work is over.
    pub(crate) const fn ended(&self) -> bool {
        self.over
    }

    /// Whether the gang has no consumers by its nature.
    pub(crate) fn alone(&self) -> bool {
        self.gang.spec.size <= 1 || self.gang.spec.mode != Mode::Shared.as_str()
    }
}

/// Decides about one gang.
pub(crate) fn decide(seen: &Seen, rules: &Rules, now: Timestamp) -> Decision {
    match (&seen.owner, &seen.gang) {
        (Owner::Gone, Gang::Ours(gang)) if seen.pods.is_empty() && !gang.deleting => {
            let mut decision = Decision::default();
            drop_gang(seen, gang, now, &mut decision);
            decision
        }
        (_, Gang::Ours(gang)) => keep(seen, gang, rules, now),
        (Owner::Gone, _) => Decision::default(),
        (_, Gang::Taken(holder)) => {
            let holder = format!("{} {} ({})", holder.kind, holder.name, holder.uid);
            Decision::only(vec![Step::Tell(tidings::name_taken(seen.name, &holder))])
        }
        (owner, Gang::Absent) => make(owner, seen),
    }
}

/// Deletes a gang whose owner is not seen, unless it was found to exist a short time ago.
fn drop_gang(seen: &Seen, gang: &GangSeen, now: Timestamp, into: &mut Decision) {
    let found = seen.memory.owner_found;
    let again = found.and_then(|at| at.checked_add(OWNER_AGAIN).ok()).filter(|at| now < *at);
    if again.is_none() {
        into.steps.push(Step::DropGang { uid: gang.place.uid.clone() });
    }
    into.wait_until(again);
}

/// A gang for an owner that has none.
fn make(owner: &Owner, seen: &Seen) -> Decision {
    let (stamp, owner) = match owner {
        Owner::Job(job) => match &job.stamp {
            _ if !job.lives() => return Decision::default(),
            Some(Ok(stamp)) => (stamp, owner_ref("Job", &job.place.name, &job.place.uid)),
            Some(Err(error)) => {
                return Decision::only(vec![Step::Tell(tidings::not_stamped(&error.to_string()))]);
            }
            None => {
                let why = "the Job carries Sluice's label, but its template has no stamp";
                return Decision::only(vec![Step::Tell(tidings::not_stamped(why))]);
            }
        },
        Owner::Pod(pod) => match &pod.stamp {
            Some(stamp) if pod.lives() => {
                (stamp, owner_ref("Pod", &pod.place.name, &pod.place.uid))
            }
            _ => return Decision::default(),
        },
        Owner::Gone => return Decision::default(),
    };
    // In independent mode a gang comes with its pod.
    if stamp.mode == Mode::Independent && seen.pods.is_empty() {
        return Decision::default();
    }
    let spec = Box::new(spec_of(stamp, owner, seen.index));
    let bind = (!seen.memory.bound).then_some(Step::Bind);
    Decision::only(bind.into_iter().chain([Step::MakeGang(spec)]).collect())
}

fn owner_ref(kind: &str, name: &str, uid: &str) -> OwnerRef {
    OwnerRef { kind: kind.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
}

/// The spec of a gang, from the stamp.
fn spec_of(stamp: &Stamp, owner: OwnerRef, index: Option<u32>) -> QuantumGangSpec {
    let single = owner.kind == "Pod" || stamp.mode == Mode::Independent;
    QuantumGangSpec {
        owner,
        size: if single { 1 } else { stamp.size.max(1) },
        mode: stamp.mode.to_string(),
        index,
        policy: stamp.policy.to_string(),
        tasks: stamp.tasks.clamp(1, 100),
        follow: stamp.follow.as_str().to_owned(),
        backend: stamp.backend.clone(),
        gate: stamp.gate.clone(),
        stamp_version: stamp.version,
        release: None,
    }
}

/// A gang that exists: its order, its gates, its status, its Events.
fn keep(seen: &Seen, gang: &GangSeen, rules: &Rules, now: Timestamp) -> Decision {
    if gang.deleting {
        return Decision::default();
    }
    let job = match seen.owner {
        Owner::Job(job) => Some(job),
        Owner::Pod(_) | Owner::Gone => None,
    };
    let gate = gang.spec.gate.as_str();
    let crew = Crew::of(job, &seen.pods, gate);
    let over = match seen.owner {
        Owner::Job(job) => !job.lives(),
        Owner::Pod(pod) => !pod.lives(),
        Owner::Gone => seen.pods.iter().all(|p| !p.lives()),
    };
    let suspended = job.is_some_and(|j| j.suspended);
    let recorded = gang.status.order.as_ref();
    let alone = gang.spec.size <= 1;
    let verdict = if alone {
        Verdict::Keep
    } else {
        order::judge(&OrderFacts {
            recorded,
            vendor: gang.status.vendor.as_ref(),
            person: gang.spec.release.as_ref(),
            producer: crew.producer_end(job),
            suspended,
            ended: over,
        })
    };
    let after = status::order_after(recorded, &verdict, &crew, suspended, now);
    let standing = after.as_ref().filter(|o| !o.withdrawn);

    let mut decision = Decision::default();
    // The garbage collector deletes the gang too, in large Jobs many seconds later; the sidecar of
    // the producer learns from it that the Job was deleted. The owner is looked at once more
    // before: a Job that lost our label is not seen here.
    let deleted = match seen.owner {
        Owner::Job(job) => job.takes_along,
        Owner::Pod(_) => false,
        Owner::Gone => true,
    };
    if deleted && gang.owned {
        drop_gang(seen, gang, now, &mut decision);
    }
    if !seen.memory.bound && !over {
        decision.steps.push(Step::Bind);
    }
    let ordered_at = standing.map(|o| o.at.0);
    let plan = release::plan_group(seen, gate, &crew, ordered_at, rules, now);
    decision.steps.extend(plan.step);
    decision.wait_until(plan.look_again);
    decision.short_since = plan.short_since;

    // Only an order that is on the gang already opens a gate: the one that is recorded must be
    // the one that stands after the verdict.
    let confirmed = recorded
        .filter(|r| standing.is_some_and(|o| o.reason == r.reason && o.task_id == r.task_id));
    if let Some(order) = confirmed.filter(|o| !o.withdrawn && plan.ready) {
        decision.steps.extend(release::opens(&crew, gate, order, gang.status.vendor.as_ref()));
    }

    let picture = Picture {
        job,
        gang,
        crew: &crew,
        order: after.as_ref(),
        group: &seen.group,
        memory: &seen.memory,
        rules,
        over,
        now,
    };
    record(&picture, &mut decision);
    decision.wait_until(stall::look_again(&picture));
    decision.steps.extend(tidings::tidings(&picture).into_iter().map(Step::Tell));
    decision
}

/// The write of the status, now or later.
fn record(picture: &Picture, decision: &mut Decision) {
    let gang = picture.gang;
    let wanted = status::view(picture);
    // A status that cannot be written as JSON cannot occur: it is plain data. If it did, the gates
    // would still open.
    let Ok(Some(change)) = status::change(&gang.status, &wanted) else { return };
    let due = picture
        .memory
        .status_at
        .and_then(|at| at.checked_add(picture.rules.status_floor).ok())
        .filter(|due| change.patient && picture.now < *due);
    if due.is_some() {
        decision.wait_until(due);
        return;
    }
    decision.steps.push(Step::Status(json!({
        "metadata": {"resourceVersion": gang.resource_version},
        "status": change.patch,
    })));
}

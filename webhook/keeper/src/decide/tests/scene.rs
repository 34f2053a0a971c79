//! One look at a Job of three, and what is decided then.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use sluice_shared::gang::{OrderReason, QuantumGangStatus, Task};

use crate::decide::fixtures::{mk_consumer, mk_job, mk_order, mk_place, mk_producer};
use crate::decide::tidings::Tiding;
use crate::decide::*;
use crate::facts::pod::PodPhase;

pub(super) const ARN: &str =
    "arn:aws:braket:eu-north-1:123456789012:quantum-task/834b21ed-0000-4000-8000-0";
pub(super) const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

pub(super) fn mk_task(state: &str, position: Option<&str>) -> Task {
    Task {
        id: ARN.into(),
        device: GARNET.into(),
        state: state.into(),
        position: position.map(Into::into),
        counts: true,
        submitted_at: Some(Time(at(0))),
        observed_at: Some(Time(at(57_720))),
        ..Task::default()
    }
}

pub(super) fn mk_gang(job: &JobSeen) -> GangSeen {
    let stamp = job.readable_stamp().unwrap();
    GangSeen {
        place: mk_place("gang", "gang-uid"),
        resource_version: "5".into(),
        generation: 2,
        deleting: false,
        owned: true,
        spec: spec_of(stamp, owner_ref("Job", "job", "job-uid"), None),
        status: QuantumGangStatus::default(),
    }
}

/// One look at a Job of three with these pods and this gang.
pub(super) struct Scene {
    pub(super) job: JobSeen,
    pub(super) pods: Vec<PodSeen>,
    pub(super) gang: GangSeen,
    pub(super) memory: Memory,
}

impl Scene {
    pub(super) fn new() -> Self {
        let job = mk_job(3);
        let gang = mk_gang(&job);
        let mut producer = mk_producer();
        producer.phase = PodPhase::Running;
        let memory = Memory { bound: true, ..Memory::default() };
        Self { job, pods: vec![producer, mk_consumer(1), mk_consumer(2)], gang, memory }
    }

    pub(super) fn with_task(mut self, task: Task) -> Self {
        self.gang.status.vendor =
            Some(VendorStatus { tasks: vec![task], ..VendorStatus::default() });
        self
    }

    pub(super) fn with_order(mut self, withdrawn: bool, opened_at: Option<Timestamp>) -> Self {
        let order = mk_order(OrderReason::PolicyMet, ARN);
        self.gang.status.order = Some(KeeperOrder {
            withdrawn,
            opened_at: opened_at.map(MicroTime),
            at: MicroTime(at(57_700)),
            ..order
        });
        self
    }

    pub(super) fn open(mut self, pods: usize) -> Self {
        self.pods.iter_mut().skip(1).take(pods).for_each(|p| p.gates.clear());
        self
    }

    pub(super) fn seen(&self) -> Seen<'_> {
        Seen {
            name: "gang",
            index: None,
            owner: Owner::Job(&self.job),
            pods: self.pods.iter().collect(),
            gang: Gang::Ours(&self.gang),
            group: Group::NotServed,
            memory: self.memory.clone(),
        }
    }

    pub(super) fn decide(&self) -> Decision {
        decide(&self.seen(), &Rules::default(), at(57_800))
    }

    /// The status after the write of this look.
    pub(super) fn status(&self) -> QuantumGangStatus {
        let mut status = serde_json::to_value(&self.gang.status).unwrap();
        for step in self.decide().steps {
            if let Step::Status(patch) = step {
                json_patch::merge(&mut status, &patch["status"]);
            }
        }
        serde_json::from_value(status).unwrap()
    }

    /// The Events of this look with that reason.
    pub(super) fn told(&self, reason: &str) -> Vec<Tiding> {
        let tell = |step| if let Step::Tell(t) = step { Some(t) } else { None };
        self.decide().steps.into_iter().filter_map(tell).filter(|t| t.reason == reason).collect()
    }

    pub(super) fn reasons(&self) -> Vec<&'static str> {
        let tell = |step| if let Step::Tell(t) = step { Some(t.reason) } else { None };
        self.decide().steps.into_iter().filter_map(tell).collect()
    }
}

pub(super) fn condition(status: &QuantumGangStatus, kind: &str) -> (String, String) {
    let found = status.conditions.iter().find(|c| c.type_ == kind).unwrap();
    (found.status.clone(), found.reason.clone())
}

//! Made-up facts for the tests of decisions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use sluice_shared::gang::{KeeperOrder, OrderReason};
use sluice_shared::names::GATE;
use sluice_shared::role::Role;
use sluice_shared::stamp::{Mode, Stamp};

use crate::facts::Place;
use crate::facts::group::GroupSeen;
use crate::facts::indexes::Indexes;
use crate::facts::job::JobSeen;
use crate::facts::pod::{JobOfPod, PodPhase, PodSeen};

pub(crate) fn mk_place(name: &str, uid: &str) -> Place {
    Place { namespace: "n".into(), name: name.into(), uid: uid.into(), version: 1 }
}

/// An Indexed Job of `size` pods with a stamp.
pub(crate) fn mk_job(size: u32) -> JobSeen {
    JobSeen {
        place: mk_place("job", "job-uid"),
        stamp: Some(Ok(Stamp { size, ..Stamp::default() })),
        parallelism: size,
        completions: Some(size),
        suspended: false,
        end: None,
        succeeded: Indexes::default(),
        failed: Indexes::default(),
        deleting: false,
        takes_along: false,
    }
}

pub(crate) fn mk_pod(name: &str, uid: &str, role: Role, index: u32) -> PodSeen {
    let gates = if role == Role::Consumer { vec![GATE.to_owned()] } else { Vec::new() };
    PodSeen {
        place: mk_place(name, uid),
        role,
        index: Some(index),
        job: Some(JobOfPod { uid: "job-uid".into(), name: "job".into() }),
        mode: Mode::Shared,
        stamp: None,
        gates,
        group: None,
        priority_class: None,
        placed: false,
        phase: PodPhase::Pending,
        terminating: false,
        created: Some(Timestamp::UNIX_EPOCH),
        unschedulable: None,
        restarts: 0,
        restarted_at: None,
        disrupted: false,
    }
}

pub(crate) fn mk_consumer(index: u32) -> PodSeen {
    mk_pod(&format!("c-{index}"), &format!("u-{index}"), Role::Consumer, index)
}

pub(crate) fn mk_producer() -> PodSeen {
    mk_pod("p", "p-0", Role::Producer, 0)
}

pub(crate) fn mk_group(min: u32) -> GroupSeen {
    GroupSeen {
        place: mk_place("gang", "group-uid"),
        min,
        owners: vec!["job-uid".into()],
        deleting: false,
    }
}

pub(crate) fn mk_order(reason: OrderReason, task_id: &str) -> KeeperOrder {
    KeeperOrder {
        reason,
        task_id: task_id.into(),
        at: MicroTime(Timestamp::UNIX_EPOCH),
        opened_at: None,
        withdrawn: false,
    }
}

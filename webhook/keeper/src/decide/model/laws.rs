//! The laws of the release, and the schedules that they are tried on.

use proptest::prelude::*;
use sluice_shared::names::GATE;
use sluice_shared::role::Role;

use super::{Act, FOREIGN, Model, SIZE};
use crate::decide::order;
use crate::facts::pod::PodSeen;

impl Model {
    /// What must hold when nothing is left to do.
    fn check(&self) {
        let gang = self.api.gang.as_ref().expect("a Job that lives has its gang");
        let consumers: Vec<&PodSeen> =
            self.api.pods.values().filter(|p| p.role == Role::Consumer).collect();
        let order = gang.status.order.as_ref().filter(|o| !o.withdrawn);
        for pod in &consumers {
            let open = !pod.holds(GATE);
            assert!(!open || self.given.contains_key(pod.place.uid.as_str()), "opened by itself");
            if order.is_some() && pod.lives() {
                assert!(open, "stranded under {order:?}: {pod:?}");
            }
        }
        // The order that should stand does.
        let vendor = gang.status.vendor.as_ref();
        let live =
            |id: &str| order::task_of(vendor, id).is_none_or(|t| !t.task_state().is_unsuccessful());
        let ordered = vendor.and_then(|v| v.order.as_ref()).is_some_and(|o| live(&o.task_id));
        let grounds = ordered
            || gang.spec.release.is_some()
            || self.api.job.succeeded.contains(0)
            || self.api.job.failed.contains(0);
        if grounds && !self.api.job.suspended {
            assert!(order.is_some(), "no order although there is every reason for one: {gang:?}");
        }
        if let Some(order) = order {
            assert!(live(&order.task_id), "the order outlives its task: {order:?}");
        }
        // Nobody is held up by a group that wants more members than there are.
        let members = consumers.iter().filter(|p| !p.finished());
        let waiting = members.clone().any(|p| !p.placed && !p.holds(GATE));
        if waiting {
            let group = self.api.group.as_ref().expect("open pods that name a group have one");
            assert!(group.min as usize <= members.count(), "the group is too large");
        }
    }
}

fn acts() -> impl Strategy<Value = Act> {
    let state = prop::sample::select(vec![
        "QUEUED",
        "RUNNING",
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "CANCELLING",
        "PONDERING",
    ]);
    let keeper = 0..2usize;
    prop_oneof![
        6 => (0..SIZE, prop::bool::weighted(0.2))
            .prop_map(|(index, foreign)| Act::Create { index, foreign }),
        2 => (0..SIZE).prop_map(Act::Delete),
        2 => (0..SIZE, any::<bool>(), any::<bool>())
            .prop_map(|(index, success, for_good)| Act::End { index, success, for_good }),
        2 => Just(Act::Place),
        2 => Just(Act::Submit),
        2 => (0..3usize, state).prop_map(|(task, state)| Act::Vendor { task, state }),
        2 => (0..3usize).prop_map(Act::Order),
        1 => Just(Act::Person),
        1 => any::<bool>().prop_map(Act::Suspend),
        1 => Just(Act::DeleteGang),
        2 => (1..5000i64).prop_map(Act::Tick),
        10 => (keeper.clone(), 0..4usize).prop_map(|(keeper, kind)| Act::Sync { keeper, kind }),
        10 => keeper.clone().prop_map(Act::Look),
        14 => (keeper.clone(), 0..8usize, prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(keeper, at, lost, answered)| Act::Write { keeper, at, lost, answered }),
        1 => keeper.prop_map(Act::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn never_early_and_never_stranded(schedule in prop::collection::vec(acts(), 0..160)) {
        let mut model = Model::new();
        for act in &schedule {
            model.happen(act);
        }
        model.settle();
        model.check();
        let foreign = model.api.pods.values().filter(|p| p.gates.iter().any(|g| g == FOREIGN));
        prop_assert!(foreign.clone().all(|p| p.role == Role::Consumer));
        // Doing it again changes nothing.
        let before = format!("{:?}", model.api);
        model.settle();
        prop_assert_eq!(before, format!("{:?}", model.api));
    }
}

#[test]
fn a_foreign_gate_outlives_the_release() {
    let mut model = Model::new();
    for index in 0..SIZE {
        model.happen(&Act::Create { index, foreign: true });
    }
    model.settle();
    model.happen(&Act::Submit);
    model.happen(&Act::Order(0));
    model.settle();
    model.check();
    let consumers = model.api.pods.values().filter(|p| p.role == Role::Consumer);
    let gates: Vec<_> = consumers.map(|p| p.gates.clone()).collect();
    assert_eq!(gates, vec![vec![FOREIGN.to_owned()]; 3]);
    let status = &model.api.gang.unwrap().status;
    let stalled = status.conditions.iter().find(|c| c.type_ == "Stalled").unwrap();
    assert_eq!((stalled.status.as_str(), stalled.reason.as_str()), ("True", "HeldByAnotherGate"));
}

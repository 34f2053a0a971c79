//! The release: which gates to open, and the `PodGroup` that places the consumers together.

use jiff::Timestamp;
use sluice_shared::gang::{KeeperOrder, VendorStatus};

use super::crew::{Crew, number};
use super::{Group, Rules, Seen, Step};
use crate::facts::pod::PodSeen;

/// What to do about the `PodGroup`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupPlan {
    /// A write, if one is due.
    pub step: Option<Step>,
    /// Whether the gates may open as far as the `PodGroup` is concerned.
    pub ready: bool,
    /// When to look again, if waiting is all there is to do.
    pub look_again: Option<Timestamp>,
    /// Since when the group has had fewer members than it wants.
    pub short_since: Option<Timestamp>,
}

impl GroupPlan {
    const READY: Self = Self { step: None, ready: true, look_again: None, short_since: None };
}

/// Plans the `PodGroup` of the gang.
///
/// `ordered_at` is when the standing order was given, `None` when none stands: pods that were
/// opened earlier may need their group even then.
pub(crate) fn plan_group(
    seen: &Seen,
    gate: &str,
    crew: &Crew,
    ordered_at: Option<Timestamp>,
    rules: &Rules,
    now: Timestamp,
) -> GroupPlan {
    let members: Vec<&PodSeen> = crew
        .consumers
        .iter()
        .copied()
        .filter(|p| p.group.as_deref() == Some(seen.name) && !p.finished())
        .collect();
    let opens = |p: &&&PodSeen| ordered_at.is_some() || !p.holds(gate);
    let wanted = members.iter().filter(|p| !p.placed && !p.terminating).any(|p| opens(&p));
    if !wanted {
        return GroupPlan::READY;
    }
    let min = number(members.len());
    let priority_class = members.iter().find_map(|p| p.priority_class.clone());
    match &seen.group {
        Group::Absent => {
            let until = ordered_at.and_then(|at| at.checked_add(rules.gather).ok());
            match until.filter(|until| crew.missing > 0 && now < *until) {
                Some(until) => {
                    GroupPlan { ready: false, look_again: Some(until), ..GroupPlan::READY }
                }
                None => GroupPlan {
                    step: Some(Step::MakeGroup { min, priority_class }),
                    ready: false,
                    ..GroupPlan::READY
                },
            }
        }
        Group::Ours(group) if group.deleting => GroupPlan {
            step: Some(Step::ShrinkGroup { uid: group.place.uid.clone(), min, priority_class }),
            ready: false,
            ..GroupPlan::READY
        },
        Group::Ours(group) if group.min > min => {
            let since = seen.memory.short_since.unwrap_or(now);
            let until = since.checked_add(rules.gather).unwrap_or(now);
            // A replacement that is on its way fills the group again.
            let waits = crew.missing > 0 && now < until;
            let shrink = Step::ShrinkGroup { uid: group.place.uid.clone(), min, priority_class };
            GroupPlan {
                step: (!waits).then_some(shrink),
                ready: true,
                look_again: waits.then_some(until),
                short_since: Some(since),
            }
        }
        // A foreign group of that name and one that the server refuses are reported; the gates
        // open all the same, because nothing gets better by keeping them shut.
        Group::Ours(_) | Group::NotServed | Group::Foreign | Group::Refused(_) => GroupPlan::READY,
    }
}

/// The gates that a standing order opens now: one step for each living consumer that our gate
/// holds.
pub(crate) fn opens(
    crew: &Crew,
    gate: &str,
    order: &KeeperOrder,
    vendor: Option<&VendorStatus>,
) -> Vec<Step> {
    let ids = task_ids(order, vendor);
    crew.consumers
        .iter()
        .filter(|p| p.lives() && p.holds(gate))
        .map(|p| Step::Open {
            pod: p.place.name.clone(),
            uid: p.place.uid.clone(),
            gate: gate.to_owned(),
            ids: ids.clone(),
        })
        .collect()
}

/// The ids that the consumers get: the order's task first, then the others that count and did
/// not fail. An order without a task hands out none.
fn task_ids(order: &KeeperOrder, vendor: Option<&VendorStatus>) -> Vec<String> {
    if order.task_id.is_empty() {
        return Vec::new();
    }
    let others = vendor
        .into_iter()
        .flat_map(|v| &v.tasks)
        .filter(|t| t.counts && t.id != order.task_id && !t.task_state().is_unsuccessful())
        .map(|t| t.id.clone());
    std::iter::once(order.task_id.clone()).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use sluice_shared::gang::{OrderReason, Task};
    use sluice_shared::names::GATE;

    use super::*;
    use crate::decide::fixtures::{mk_consumer, mk_group, mk_job, mk_order};
    use crate::decide::{Gang, Memory, Owner};
    use crate::facts::pod::PodPhase;

    const NAME: &str = "gang";

    fn member(index: u32) -> PodSeen {
        PodSeen { group: Some(NAME.into()), ..mk_consumer(index) }
    }

    fn plan(
        pods: &[PodSeen],
        group: &Group,
        ordered_at: Option<Timestamp>,
        short_since: Option<Timestamp>,
        now: Timestamp,
    ) -> GroupPlan {
        let job = mk_job(4);
        let pods: Vec<&PodSeen> = pods.iter().collect();
        let crew = Crew::of(Some(&job), &pods, GATE);
        let seen = Seen {
            name: NAME,
            index: None,
            owner: Owner::Job(&job),
            pods: pods.clone(),
            gang: Gang::Absent,
            group: group.clone(),
            memory: Memory { short_since, ..Memory::default() },
        };
        plan_group(&seen, GATE, &crew, ordered_at, &Rules::default(), now)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn the_group_is_made_when_all_are_there_or_the_wait_is_over() {
        let all = [member(1), member(2), member(3)];
        let made = |min| Some(Step::MakeGroup { min, priority_class: None });
        assert_eq!(plan(&all, &Group::Absent, Some(at(0)), None, at(0)).step, made(3));
        let some = &all[..2];
        let waits = plan(some, &Group::Absent, Some(at(0)), None, at(1));
        assert_eq!((waits.step, waits.ready), (None, false));
        assert_eq!(waits.look_again, Some(at(0) + Rules::default().gather));
        assert_eq!(plan(some, &Group::Absent, Some(at(0)), None, at(60)).step, made(2));
    }

    #[test]
    fn nothing_waits_for_a_group_that_nobody_needs() {
        let mut plain = member(1);
        plain.group = None;
        let mut placed = member(2);
        placed.placed = true;
        for (name, pods, ordered) in [
            ("names no group", vec![plain], true),
            ("already placed", vec![placed], true),
            ("held, no order", vec![member(1), member(2), member(3)], false),
        ] {
            let planned = plan(&pods, &Group::Absent, ordered.then(|| at(0)), None, at(0));
            assert_eq!(planned, GroupPlan::READY, "{name}");
        }
        for group in [Group::NotServed, Group::Foreign, Group::Refused("no".into())] {
            let planned = plan(&[member(1)], &group, Some(at(0)), None, at(0));
            assert_eq!(planned, GroupPlan::READY, "{group:?}");
        }
    }

    #[test]
    fn a_late_pod_is_freed_from_a_group_that_is_too_large() {
        let mut retried = member(3);
        retried.gates.clear();
        let mut done = member(1);
        done.gates.clear();
        done.phase = PodPhase::Succeeded;
        let pods = [done, retried];
        let group = Group::Ours(mk_group(3));
        let first = plan(&pods, &group, Some(at(0)), None, at(100));
        assert_eq!((first.step, first.short_since), (None, Some(at(100))), "another may come");
        assert!(first.ready);
        let then = plan(&pods, &group, Some(at(0)), Some(at(100)), at(200));
        assert_eq!(
            then.step,
            Some(Step::ShrinkGroup { uid: "group-uid".into(), min: 1, priority_class: None })
        );
        let enough = plan(&pods, &Group::Ours(mk_group(1)), Some(at(0)), None, at(200));
        assert_eq!(enough, GroupPlan::READY);
    }

    #[test]
    fn only_living_held_consumers_are_opened_and_all_get_the_ids() {
        let (held, mut open, mut leaving, mut foreign) =
            (mk_consumer(1), mk_consumer(2), mk_consumer(3), mk_consumer(4));
        open.gates.clear();
        leaving.terminating = true;
        foreign.gates = vec!["other/gate".into()];
        let pods = [&held, &open, &leaving, &foreign];
        let crew = Crew::of(None, &pods, GATE);
        let task = |id: &str, state: &str, counts| Task {
            id: id.into(),
            state: state.into(),
            counts,
            ..Task::default()
        };
        let vendor = VendorStatus {
            tasks: vec![
                task("x", "FAILED", true),
                task("b", "QUEUED", true),
                task("a", "RUNNING", true),
                task("sim", "COMPLETED", false),
            ],
            ..VendorStatus::default()
        };
        let steps = opens(&crew, GATE, &mk_order(OrderReason::PolicyMet, "a"), Some(&vendor));
        let [Step::Open { pod, ids, .. }] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((pod.as_str(), ids), ("c-1", &vec!["a".to_owned(), "b".to_owned()]));
        let steps = opens(&crew, GATE, &mk_order(OrderReason::ProducerFailed, ""), Some(&vendor));
        assert!(matches!(&steps[..], [Step::Open { ids, .. }] if ids.is_empty()));
    }
}

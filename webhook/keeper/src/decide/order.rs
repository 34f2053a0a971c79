//! Which order stands. Nothing but an order of this file opens a gate.

use sluice_shared::gang::{KeeperOrder, OrderReason, PersonOrder, Task, VendorStatus};

/// How far the producer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProducerEnd {
    /// It may still submit.
    Going,
    /// Index 0 has succeeded.
    Succeeded,
    /// Index 0 has failed for good.
    FailedForGood,
}

/// What the order is judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrderFacts<'a> {
    /// The order on the gang, as the keeper recorded it.
    pub recorded: Option<&'a KeeperOrder>,
    /// What the sidecar wrote.
    pub vendor: Option<&'a VendorStatus>,
    /// What a person wrote.
    pub person: Option<&'a PersonOrder>,
    pub producer: ProducerEnd,
    pub suspended: bool,
    /// The Job has ended, or is being deleted.
    pub ended: bool,
}

/// What becomes of the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The recorded order, or that there is none, stays as it is.
    Keep,
    /// A new order, which takes the place of any other.
    Take { reason: OrderReason, task_id: String },
    /// The recorded order no longer holds for pods that are still gated.
    Withdraw,
}

/// Judges the order.
pub(crate) fn judge(facts: &OrderFacts) -> Verdict {
    match facts.recorded.filter(|o| !o.withdrawn) {
        None => find(facts),
        Some(order) if lost(order, facts) => match find(facts) {
            Verdict::Keep => Verdict::Withdraw,
            other => other,
        },
        Some(order) => succession(order, facts),
    }
}

/// Whether the order has lost its ground.
fn lost(order: &KeeperOrder, facts: &OrderFacts) -> bool {
    let Some(task) = task_of(facts.vendor, &order.task_id) else {
        // An order without a task has no ground to lose. While the Job is suspended an order
        // needs a task that is known to live.
        return facts.suspended && !order.task_id.is_empty();
    };
    task.task_state().is_unsuccessful()
}

/// A standing order gives way only to the sidecar, when that names another task.
fn succession(order: &KeeperOrder, facts: &OrderFacts) -> Verdict {
    let Some(task_id) = sidecar(facts) else { return Verdict::Keep };
    let open_to_it = order.reason == OrderReason::PolicyMet || order.task_id.is_empty();
    if facts.ended || facts.suspended || task_id == order.task_id || !open_to_it {
        return Verdict::Keep;
    }
    Verdict::Take { reason: OrderReason::PolicyMet, task_id: task_id.to_owned() }
}

/// Looks for an order to take up.
fn find(facts: &OrderFacts) -> Verdict {
    // Pods that a suspended or ended Job still has are on their way out.
    if facts.ended || facts.suspended {
        return Verdict::Keep;
    }
    let take = |reason, task_id: &str| Verdict::Take { reason, task_id: task_id.to_owned() };
    let known = known_task(facts.vendor).map_or("", |t| t.id.as_str());
    if let Some(task_id) = sidecar(facts) {
        return take(OrderReason::PolicyMet, task_id);
    }
    if facts.person.is_some() {
        return take(OrderReason::Person, known);
    }
    match facts.producer {
        ProducerEnd::Going => Verdict::Keep,
        ProducerEnd::Succeeded => take(OrderReason::ProducerSucceeded, known),
        ProducerEnd::FailedForGood => take(OrderReason::ProducerFailed, ""),
    }
}

/// The task of the sidecar's order, unless that task ended without a result.
fn sidecar<'a>(facts: &OrderFacts<'a>) -> Option<&'a str> {
    let id = facts.vendor?.order.as_ref().map(|o| o.task_id.as_str())?;
    let failed = task_of(facts.vendor, id).is_some_and(|t| t.task_state().is_unsuccessful());
    (!id.is_empty() && !failed).then_some(id)
}

/// The task with this id, if the sidecar lists it.
pub(crate) fn task_of<'a>(vendor: Option<&'a VendorStatus>, id: &str) -> Option<&'a Task> {
    vendor?.tasks.iter().find(|t| t.id == id)
}

/// The task that comes closest to a result among those that count: the last of the best.
pub(crate) fn known_task(vendor: Option<&VendorStatus>) -> Option<&Task> {
    use sluice_shared::task::TaskState;
    let rank = |task: &&Task| match task.task_state() {
        TaskState::Completed => 4,
        TaskState::Running => 3,
        _ if task.front => 2,
        TaskState::Queued => 1,
        _ => 0,
    };
    let live = |t: &&Task| t.counts && !t.task_state().is_unsuccessful();
    vendor?.tasks.iter().filter(live).max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use sluice_shared::gang::Order;

    use super::*;

    fn mk_vendor(tasks: &[(&str, &str)], order: Option<&str>) -> VendorStatus {
        let task = |(id, state): &(&str, &str)| Task {
            id: (*id).into(),
            state: (*state).into(),
            counts: true,
            ..Task::default()
        };
        VendorStatus {
            tasks: tasks.iter().map(task).collect(),
            order: order.map(|id| Order {
                reason: "front".into(),
                task_id: id.into(),
                at: MicroTime(Timestamp::UNIX_EPOCH),
            }),
            ..VendorStatus::default()
        }
    }

    fn mk_order(reason: OrderReason, task_id: &str, withdrawn: bool) -> KeeperOrder {
        KeeperOrder {
            reason,
            task_id: task_id.into(),
            at: MicroTime(Timestamp::UNIX_EPOCH),
            opened_at: None,
            withdrawn,
        }
    }

    fn take(reason: OrderReason, task_id: &str) -> Verdict {
        Verdict::Take { reason, task_id: task_id.into() }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn the_table_of_orders() {
        use OrderReason::{Person, PolicyMet, ProducerFailed, ProducerSucceeded};
        use ProducerEnd::{FailedForGood, Going, Succeeded};
        let none = mk_vendor(&[], None);
        let queued = mk_vendor(&[("a", "QUEUED")], None);
        let ordered = mk_vendor(&[("a", "QUEUED")], Some("a"));
        let failed = mk_vendor(&[("a", "FAILED")], Some("a"));
        let renewed = mk_vendor(&[("a", "FAILED"), ("b", "RUNNING")], Some("b"));
        let moved = mk_vendor(&[("a", "RUNNING"), ("b", "RUNNING")], Some("b"));
        let strange = mk_vendor(&[("a", "PONDERING")], Some("a"));
        let unlisted = mk_vendor(&[], Some("a"));
        let empty = mk_vendor(&[("a", "QUEUED")], Some(""));
        let met = mk_order(PolicyMet, "a", false);
        let met_gone = mk_order(PolicyMet, "a", true);
        let left = mk_order(ProducerSucceeded, "a", false);
        let left_bare = mk_order(ProducerSucceeded, "", false);
        let asked = mk_order(Person, "", false);
        let rows = [
            // name, recorded, vendor, person, producer, suspended, ended, verdict
            ("nothing", None, &none, false, Going, false, false, Verdict::Keep),
            ("only queued", None, &queued, false, Going, false, false, Verdict::Keep),
            ("sidecar", None, &ordered, false, Going, false, false, take(PolicyMet, "a")),
            (
                "sidecar, not listed",
                None,
                &unlisted,
                false,
                Going,
                false,
                false,
                take(PolicyMet, "a"),
            ),
            ("sidecar, new word", None, &strange, false, Going, false, false, take(PolicyMet, "a")),
            ("sidecar, no task", None, &empty, false, Going, false, false, Verdict::Keep),
            ("sidecar, failed", None, &failed, false, Going, false, false, Verdict::Keep),
            ("person", None, &queued, true, Going, false, false, take(Person, "a")),
            ("person, no task", None, &none, true, Going, false, false, take(Person, "")),
            (
                "sidecar before person",
                None,
                &ordered,
                true,
                Going,
                false,
                false,
                take(PolicyMet, "a"),
            ),
            ("left", None, &queued, false, Succeeded, false, false, take(ProducerSucceeded, "a")),
            (
                "left, failed task",
                None,
                &failed,
                false,
                Succeeded,
                false,
                false,
                take(ProducerSucceeded, ""),
            ),
            (
                "gave up",
                None,
                &queued,
                false,
                FailedForGood,
                false,
                false,
                take(ProducerFailed, ""),
            ),
            ("suspended", None, &ordered, true, Succeeded, true, false, Verdict::Keep),
            ("ended", None, &ordered, true, Succeeded, false, true, Verdict::Keep),
            ("stands", Some(&met), &ordered, false, Going, false, false, Verdict::Keep),
            ("stands, new word", Some(&met), &strange, false, Going, false, false, Verdict::Keep),
            ("stands, not listed", Some(&met), &none, false, Going, false, false, Verdict::Keep),
            (
                "stands, left since",
                Some(&met),
                &ordered,
                false,
                Succeeded,
                false,
                false,
                Verdict::Keep,
            ),
            ("lost", Some(&met), &failed, false, Going, false, false, Verdict::Withdraw),
            ("lost, ended", Some(&met), &failed, false, Going, false, true, Verdict::Withdraw),
            (
                "lost, new task",
                Some(&met),
                &renewed,
                false,
                Going,
                false,
                false,
                take(PolicyMet, "b"),
            ),
            ("lost, person", Some(&met), &failed, true, Going, false, false, take(Person, "")),
            (
                "lost, left",
                Some(&met),
                &failed,
                false,
                Succeeded,
                false,
                false,
                take(ProducerSucceeded, ""),
            ),
            (
                "lost, gave up",
                Some(&met),
                &failed,
                false,
                FailedForGood,
                false,
                false,
                take(ProducerFailed, ""),
            ),
            (
                "withdrawn stays",
                Some(&met_gone),
                &failed,
                false,
                Going,
                false,
                false,
                Verdict::Keep,
            ),
            (
                "withdrawn, new task",
                Some(&met_gone),
                &renewed,
                false,
                Going,
                false,
                false,
                take(PolicyMet, "b"),
            ),
            (
                "withdrawn, left",
                Some(&met_gone),
                &failed,
                false,
                Succeeded,
                false,
                false,
                take(ProducerSucceeded, ""),
            ),
            ("replaced", Some(&met), &moved, false, Going, false, false, take(PolicyMet, "b")),
            ("left stays", Some(&left), &moved, false, Succeeded, false, false, Verdict::Keep),
            (
                "left, task failed",
                Some(&left),
                &failed,
                false,
                Succeeded,
                false,
                false,
                take(ProducerSucceeded, ""),
            ),
            (
                "left bare, order after",
                Some(&left_bare),
                &ordered,
                false,
                Succeeded,
                false,
                false,
                take(PolicyMet, "a"),
            ),
            (
                "person, then sidecar",
                Some(&asked),
                &ordered,
                true,
                Going,
                false,
                false,
                take(PolicyMet, "a"),
            ),
            ("person stays", Some(&asked), &queued, true, Going, false, false, Verdict::Keep),
            ("suspended, live", Some(&met), &ordered, false, Going, true, false, Verdict::Keep),
            (
                "suspended, failed",
                Some(&met),
                &failed,
                false,
                Going,
                true,
                false,
                Verdict::Withdraw,
            ),
            ("suspended, unknown", Some(&met), &none, false, Going, true, false, Verdict::Withdraw),
        ];
        for (name, recorded, vendor, person, producer, suspended, ended, expected) in rows {
            let person = person.then(PersonOrder::default);
            let facts = OrderFacts {
                recorded,
                vendor: Some(vendor),
                person: person.as_ref(),
                producer,
                suspended,
                ended,
            };
            assert_eq!(judge(&facts), expected, "{name}");
        }
    }

    #[test]
    fn the_best_task_is_the_one_nearest_to_a_result() {
        let vendor = mk_vendor(
            &[("q", "QUEUED"), ("r", "RUNNING"), ("c", "CANCELLED"), ("q2", "QUEUED")],
            None,
        );
        assert_eq!(known_task(Some(&vendor)).map(|t| t.id.as_str()), Some("r"));
        assert_eq!(known_task(None), None);
    }
}

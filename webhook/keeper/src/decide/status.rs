//! The status of a gang, all but `vendor`, and the merge patch that brings it about.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use serde_json::{Map, Value};
use sluice_shared::gang::{KeeperOrder, Phase, QuantumGangStatus, Task, VendorStatus};
use sluice_shared::names;
use sluice_shared::task::{Position, device_name, short_id};

use super::crew::Crew;
use super::order::{Verdict, known_task, task_of};
use super::{Picture, message, stall};

/// The order as it is after the verdict.
pub(crate) fn order_after(
    recorded: Option<&KeeperOrder>,
    verdict: &Verdict,
    crew: &Crew,
    suspended: bool,
    now: Timestamp,
) -> Option<KeeperOrder> {
    let mut order = match verdict {
        Verdict::Keep => recorded?.clone(),
        Verdict::Withdraw => KeeperOrder { withdrawn: true, ..recorded?.clone() },
        Verdict::Take { reason, task_id } => {
            return Some(KeeperOrder {
                reason: *reason,
                task_id: task_id.clone(),
                at: MicroTime(now),
                opened_at: None,
                withdrawn: false,
            });
        }
    };
    let open = !order.withdrawn && !suspended && crew.all_open();
    if open && order.opened_at.is_none() {
        order.opened_at = Some(MicroTime(now));
    }
    Some(order)
}

/// The task that people are shown: the order's, else the best that counts, else the last.
pub(crate) fn shown_task<'a>(
    vendor: Option<&'a VendorStatus>,
    order: Option<&KeeperOrder>,
) -> Option<&'a Task> {
    let ordered = order.filter(|o| !o.withdrawn).and_then(|o| task_of(vendor, &o.task_id));
    ordered.or_else(|| known_task(vendor)).or_else(|| vendor?.tasks.last())
}

/// Where the gang stands.
pub(crate) fn phase(picture: &Picture) -> Phase {
    if picture.ended() {
        return Phase::Finished;
    }
    if let Some(order) = picture.order.filter(|o| !o.withdrawn) {
        let open = picture.crew.gated == 0 && order.opened_at.is_some();
        return if open { Phase::Released } else { Phase::Releasing };
    }
    let Some(task) = known_task(picture.vendor()) else { return Phase::Starting };
    let near = task.front || !task.task_state().is_waiting();
    if near { Phase::Front } else { Phase::Queued }
}

/// The whole status, without `vendor`.
pub(crate) fn view(picture: &Picture) -> QuantumGangStatus {
    let vendor = picture.vendor();
    let phase = phase(picture);
    let task = shown_task(vendor, picture.order);
    let waiting = task.filter(|t| t.task_state().is_waiting() && phase != Phase::Finished);
    let stalled = stall::reason(picture);
    let message = message::sentence(picture, phase, task, stalled.as_ref());
    QuantumGangStatus {
        vendor: None,
        phase: Some(phase),
        producer: picture.producer(),
        consumers: Some(picture.crew.counts()),
        order: picture.order.cloned(),
        task: task.map(|t| cut(short_id(&t.id), 256)),
        position: waiting.and_then(position),
        device: task.filter(|t| !t.device.is_empty()).map(|t| cut(&device_name(&t.device), 256)),
        waiting_since: waiting.and_then(|t| t.submitted_at.clone()),
        conditions: conditions(picture, phase, task, stalled.as_ref(), &message),
        message: Some(message),
        observed_generation: Some(picture.gang.generation),
    }
}

/// The position as people read it.
pub(crate) fn position(task: &Task) -> Option<String> {
    match Position::of(task.position.as_deref()) {
        Position::At(place) => Some(place.to_string()),
        Position::Beyond(bound) => Some(format!(">{bound}")),
        Position::Unknown => task.at_least.map(|bound| format!(">{bound}")),
    }
}

fn conditions(
    picture: &Picture,
    phase: Phase,
    task: Option<&Task>,
    stalled: Option<&stall::Stall>,
    message: &str,
) -> Vec<Condition> {
    let vendor = picture.vendor();
    let submitted = vendor.is_some_and(|v| !v.tasks.is_empty() || v.folded.is_some());
    let best = known_task(vendor);
    let front = best.is_some_and(|t| t.front || !t.task_state().is_waiting());
    let said = |task: Option<&Task>| {
        task.map_or_else(
            || "no task is known yet".to_owned(),
            |t| format!("{} is {}", short_id(&t.id), t.state),
        )
    };
    let order = picture.order.filter(|o| !o.withdrawn);
    let opened = order.is_some_and(|o| o.opened_at.is_some()) && picture.crew.gated == 0;
    let released = match order {
        _ if picture.alone() => (true, "NothingGated", "this gang holds no consumers".to_owned()),
        Some(order) => (opened, order.reason.as_str(), message.to_owned()),
        None if picture.order.is_some() => (false, "OrderWithdrawn", message.to_owned()),
        None if phase == Phase::Finished => (false, "Finished", message.to_owned()),
        None => (false, "NoOrder", message.to_owned()),
    };
    let stalled = stalled.map_or_else(
        || (false, "AsExpected", "nothing is in the way".to_owned()),
        |s| (true, s.reason, s.sentence.clone()),
    );
    let rows = [
        (
            names::CONDITION_SUBMITTED,
            (submitted, if submitted { "TaskFound" } else { "NoTask" }, said(task)),
        ),
        (
            names::CONDITION_AT_FRONT,
            (front, if front { "AtFront" } else { "NotAtFront" }, said(best)),
        ),
        (names::CONDITION_RELEASED, released),
        (names::CONDITION_STALLED, stalled),
    ];
    rows.into_iter()
        .map(|(kind, (status, reason, message))| {
            let status = if status { "True" } else { "False" };
            let before = picture.gang.status.conditions.iter().find(|c| c.type_ == kind);
            // The time is that of the last change of the status, not of the last write.
            let since = before
                .filter(|c| c.status == status)
                .map_or_else(|| Time(picture.now), |c| c.last_transition_time.clone());
            Condition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: cut(&message, 1024),
                last_transition_time: since,
                observed_generation: Some(picture.gang.generation),
            }
        })
        .collect()
}

/// A text that fits a field of the schema.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

/// A change of the status.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// The part of a merge patch under `status`.
    pub patch: Value,
    /// Whether it can wait: only numbers and words that follow from them change.
    pub patient: bool,
}

/// The change that turns `current` into `wanted`, if there is one. `vendor` is not looked at.
///
/// # Errors
/// When a status cannot be written as JSON.
pub(crate) fn change(
    current: &QuantumGangStatus,
    wanted: &QuantumGangStatus,
) -> Result<Option<Change>, serde_json::Error> {
    let bare = |status: &QuantumGangStatus| {
        serde_json::to_value(QuantumGangStatus { vendor: None, ..status.clone() })
    };
    let Some(patch) = merge_patch(&bare(current)?, &bare(wanted)?) else { return Ok(None) };
    let numbers = ["consumers", "message", "position", "conditions"];
    let patient =
        patch.as_object().is_some_and(|p| p.keys().all(|k| numbers.contains(&k.as_str())))
            && words(current) == words(wanted);
    Ok(Some(Change { patch, patient }))
}

/// The conditions without their messages.
fn words(status: &QuantumGangStatus) -> Vec<(&str, &str, &str)> {
    status
        .conditions
        .iter()
        .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str()))
        .collect()
}

/// The JSON merge patch (RFC 7396) from `from` to `to`, `None` when they are equal.
fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else {
        return (from != to).then(|| to.clone());
    };
    let gone = old.keys().filter(|k| !new.contains_key(*k)).map(|k| (k.clone(), Value::Null));
    let changed = new.iter().filter_map(|(key, value)| {
        let patch = old.get(key).map_or_else(|| Some(value.clone()), |o| merge_patch(o, value))?;
        Some((key.clone(), patch))
    });
    let patch: Map<String, Value> = gone.chain(changed).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

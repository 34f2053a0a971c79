//! What keeps a gang from going on, said so that the reader can act.

use jiff::Timestamp;
use sluice_shared::task::{device_name, short_id};

use super::order::known_task;
use super::{Group, Picture};
use crate::facts::pod::PodSeen;

/// Something that keeps a gang from going on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stall {
    /// One word, for the condition.
    pub reason: &'static str,
    /// What is wrong, where, and what to do.
    pub sentence: String,
}

/// Reason: a released pod is held by another gate.
pub(crate) const FOREIGN_GATE: &str = "HeldByAnotherGate";
/// Reason: a released pod finds no node.
pub(crate) const UNSCHEDULABLE: &str = "Unschedulable";
/// Reason: every task ended without a result.
pub(crate) const TASK_FAILED: &str = "TaskFailed";

/// The strongest thing in the way, if there is one.
pub(crate) fn reason(picture: &Picture) -> Option<Stall> {
    if picture.ended() {
        return None;
    }
    let stall = |reason, sentence| Some(Stall { reason, sentence });
    if let Some(refusal) = &picture.memory.refused {
        return stall(
            "GatePatchRefused",
            format!("the API server refuses to open a gate, it is tried again: {refusal}"),
        );
    }
    if let Group::Refused(refusal) = picture.group {
        return stall(
            "PodGroupRefused",
            format!("the PodGroup cannot be made, consumers wait in the scheduler: {refusal}"),
        );
    }
    if matches!(picture.group, Group::Foreign) {
        return stall(
            "NameTaken",
            "a PodGroup of the gang's name belongs to another object; delete it or give the Job \
             another name"
                .to_owned(),
        );
    }
    if let Some((pod, gate, more)) = first(held(picture)) {
        return stall(
            FOREIGN_GATE,
            format!("pod {pod}{more} is released, but gate {gate} of another system holds it"),
        );
    }
    if let Some((pod, said, more)) = first(unplaced(picture)) {
        return stall(
            UNSCHEDULABLE,
            format!("pod {pod}{more} is released, but finds no node: {said}"),
        );
    }
    if let Some(problem) = picture.vendor().and_then(|v| v.problem.as_ref()) {
        return stall("VendorProblem", problem.clone());
    }
    failed_task(picture).map(|sentence| Stall { reason: TASK_FAILED, sentence })
}

/// The first of the pods with what is to say, and how many more there are.
fn first<'a>(
    mut pods: impl Iterator<Item = (&'a PodSeen, &'a str)>,
) -> Option<(&'a str, &'a str, String)> {
    let (pod, said) = pods.next()?;
    let more = match pods.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some((&pod.place.name, said, more))
}

/// Consumers that we opened and somebody else holds.
fn held<'a>(picture: &'a Picture) -> impl Iterator<Item = (&'a PodSeen, &'a str)> {
    let gate = picture.gate();
    opened(picture).filter_map(move |p| Some((p, p.foreign_gate(gate)?)))
}

/// Consumers that have been open for a while and find no node.
fn unplaced<'a>(picture: &'a Picture) -> impl Iterator<Item = (&'a PodSeen, &'a str)> {
    opened(picture)
        .filter(|p| grace_over(picture, p).is_some_and(|over| picture.now >= over))
        .filter_map(|p| Some((p, p.unschedulable.as_deref()?)))
}

fn opened<'a>(picture: &'a Picture) -> impl Iterator<Item = &'a PodSeen> {
    let stands = picture.order.is_some_and(|o| !o.withdrawn);
    let gate = picture.gate();
    picture
        .crew
        .consumers
        .iter()
        .copied()
        .filter(move |p| stands && p.lives() && !p.placed && !p.holds(gate))
}

/// From when on an open pod without a node is worth a word: the scheduler needs a moment, and
/// its condition does not tell when the gate went.
fn grace_over(picture: &Picture, pod: &PodSeen) -> Option<Timestamp> {
    let order = picture.order?;
    let opened = order.opened_at.as_ref().map_or(order.at.0, |t| t.0);
    let since = pod.created.map_or(opened, |created| created.max(opened));
    since.checked_add(picture.rules.unplaced_grace).ok()
}

/// When an open pod without a node becomes worth a word, if that is to come.
pub(crate) fn look_again(picture: &Picture) -> Option<Timestamp> {
    opened(picture)
        .filter(|p| p.unschedulable.is_some())
        .filter_map(|p| grace_over(picture, p))
        .filter(|over| *over > picture.now)
        .min()
}

/// The last task, if none is left that could still release.
fn failed_task(picture: &Picture) -> Option<String> {
    let vendor = picture.vendor()?;
    if picture.order.is_some_and(|o| !o.withdrawn) || known_task(Some(vendor)).is_some() {
        return None;
    }
    let task = vendor.tasks.iter().rev().find(|t| t.counts)?;
    let why = task.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
    Some(format!(
        "{} {} on {}{why}; waits for the program to submit another task",
        short_id(&task.id),
        task.state,
        device_name(&task.device),
    ))
}

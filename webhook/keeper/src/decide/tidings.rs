//! What is told to people as Events, from what is recorded.
//!
//! Tidings are read off the recorded state, never off an intention: whatever is told has
//! happened. Each has a name of its own, so that a second look, a second keeper or a restart
//! tells nothing twice; what happened long ago is not told again.

use jiff::{SignedDuration, Timestamp};
use sluice_shared::gang::{KeeperOrder, OrderReason, Task};
use sluice_shared::names;
use sluice_shared::policy::Mismatch;
use sluice_shared::task::{device_name, short_id};

use super::Picture;
use super::order::task_of;
use super::stall::{self, Stall};

/// How long after it happened something is still news.
const NEWS: SignedDuration = SignedDuration::from_mins(10);

/// Of so many tasks of a gang it is told that they were found: a loop of thousands would bury
/// everything else, and all of them are listed in the gang.
const MOST_FOUND: usize = 10;

/// The object that an Event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum About {
    /// The Job, or the pod of a gang without a Job.
    Owner,
    /// The pod of the producer.
    Producer,
}

/// One Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tiding {
    pub about: About,
    /// `Warning` instead of `Normal`.
    pub warning: bool,
    /// One of the reasons in [`names`].
    pub reason: &'static str,
    /// What was done, in one word.
    pub action: &'static str,
    pub note: String,
    /// Tells two tidings of one reason apart: a task, a pod, a time.
    pub which: String,
}

/// The tidings of a gang.
pub(crate) fn tidings(picture: &Picture) -> Vec<Tiding> {
    let mut list = Vec::new();
    let order = picture.gang.status.order.as_ref();
    if let Some(order) = order.filter(|o| is_news(Some(o.at.0), picture.now)) {
        list.extend(ordered(picture, order));
    }
    let opened = order.and_then(|o| Some((o, o.opened_at.as_ref()?.0)));
    if let Some((order, at)) = opened.filter(|(_, at)| is_news(Some(*at), picture.now)) {
        list.extend(gates_opened(picture, order, at));
    }
    let opened = opened.map(|(_, at)| at);
    if let Some(vendor) = picture.vendor() {
        // What left the list was submitted before what is on it.
        let left = vendor.folded.map_or(0, |f| f.completed.saturating_add(f.unsuccessful));
        let room = MOST_FOUND.saturating_sub(usize::try_from(left).unwrap_or(usize::MAX));
        list.extend(vendor.tasks.iter().take(room).flat_map(|t| found(picture, t)));
        list.extend(vendor.tasks.iter().flat_map(|t| failed(picture, t, order)));
        list.extend(vendor.tasks.iter().take(room).flat_map(|t| elsewhere(picture, t)));
        list.extend(vendor.tasks.iter().flat_map(|t| left_behind(picture, t, &vendor.tasks)));
        list.extend(queued_again(picture, &vendor.tasks, opened));
    }
    list.extend(stall::reason(picture).and_then(stalled));
    list
}

fn is_news(at: Option<Timestamp>, now: Timestamp) -> bool {
    at.is_some_and(|at| now.duration_since(at) < NEWS)
}

/// The order itself, and what is odd about it.
fn ordered(picture: &Picture, order: &KeeperOrder) -> Vec<Tiding> {
    let which = format!("{}/{}", order.at.0, order.task_id);
    let tiding = |warning, reason, note: String| Tiding {
        about: About::Owner,
        warning,
        reason,
        action: "Order",
        note,
        which: which.clone(),
    };
    let id = short_id(&order.task_id);
    match order.reason {
        OrderReason::PolicyMet => Vec::new(),
        OrderReason::Person => {
            let person = picture.gang.spec.release.clone().unwrap_or_default();
            let why = if person.reason.is_empty() {
                String::new()
            } else {
                format!(": {}", person.reason)
            };
            let by = if person.by.is_empty() { "a person" } else { &person.by };
            vec![tiding(
                false,
                names::EVENT_RELEASED_BY_PERSON,
                format!("{by} had the consumers released{why}"),
            )]
        }
        OrderReason::ProducerSucceeded => {
            let note = if id.is_empty() {
                "the producer has ended, the consumers start without a task id".to_owned()
            } else {
                format!("the producer has ended, the consumers start with {id}")
            };
            let mut list = vec![tiding(id.is_empty(), names::EVENT_PRODUCER_SUCCEEDED, note)];
            let early = task_of(picture.vendor(), &order.task_id)
                .is_some_and(|t| t.task_state().is_waiting());
            if early {
                list.push(tiding(
                    true,
                    names::EVENT_PRODUCER_LEFT_EARLY,
                    format!(
                        "the producer ended while {id} still waits at the vendor, so the consumers \
                         start now and idle; keep the producer alive until the task has its \
                         result to have them released just in time"
                    ),
                ));
            }
            list
        }
        OrderReason::ProducerFailed => vec![tiding(
            true,
            names::EVENT_PRODUCER_FAILED,
            "index 0 failed for good and the Job goes on, so the consumers start without a task id"
                .to_owned(),
        )],
    }
}

fn gates_opened(picture: &Picture, order: &KeeperOrder, at: Timestamp) -> Vec<Tiding> {
    if picture.alone() {
        return Vec::new();
    }
    let took = at.duration_since(order.at.0).as_millis();
    let for_task = match short_id(&order.task_id) {
        "" => String::new(),
        id => format!(" for {id}"),
    };
    let crew = picture.crew;
    let note =
        format!("{}/{} consumers released{for_task} in {took} ms", crew.released, crew.total());
    [About::Owner, About::Producer]
        .into_iter()
        .map(|about| Tiding {
            about,
            warning: false,
            reason: names::EVENT_RELEASED,
            action: "OpenGates",
            note: note.clone(),
            which: format!("{}/{}", order.at.0, order.task_id),
        })
        .collect()
}

/// The same about a task for the Job and for the producer. Where each pod of a Job has a gang of
/// its own, it is told at the pod alone: the Job would be buried.
fn about_task(
    picture: &Picture,
    task: &Task,
    warning: bool,
    reason: &'static str,
    note: &str,
) -> Vec<Tiding> {
    let whom: &[About] = match picture.gang.spec.index {
        Some(_) => &[About::Producer],
        None => &[About::Owner, About::Producer],
    };
    let tiding = |about: &About| Tiding {
        about: *about,
        warning,
        reason,
        action: "Follow",
        note: note.to_owned(),
        which: task.id.clone(),
    };
    whom.iter().map(tiding).collect()
}

/// A task was found.
fn found(picture: &Picture, task: &Task) -> Vec<Tiding> {
    let since = task.submitted_at.as_ref().or(task.observed_at.as_ref());
    if !is_news(since.map(|t| t.0), picture.now) {
        return Vec::new();
    }
    let price = task.cost.map(|price| format!(", {price} by list price")).unwrap_or_default();
    let note = format!("found task {} on {}{price}", task.id, device_name(&task.device));
    about_task(picture, task, false, names::EVENT_TASK_FOUND, &note)
}

/// A task is on another QPU than the chosen backend.
fn elsewhere(picture: &Picture, task: &Task) -> Vec<Tiding> {
    let backend = picture.gang.spec.backend.as_deref();
    let since = task.submitted_at.as_ref().or(task.observed_at.as_ref());
    let Some(backend) = backend.filter(|b| Mismatch::is_elsewhere(&task.device, b)) else {
        return Vec::new();
    };
    if !is_news(since.map(|t| t.0), picture.now) {
        return Vec::new();
    }
    let note = format!(
        "task {} is on {}, but the chosen backend is {backend}; annotation {}: \"refuse\" refuses \
         such submissions",
        short_id(&task.id),
        device_name(&task.device),
        names::MISMATCH
    );
    about_task(picture, task, true, names::EVENT_BACKEND_MISMATCH, &note)
}

/// A task ended without a result.
fn failed(picture: &Picture, task: &Task, order: Option<&KeeperOrder>) -> Vec<Tiding> {
    let seen = task.observed_at.as_ref().map(|t| t.0);
    if !task.task_state().is_unsuccessful() || !is_news(seen, picture.now) {
        return Vec::new();
    }
    let why = task.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
    let released = order.is_some_and(|o| o.task_id == task.id && o.opened_at.is_some());
    let after = if released && !picture.alone() {
        "; the consumers were released for it and find no result, pods created from now on wait \
         for another task"
    } else {
        ""
    };
    let (id, device) = (short_id(&task.id), device_name(&task.device));
    let note = format!("task {id} is {} on {device}{why}{after}", task.state);
    about_task(picture, task, true, names::EVENT_TASK_FAILED, &note)
}

/// A program that was started again has a new task, and one of an earlier run lives still: both
/// are paid for. Told once for the old one.
fn left_behind(picture: &Picture, old: &Task, tasks: &[Task]) -> Vec<Tiding> {
    let Some(producer) = picture.gang.status.producer.as_ref() else { return Vec::new() };
    let is_present = |t: &Task| t.incarnation.as_deref().is_some_and(|run| producer.is_run(run));
    let state = old.task_state();
    // One without a digest is no task that this program could have been given.
    if old.incarnation.is_none() || old.digest.is_none() || is_present(old) || state.is_final() {
        return Vec::new();
    }
    let is_new = |t: &&Task| {
        let submitted = t.submitted_at.as_ref().map(|at| at.0);
        is_present(t) && !t.resumed && is_news(submitted, picture.now)
    };
    let Some(new) = tasks.iter().find(is_new) else { return Vec::new() };
    let note = format!(
        "task {} of an earlier run of the program is still {} on {}, and the program has submitted \
         {} instead of it: both are paid for. Cancel the earlier one at the vendor if nobody needs \
         it. A program that submits byte for byte the same is given its earlier task",
        old.id,
        old.state,
        device_name(&old.device),
        short_id(&new.id),
    );
    about_task(picture, old, true, names::EVENT_EARLIER_TASK_LIVES, &note)
}

/// A task that was submitted after the release waits. Told once a gang: in a loop it is the same
/// with every round.
fn queued_again(picture: &Picture, tasks: &[Task], opened: Option<Timestamp>) -> Option<Tiding> {
    let opened = opened.filter(|_| !picture.alone())?;
    let task = tasks.iter().find(|t| {
        let after = t.submitted_at.as_ref().is_some_and(|submitted| submitted.0 > opened);
        after && t.counts && t.task_state().is_waiting() && !t.front
    })?;
    Some(Tiding {
        about: About::Owner,
        warning: true,
        reason: names::EVENT_QUEUED_AFTER_RELEASE,
        action: "Follow",
        note: format!(
            "task {} waits on {} although the consumers are released already; they may idle \
             until it runs. Tasks that are submitted later may do the same: this is told once",
            short_id(&task.id),
            device_name(&task.device)
        ),
        which: String::new(),
    })
}

fn stalled(stall: Stall) -> Option<Tiding> {
    let reason = match stall.reason {
        stall::FOREIGN_GATE => names::EVENT_FOREIGN_GATE,
        stall::UNSCHEDULABLE => names::EVENT_UNSCHEDULABLE,
        // Tasks have Events of their own; the rest stands in the condition.
        _ => return None,
    };
    Some(Tiding {
        about: About::Owner,
        warning: true,
        reason,
        action: "Release",
        note: stall.sentence,
        which: String::new(),
    })
}

/// The gang's name belongs to somebody else.
pub(crate) fn name_taken(name: &str, holder: &str) -> Tiding {
    Tiding {
        about: About::Owner,
        warning: true,
        reason: names::EVENT_NAME_TAKEN,
        action: "MakeGang",
        note: format!(
            "QuantumGang {name} belongs to {holder}, so this Job has no gang and its consumers stay \
             gated; delete that gang, or create the Job again"
        ),
        which: name.to_owned(),
    }
}

/// A quantum Job without a stamp that can be read.
pub(crate) fn not_stamped(why: &str) -> Tiding {
    Tiding {
        about: About::Owner,
        warning: true,
        reason: names::EVENT_NOT_STAMPED,
        action: "MakeGang",
        note: format!("{why}; its pods run as they are, without Sluice. Create the Job again"),
        which: String::new(),
    }
}

//! One sentence about a gang, for people.

use sluice_shared::gang::{OrderReason, Phase, Task};
use sluice_shared::role::Role;
use sluice_shared::task::{device_name, job_name, short_id};

use super::Picture;
use super::stall::Stall;
use super::status::{cut, position};
use crate::facts::job::JobEnd;
use crate::facts::pod::PodPhase;

/// The sentence.
pub(crate) fn sentence(
    picture: &Picture,
    phase: Phase,
    task: Option<&Task>,
    stalled: Option<&Stall>,
) -> String {
    let text = match phase {
        Phase::Finished => finished(picture),
        Phase::Releasing | Phase::Released => released(picture, task),
        Phase::Starting | Phase::Queued | Phase::Front => {
            withdrawn(picture).unwrap_or_else(|| waiting(picture, phase, task))
        }
    };
    let text = match stalled {
        None => text,
        // Before the release what is in the way is the whole story.
        Some(stall) if phase == Phase::Starting => stall.sentence.clone(),
        Some(stall) => format!("{text}; {}", stall.sentence),
    };
    cut(&text, 1024)
}

fn finished(picture: &Picture) -> String {
    match picture.job.map(|j| j.end) {
        Some(Some(JobEnd::Complete)) => "the Job has completed",
        Some(Some(JobEnd::Failed)) => "the Job has failed",
        Some(None) => "the Job is being deleted",
        None => "the pod has ended",
    }
    .to_owned()
}

fn released(picture: &Picture, task: Option<&Task>) -> String {
    let crew = picture.crew;
    let Some(order) = picture.order else { return String::new() };
    let whom = match (order.task_id.as_str(), order.reason) {
        ("", OrderReason::ProducerFailed) => {
            "without a task: the producer failed for good".to_owned()
        }
        ("", OrderReason::Person) => "without a task, by a person's order".to_owned(),
        ("", _) => "without a task".to_owned(),
        (id, OrderReason::ProducerSucceeded) => {
            format!("for {}: the producer has ended", short_id(id))
        }
        (id, _) => format!("for {}", short_id(id)),
    };
    let missing = match crew.missing {
        0 => String::new(),
        missing => format!("; {missing} not created yet"),
    };
    // After an early release people want to see that the task still waits.
    let early = task
        .filter(|t| t.task_state().is_waiting() && !t.front)
        .map_or_else(String::new, |t| format!("; the task is still {}", t.state));
    format!("{}/{} consumers released {whom}{missing}{early}", crew.released, crew.total())
}

fn withdrawn(picture: &Picture) -> Option<String> {
    let order = picture.order.filter(|o| o.withdrawn)?;
    Some(format!(
        "the order for {} was withdrawn, as the task gives no result; {} consumers wait for \
         another task",
        short_id(&order.task_id),
        picture.crew.gated,
    ))
}

fn waiting(picture: &Picture, phase: Phase, task: Option<&Task>) -> String {
    let Some(task) = task.filter(|_| phase != Phase::Starting) else { return starting(picture) };
    let read = task
        .observed_at
        .as_ref()
        .map(|t| format!(", read {}", t.0.strftime("%H:%M")))
        .unwrap_or_default();
    let on = if task.device.is_empty() {
        String::new()
    } else {
        format!(" on {}", device_name(&task.device))
    };
    let of = task.job.as_deref().map(|job| format!(" of hybrid job {}", job_name(job)));
    let id = format!("{}{}", short_id(&task.id), of.unwrap_or_default());
    if phase == Phase::Queued {
        let place = position(task).unwrap_or_else(|| "not told".to_owned());
        // The device rests, or priority tasks are ahead.
        let held = task.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        return format!("waits for {id}{on}, position {place}{read}{held}");
    }
    let state = if task.task_state().is_waiting() { "next".to_owned() } else { task.state.clone() };
    if picture.alone() {
        return format!("{id} is {state}{on}{read}");
    }
    format!("{id} is {state}{on}{read}; release policy {} is not met yet", picture.gang.spec.policy)
}

fn starting(picture: &Picture) -> String {
    if picture.job.is_some_and(|j| j.suspended) {
        return "the Job is suspended".to_owned();
    }
    let who = if picture.crew.producers.iter().any(|p| p.role == Role::Single) {
        "pod"
    } else {
        "producer pod"
    };
    let Some(recorded) = picture.producer() else {
        return format!("waits for the {who} to be created");
    };
    let running = picture
        .crew
        .producers
        .iter()
        .any(|p| p.place.uid == recorded.uid && p.phase == PodPhase::Running);
    if running {
        "waits for the program to submit a task".to_owned()
    } else {
        format!("waits for the {who} {} to start", recorded.pod)
    }
}

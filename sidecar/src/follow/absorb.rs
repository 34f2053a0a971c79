//! What was seen, taken into what is known. PURE.

use std::time::Duration;

use jiff::Timestamp;
use sluice_dialect::abilities;
use sluice_shared::gang::{OrderReason, VendorStatus};
use sluice_shared::role::Role;
use sluice_shared::task::{TaskState, device_name};

use super::followed::Followed;
use super::resume;
use super::state::{Device, DeviceId, GangSeen, Seen, State, Step, Told, say};
use super::timing::{Doing, Now, after, back_off, elapsed, read_interval, seen_from};
use super::{passing, report, series};
use crate::ending::Fate;
use crate::vendor::{DeviceReading, Failure, FailureKind, Reading};

/// A device that may not be read is asked for again after this time: rights may be given.
const UNREADABLE_AGAIN: Duration = Duration::from_mins(5);
/// That the vendor throttles the account is told again after this time.
const THROTTLED_AGAIN: Duration = Duration::from_hours(1);

/// Takes in one thing that was seen.
pub(super) fn absorb(state: &mut State, seen: Seen, now: Now, steps: &mut Vec<Step>) {
    match seen {
        Seen::Time => {}
        Seen::Asked(ask) => resume::ask(state, ask),
        Seen::Withdrawn { ticket } => resume::withdraw(state, ticket),
        Seen::WentOn { ticket } => resume::went_on(state, ticket, steps),
        Seen::Submitted(seen) => passing::submitted(state, seen, now, steps),
        Seen::Waits(seen) => passing::waits(state, seen, now),
        Seen::SessionOpened(session) => passing::session_opened(state, session, steps),
        Seen::SessionClosed(id) => {
            say(steps, false, format!("the program ended session {id}"));
            state.sessions.retain(|session| session.id != id);
        }
        Seen::SubmissionUnknown { token, place, error } => {
            resume::unanswered(state, token.as_deref(), &place, &error, steps);
        }
        Seen::Returned { token, id, unknown } => {
            resume::returned(state, token.as_deref(), &id, unknown, steps);
        }
        Seen::SubmissionRefused { message, token, void } => {
            resume::refused(state, token.as_deref(), void);
            say(steps, true, format!("a submission was refused: {message}"));
            state.refused = Some(message);
        }
        Seen::Polled(reading, at) => passing::polled(state, reading, at, now),
        Seen::Announced { id, resource } => {
            if state.task(&id).is_none() {
                say(steps, false, format!("{} was announced", report::name(&id)));
            }
            // The program says that it is its own.
            let incarnation = state.rules.incarnation.clone();
            let task = find(state, &id, now.at, Duration::ZERO);
            task.reading.resource = task.reading.resource.take().or(resource);
            task.incarnation.get_or_insert(incarnation);
        }
        Seen::ReleaseAsked { id } => {
            if state.asked_for.as_ref() != Some(&id) {
                let name = report::name(&id);
                say(steps, false, format!("the program asks to open the gates for {name}"));
            }
            state.asked_for = Some(id);
        }
        Seen::Read(id, asked_at, outcome) => {
            let deciding = state.deciding();
            let Some(task) = state.tasks.iter_mut().find(|t| t.reading.id == id) else { return };
            task.asked_at = None;
            match outcome {
                Ok(reading) => {
                    let regained = regained(task, now.at);
                    if let Some((text, _)) = &regained {
                        say(steps, false, text.clone());
                    }
                    if regained.is_some_and(|(_, of_the_tap)| of_the_tap) {
                        state.tap_problem = None;
                    }
                    learn(task, reading, asked_at, now, Some(deciding));
                }
                Err(failure) => fail(task, failure, now, &mut state.told, steps),
            }
        }
        Seen::DeviceRead(device, outcome) => device_read(state, device, outcome, now, steps),
        Seen::Gang(gang) => gang_seen(state, gang, now, steps),
        Seen::GangType(stays) => {
            if let Fate::Gone { type_stays, .. } = &mut state.fate {
                *type_stays = Some(stays);
            }
        }
        Seen::TapProblem(problem) => state.tap_problem = problem,
    }
}

/// What to say of a task that can be read again after there were no credentials to read it with,
/// and whether the tap, which signs with the same, had none either.
fn regained(task: &Followed, at: Timestamp) -> Option<(String, bool)> {
    use FailureKind::{Denied, Expired, NoCredentials};
    let (since, failure) = task.failing.as_ref()?;
    let is_ours = matches!(failure.kind, Expired | NoCredentials | Denied);
    let minutes = elapsed(*since, at).as_secs() / 60;
    let name = report::name(&task.reading.id);
    let text = format!("the credentials hold again: {name} can be read, after {minutes} min");
    is_ours.then_some((text, failure.kind != Denied))
}

/// The task with this id, followed from now on if it was not known.
pub(super) fn find<'a>(
    state: &'a mut State,
    id: &str,
    at: Timestamp,
    wait: Duration,
) -> &'a mut Followed {
    let index = state.tasks.iter().position(|t| t.reading.id == id).unwrap_or_else(|| {
        state.tasks.push(Followed::found(id.to_owned(), at, after(at, wait)));
        state.tasks.len() - 1
    });
    &mut state.tasks[index]
}

/// Takes in what was true of a task at `at`. If that is not enough for the next look to be planned
/// from the `deciding` place, the place that is known stays, and our own look stays due.
pub(super) fn learn(
    task: &mut Followed,
    reading: Reading,
    at: Timestamp,
    now: Now,
    deciding: Option<u32>,
) {
    let stale = task.observed_at.is_some_and(|known| at < known);
    if stale || task.reading.state.is_final() {
        return;
    }
    let submitted_at = reading.submitted_at.or(task.reading.submitted_at);
    let device = reading.device.clone().or_else(|| task.reading.device.take());
    let shots = reading.shots.or(task.reading.shots);
    let job = reading.job.clone().or_else(|| task.reading.job.take());
    let resource = reading.resource.clone().or_else(|| task.reading.resource.take());
    let session = reading.session.clone().or_else(|| task.reading.session.take());
    let mut reading = Reading { device, submitted_at, shots, job, resource, session, ..reading };
    if deciding.is_none() && task.reading.state == reading.state {
        reading.position = task.reading.position.take();
        reading.priority = task.reading.priority;
    }
    task.reading = reading;
    task.observed_at = Some(at);
    let Some(deciding) = deciding else { return };
    task.unseen = false;
    task.failures = 0;
    task.failing = None;
    let polled_ago = task.polled_at.map(|polled| elapsed(polled, now.at));
    let doing = if task.reading.state == TaskState::Running {
        let since = *task.running_since.get_or_insert(now.at);
        Doing::Runs(elapsed(since, now.at))
    } else {
        let waited = elapsed(task.waits_since(), now.at);
        Doing::Waits(seen_from(deciding, task.position()), waited)
    };
    let interval = read_interval(doing, polled_ago, now.luck, now.stretch.tasks);
    // From now, not from `at`: a slow answer must not be followed by an immediate question.
    task.due = after(now.at, interval);
}

fn fail(task: &mut Followed, failure: Failure, now: Now, told: &mut Told, steps: &mut Vec<Step>) {
    task.failures = task.failures.saturating_add(1);
    let pause = back_off(&failure, task.failures, now.luck);
    task.due = after(now.at, pause);
    let known = task.failing.as_ref().map(|(_, known)| known.kind);
    if known == Some(failure.kind) {
        return;
    }
    match failure.kind {
        // A task that was submitted a moment ago may be unknown for a while: nothing to tell.
        FailureKind::NotFound => {}
        // It comes and goes in a busy account.
        FailureKind::Throttled => {
            if told.throttled.is_none_or(|at| elapsed(at, now.at) >= THROTTLED_AGAIN) {
                told.throttled = Some(now.at);
                let text = format!(
                    "the vendor throttles this account ({}); it is asked less often for a while, \
                     so changes are noticed later",
                    failure.message
                );
                say(steps, true, text);
            }
        }
        _ => {
            let name = report::name(&task.reading.id);
            let text = format!("{name} could not be read: {}; trying again", failure.message);
            say(steps, true, text);
        }
    }
    let since = task.failing.as_ref().map_or(now.at, |(since, _)| *since);
    task.failing = Some((since, failure));
}

fn device_read(
    state: &mut State,
    id: DeviceId,
    outcome: Result<DeviceReading, Failure>,
    now: Now,
    steps: &mut Vec<Step>,
) {
    let (name, at_braket) = (device_name(&id.name), id.resource.is_none());
    let tells_place = abilities(id.resource.as_ref()).position;
    let device = state.devices.entry(id).or_default();
    device.asked_at = None;
    device.not_before = None;
    match outcome {
        Ok(reading) => {
            *device = Device {
                reading: Some(reading),
                read_at: Some(now.at),
                luck: now.luck,
                stretch: now.stretch.devices,
                ..Device::default()
            };
        }
        Err(failure) => {
            device.failures = device.failures.saturating_add(1);
            let pause = back_off(&failure, device.failures, now.luck);
            device.not_before = Some(after(now.at, pause));
            if matches!(failure.kind, FailureKind::Denied | FailureKind::NotFound) {
                device.unreadable = true;
                device.read_at = Some(now.at);
                device.luck = now.luck;
                device.not_before = Some(after(now.at, UNREADABLE_AGAIN.max(pause)));
                // Where no place is told, the device is a hint and decides nothing.
                if tells_place && !state.told.position_alone {
                    state.told.position_alone = true;
                    let right = if at_braket { "allow braket:GetDevice" } else { "allow it" };
                    let text = format!(
                        "{name} cannot be read ({}): position 1 alone counts as the front; {right} \
                         to have its status judged too",
                        failure.message
                    );
                    say(steps, true, text);
                }
            }
        }
    }
}

fn gang_seen(state: &mut State, gang: Option<GangSeen>, now: Now, steps: &mut Vec<Step>) {
    let Some(gang) = gang else {
        if state.fate == Fate::Lives {
            state.fate = Fate::Gone { at: now.at, type_stays: None };
        }
        if state.gang.take().is_some() {
            let name = &state.rules.gang;
            say(steps, true, format!("gang {name} is gone; its status is kept until it is back"));
        }
        return;
    };
    state.fate = Fate::Lives;
    let first = state.gang.as_deref() != Some(gang.uid.as_str());
    let open = gang.is_open();
    let GangSeen { uid, vendor, consumers, by, producer, .. } = gang;
    resume::gang_read(state, producer.as_ref(), vendor.as_ref(), steps);
    let held = vendor.as_ref().and_then(|v| v.order.as_ref()).map(|o| o.task_id.clone());
    if first {
        state.gang = Some(uid);
        state.told.no_gang = true;
        take_up(state, vendor.as_ref(), now, steps);
        state.written = VendorStatus { series: Vec::new(), ..vendor.unwrap_or_default() };
    } else if let Some(vendor) = &vendor {
        // A write of a worker that has just been killed can arrive after our first look.
        adopt(state, vendor, now);
    }
    state.recorded = held;
    state.consumers = consumers;
    if open && !state.open && state.rules.role == Role::Producer {
        let text = opened(state, by, now.at);
        say(steps, false, text);
    }
    if open {
        state.open = true;
    }
}

/// Takes over what an earlier worker wrote.
fn take_up(state: &mut State, vendor: Option<&VendorStatus>, now: Now, steps: &mut Vec<Step>) {
    let Some(vendor) = vendor else { return };
    let known = adopt(state, vendor, now);
    series::take_up(state, &vendor.series);
    if let Some(folded) = vendor.folded {
        state.folded.completed = state.folded.completed.max(folded.completed);
        state.folded.unsuccessful = state.folded.unsuccessful.max(folded.unsuccessful);
        state.folded.cost = state.folded.cost.max(folded.cost);
    }
    if state.order.is_none() {
        state.order.clone_from(&vendor.order);
    }
    if known > 0 {
        say(steps, false, format!("took over {known} task(s) of an earlier run of the sidecar"));
    }
}

/// Puts tasks of the gang's status that are not known before the known ones, and says how many.
fn adopt(state: &mut State, vendor: &VendorStatus, now: Now) -> usize {
    let mut earlier = Vec::new();
    for task in &vendor.tasks {
        if state.gone.iter().any(|gone| gone.id == task.id) {
            continue;
        }
        if let Some(known) = state.tasks.iter_mut().find(|t| t.reading.id == task.id) {
            // The tap saw it first; what only the submission told is taken over.
            known.digest = known.digest.take().or_else(|| task.digest.clone());
            known.client_token = known.client_token.take().or_else(|| task.client_token.clone());
            known.incarnation = known.incarnation.take().or_else(|| task.incarnation.clone());
            known.resumed |= task.resumed;
            known.run_asked_at = known.run_asked_at.or(task.asked_at.as_ref().map(|t| t.0));
            let submitted_at = task.submitted_at.as_ref().map(|t| t.0);
            known.reading.submitted_at = known.reading.submitted_at.or(submitted_at);
            continue;
        }
        let mut found = Followed::found(task.id.clone(), now.at, now.at);
        found.reading = Reading {
            id: task.id.clone(),
            device: Some(task.device.clone()).filter(|d| !d.is_empty()),
            state: task.task_state(),
            position: task.position.clone(),
            priority: false,
            reason: task.reason.clone().filter(|_| task.task_state().is_unsuccessful()),
            submitted_at: task.submitted_at.as_ref().map(|t| t.0),
            shots: task.shots,
            job: task.job.clone(),
            resource: task.resource.clone(),
            session: task.session.clone(),
        };
        found.unseen = true;
        found.observed_at = task.observed_at.as_ref().map(|t| t.0);
        // Only a submission tells the shots, and an earlier worker has told of that.
        found.price_told = task.shots.is_some();
        if found.reading.state.is_final() {
            // It was told when it happened.
            found.said = report::describe(&found);
        }
        found.digest.clone_from(&task.digest);
        found.client_token.clone_from(&task.client_token);
        found.incarnation.clone_from(&task.incarnation);
        found.resumed = task.resumed;
        found.run_asked_at = task.asked_at.as_ref().map(|t| t.0);
        earlier.push(found);
    }
    let count = earlier.len();
    state.tasks.splice(0..0, earlier);
    count
}

fn opened(state: &State, by: Option<OrderReason>, at: Timestamp) -> String {
    let expected = state.consumers.map_or(0, |c| c.expected);
    let gates = format!("gates open: {expected}/{expected}");
    match (&state.order, by) {
        (Some(order), None | Some(OrderReason::PolicyMet)) if state.ordered_here => {
            format!("{gates} in {} ms", elapsed(order.at.0, at).as_millis())
        }
        (_, Some(OrderReason::Person)) => format!("{gates}, by order of a person"),
        (_, Some(OrderReason::ProducerSucceeded | OrderReason::ProducerFailed)) => {
            format!("{gates}, because the producer ended")
        }
        _ => gates,
    }
}

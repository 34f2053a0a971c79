//! What is due: our own looks at tasks and devices. PURE.

use jiff::Timestamp;
use sluice_shared::task::{Position, TaskState};
use std::time::Duration;

use super::resume;
use super::state::{Device, DeviceId, PATIENCE, SILENT, State, Step};
use super::timing::{DEVICE_SPREAD, Now, after, device_interval, elapsed, is_near, seen_from};

/// A look that was asked for this long ago is lost: each call has a shorter time-out of its own.
const LOST: Duration = Duration::from_mins(1);

/// When [`decide`](super::decide::decide) should be asked again although nothing was seen.
#[must_use]
pub fn next_due(state: &State) -> Option<Timestamp> {
    let tasks = state
        .tasks
        .iter()
        .filter(|t| !t.reading.state.is_final())
        .map(|t| t.asked_at.map_or(t.due, |asked| after(asked, LOST).max(t.due)));
    let devices = waiting_devices(state).into_iter().map(|Waiting { device, position, .. }| {
        device_due(state.devices.get(&device), position).unwrap_or(state.started_at)
    });
    let order = state.order.as_ref().filter(|_| !state.open && !state.told.slow);
    let reminders = [
        (state.tasks.is_empty() && !state.told.silent).then(|| after(state.started_at, SILENT)),
        (state.gang.is_none() && !state.told.no_gang).then(|| after(state.started_at, PATIENCE)),
        order.map(|order| after(order.at.0, PATIENCE)),
    ];
    let submissions = resume::due(state);
    tasks.chain(devices).chain(submissions).chain(reminders.into_iter().flatten()).min()
}

/// Asks for what is due.
pub(super) fn plan(state: &mut State, now: Now, steps: &mut Vec<Step>) {
    for task in &mut state.tasks {
        if task.reading.state.is_final() {
            continue;
        }
        let lost = task.asked_at.is_some_and(|asked| elapsed(asked, now.at) >= LOST);
        if task.due <= now.at && (task.asked_at.is_none() || lost) {
            task.asked_at = Some(now.at);
            let resource = task.reading.resource.clone();
            steps.push(Step::Read { id: task.reading.id.clone(), resource });
        }
    }
    for Waiting { device: id, task, position } in waiting_devices(state) {
        let first_look = || after(now.at, DEVICE_SPREAD.mul_f64(now.luck.clamp(0.0, 1.0)));
        let device = state.devices.entry(id.clone()).or_default();
        device.first_look.get_or_insert_with(first_look);
        let due = device_due(Some(device), position);
        if due.is_none_or(|due| due <= now.at) {
            device.asked_at = Some(now.at);
            steps.push(Step::ReadDevice { device: id, task });
        }
    }
}

/// A device that queued tasks wait for.
struct Waiting {
    device: DeviceId,
    /// One of the tasks.
    task: String,
    /// The best position.
    position: Position,
}

/// Devices that queued tasks wait for.
fn waiting_devices(state: &State) -> Vec<Waiting> {
    let mut devices: Vec<Waiting> = Vec::new();
    let deciding = state.deciding();
    let queued = state.tasks.iter().filter(|t| t.reading.state == TaskState::Queued);
    for task in queued {
        let Some(device) = task.device() else { continue };
        let position = seen_from(deciding, task.position());
        match devices.iter_mut().find(|waiting| waiting.device == device) {
            Some(Waiting { position: best, .. }) => {
                if let (Position::At(place), Position::At(known)) = (position, *best) {
                    *best = Position::At(place.min(known));
                } else if matches!(position, Position::At(_)) {
                    *best = position;
                }
            }
            None => devices.push(Waiting { device, task: task.reading.id.clone(), position }),
        }
    }
    devices
}

/// When a device should be looked at; `None` for at once.
fn device_due(device: Option<&Device>, position: Position) -> Option<Timestamp> {
    let device = device?;
    if let Some(asked) = device.asked_at {
        return Some(after(asked, LOST));
    }
    // After a failure the back-off alone counts.
    if device.not_before.is_some() {
        return device.not_before;
    }
    match device.read_at {
        Some(read) => Some(after(read, device_interval(position, device.luck, device.stretch))),
        None if is_near(position) => None,
        None => device.first_look,
    }
}

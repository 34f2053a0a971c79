//! What passed the tap, taken into what is known. PURE.

use std::time::Duration;

use jiff::Timestamp;
use sluice_dialect::{Waits, abilities};
use sluice_shared::policy::Mismatch;
use sluice_shared::resource::Resource;
use sluice_shared::role::Role;
use sluice_shared::task::{TaskState, device_name};

use super::absorb::{find, learn};
use super::resume::incarnation;
use super::state::{Session, State, Step, say};
use super::timing::{FIRST_READ, Now, after};
use super::{cost, report};
use crate::vendor::Reading;

/// A task that the vendor has not taken yet is looked at only if the program is silent for so long.
const DOOR: Duration = Duration::from_hours(1);
/// Sessions that are remembered.
const MOST_SESSIONS: usize = 64;

/// A submission that the vendor took.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// The vendor's id.
    pub id: String,
    /// Device of the submission.
    pub device: Option<String>,
    /// Number of shots.
    pub shots: Option<u64>,
    /// Digest of the submission, hex.
    pub digest: Option<String>,
    /// The client token under which it was sent.
    pub client_token: Option<String>,
    /// The resource, where it is not Braket.
    pub resource: Option<Resource>,
}

/// A submission for which the vendor has no room yet.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The id that the client has chosen.
    pub id: String,
    /// Device of the submission.
    pub device: Option<String>,
    /// Why it waits.
    pub reason: String,
    /// Where.
    pub resource: Option<Resource>,
}

pub(super) fn submitted(state: &mut State, submitted: Submitted, now: Now, steps: &mut Vec<Step>) {
    let Submitted { id, device, shots, digest, client_token, resource } = submitted;
    state.refused = None;
    state.tap_problem = None;
    let intent = state.ledger.settle(client_token.as_deref());
    let asked_at = intent.as_ref().map(|intent| intent.at.0);
    // The token of a later run that waits for this very answer.
    let heir = intent.as_ref().and_then(|intent| intent.asked_as.clone());
    // The run that asked, even if another one has begun since.
    let incarnation = intent.map_or_else(
        || incarnation(&state.rules.incarnation, state.ledger.producer.as_ref()),
        |intent| intent.incarnation,
    );
    if state.open && state.rules.role == Role::Producer && state.task(&id).is_none() {
        let name = report::name(&id);
        say(
            steps,
            true,
            format!("{name} was submitted after the release: consumers may idle again"),
        );
    }
    let task = find(state, &id, now.at, FIRST_READ);
    if abilities(resource.as_ref()).waits == Waits::AtTheDoor && task.reading.state.is_waiting() {
        // The vendor's queue is before its door: what it takes runs.
        task.reading.state = TaskState::Running;
        task.reading.reason = None;
        task.unseen = false;
        task.observed_at = Some(now.at);
        task.due = after(now.at, FIRST_READ);
    }
    task.reading.resource = task.reading.resource.take().or(resource);
    task.reading.device = task.reading.device.take().or(device);
    task.reading.shots = task.reading.shots.or(shots);
    task.reading.submitted_at.get_or_insert(now.at);
    task.digest = task.digest.take().or(digest);
    task.resumed |= heir.is_some();
    task.client_token = heir.or(task.client_token.take()).or(client_token);
    task.incarnation.get_or_insert(incarnation);
    task.run_asked_at = task.run_asked_at.or(asked_at);
    if !std::mem::replace(&mut task.price_told, true) {
        priced(state, &id, steps);
    }
}

pub(super) fn waits(state: &mut State, waiting: Waiting, now: Now) {
    let Waiting { id, device, reason, resource } = waiting;
    state.refused = None;
    state.tap_problem = None;
    let run = incarnation(&state.rules.incarnation, state.ledger.producer.as_ref());
    let task = find(state, &id, now.at, DOOR);
    task.incarnation.get_or_insert(run);
    task.reading.resource = task.reading.resource.take().or(resource);
    task.reading.device = task.reading.device.take().or(device);
    task.reading.state = TaskState::Queued;
    task.reading.reason = Some(reason);
    task.observed_at = Some(now.at);
    task.polled_at = Some(now.at);
    // The vendor does not know it before it takes it.
    task.due = after(now.at, DOOR);
    task.failing = None;
}

pub(super) fn session_opened(state: &mut State, session: Session, steps: &mut Vec<Step>) {
    let Session { id, place } = &session;
    let text = format!(
        "the program opened session {id} at {place}: its jobs go before others while it is \
         active; it may cost as long as it is open"
    );
    say(steps, false, text);
    if state.sessions.len() < MOST_SESSIONS {
        state.sessions.push(session);
    }
}

pub(super) fn polled(state: &mut State, reading: Reading, at: Timestamp, now: Now) {
    // Requests get through.
    state.tap_problem = None;
    let deciding = state.deciding();
    let task = find(state, &reading.id, now.at, FIRST_READ);
    if task.reading.resource.is_none() {
        task.reading.resource.clone_from(&reading.resource);
    }
    let of_session = reading.state == TaskState::Cancelled && reading.session.is_some();
    if of_session && reading.reason.is_none() && !task.reading.state.is_final() {
        // Our own look asks the session, too, whether it took the job with it.
        task.due = now.at;
        return;
    }
    // A program that does not ask for the place tells only the state.
    let enough = reading.state != TaskState::Queued
        || reading.position.is_some()
        || !abilities(reading.resource.as_ref()).position;
    if enough {
        task.polled_at = Some(at);
    }
    learn(task, reading, at, now, enough.then_some(deciding));
}

/// Tells what a task that has just been submitted costs, and whether it is where it should be.
fn priced(state: &State, id: &str, steps: &mut Vec<Step>) {
    let Some(task) = state.task(id) else { return };
    let name = report::name(id);
    if let Some(text) = cost::told(state, task) {
        say(steps, false, format!("{name}: {text}"));
    }
    let backend = state.rules.backend.as_deref();
    if let (Some(device), Some(backend)) = (task.reading.device.as_deref(), backend)
        && Mismatch::is_elsewhere(device, backend)
    {
        let device = device_name(device);
        say(steps, true, format!("{name} is on {device}, but the chosen backend is {backend}"));
    }
}

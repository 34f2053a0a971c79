//! The decision of the follower: what was seen changes what is known, and that says what to do.
//! PURE: no IO, no clock, no chance of its own.
//!
//! Guarantees, held by the property tests beside it:
//! * an order is given at most once for a task, and only when the policy is met by what was read;
//! * nothing is written before the gang was read, so an earlier worker's tasks and order live on;
//! * what an earlier worker read of a task that lives orders nothing, until it is seen again;
//! * a state that is final stays so; what was seen later is never replaced by an older look;
//! * something is always planned while a task is live.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use sluice_dialect::{Running, abilities};
use sluice_shared::gang::{MAX_TASKS, Order, VendorStatus};
use sluice_shared::policy::{ReleasePolicy, met};
use sluice_shared::price::Estimate;
use sluice_shared::role::Role;
use sluice_shared::task::TaskState;

use super::absorb::absorb;
use super::followed::Followed;
use super::plan::plan;
use super::resume;
use super::state::{Device, PATIENCE, SILENT, Seen, State, Step, say};
use super::timing::{DEVICE_FRESH, Now, elapsed};
use super::{cost, report, series};
use crate::vendor::front::{DeviceSeen, Front};

/// Tasks that are remembered for the policy after they left the list.
const MOST_GONE: usize = 10_000;

/// Takes in one thing that was seen and says what to do.
#[must_use]
pub fn decide(mut state: State, seen: Seen, now: Now) -> (State, Vec<Step>) {
    let mut steps = Vec::new();
    absorb(&mut state, seen, now, &mut steps);
    resume::answer(&mut state, now, &mut steps);
    judge(&mut state, now, &mut steps);
    series::take_down(&mut state, now.at);
    fold(&mut state);
    plan(&mut state, now, &mut steps);
    remind(&mut state, now, &mut steps);
    let wanted = report::vendor_status(&state, now.at);
    let changed = report::visible(&wanted) != report::visible(&state.written);
    let overdue = state.series_news && elapsed(state.written_at, now.at) >= series::WRITTEN_WITHIN;
    if state.gang.is_some() && (changed || overdue) {
        state.written = wanted.clone();
        state.written_at = now.at;
        state.series_news = false;
        let series = state.series.clone();
        steps.push(Step::Write(Box::new(VendorStatus { series, ..wanted })));
    }
    (state, steps)
}

/// Judges places and policy anew, says what changed, and gives the order.
fn judge(state: &mut State, now: Now, steps: &mut Vec<Step>) {
    let waits = state.rules.role == Role::Producer && state.order.is_none();
    let deciding = state.deciding();
    for task in &mut state.tasks {
        let device = task.device().and_then(|device| state.devices.get(&device));
        task.view = Front::of(&task.reading, device_seen(device, now.at), deciding, now.at);
        task.counts = state.rules.counts(task.reading.device.as_deref());
        let text = report::describe(task);
        // Of an announced task nothing is known before the first look.
        let looked_at = task.observed_at.is_some() || task.reading.device.is_some();
        if text == task.said || !looked_at {
            continue;
        }
        let bad = task.reading.state.is_unsuccessful();
        let name = report::name(&task.reading.id);
        let tail = if bad && task.counts && waits {
            "; nothing is released, another submission is awaited"
        } else {
            ""
        };
        say(steps, bad, format!("{name} {text}{tail}"));
        task.said = text;
    }
    place_untold(state, steps);
    if state.gang.is_none() || state.rules.role != Role::Producer || state.order_stands() {
        return;
    }
    let Some((id, how)) = ready(state) else { return };
    let (name, policy) = (report::name(&id), state.rules.policy);
    let resource = state.task(&id).and_then(|task| task.reading.resource.as_ref());
    let why = match (policy, how.as_str(), abilities(resource).running) {
        (ReleasePolicy::Manual, ..) => "the program asked",
        (_, "running", Running::Served) => "running, though the QPU may come to it later",
        (_, how, _) => how,
    };
    say(steps, false, format!("release ordered for {name}: {why}; the policy is {policy}"));
    state.order = Some(Order { reason: how, task_id: id, at: MicroTime(now.at) });
    state.ordered_here = true;
    state.open = false;
    state.told.slow = false;
}

/// Says once that the policy asks for a place which the vendor does not tell.
fn place_untold(state: &mut State, steps: &mut Vec<Step>) {
    let ReleasePolicy::Position(_) = state.rules.policy else { return };
    let silent = |t: &&Followed| t.counts && !abilities(t.reading.resource.as_ref()).position;
    let Some(task) = state.tasks.iter().find(silent).filter(|_| !state.told.no_position) else {
        return;
    };
    let (name, policy) = (report::name(&task.reading.id), state.rules.policy);
    let text = format!(
        "the policy is {policy}, but the vendor of {name} tells no position: the gates open when \
         it runs"
    );
    state.told.no_position = true;
    say(steps, true, text);
}

/// The task that the release is ordered for, and how it satisfies the policy, if the policy is met.
fn ready(state: &State) -> Option<(String, String)> {
    if state.rules.policy == ReleasePolicy::Manual {
        let id = state.asked_for.as_ref()?;
        // Asked for, and failed since: the program has to ask again for another one.
        let failed = state.state_of(id).is_some_and(TaskState::is_unsuccessful);
        return (!failed).then(|| (id.clone(), state.rules.policy.to_string()));
    }
    let seen: Vec<_> =
        state.gone.iter().cloned().chain(state.tasks.iter().map(Followed::judged)).collect();
    let id = met(state.rules.policy, state.rules.needed, &seen)?.into_iter().next()?;
    let task = seen.iter().find(|t| t.id == id)?;
    let how = match (&task.state, task.place) {
        (TaskState::Completed, _) => "completed".to_owned(),
        (TaskState::Running, _) => "running".to_owned(),
        (_, Some(place)) if !task.front => format!("position {place}"),
        _ => "front".to_owned(),
    };
    Some((id, how))
}

fn device_seen(device: Option<&Device>, at: Timestamp) -> DeviceSeen<'_> {
    let Some(device) = device else { return DeviceSeen::Unknown };
    if device.unreadable {
        return DeviceSeen::Unreadable;
    }
    match (&device.reading, device.read_at) {
        (Some(reading), Some(read_at)) if elapsed(read_at, at) <= DEVICE_FRESH => {
            DeviceSeen::Read(reading)
        }
        _ => DeviceSeen::Unknown,
    }
}

/// Keeps the list within the limit: the oldest final tasks leave it, never the order's.
fn fold(state: &mut State) {
    while state.tasks.len() > MAX_TASKS {
        let ordered = state.order.as_ref().map(|o| o.task_id.as_str());
        let Some(oldest) = state
            .tasks
            .iter()
            .position(|t| t.reading.state.is_final() && Some(t.reading.id.as_str()) != ordered)
        else {
            return;
        };
        let task = state.tasks.remove(oldest);
        if let Estimate::Fixed(price) = cost::of_task(&task) {
            state.folded.cost = state.folded.cost + price;
        }
        if task.reading.state == TaskState::Completed {
            state.folded.completed += 1;
        } else {
            state.folded.unsuccessful += 1;
        }
        if state.gone.len() < MOST_GONE {
            state.gone.push(task.judged());
        }
    }
}

/// Things that are said once when they last too long.
fn remind(state: &mut State, now: Now, steps: &mut Vec<Step>) {
    let running = elapsed(state.started_at, now.at);
    if state.tasks.is_empty() && !state.told.silent && running >= SILENT {
        state.told.silent = true;
        let url = &state.rules.announce_url;
        say(
            steps,
            true,
            format!(
                "no submission was seen for {} minutes; if the program bypasses the endpoint \
                 variables, let it tell its task: curl -X POST {url}/v1/tasks -H \
                 'content-type: application/json' -d '{{\"id\": \"<task ARN>\"}}'",
                SILENT.as_secs() / 60
            ),
        );
        // What was said at the start, beside what it may have led to.
        for hint in &state.rules.hints {
            say(steps, true, hint.clone());
        }
    }
    if state.gang.is_none() && !state.told.no_gang && running >= PATIENCE {
        state.told.no_gang = true;
        let gang = &state.rules.gang;
        say(
            steps,
            true,
            format!(
                "gang {gang} cannot be read or does not exist yet; the task is followed, but no \
                 gate can be opened; check that the keeper runs (it makes the gang and the \
                 RoleBinding)"
            ),
        );
    }
    let Some(order) = state.order.as_ref().filter(|_| !state.open && !state.told.slow) else {
        return;
    };
    if elapsed(order.at.0, now.at) < PATIENCE {
        return;
    }
    state.told.slow = true;
    let (gang, id) = (&state.rules.gang, &order.task_id);
    let shut = state.consumers.map_or_else(|| "all".to_owned(), |c| c.gated.to_string());
    let text = format!(
        "the release for {} was ordered {} s ago and {shut} gates are still shut; check that the \
         keeper runs and what kubectl describe qg says of {gang}",
        report::name(id),
        PATIENCE.as_secs()
    );
    say(steps, true, text);
}

#[cfg(test)]
#[path = "decide_play.rs"]
pub(super) mod play;

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "decide_looks.rs"]
mod looks;

#[cfg(test)]
#[path = "decide_gang.rs"]
mod gang;

#[cfg(test)]
#[path = "decide_places.rs"]
mod places;

#[cfg(test)]
#[path = "decide_policies.rs"]
mod policies;

#[cfg(test)]
#[path = "decide_costs.rs"]
mod costs;

#[cfg(test)]
#[path = "decide_keys.rs"]
mod keys;

#[cfg(test)]
#[path = "decide_laws.rs"]
mod laws;

#[cfg(test)]
#[path = "decide_resumed.rs"]
mod resumed;

//! What the tasks cost by list prices. PURE.

use sluice_shared::gang::Cost;
use sluice_shared::price::{AS_OF, Estimate, Usd, estimate};
use sluice_shared::task::device_name;

use super::followed::Followed;
use super::state::State;

/// What a task costs; nothing once it has ended without a result.
#[must_use]
pub fn of_task(followed: &Followed) -> Estimate {
    let reading = &followed.reading;
    if reading.state.is_unsuccessful() {
        return Estimate::Fixed(Usd::default());
    }
    reading.device.as_deref().map_or(Estimate::Unknown, |device| estimate(device, reading.shots))
}

/// The sum of the gang; `None` while it has no task.
#[must_use]
pub fn of_gang(state: &State) -> Option<Cost> {
    if state.tasks.is_empty() && state.folded.cost == Usd::default() {
        return None;
    }
    let (mut total, mut metered, mut unpriced) = (state.folded.cost, 0, 0);
    for task in &state.tasks {
        match of_task(task) {
            Estimate::Fixed(price) => total = total + price,
            Estimate::Minute(_) => metered += 1,
            Estimate::Unknown => unpriced += 1,
        }
    }
    let max = state.rules.max_cost;
    Some(Cost { total, max, metered, unpriced, prices: AS_OF.to_owned() })
}

/// What a new task costs, for the log: `1000 shots, 1.75 USD; 3.50 USD so far`. `None` where
/// nothing can be said.
#[must_use]
pub fn told(state: &State, task: &Followed) -> Option<String> {
    let price = match of_task(task) {
        Estimate::Fixed(price) => {
            let shots = task.reading.shots.unwrap_or_default();
            format!("{shots} shots, {price}")
        }
        Estimate::Minute(price) => format!("{price} a minute"),
        Estimate::Unknown => {
            let device = device_name(task.reading.device.as_deref()?);
            return Some(format!("no list price of {device} is known"));
        }
    };
    let cost = of_gang(state)?;
    let most = cost.max.map(|max| format!(" of at most {max}")).unwrap_or_default();
    Some(format!("{price} by list price; {} so far{most}", cost.total))
}

//! Amazon Braket: devices, tasks, their waiting lines, and the REST operations on them.

pub mod api;
pub mod change;
pub mod device;
pub mod job;
pub mod search;
pub mod task;
pub mod world;

use jiff::Timestamp;

/// Time as the vendor writes it.
#[must_use]
pub(crate) fn time_text(at: Timestamp) -> String {
    format!("{at:.3}")
}

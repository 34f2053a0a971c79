//! Following tasks: what is known, what to do next, and the loop that does it.

mod absorb;
pub mod cost;
pub mod decide;
pub mod followed;
pub mod manual;
pub mod passing;
pub mod plan;
pub mod report;
pub mod resume;
mod series;
pub mod state;
pub mod timing;
pub mod watch;

//! Tests on the real cluster.
//!
//! ```text
//!  World: the lab with Sluice in it, once ──▶ Stage: one namespace and one vendor, per story
//!                                              Draft: the Job a user would write
//! ```
//!
//! The stories themselves are in `tests/stories`. Each awaits what must come, with a limit; none
//! sleeps.

pub mod hosted;
pub mod job;
pub mod processes;
pub mod stage;
pub mod world;

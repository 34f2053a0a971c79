//! The contract of Sluice.
//!
//! ```text
//!            Job                    stamp (annotation)               role (label)
//!  user ──────────▶ webhook: jobs ───────────────────▶ webhook: pods ────────────▶ pods
//!                                                                                   │
//!   status.vendor: tasks, order                          index 0: producer/single   │ 1..: consumer
//!  QuantumGang ◀──────────────────── sidecar ◀──────────────────────────────────────┤ (gated)
//!      │                                                                            │
//!      └────────▶ keeper ── release_patch: gate off, task id on ────────────────────┘
//! ```
//!
//! Everything here is a value or a plain function of values: no IO, no async, no clock, no
//! environment. Webhook, sidecar and plugin use it and never each other.

pub mod gang;
pub mod gate;
pub mod names;
pub mod naming;
pub mod patch;
pub mod policy;
pub mod price;
#[cfg(feature = "process")]
pub mod process;
pub mod resource;
pub mod role;
pub mod series;
pub mod stamp;
pub mod task;

//! The admission webhook of Sluice, and the process that carries the keeper.
//!
//! ```text
//!  API server ──TLS──▶ http ──▶ admit ──┬─▶ job   decide once: the stamp
//!                                       └─▶ pod ──▶ shape: producer, single │ consumer
//!             ◀── patch, warnings or a refusal that says what to do
//! ```
//!
//! Admission is pure: the answer depends on the review, on the configuration and on whether the
//! cluster serves `PodGroups`. No API call, no clock, no randomness. `admit` and everything below
//! it are plain functions of values; `http`, `tls`, `served` and `app` are the shells around them.

pub mod admit;
pub mod app;
pub mod args;
pub mod ask;
pub mod config;
pub mod http;
pub mod job;
pub mod metrics;
pub mod pod;
pub mod quantum;
pub mod ready;
pub mod reason;
pub mod served;
pub mod shape;
pub mod tls;
pub mod warning;

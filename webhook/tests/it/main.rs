//! Tests of the webhook as a whole.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops")]

mod fixture;
mod golden;
mod laws;
mod manifests;
mod secrets;
mod server;

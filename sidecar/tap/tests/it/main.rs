//! The tap between real clients and the vendor emulator.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the lints know tests by their attribute, not what tests call"
)]

mod bench;
mod ending;
mod expiry;
mod holding;
mod intents;
mod limits;
mod packed;
mod polls;
mod principals;
mod programs;
mod reading;
mod resources;
mod secrets;
mod tls;

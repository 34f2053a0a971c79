//! The clients of the field through the tap, in one process with the vendor emulator.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod bench;
mod clients;
mod javascript;
mod peers;
mod program;
mod proxy;
mod resources;
mod seen;

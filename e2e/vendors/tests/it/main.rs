//! The emulator judged by the clients of the field: amazon-braket-sdk, boto3, the Rust SDK.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod calls;
mod control;
mod faults;
mod python;
mod rust_sdk;
mod sdk;
mod signatures;
mod worker;

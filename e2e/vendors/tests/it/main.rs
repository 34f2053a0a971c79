//! The emulator judged by the clients of the field: amazon-braket-sdk, boto3, the Rust SDK,
//! QRMI, and the own clients of Alice & Bob and of IBM.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod alice_bob;
mod caller;
mod calls;
mod control;
mod faults;
mod felis;
mod ibm_runtime;
mod ibm_service;
mod ibm_system;
mod iqm;
mod pasqal;
mod python;
mod qrmi;
mod rust_sdk;
mod sdk;
mod signatures;
mod worker;

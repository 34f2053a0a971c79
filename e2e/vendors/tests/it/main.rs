//! The emulator judged by the clients of the field: amazon-braket-sdk, boto3, the Rust SDK.

mod calls;
mod control;
mod faults;
mod python;
mod rust_sdk;
mod sdk;
mod signatures;
mod worker;

//! The local cluster: a whole, real Kubernetes on one machine, for tests, demo and experiments.
mod cache;
mod command;
mod error;
mod prerequisites;
mod programs;
mod progress;
mod python;
mod release;

pub use error::{Error, Result};
pub use prerequisites::Need;
pub use programs::{Programs, build};
pub use python::{PythonEnv, python_env};
pub use release::{Release, V1_36};

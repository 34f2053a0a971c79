//! IBM Quantum: what its services share, tokens of IBM Cloud and Qiskit's primitives, and each
//! service in a module of its own.

mod backend;
mod iam;
mod job;
mod primitive;
mod service;
mod session;
mod system;

pub(crate) use iam::error_body;
pub(crate) use service::Service;
pub(crate) use system::System;

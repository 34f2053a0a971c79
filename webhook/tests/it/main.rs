//! Tests of the webhook as a whole.

mod fixture;
mod golden;
mod laws;
mod manifests;
mod server;

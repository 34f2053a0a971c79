//! How a binary lives: its logs and its end. Only for the binaries (feature `process`).

pub mod shutdown;
pub mod telemetry;

//! `kubectl sluice`: a plugin of kubectl for people who use or run Sluice.
//!
//! ```text
//!  kubectl sluice series [GANG|JOB] [-n NS | -A] [-o text|csv|json]
//!      gangs of the API server ──▶ rows, one for each sample ──▶ table, JSON lines, picture
//! ```
//!
//! It uses the caller's own kubeconfig and rights, and reads only.

pub mod args;
pub mod cluster;
pub mod picture;
pub mod rows;

//! The sidecar of a producer or single pod: it finds the program's quantum task, follows its
//! place in the vendor's queue, and orders the release of the gang when the policy is met.
//!
//! ```text
//!  parent (PID 1): owns both loopback sockets and the signals, restarts the worker
//!    │
//!    └─ worker ── tap ────────┐ submissions, polls           ┌──▶ gang writer: status.vendor, order
//!                 control ────┤ announcements                │
//!                 own reads ──┼──▶ watch: observe ─▶ decide ─▶ act ──▶ vendor: own reads
//!                 gang watch ─┘                              └──▶ log, one line a change
//!
//!  a task:  found ─▶ waits ─▶ front ─▶ runs ─▶ has a result
//!                      │        └────────┴────────┴─ policy met ─▶ order ─▶ gates open (seen on the gang)
//!                      └─▶ failed or cancelled: no order, the next submission is awaited
//! ```
//!
//! When the pod is told to end while a task is live, the fate of the gang says whether the Job was
//! deleted; then the task is cancelled ([`ending`]).
//!
//! Everything that survives a restart is in the gang: a new worker reads `status.vendor` before
//! it writes there for the first time, and the program's own polls show it the rest.

pub mod app;
pub mod args;
pub mod control;
pub mod ending;
pub mod environment;
pub mod follow;
pub mod gang;
mod intake;
pub mod ledger;
pub mod parent;
pub mod ready;
pub mod till;
pub mod vendor;

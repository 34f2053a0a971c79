//! Serving certificates of the webhook.
//!
//! ```text
//!            now + renew_before >= not_after        overlap passed           overlap passed
//!  steady ───────────────────────────────▶ staged ────────────────▶ switched ─────────────▶ steady
//!  trust: current            trust: current, next    trust: previous, current    trust: current
//!  serve: current            serve: current          serve: current (was next)   serve: current
//! ```
//!
//! Clients trust the next certificate long before anybody serves it, and the previous one as long
//! as anybody may still serve it. So no handshake fails, however slowly replicas follow.
//!
//! Everything here is a plain function of values and of `now`. Storing and publishing is the
//! caller's.

mod issue;
pub mod rotation;

pub use issue::{IssueError, Issued, ReadError, issue, not_after};

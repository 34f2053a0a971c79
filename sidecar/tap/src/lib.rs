//! The Braket tap: the program's requests pass through here on their way to the vendor.
//!
//! ```text
//!  program ── SDK, loopback ──▶ operation? ─▶ whole body ─▶ whose signature? ─▶ sign again ─▶ vendor
//!     ▲                          (table)      (budget)      (own key, checked)      │  ▲
//!     │                                                                             │  └ held and
//!     └────── unchanged answer ◀── polls shared ◀── read: ARN, state, place ◀───────┘    repeated
//!                                                            │
//!                                                            └─▶ TapEvent ─▶ sidecar
//! ```
//!
//! What holds:
//! * Only requests of the sidecar's own principal go on: its signature is computed again. Where
//!   program and sidecar each got session keys of one role it cannot be, and session keys of the
//!   same account pass. Path, query and body go on byte for byte, with all end-to-end headers;
//!   the signature is made again with the caller's time, so that the vendor judges that clock.
//! * While the vendor is away requests are held, not refused, for [`Config::hold`]; then they get
//!   503, which SDKs repeat. What the vendor answers goes back unchanged. Throttled requests are
//!   held likewise, with longer pauses, and `Retry-After` is obeyed.
//! * While the vendor says that our keys have expired requests are held too, and signed again with
//!   what the source of the keys tells meanwhile. A poll of a task that waited or ran when it was
//!   last asked for gets that answer again.
//! * A submission is sent again only if not a byte of it has left, or, after a lost answer or one
//!   that throttles, with the same `clientToken`, by which the vendor makes one task of both. Once the program's connection
//!   is gone, nothing more is sent.
//! * A poll of a task that waits or runs is answered from the last answer for the adaptive
//!   [`interval`], which throttling stretches ([`Quota`]); polls at the same time are one question.
//!   Each of them is still checked.
//! * Nobody waits for the reader of the events, and no submission is missing among them. What is
//!   told by an event is logged for debugging only: the reader speaks to people.

mod answer;
mod config;
mod connections;
mod events;
mod forward;
mod guard;
mod headers;
mod hold;
mod intents;
pub mod interval;
mod keys;
mod operation;
mod polls;
pub mod quota;
mod rights;
mod routes;
mod serve;
mod signature;
mod trust;
mod upstream;

pub use config::{Config, Endpoint, EndpointError, Hosts, Limits, Roots, Route, Target, Upstream};
pub use connections::Ties;
pub use events::TapEvent;
pub use guard::{Guard, Refusal};
pub use intents::{Asked, Forward, Intents};
pub use operation::{Operation, Repeat};
pub use quota::{Asks, Quota, Stretch};
pub use rights::Rights;
pub use serve::{BuildError, Tap};
pub use trust::is_of_a_role;
pub use upstream::client;

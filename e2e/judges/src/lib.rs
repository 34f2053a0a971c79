//! The clients of the field as judges of the tap.
//!
//! ```text
//!  client (Python, JavaScript, Rust, command line)
//!     │ one submission for each environment
//!     ├──▶ tap ──▶ vendor emulator      found: the tap tells the id that the client printed
//!     ├─────────▶ vendor emulator       past the tap, at an endpoint of its own
//!     └──▶ a proxy that refuses         past the tap, to the host that it asked for
//! ```
//!
//! Nothing leaves the machine: whoever does not come to the tap comes to the emulator or to a
//! proxy that refuses and remembers. What was seen becomes the tables of `docs/clients.md`.

pub mod table;

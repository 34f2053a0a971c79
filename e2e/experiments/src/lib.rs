//! Measurements of Sluice against floors of the same run.
//!
//! ```text
//!   admission   16 reviews in flight over TLS ──┬──▶ the router of the product
//!                                               └──▶ an empty handler, same server     (floor)
//!
//!   release     order written ──▶ keeper ──▶ gates of a gang ──▶ a watch sees the last one gone
//!               the same patches sent bare ──▶ gates of pods ──▶ the same watch         (floor)
//! ```
//!
//! A machine of a CI is noisy, so nothing is compared with a number of another day. Each row has a
//! floor: the least that the same work can cost. Product and floor take turns, and what is quoted
//! is the median of the rounds.

pub mod admission;
pub mod release;
pub mod report;
pub mod row;
pub mod statistics;

//! IQM Server, `/iqm`: jobs with a position in their queue, long polls, bearer tokens.
//!
//! Judged by the client in the `qrmi` wheel 0.26.4. Where it differs from its published
//! description: its `task_status` always asks for a long poll of 30 s and so cannot see a job
//! that waits or runs sooner than that; see the tests.
//!
//! # Choices where the vendor's behaviour is not published
//! * Position 1 is the next job. A job that runs has no position.
//! * A job of another account is answered as one that does not exist.
//! * A cancel of a job that has ended is answered 403 `illegal_job_status`.

mod api;
mod program;

pub(crate) use api::Iqm;

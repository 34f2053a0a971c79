//! Pasqal Cloud, `/pasqal`: batches of jobs that are pending, run and are done. No position at all.
//!
//! Judged by the client in the `qrmi` wheel 0.26.4, which asks for devices without a token and buys
//! one before its first batch, and by pasqal-cloud 0.24, which compresses what it sends, asks for a
//! batch's status and fetches results from a link that needs no token. A batch may stay open: jobs
//! are added to it until it is closed, and it keeps the machine meanwhile.
//!
//! Sequences of pulses are not computed: the machine is taken to be all noise
//! ([`Program::Noise`](crate::rest::compute::Program::Noise)).
//!
//! # Choices where the vendor's behaviour is not published
//! * A batch runs from the start of its first job, and is done when all its jobs have ended and it
//!   is closed. An open batch without jobs is not timed out.
//! * A job that is added to a batch that runs goes before everybody else's.
//! * A cancel of a batch cancels what has not ended, and is no error if nothing is left.

mod api;
mod batch;

pub(crate) use api::Pasqal;

//! IQM Server, `/iqm`: jobs with a position in their queue, long polls, bearer tokens.
//!
//! Judged by the client in the `qrmi` wheel 0.26.4 and by iqm-client 34. Where it differs from its published
//! description: its `task_status` always asks for a long poll of 30 s and so cannot see a job
//! that waits or runs sooner than that; see the tests.
//!
//! # Choices where the vendor's behaviour is not published
//! * `queue_position` is the number of jobs ahead, as iqm-client says; it is null once a job runs.
//! * A job of another account is answered as one that does not exist.
//! * A cancel of a job that has ended is answered 403 `illegal_job_status`.

mod api;
mod architecture;
mod program;

pub(crate) use api::Iqm;

/// An id: the same for the same name.
fn id_of(name: &str) -> String {
    let digest = crate::signature::sha256_hex(name.as_bytes());
    let number = u128::from_str_radix(&digest[..32], 16).unwrap_or_default();
    uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid().to_string()
}

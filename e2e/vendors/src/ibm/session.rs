//! Sessions of the compute service: who has priority, and until when.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::queue::millis;
use crate::rest::compute::time_text;
use crate::rest::machines::{Job, Machines, Phase};

/// Seconds that a session stays active without a job.
const INTERACTIVE_TTL: u64 = 60;

/// One session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) account: String,
    pub(super) backend: String,
    pub(super) mode: String,
    /// Seconds from its first job to its forced end.
    pub(super) max_ttl: u64,
    pub(super) accepting: bool,
    pub(super) created: Timestamp,
    pub(super) closed: Option<Timestamp>,
}

impl Session {
    /// Its jobs.
    fn jobs<'a>(&'a self, machines: &'a Machines) -> impl Iterator<Item = &'a Job> {
        machines.jobs().filter(|job| job.group.as_deref() == Some(self.id.as_str()))
    }

    /// Whether a job of it has not ended.
    pub(super) fn pending(&self, machines: &Machines) -> bool {
        self.jobs(machines).any(|job| !job.phase.ended())
    }

    /// Its jobs that wait.
    pub(super) fn waiting_ids(&self, machines: &Machines) -> Vec<String> {
        let waiting = self.jobs(machines).filter(|job| job.phase == Phase::Waiting);
        waiting.map(|job| job.id.clone()).collect()
    }

    /// When its first job started.
    fn activated(&self, machines: &Machines) -> Option<Timestamp> {
        self.jobs(machines).filter_map(|job| job.started).min()
    }

    /// When it is closed by force, if that is known yet.
    pub(super) fn end(&self, machines: &Machines) -> Option<Timestamp> {
        Some(self.activated(machines)? + millis(self.max_ttl.saturating_mul(1_000)))
    }

    /// The vendor's word: `open`, `active`, `inactive` or `closed`.
    pub(super) fn state(&self, machines: &Machines, now: Timestamp) -> &'static str {
        if self.closed.is_some() {
            return "closed";
        }
        if self.activated(machines).is_none() {
            return "open";
        }
        let runs = self.jobs(machines).any(|job| job.phase == Phase::Running);
        let last = self.jobs(machines).filter_map(|job| job.ended).max();
        let fresh = last.is_some_and(|last| now < last + millis(INTERACTIVE_TTL * 1_000));
        if runs || fresh { "active" } else { "inactive" }
    }

    /// A session as the API shows it.
    pub(super) fn shown(&self, machines: &Machines, now: Timestamp) -> Value {
        let left = self.end(machines).map_or(self.max_ttl, |end| {
            u64::try_from(end.duration_since(now).as_secs()).unwrap_or_default()
        });
        json!({
            "id": self.id,
            "backend_name": self.backend,
            "mode": self.mode,
            "state": self.state(machines, now),
            "state_reason": null,
            "accepting_jobs": self.accepting && self.closed.is_none(),
            "started_at": time_text(self.created),
            "activated_at": self.activated(machines).map(time_text),
            "closed_at": self.closed.map(time_text),
            "last_job_started": self.jobs(machines).filter_map(|job| job.started).max().map(time_text),
            "last_job_completed": self.jobs(machines).filter_map(|job| job.ended).max().map(time_text),
            "interactive_ttl": INTERACTIVE_TTL,
            "max_ttl": self.max_ttl,
            "active_ttl": left,
            "timestamps": [],
            "user_id": self.account,
            "elapsed_time": 0.0,
        })
    }
}

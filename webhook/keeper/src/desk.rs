//! What the loop remembers of one gang: writes on their way, pauses after failures, what was
//! told. Nothing here is needed for correctness; a new keeper starts with empty desks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::call::CallError;
use crate::decide::{Group, Memory};

/// How long a `PodGroup` that the API server refuses is left alone.
const GROUP_PAUSE: Duration = Duration::from_secs(30);

/// Shortest time between two looks at a gang whose gates are on their way: each answer is a reason
/// for a look, and a look goes over all pods.
const GLANCE: Duration = Duration::from_millis(20);

/// A growing pause between tries that never ends.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    backoff: Option<ExponentialBackoff>,
    until: Option<Instant>,
}

impl Pause {
    /// The try failed.
    pub(crate) fn failed(&mut self) {
        let fresh = || {
            ExponentialBuilder::default()
                .with_min_delay(Duration::from_millis(50))
                .with_max_delay(Duration::from_secs(10))
                .with_jitter()
                .without_max_times()
                .build()
        };
        let delay = self.backoff.get_or_insert_with(fresh).next();
        self.until = Some(Instant::now() + delay.unwrap_or(Duration::from_secs(10)));
    }

    /// The try worked.
    pub(crate) fn worked(&mut self) {
        *self = Self::default();
    }

    /// Until when to wait, if that is still to come.
    pub(crate) fn ends(&self) -> Option<Instant> {
        self.until.filter(|until| *until > Instant::now())
    }
}

/// The tries to open one gate.
#[derive(Debug, Default)]
pub(crate) struct GateTry {
    pub in_flight: bool,
    pub pause: Pause,
    pub refused: Option<String>,
}

/// The desk of one gang.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// Whether writes other than gates are on their way: those go one look after another.
    pub busy: bool,
    pub pause: Pause,
    /// Gates by pod uid. Each has its own tries, so that one that fails holds up no other.
    pub gates: HashMap<String, GateTry>,
    /// Names of Events that are written or on their way.
    pub told: HashSet<String>,
    pub status_at: Option<Timestamp>,
    pub short_since: Option<Timestamp>,
    /// For [`Memory::owner_found`].
    pub owner_found: Option<Timestamp>,
    /// When the gang was last looked at, and for when the next look is set while gates are on
    /// their way.
    looked: Option<Instant>,
    pub next_look: Option<Instant>,
    group_refused: Option<(String, Instant)>,
    pub group_foreign: bool,
}

impl Desk {
    /// What a decision may know of this.
    pub(crate) fn memory(&self, bound: bool) -> Memory {
        Memory {
            status_at: self.status_at,
            short_since: self.short_since,
            refused: self.gates.values().find_map(|g| g.refused.clone()),
            bound,
            owner_found: self.owner_found,
        }
    }

    /// The `PodGroup` with what only this keeper knows of it.
    pub(crate) fn group(&self, seen: Group) -> Group {
        match (seen, &self.group_refused) {
            (Group::Absent, Some((text, _))) => Group::Refused(text.clone()),
            (Group::Absent, None) if self.group_foreign => Group::Foreign,
            (seen, _) => seen,
        }
    }

    /// The API server refused the `PodGroup`.
    pub(crate) fn refuse_group(&mut self, error: &CallError) {
        self.group_refused = Some((error.to_string(), Instant::now() + GROUP_PAUSE));
    }

    /// Ends a refusal that is old enough to try again; says until when it lasts otherwise.
    pub(crate) fn group_pause(&mut self) -> Option<Instant> {
        let until = self.group_refused.as_ref()?.1;
        if until > Instant::now() {
            return Some(until);
        }
        self.group_refused = None;
        None
    }

    /// Notes a look, or says when it may be. Only a release on its way makes a look wait; its last
    /// answer never does.
    pub(crate) fn look(&mut self) -> Result<(), Instant> {
        let now = Instant::now();
        let next = self.looked.map_or(now, |at| at + GLANCE);
        if next > now && self.gates.values().any(|g| g.in_flight) {
            return Err(next);
        }
        self.looked = Some(now);
        self.next_look = None;
        Ok(())
    }

    /// Whether nothing is on its way.
    pub(crate) fn idle(&self) -> bool {
        !self.busy && self.gates.values().all(|g| !g.in_flight)
    }
}

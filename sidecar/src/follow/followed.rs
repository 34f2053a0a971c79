//! One task as it is followed. Values only.

use jiff::Timestamp;
use sluice_shared::policy::TaskSeen;
use sluice_shared::resource::Place;
use sluice_shared::task::{Position, TaskState};

use super::state::DeviceId;
use crate::vendor::braket::region_of_task;
use crate::vendor::front::Front;
use crate::vendor::{Failure, Reading};

/// A task as it is followed.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is one fact of its own")]
pub struct Followed {
    /// What is known of it.
    pub reading: Reading,
    /// Its place, judged.
    pub view: Front,
    /// Whether it counts for the release.
    pub counts: bool,
    /// When `reading` was true.
    pub observed_at: Option<Timestamp>,
    /// Whether an earlier worker read it, and this one has not seen it yet: much may have happened
    /// since.
    pub unseen: bool,
    /// When it was found.
    pub found_at: Timestamp,
    /// Since when it is seen to run.
    pub running_since: Option<Timestamp>,
    /// When the program last asked for it.
    pub polled_at: Option<Timestamp>,
    /// When to look at it ourselves.
    pub due: Timestamp,
    /// Since when our own look is under way.
    pub asked_at: Option<Timestamp>,
    /// Our own looks that failed in a row.
    pub failures: u32,
    /// Since when they fail, and why first.
    pub failing: Option<(Timestamp, Failure)>,
    /// Digest of the submission, hex.
    pub digest: Option<String>,
    /// The client token of the submission.
    pub client_token: Option<String>,
    /// Which run of the program asked for it last.
    pub incarnation: Option<String>,
    /// Whether that run got it from an earlier one.
    pub resumed: bool,
    /// When that run last asked for it, by our own clock.
    pub run_asked_at: Option<Timestamp>,
    /// Whether it was told what it costs and whether it is where it should be.
    pub price_told: bool,
    /// What was last said of it.
    pub said: String,
}

impl Followed {
    /// A task of which only the id is known.
    #[must_use]
    pub fn found(id: String, at: Timestamp, due: Timestamp) -> Self {
        Self {
            reading: Reading::new(id, TaskState::Created),
            view: Front::default(),
            counts: false,
            observed_at: None,
            unseen: false,
            found_at: at,
            running_since: None,
            polled_at: None,
            due,
            asked_at: None,
            failures: 0,
            failing: None,
            digest: None,
            client_token: None,
            incarnation: None,
            resumed: false,
            run_asked_at: None,
            price_told: false,
            said: String::new(),
        }
    }

    /// Its place in the queue.
    #[must_use]
    pub fn position(&self) -> Position {
        match self.reading.state {
            TaskState::Queued => Position::of(self.reading.position.as_deref()),
            _ => Position::Unknown,
        }
    }

    /// The device that it waits for.
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        let name = self.reading.device.clone()?;
        Some(DeviceId { resource: self.reading.resource.clone(), name })
    }

    /// Where it lives, as far as its id tells.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match &self.reading.resource {
            Some(resource) => Some(Place::Resource(resource.clone())),
            None => region_of_task(&self.reading.id).map(|r| Place::Region(r.to_owned())),
        }
    }

    /// Since when it waits, as far as is known.
    #[must_use]
    pub fn waits_since(&self) -> Timestamp {
        self.reading.submitted_at.map_or(self.found_at, |at| at.min(self.found_at))
    }

    /// The facts that the policy judges.
    #[must_use]
    pub fn judged(&self) -> TaskSeen {
        // A task that nobody has looked at yet satisfies nothing; only an end stays what it was.
        let unseen = self.unseen && !self.reading.state.is_final();
        TaskSeen {
            id: self.reading.id.clone(),
            counts: self.counts,
            state: if unseen { TaskState::Created } else { self.reading.state.clone() },
            front: self.view.front && !unseen,
            place: self.view.place.filter(|_| !unseen),
        }
    }
}

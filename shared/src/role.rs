//! The part a pod plays in its gang.

use std::fmt;
use std::str::FromStr;

use crate::stamp::{Mode, Stamp};

/// The part a pod plays. Decided once, from the stamp and the completion index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Completion index 0 of a shared gang: runs at once, submits, carries the sidecar.
    Producer,
    /// Any other index of a shared gang: gated until the release.
    Consumer,
    /// A pod of its own: observed by the sidecar, nothing is gated.
    Single,
}

impl Role {
    /// The role of the pod with this completion index under this stamp.
    ///
    /// ```
    /// use sluice_shared::{role::Role, stamp::Stamp};
    /// let stamp = Stamp { size: 8, ..Stamp::default() };
    /// assert_eq!(Role::of(&stamp, Some(0)), Role::Producer);
    /// assert_eq!(Role::of(&stamp, Some(7)), Role::Consumer);
    /// assert_eq!(Role::of(&stamp, None), Role::Single);
    /// ```
    #[must_use]
    pub fn of(stamp: &Stamp, index: Option<u32>) -> Self {
        match (stamp.mode, stamp.size, index) {
            (Mode::Independent, ..) | (_, 0 | 1, _) | (_, _, None) => Self::Single,
            (Mode::Shared, _, Some(0)) => Self::Producer,
            (Mode::Shared, _, Some(_)) => Self::Consumer,
        }
    }

    /// The value of the role label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Single => "single",
        }
    }

    /// The value of `FLUENCE_COORDINATION_ROLE`: a single submits, so it is a producer to its
    /// program.
    #[must_use]
    pub const fn for_program(self) -> &'static str {
        match self {
            Self::Producer | Self::Single => "producer",
            Self::Consumer => "consumer",
        }
    }

    /// Whether a pod of this role carries the sidecar.
    #[must_use]
    pub const fn has_sidecar(self) -> bool {
        !matches!(self, Self::Consumer)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A role label with a value that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("role {0:?} is unknown; allowed are producer, consumer, single")]
pub struct UnknownRole(pub String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "producer" => Ok(Self::Producer),
            "consumer" => Ok(Self::Consumer),
            "single" => Ok(Self::Single),
            other => Err(UnknownRole(other.to_owned())),
        }
    }
}

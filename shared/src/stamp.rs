//! What the Job webhook decided, carried to the pods in one annotation.
//!
//! The Job webhook is the only place that sees the whole Job. Pods, sidecar and keeper read the
//! stamp and decide nothing again, so all of them agree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::policy::{Follow, Mismatch, ReleasePolicy};
use crate::price::Usd;

/// Version of the stamp that this build writes.
pub const VERSION: u32 = 1;

/// How the pods of a Job work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One producer submits, the others wait for its task.
    #[default]
    Shared,
    /// Every pod submits for itself.
    Independent,
}

impl Mode {
    /// The word used in annotations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Independent => "independent",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A mode that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("coordination {0:?} is unknown; allowed are shared, independent")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "shared" => Ok(Self::Shared),
            "independent" => Ok(Self::Independent),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

/// How the sidecar finds the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// Tap where it is safe, announcements always accepted.
    #[default]
    Auto,
    /// Tap; refuse pods that cannot be tapped.
    Tap,
    /// Announcements only; the program's environment is left alone.
    Announce,
}

/// A way of discovery that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("discovery {0:?} is unknown; allowed are auto, tap, announce")]
pub struct UnknownDiscovery(pub String);

impl FromStr for Discovery {
    type Err = UnknownDiscovery;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "auto" => Ok(Self::Auto),
            "tap" => Ok(Self::Tap),
            "announce" => Ok(Self::Announce),
            other => Err(UnknownDiscovery(other.to_owned())),
        }
    }
}

/// The decision of the Job webhook, written as compact JSON into [`crate::names::STAMP`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// How the pods work together.
    pub mode: Mode,
    /// Pods that can exist at the same time, the producer included.
    pub size: u32,
    /// When the gates open.
    pub policy: ReleasePolicy,
    /// How many tasks must be ready.
    pub tasks: u32,
    /// Which tasks count.
    pub follow: Follow,
    /// How the task is found.
    #[serde(default)]
    pub discovery: Discovery,
    /// Whether the live tasks are cancelled when the Job is deleted.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub cancel_on_delete: bool,
    /// Whether a later run of the program gets the tasks of an earlier one.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub resume: bool,
    /// The chosen backend, if one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// What happens with a task on another QPU than the backend.
    #[serde(default, skip_serializing_if = "Mismatch::is_default")]
    pub mismatch: Mismatch,
    /// Most that the tasks may cost by list prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Usd>,
    /// The gate on consumers.
    pub gate: String,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_yes(value: &bool) -> bool {
    *value
}

impl Default for Stamp {
    fn default() -> Self {
        Self {
            version: VERSION,
            mode: Mode::Shared,
            size: 1,
            policy: ReleasePolicy::Front,
            tasks: 1,
            follow: Follow::Any,
            discovery: Discovery::Auto,
            cancel_on_delete: true,
            resume: true,
            backend: None,
            mismatch: Mismatch::Warn,
            max_cost: None,
            gate: crate::names::GATE.to_owned(),
        }
    }
}

/// Why a stamp cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StampError {
    /// The annotation is no stamp at all.
    #[error(
        "annotation {name} is written by Sluice and cannot be set by hand: {0}",
        name = crate::names::STAMP
    )]
    Malformed(String),
    /// The annotation comes from a newer Sluice.
    #[error(
        "annotation {name} has version {found}, this Sluice reads up to {VERSION}; \
         finish the upgrade of the webhook, or create the Job again",
        name = crate::names::STAMP
    )]
    Newer {
        /// The version that was found.
        found: u32,
    },
}

impl Stamp {
    /// Reads a stamp.
    ///
    /// # Errors
    /// When the text is no stamp, or comes from a newer Sluice.
    pub fn parse(text: &str) -> Result<Self, StampError> {
        let stamp: Self =
            serde_json::from_str(text).map_err(|e| StampError::Malformed(e.to_string()))?;
        if stamp.version > VERSION {
            return Err(StampError::Newer { found: stamp.version });
        }
        Ok(stamp)
    }

    /// The text of the annotation.
    #[must_use]
    pub fn to_annotation(&self) -> String {
        // Plain strings and numbers always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// How many consumers are expected at the same time.
    #[must_use]
    pub const fn consumers(&self) -> u32 {
        match self.mode {
            Mode::Shared => self.size.saturating_sub(1),
            Mode::Independent => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_survives_the_annotation() {
        let stamp = Stamp {
            size: 8,
            backend: Some("garnet".into()),
            mismatch: Mismatch::Refuse,
            max_cost: "2.50".parse().ok(),
            ..Stamp::default()
        };
        assert_eq!(Stamp::parse(&stamp.to_annotation()), Ok(stamp));
    }

    #[test]
    fn what_an_older_stamp_does_not_say_is_the_default() {
        let text = Stamp::default().to_annotation();
        assert!(!text.contains("cancelOnDelete"), "{text}");
        assert!(Stamp::parse(&text).unwrap().cancel_on_delete);
        let off = Stamp { cancel_on_delete: false, ..Stamp::default() };
        assert_eq!(Stamp::parse(&off.to_annotation()), Ok(off));
    }

    #[test]
    fn fields_of_tomorrow_are_ignored_but_versions_are_not() {
        let mut value: serde_json::Value =
            serde_json::from_str(&Stamp::default().to_annotation()).unwrap();
        value["somethingNew"] = 1.into();
        assert!(Stamp::parse(&value.to_string()).is_ok());
        value["version"] = 2.into();
        assert_eq!(Stamp::parse(&value.to_string()), Err(StampError::Newer { found: 2 }));
    }

    #[test]
    fn junk_is_named_as_such() {
        let message = Stamp::parse("yes").unwrap_err().to_string();
        assert!(message.contains("cannot be set by hand"), "{message}");
    }
}

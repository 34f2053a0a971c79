//! A unit of work at the vendor: its state and its place in the queue, as values.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// State of a task, in the words of Braket, which the other vendors are mapped to.
///
/// A word that nobody has seen is kept as [`TaskState::Unknown`]: it is neither front nor failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// Accepted, not yet in the queue.
    Created,
    /// Waits in the vendor's queue.
    Queued,
    /// The vendor says that it runs.
    Running,
    /// Ended with a result.
    Completed,
    /// Ended without a result.
    Failed,
    /// Somebody asked for its end.
    Cancelling,
    /// Ended on request.
    Cancelled,
    /// A word that this build does not know.
    Unknown(String),
}

impl TaskState {
    /// The vendor's word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Created => "CREATED",
            Self::Queued => "QUEUED",
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelling => "CANCELLING",
            Self::Cancelled => "CANCELLED",
            Self::Unknown(word) => word,
        }
    }

    /// Whether the vendor will not change it any more.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether it ended, or is about to end, without a result.
    #[must_use]
    pub const fn is_unsuccessful(&self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled | Self::Cancelling)
    }

    /// Whether it still waits for its turn.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self, Self::Created | Self::Queued)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TaskState {
    type Err = Infallible;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(match s {
            "CREATED" => Self::Created,
            "QUEUED" => Self::Queued,
            "RUNNING" => Self::Running,
            "COMPLETED" => Self::Completed,
            "FAILED" => Self::Failed,
            "CANCELLING" => Self::Cancelling,
            "CANCELLED" => Self::Cancelled,
            other => Self::Unknown(other.to_owned()),
        })
    }
}

impl From<&str> for TaskState {
    fn from(s: &str) -> Self {
        match s.parse() {
            Ok(state) => state,
            Err(never) => match never {},
        }
    }
}

/// Place in the vendor's queue. Braket sends it as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Exactly this place; 1 is the next.
    At(u32),
    /// Further back than this place (`>2000`).
    Beyond(u32),
    /// Not told, or told in words that this build does not know.
    Unknown,
}

impl Position {
    /// Reads the text that Braket sends.
    ///
    /// ```
    /// use sluice_shared::task::Position;
    /// assert_eq!(Position::of(Some("14")), Position::At(14));
    /// assert_eq!(Position::of(Some(">2000")), Position::Beyond(2000));
    /// assert_eq!(Position::of(Some("None")), Position::Unknown);
    /// ```
    #[must_use]
    pub fn of(text: Option<&str>) -> Self {
        let Some(text) = text.map(str::trim) else { return Self::Unknown };
        if let Some(bound) = text.strip_prefix('>') {
            return bound.trim().parse().map_or(Self::Unknown, Self::Beyond);
        }
        match text.parse() {
            Ok(place) if place > 0 => Self::At(place),
            _ => Self::Unknown,
        }
    }
}

/// The last part of a task id, short enough for one line: `…/834b21ed-…` becomes `834b21ed`.
///
/// ```
/// let arn = "arn:aws:braket:eu-north-1:123456789012:quantum-task/834b21ed-0000-4000-8000-0";
/// assert_eq!(sluice_shared::task::short_id(arn), "834b21ed");
/// ```
#[must_use]
pub fn short_id(id: &str) -> &str {
    let last = id.rsplit('/').next().unwrap_or(id);
    let first = last.split('-').next().unwrap_or(last);
    if first.is_empty() { last } else { first }
}

/// The name that people use for a device: `…/iqm/Garnet` becomes `iqm Garnet`.
///
/// ```
/// let arn = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
/// assert_eq!(sluice_shared::task::device_name(arn), "iqm Garnet");
/// assert_eq!(sluice_shared::task::device_name("ibm_lagos"), "ibm_lagos");
/// ```
#[must_use]
pub fn device_name(device: &str) -> String {
    let mut parts = device.rsplit('/');
    match (parts.next(), parts.next()) {
        (Some(name), Some("amazon")) => name.to_uppercase(),
        // Without a maker only the resource of the ARN is left: `…:device/name`.
        (Some(name), Some(maker)) if !maker.contains(':') => format!("{maker} {name}"),
        (Some(name), Some(_)) => name.to_owned(),
        _ => device.to_owned(),
    }
}

/// The name of a hybrid job: what follows `job/` in its ARN.
///
/// ```
/// let arn = "arn:aws:braket:us-west-2:123456789012:job/qaoa-7";
/// assert_eq!(sluice_shared::task::job_name(arn), "qaoa-7");
/// ```
#[must_use]
pub fn job_name(arn: &str) -> &str {
    arn.split_once(":job/").map_or(arn, |(_, name)| name)
}

/// Whether the device is a QPU: anything but a simulator of Braket or an emulator of Pasqal
/// (`EMU_FREE`) or of Alice & Bob (`EMU:1Q:…`).
#[must_use]
pub fn is_qpu(device: &str) -> bool {
    !device.contains("simulator") && !device.starts_with("EMU_") && !device.starts_with("EMU:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_that_are_not_places_are_unknown() {
        for text in ["None", "", "0", "-1", ">", ">many", "1.5", "first", "99999999999"] {
            assert_eq!(Position::of(Some(text)), Position::Unknown, "{text}");
        }
        assert_eq!(Position::of(None), Position::Unknown);
    }

    #[test]
    fn unknown_words_are_kept_and_are_neither_final_nor_waiting() {
        let state = TaskState::from("PONDERING");
        assert_eq!(state.as_str(), "PONDERING");
        assert!(!state.is_final() && !state.is_waiting() && !state.is_unsuccessful());
    }

    #[test]
    fn devices_of_every_maker_are_named_as_people_do() {
        let rows = [
            ("arn:aws:braket:::device/quantum-simulator/amazon/sv1", "SV1", false),
            ("arn:aws:braket:::device/quantum-simulator/amazon/dm1", "DM1", false),
            ("arn:aws:braket:eu-north-1::device/qpu/iqm/Emerald", "iqm Emerald", true),
            ("arn:aws:braket:eu-north-1::device/qpu/aqt/Ibex-Q1", "aqt Ibex-Q1", true),
            (
                "arn:aws:braket:us-west-1::device/qpu/rigetti/Cepheus-1-108Q",
                "rigetti Cepheus-1-108Q",
                true,
            ),
            ("arn:aws:braket:us-east-1::device/qpu/ionq/Forte-1", "ionq Forte-1", true),
            ("arn:aws:braket:us-east-1::device/qpu/quera/Aquila", "quera Aquila", true),
            // Old ones without a region, new makers, kinds that nobody has seen.
            ("arn:aws:braket:::device/qpu/ionq/ionQdevice", "ionq ionQdevice", true),
            ("arn:aws-us-gov:braket:us-gov-1::device/qpu/new-corp/One", "new-corp One", true),
            ("arn:aws:braket:us-east-1::device/annealer/d-maker/A2", "d-maker A2", true),
            ("arn:aws:braket:::device/thing", "thing", true),
            ("garnet", "garnet", true),
            ("EMU_FREE", "EMU_FREE", false),
            ("EMU:1Q:LESCANNE_2020", "EMU:1Q:LESCANNE_2020", false),
            ("", "", true),
        ];
        for (arn, name, qpu) in rows {
            assert_eq!((device_name(arn).as_str(), is_qpu(arn)), (name, qpu), "{arn}");
        }
    }

    #[test]
    fn every_known_word_reads_back() {
        for word in
            ["CREATED", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLING", "CANCELLED"]
        {
            let state = TaskState::from(word);
            assert!(!matches!(state, TaskState::Unknown(_)));
            assert_eq!(state.as_str(), word);
        }
    }
}

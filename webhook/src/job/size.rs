//! How many pods of a Job can exist at the same time, and whether they have indexes.

use sluice_shared::stamp::Mode;

use crate::reason::Reason;

/// Longest Job name whose pods have valid host names for every index that Kubernetes allows.
pub const LONGEST_NAME: usize = 57;

/// Longest host name.
const LONGEST_LABEL: usize = 63;
/// Letters that the API server appends to a `generateName`.
const GENERATED: usize = 5;

/// What a Job says about its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// `spec.parallelism`
    pub parallelism: Option<i32>,
    /// `spec.completions`
    pub completions: Option<i32>,
    /// Whether `spec.completionMode` is `Indexed`.
    pub indexed: bool,
}

/// What follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pods that can exist at the same time.
    pub size: u32,
    /// The Job must become `Indexed`.
    pub convert: bool,
    /// The Job has more pods than it runs at the same time, one by one.
    pub one_at_a_time: bool,
}

/// The size of the gang.
///
/// # Errors
/// When the Job is shared and no pod of it can be told to be the producer.
pub fn of(mode: Mode, counts: Counts, name: Name<'_>) -> Result<Size, Reason> {
    let (parallelism, completions) = match (counts.parallelism, counts.completions) {
        (None, c) => (1, Some(c.unwrap_or(1))),
        (Some(p), c) => (p, c),
    };
    let total = completions.unwrap_or(parallelism);
    // Parallelism 0 is a Job on hold: what matters is what it will be.
    let live = if parallelism == 0 { total } else { parallelism.min(total) };
    let size = u32::try_from(live).unwrap_or(0).max(1);
    let one_at_a_time = parallelism == 1 && total > 1;
    let keep = Size { size, convert: false, one_at_a_time };
    if counts.indexed || parallelism == 1 {
        return Ok(keep);
    }
    if mode == Mode::Independent {
        // With an index each pod has a gang of its own; without one they share the Job's.
        let convert = completions == Some(parallelism) && name.check(parallelism).is_ok();
        return Ok(Size { convert: convert && parallelism > 1, ..keep });
    }
    match completions {
        None if parallelism > 1 => Err(Reason::WorkQueue(parallelism)),
        Some(c) if c == parallelism => {
            name.check(c)?;
            Ok(Size { convert: true, ..keep })
        }
        Some(c) if c > 1 => Err(Reason::NoIndexes { completions: c, parallelism }),
        _ => Ok(keep),
    }
}

/// The name that a Job has or will get.
#[derive(Debug, Clone, Copy)]
pub enum Name<'a> {
    /// `metadata.name`
    Given(&'a str),
    /// `metadata.generateName`
    Generated(&'a str),
}

impl Name<'_> {
    /// Whether the host name of the last index is valid.
    fn check(self, completions: i32) -> Result<(), Reason> {
        let (text, grows) = match self {
            Self::Given(name) => (name, 0),
            Self::Generated(prefix) => (prefix, GENERATED),
        };
        let last = format!("{text}-{}", completions.saturating_sub(1));
        if text.contains('.') || last.len() + grows > LONGEST_LABEL {
            return Err(Reason::HostName(last));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_sizes() {
        use Mode::{Independent, Shared};
        // mode, parallelism, completions, indexed -> size, converted, one at a time
        let rows = [
            (Shared, Some(8), Some(8), true, Ok((8, false, false))),
            (Shared, Some(4), Some(8), true, Ok((4, false, false))),
            (Shared, Some(9), Some(8), true, Ok((8, false, false))),
            (Shared, Some(1), Some(8), true, Ok((1, false, true))),
            (Shared, Some(0), Some(8), true, Ok((8, false, false))),
            (Shared, None, None, false, Ok((1, false, false))),
            (Shared, Some(1), Some(1), false, Ok((1, false, false))),
            (Shared, Some(1), Some(5), false, Ok((1, false, true))),
            (Shared, Some(8), Some(8), false, Ok((8, true, false))),
            (Shared, Some(8), None, false, Err("work_queue")),
            (Shared, Some(4), Some(8), false, Err("no_indexes")),
            (Shared, Some(0), Some(8), false, Err("no_indexes")),
            (Independent, Some(8), Some(8), false, Ok((8, true, false))),
            (Independent, Some(8), None, false, Ok((8, false, false))),
            (Independent, Some(4), Some(8), false, Ok((4, false, false))),
            (Shared, Some(-1), Some(-1), true, Ok((1, false, false))),
        ];
        for (mode, parallelism, completions, indexed, expected) in rows {
            let counts = Counts { parallelism, completions, indexed };
            let got = of(mode, counts, Name::Given("j"))
                .map(|s| (s.size, s.convert, s.one_at_a_time))
                .map_err(|r| r.label());
            assert_eq!(got, expected, "{mode} {counts:?}");
        }
    }

    #[test]
    fn host_names_must_stay_valid() {
        let counts = Counts { parallelism: Some(8), completions: Some(8), indexed: false };
        let long = "a".repeat(61);
        let longest = "a".repeat(LONGEST_NAME);
        for (name, ok) in [
            (Name::Given("a.b"), false),
            (Name::Given(&long), true),
            (Name::Given(&"a".repeat(62)), false),
            (Name::Given(&longest), true),
            (Name::Generated(&longest), false),
        ] {
            assert_eq!(of(Mode::Shared, counts, name).is_ok(), ok, "{name:?}");
            let independent = of(Mode::Independent, counts, name).map(|s| s.convert);
            assert_eq!(independent, Ok(ok), "{name:?}");
        }
    }
}

//! Sets of completion indexes, as a Job's status writes them.

/// A set of completion indexes: `1,3-5,7`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Indexes(Vec<(u32, u32)>);

impl Indexes {
    /// Reads the text of `status.completedIndexes` or `status.failedIndexes`.
    ///
    /// A part that cannot be read is left out: an index that is not surely in the set counts as
    /// not finished, so that nothing is released on a guess.
    pub(crate) fn parse(text: &str) -> Self {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last).then_some((first, last))
        };
        Self(text.split(',').filter_map(range).collect())
    }

    /// Whether the index is in the set.
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&index))
    }

    /// How many of the indexes from 1 on are in the set. Index 0 is the producer's.
    pub(crate) fn consumers(&self) -> u32 {
        let count =
            |(first, last): &(u32, u32)| last.saturating_add(1).saturating_sub((*first).max(1));
        self.0.iter().map(count).fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_status_are_read() {
        // text, contains 0, contains 4, consumers
        let rows = [
            ("", false, false, 0),
            ("0", true, false, 0),
            ("0-4", true, true, 4),
            ("1,3-5,7", false, true, 5),
            ("4", false, true, 1),
            ("junk,4", false, true, 1),
            ("5-3", false, false, 0),
            ("-", false, false, 0),
            (" 0 , 4 ", true, true, 1),
        ];
        for (text, zero, four, consumers) in rows {
            let set = Indexes::parse(text);
            assert_eq!(set.contains(0), zero, "{text:?}");
            assert_eq!(set.contains(4), four, "{text:?}");
            assert_eq!(set.consumers(), consumers, "{text:?}");
        }
    }
}

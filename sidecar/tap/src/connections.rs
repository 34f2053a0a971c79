//! The program's open connections: they end with its process, so they tell runs apart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// When each open connection was opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    since: BTreeMap<u64, Timestamp>,
}

impl Connections {
    /// Counts a connection until the guard is dropped.
    pub(crate) fn opened(&self) -> Connected {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = open.next;
        open.next += 1;
        open.since.insert(id, Timestamp::now());
        Connected { all: self.clone(), id }
    }

    /// Since when the oldest open connection is open.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Ids grow with time.
        open.since.values().next().copied()
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connected {
    all: Connections,
    id: u64,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.since.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_counts_as_long_as_it_is_open() {
        let all = Connections::default();
        assert_eq!(all.oldest(), None);
        let first = all.opened();
        let since = all.oldest();
        let second = all.opened();
        assert!(since.is_some() && all.oldest() == since);
        drop(first);
        assert!(all.oldest() >= since);
        drop(second);
        assert_eq!(all.oldest(), None);
    }
}

//! A cache of the objects of one kind, fed by a watch and by the answers to own writes.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::facts::Kept;

/// Uids of deleted objects that are remembered, so that a late answer does not bring one back.
const GRAVES: usize = 4096;

/// What a watch tells.
#[derive(Debug, Clone)]
pub(crate) enum Change<T> {
    /// A full list begins.
    Begin,
    /// One object of the list.
    Listed(T),
    /// The list is complete: what was not in it is gone.
    End,
    /// An object is new or has changed.
    Applied(T),
    /// The object with this uid is gone.
    Gone(String),
}

/// Objects by uid.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    kept: HashMap<String, T>,
    /// Uids that the running list has brought so far.
    listing: Option<HashSet<String>>,
    graves: VecDeque<String>,
    ready: bool,
}

/// What a change did to a shelf.
#[derive(Debug)]
pub(crate) enum Moved<T> {
    /// The object with this uid is new or newer; the one before is handed out.
    Put { uid: String, before: Option<T> },
    /// These objects were taken off.
    Taken(Vec<T>),
    /// Nothing that matters.
    Nothing,
}

impl<T: Kept> Shelf<T> {
    pub(crate) fn new() -> Self {
        Self { kept: HashMap::new(), listing: None, graves: VecDeque::new(), ready: false }
    }

    /// Whether a full list has been seen.
    pub(crate) const fn ready(&self) -> bool {
        self.ready
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&T> {
        self.kept.get(uid)
    }

    pub(crate) fn get_mut(&mut self, uid: &str) -> Option<&mut T> {
        self.kept.get_mut(uid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.kept.values()
    }

    /// Takes in what a watch tells.
    pub(crate) fn take_in(&mut self, change: Change<T>) -> Moved<T> {
        match change {
            Change::Begin => {
                self.listing = Some(HashSet::new());
                Moved::Nothing
            }
            Change::Listed(item) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(item.uid().to_owned());
                }
                self.put(item)
            }
            Change::End => {
                self.ready = true;
                let listed = self.listing.take().unwrap_or_default();
                let gone: Vec<String> =
                    self.kept.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                Moved::Taken(gone.iter().filter_map(|uid| self.drop(uid)).collect())
            }
            Change::Applied(item) => self.put(item),
            Change::Gone(uid) => Moved::Taken(self.drop(&uid).into_iter().collect()),
        }
    }

    /// Takes in an object, unless a newer state of it, or its end, is known.
    pub(crate) fn put(&mut self, item: T) -> Moved<T> {
        let uid = item.uid().to_owned();
        let stale = self.kept.get(&uid).is_some_and(|k| k.version() > item.version());
        if stale || self.graves.contains(&uid) {
            return Moved::Nothing;
        }
        // An answer that comes while a list runs is newer than the list.
        if let Some(listing) = &mut self.listing {
            listing.insert(uid.clone());
        }
        let before = self.kept.insert(uid.clone(), item);
        Moved::Put { uid, before }
    }

    /// Takes off an object for good.
    pub(crate) fn drop(&mut self, uid: &str) -> Option<T> {
        let item = self.kept.remove(uid)?;
        self.graves.push_back(uid.to_owned());
        if self.graves.len() > GRAVES {
            self.graves.pop_front();
        }
        Some(item)
    }

    /// Forgets everything, for a kind that is served in another version from now on.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::fixtures::mk_job;
    use crate::facts::job::JobSeen;

    fn mk(uid: &str, version: u64) -> JobSeen {
        let mut job = mk_job(2);
        job.place.uid = uid.into();
        job.place.version = version;
        job
    }

    #[test]
    fn older_states_and_the_dead_do_not_come_back() {
        let mut shelf = Shelf::new();
        shelf.put(mk("a", 5));
        assert!(matches!(shelf.put(mk("a", 4)), Moved::Nothing));
        assert_eq!(shelf.get("a").map(Kept::version), Some(5));
        shelf.take_in(Change::Gone("a".into()));
        assert!(matches!(shelf.put(mk("a", 9)), Moved::Nothing));
        assert!(shelf.get("a").is_none());
    }

    #[test]
    fn a_list_takes_off_what_it_does_not_bring() {
        let mut shelf = Shelf::new();
        shelf.put(mk("old", 1));
        shelf.put(mk("kept", 1));
        shelf.take_in(Change::Begin);
        assert!(!shelf.ready());
        shelf.take_in(Change::Listed(mk("kept", 2)));
        // Made while the list was on its way.
        shelf.put(mk("made", 3));
        let Moved::Taken(gone) = shelf.take_in(Change::End) else { panic!() };
        assert_eq!(gone.iter().map(Kept::uid).collect::<Vec<_>>(), ["old"]);
        assert!(shelf.ready() && shelf.get("made").is_some());
    }
}

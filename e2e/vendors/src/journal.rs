//! What was asked and answered: a bounded list and counters.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One request. Holds no secret: neither signatures nor tokens of credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Entry {
    /// Number of the request, from 1.
    pub number: u64,
    /// When it arrived.
    pub at: Timestamp,
    /// Service of its credential scope.
    pub service: String,
    /// The vendor's name of the operation; `Unknown` where there is none.
    pub operation: String,
    /// Public half of the caller's key.
    pub access_key_id: Option<String>,
    /// ARN of the caller, where the signature was accepted.
    pub principal: Option<String>,
    /// Account of the caller, where the signature was accepted.
    pub account: Option<String>,
    /// Region of the credential scope.
    pub region: Option<String>,
    /// The caller's `User-Agent`.
    pub user_agent: String,
    /// HTTP method.
    pub method: String,
    /// Raw path and query.
    pub path: String,
    /// SHA-256 of the body, hexadecimal.
    pub body_digest: String,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// `clientToken` of the body.
    pub client_token: Option<String>,
    /// Status answered; `None` where the connection was closed or left hanging.
    pub status: Option<u16>,
    /// Code of the error answered.
    pub error: Option<String>,
    /// ARN of the task that the request made or named.
    pub task_arn: Option<String>,
    /// The fault that struck it.
    pub fault: Option<String>,
    /// The answer, where answers are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answered>,
}

/// An answer, recorded for checks against the vendor's own model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Header names and values.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

/// The last requests, and counts of all.
#[derive(Debug, Clone)]
pub struct Journal {
    entries: VecDeque<Entry>,
    counts: BTreeMap<String, u64>,
    bound: usize,
    last: u64,
}

impl Journal {
    /// An empty journal that keeps the last `bound` requests.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self { entries: VecDeque::new(), counts: BTreeMap::new(), bound: bound.max(1), last: 0 }
    }

    /// Writes one request down.
    pub fn write(&mut self, mut entry: Entry) {
        self.last += 1;
        entry.number = self.last;
        let status = entry.status.map_or_else(|| "none".to_owned(), |status| status.to_string());
        *self.counts.entry(format!("{} {status}", entry.operation)).or_default() += 1;
        if self.entries.len() == self.bound {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// The requests that are still held, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Requests by `<operation> <status>`, since the start or the last reset.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// Forgets everything but the numbering.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_and_counts_all() {
        let mut journal = Journal::new(2);
        for status in [Some(200), Some(429), None] {
            let operation = "GetDevice".to_owned();
            journal.write(Entry { operation, status, ..Entry::default() });
        }
        let numbers: Vec<_> = journal.entries().map(|entry| entry.number).collect();
        assert_eq!(numbers, [2, 3]);
        let counts: Vec<_> = journal.counts().iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(counts, [("GetDevice 200", 1), ("GetDevice 429", 1), ("GetDevice none", 1)]);
    }
}

//! Faults on demand: one table of (which requests, how often) and what happens to them.

use serde::{Deserialize, Serialize};

/// When a fault strikes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Before any work is done: the request has no effect.
    #[default]
    Before,
    /// After the work is done: the answer is lost.
    After,
}

/// What happens to a request that a fault strikes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Action {
    /// An error in the form of the service, such as `ThrottlingException`.
    Error {
        /// The vendor's code.
        code: String,
        /// HTTP status; without one, that of the code.
        #[serde(default)]
        status: Option<u16>,
        /// For people.
        #[serde(default)]
        message: String,
        /// Value of a `Retry-After` header.
        #[serde(default, rename = "retryAfter")]
        retry_after: Option<String>,
        /// Before or after the work.
        #[serde(default)]
        when: Stage,
    },
    /// Any answer at all: HTML of a proxy, garbage, a wrong status.
    Answer {
        /// HTTP status.
        status: u16,
        /// Content type.
        #[serde(default = "html", rename = "contentType")]
        content_type: String,
        /// The body as it is sent.
        #[serde(default)]
        body: String,
        /// Before or after the work.
        #[serde(default)]
        when: Stage,
    },
    /// No answer for a time, then the connection is closed.
    Hang {
        /// Milliseconds.
        ms: u64,
        /// Before or after the work.
        #[serde(default)]
        when: Stage,
    },
    /// The connection is closed without a status.
    Close {
        /// Before or after the work.
        #[serde(default)]
        when: Stage,
    },
    /// Status, headers and half of the body, then the connection is closed. After the work.
    Cut {},
    /// The work is done and answered, but late.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
}

fn html() -> String {
    "text/html".to_owned()
}

impl Action {
    /// When the fault strikes.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::Error { when, .. }
            | Self::Answer { when, .. }
            | Self::Hang { when, .. }
            | Self::Close { when } => *when,
            Self::Cut {} => Stage::After,
            Self::Delay { .. } => Stage::Before,
        }
    }

    /// Short name for the journal.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Error { .. } => "error",
            Self::Answer { .. } => "answer",
            Self::Hang { .. } => "hang",
            Self::Close { .. } => "close",
            Self::Cut {} => "cut",
            Self::Delay { .. } => "delay",
        }
    }
}

/// One row of the table. A field that is absent matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// Operation, such as `GetQuantumTask`.
    #[serde(default)]
    pub operation: Option<String>,
    /// Account of the caller.
    #[serde(default)]
    pub account: Option<String>,
    /// Key of the caller.
    #[serde(default)]
    pub access_key_id: Option<String>,
    /// Matching requests that pass before the first is struck.
    #[serde(default)]
    pub skip: u64,
    /// Requests that are struck.
    #[serde(default = "once")]
    pub count: u64,
    /// What happens.
    pub action: Action,
}

fn once() -> u64 {
    1
}

impl Fault {
    /// A fault that strikes the next `count` requests of an operation.
    #[must_use]
    pub fn next(count: u64, operation: &str, action: Action) -> Self {
        Self {
            operation: Some(operation.to_owned()),
            account: None,
            access_key_id: None,
            skip: 0,
            count,
            action,
        }
    }

    fn matches(&self, target: Target<'_>) -> bool {
        let fits = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
        };
        fits(&self.operation, Some(target.operation))
            && fits(&self.account, target.account)
            && fits(&self.access_key_id, target.access_key_id)
    }
}

/// What a row is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Operation of the request.
    pub operation: &'a str,
    /// Account, where the caller is known.
    pub account: Option<&'a str>,
    /// Key id, where there is one.
    pub access_key_id: Option<&'a str>,
}

/// The table.
#[derive(Debug, Clone, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Adds a row.
    pub fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Rows that have not struck for the last time.
    #[must_use]
    pub fn rows(&self) -> &[Fault] {
        &self.0
    }

    /// The action of the first row that matches, counted down.
    pub fn strike(&mut self, target: Target<'_>) -> Option<Action> {
        for index in 0..self.0.len() {
            let row = &mut self.0[index];
            if !row.matches(target) {
                continue;
            }
            if row.skip > 0 {
                row.skip -= 1;
                continue;
            }
            let action = row.action.clone();
            row.count = row.count.saturating_sub(1);
            if row.count == 0 {
                self.0.remove(index);
            }
            return Some(action);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(account: &str) -> Target<'_> {
        Target { operation: "GetQuantumTask", account: Some(account), access_key_id: None }
    }

    #[test]
    fn rows_match_skip_and_run_out() {
        let mut faults = Faults::default();
        faults.add(Fault {
            skip: 1,
            account: Some("1".into()),
            ..Fault::next(2, "GetQuantumTask", Action::Close { when: Stage::After })
        });
        let struck: Vec<_> = ["2", "1", "1", "2", "1", "1"]
            .into_iter()
            .map(|account| faults.strike(get(account)).is_some())
            .collect();
        assert_eq!(struck, [false, false, true, false, true, false]);
        assert_eq!(faults.rows(), []);
    }

    #[test]
    fn rows_are_read_from_json() {
        let text = r#"{"operation":"CreateQuantumTask","count":3,
            "action":{"do":"error","code":"ThrottlingException","retryAfter":"7"}}"#;
        let fault: Fault = serde_json::from_str(text).unwrap();
        assert_eq!((fault.count, fault.action.stage()), (3, Stage::Before));
        assert!(serde_json::from_str::<Fault>(r#"{"action":{"do":"explode"}}"#).is_err());
    }
}

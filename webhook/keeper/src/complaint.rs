//! A trouble that lasts is logged once a minute, in plain words, and its end once.

use std::time::Duration;

use tokio::time::Instant;

/// Shortest time between two log lines about the same trouble.
const PAUSE: Duration = Duration::from_mins(1);

/// One kind of trouble.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    last: Option<Instant>,
    unheard: u64,
}

impl Complaint {
    pub(crate) const fn new() -> Self {
        Self { last: None, unheard: 0 }
    }

    /// It happened again.
    pub(crate) fn raise(&mut self, text: impl FnOnce() -> String) {
        if self.last.is_some_and(|at| at.elapsed() < PAUSE) {
            self.unheard += 1;
            return;
        }
        let more = self.unheard;
        tracing::warn!(not_logged = more, "{}", text());
        *self = Self { last: Some(Instant::now()), unheard: 0 };
    }

    /// It is over.
    pub(crate) fn settle(&mut self, text: impl FnOnce() -> String) {
        if self.last.take().is_some() {
            tracing::info!("{}", text());
        }
        self.unheard = 0;
    }
}

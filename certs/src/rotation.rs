//! Rotation with overlap, as a decision.

use jiff::{SignedDuration, Timestamp};

use crate::Issued;

/// What is stored, in one place that all replicas read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// What is served now.
    pub current: Issued,
    /// What will be served, and since when clients are told to trust it.
    pub next: Option<(Issued, Timestamp)>,
    /// The authority of what was served before, and since when nobody should serve it.
    pub previous: Option<(String, Timestamp)>,
}

/// Times of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long before its end a certificate is renewed.
    pub renew_before: SignedDuration,
    /// How long each phase of a rotation lasts: longer than any replica takes to read the store
    /// and any client to read the bundle.
    pub overlap: SignedDuration,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Keep,
    /// Issue a new one, and have clients trust it beside the current one.
    Stage,
    /// Serve the staged one.
    Switch,
    /// Stop trusting the previous one.
    Retire,
}

/// The next step, when the current certificate ends at `not_after`.
#[must_use]
pub fn decide(now: Timestamp, stored: &Stored, not_after: Timestamp, times: Times) -> Step {
    let passed = |since: Timestamp| now.duration_since(since) >= times.overlap;
    match (&stored.next, &stored.previous) {
        // An expired certificate is worth nothing to anybody: no reason to wait.
        (Some((_, since)), _) if passed(*since) || now >= not_after => Step::Switch,
        (None, Some((_, since))) if passed(*since) => Step::Retire,
        (None, _) if not_after.duration_since(now) <= times.renew_before => Step::Stage,
        _ => Step::Keep,
    }
}

impl Stored {
    /// A store that holds one certificate.
    #[must_use]
    pub const fn new(current: Issued) -> Self {
        Self { current, next: None, previous: None }
    }

    /// Everything that clients must trust, as one PEM.
    #[must_use]
    pub fn bundle(&self) -> String {
        let next = self.next.iter().map(|(n, _)| n.ca_pem.as_str());
        let previous = self.previous.iter().map(|(p, _)| p.as_str());
        std::iter::once(self.current.ca_pem.as_str()).chain(next).chain(previous).collect()
    }

    /// The store after [`Step::Stage`].
    #[must_use]
    pub fn staged(mut self, issued: Issued, now: Timestamp) -> Self {
        self.next = Some((issued, now));
        self
    }

    /// The store after [`Step::Switch`].
    #[must_use]
    pub fn switched(mut self, now: Timestamp) -> Self {
        if let Some((next, _)) = self.next.take() {
            let old = std::mem::replace(&mut self.current, next);
            self.previous = Some((old.ca_pem, now));
        }
        self
    }

    /// The store after [`Step::Retire`].
    #[must_use]
    pub fn retired(mut self) -> Self {
        self.previous = None;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);
    const TIMES: Times = Times {
        renew_before: SignedDuration::from_hours(240),
        overlap: SignedDuration::from_mins(10),
    };

    fn mk_issued(name: &str) -> Issued {
        Issued {
            ca_pem: format!("ca {name}\n"),
            cert_pem: format!("cert {name}\n"),
            key_pem: format!("key {name}\n"),
        }
    }

    #[test]
    fn a_whole_rotation_never_serves_what_is_not_trusted() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let end = start + DAY * 30;
        let mut ends = [("cert a\n", end), ("cert b\n", end + DAY * 30)].into_iter().cycle();
        let mut not_after = ends.next().unwrap().1;
        let mut stored = Stored::new(mk_issued("a"));
        let mut steps = Vec::new();
        let mut now = start;
        let mut slowest = stored.clone();
        while now < end {
            let step = decide(now, &stored, not_after, TIMES);
            let before = stored.clone();
            stored = match step {
                Step::Keep => stored,
                Step::Stage => stored.staged(mk_issued("b"), now),
                Step::Switch => stored.switched(now),
                Step::Retire => stored.retired(),
            };
            if step == Step::Switch {
                not_after = ends.next().unwrap().1;
            }
            if step != Step::Keep {
                // A replica that has not read the last write yet, and a client that has not.
                assert!(stored.bundle().contains(&before.current.ca_pem), "{step:?}");
                assert!(before.bundle().contains(&stored.current.ca_pem), "{step:?}");
                steps.push(step);
                slowest = before;
            }
            now += SignedDuration::from_mins(1);
        }
        assert_eq!(steps, [Step::Stage, Step::Switch, Step::Retire]);
        assert_eq!(stored.bundle(), "ca b\n");
        assert_eq!(slowest.current, mk_issued("b"));
    }

    #[test]
    fn an_expired_certificate_is_replaced_without_waiting() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let past = now - DAY;
        let stored = Stored::new(mk_issued("a"));
        assert_eq!(decide(now, &stored, past, TIMES), Step::Stage);
        let stored = stored.staged(mk_issued("b"), now);
        assert_eq!(decide(now, &stored, past, TIMES), Step::Switch);
    }
}

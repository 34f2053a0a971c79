//! What was asked, by whom and when, and what came of it.

use std::fmt::Write;
use std::time::Duration;

/// All requests of one operation.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// When, whether for a producer, whether it was answered.
    requests: Vec<(Duration, bool, bool)>,
    pub(super) refused: usize,
}

impl Asked {
    pub(super) fn note(&mut self, at: Duration, producer: bool, ok: bool) {
        self.requests.push((at, producer, ok));
        self.refused += usize::from(!ok);
    }

    fn count(&self, from: Duration, to: Duration, which: impl Fn(bool, bool) -> bool) -> u32 {
        let within = |at: Duration| from <= at && at < to;
        let counted = self.requests.iter().filter(|(at, p, ok)| within(*at) && which(*p, *ok));
        u32::try_from(counted.count()).unwrap()
    }

    /// Requests a second of producers and their sidecars, refused ones included.
    pub(super) fn producers_rate(&self, from: Duration, to: Duration) -> f64 {
        f64::from(self.count(from, to, |producer, _| producer))
            / to.saturating_sub(from).as_secs_f64()
    }

    pub(super) fn refused_between(&self, from: Duration, to: Duration) -> u32 {
        self.count(from, to, |_, ok| !ok)
    }

    pub(super) fn summary(&self, until: Duration) -> String {
        let mut text = String::new();
        let mut from = Duration::ZERO;
        while from < until {
            let to = from + Duration::from_secs(if from.as_secs() < 300 { 30 } else { 300 });
            let rate = |n: u32| f64::from(n) / to.saturating_sub(from).as_secs_f64();
            let _ = writeln!(
                text,
                "  {:>5} s  producers {:>6.1}/s  consumers {:>6.1}/s  refused {:>6.1}/s",
                from.as_secs(),
                rate(self.count(from, to, |producer, _| producer)),
                rate(self.count(from, to, |producer, _| !producer)),
                rate(self.count(from, to, |_, ok| !ok)),
            );
            from = to;
        }
        text
    }
}

/// How late releases were.
#[derive(Debug)]
pub(super) struct Late {
    #[expect(dead_code, reason = "printed")]
    count: usize,
    /// 19 of 20 were not later.
    pub(super) of_twenty_nineteen: Duration,
    pub(super) most: Duration,
}

impl Late {
    pub(super) fn of(mut late: Vec<Duration>) -> Self {
        late.sort_unstable();
        let at = |part: usize| late.get(part).copied().unwrap_or_default();
        Self {
            count: late.len(),
            of_twenty_nineteen: at(late.len() * 19 / 20),
            most: at(late.len().saturating_sub(1)),
        }
    }
}

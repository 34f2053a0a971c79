//! What people see while the lab works: one line per step, with the time it took.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// A step that is being done. Dropped without [`Step::done`], it is shown as failed.
#[derive(Debug)]
pub(crate) struct Step {
    what: String,
    began: Instant,
    bar: Option<ProgressBar>,
    ended: bool,
}

impl Step {
    /// Begins a step. On a terminal the line moves; else one line is printed at the end, and for
    /// steps that are `long` one at the beginning too.
    #[must_use]
    pub(crate) fn begin(what: impl Into<String>, long: bool) -> Self {
        let what = what.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            // No colour at all: nothing to switch off for NO_COLOR.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(what.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() && long {
            eprintln!("… {what}");
        }
        Self { what, began: Instant::now(), bar, ended: false }
    }

    /// The step succeeded.
    pub(crate) fn done(mut self) {
        self.end("✓", "");
    }

    fn end(&mut self, mark: &str, note: &str) {
        self.ended = true;
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        eprintln!("{mark} {}{note} ({})", self.what, elapsed(self.began.elapsed()));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.ended {
            self.end("✗", " failed");
        }
    }
}

/// A time as people read it: `0.4 s`, `12 s`, `4 min 10 s`.
#[must_use]
pub(crate) fn elapsed(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        secs @ 10..60 => format!("{secs} s"),
        secs => format!("{} min {} s", secs / 60, secs % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        assert_eq!(elapsed(Duration::from_millis(420)), "0.4 s");
        assert_eq!(elapsed(Duration::from_secs(12)), "12 s");
        assert_eq!(elapsed(Duration::from_secs(250)), "4 min 10 s");
    }
}

//! What a person sees: short lines with the seconds since the Job was created.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Instant;

/// The terminal, on standard error; results go to standard output.
#[derive(Debug)]
pub(crate) struct Screen {
    colour: bool,
    since: Mutex<Instant>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Self {
            colour: !plain && std::io::stderr().is_terminal(),
            since: Mutex::new(Instant::now()),
        }
    }

    /// A new part.
    pub(crate) fn title(&self, text: &str) {
        eprintln!("\n{}", self.paint("1", text));
    }

    /// The clock starts.
    pub(crate) fn begin(&self) {
        if let Ok(mut since) = self.since.lock() {
            *since = Instant::now();
        }
    }

    /// One line: when, who, what.
    pub(crate) fn line(&self, who: &str, what: &str) {
        let elapsed = self.since.lock().map_or(0.0, |since| since.elapsed().as_secs_f64());
        let what =
            if what.contains("gates open") { self.paint("32", what) } else { what.to_owned() };
        eprintln!(
            "{} {} {what}",
            self.paint("2", &format!("{elapsed:6.1} s")),
            self.paint("36", &format!("{who:<10}"))
        );
    }

    /// A remark.
    pub(crate) fn note(&self, text: &str) {
        eprintln!("{}", self.paint("2", text));
    }

    /// The last line.
    pub(crate) fn result(&self, text: &str) {
        eprintln!("\n{}", self.paint("1;32", text));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

//! Running other programs to their end.

use std::process::Command;

use crate::error::{Error, Result};

const SHOWN: usize = 4000;

/// Runs a command and returns what it printed.
///
/// # Errors
/// If it cannot be started or ends with an error; the message holds the end of its output.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command.output().map_err(Error::io(format!("run {line}")))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let both = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    Err(Error::Command {
        command: line,
        status: output.status.to_string(),
        output: tail(&both, SHOWN).to_owned(),
    })
}

/// The same on a thread of its own, for callers that must not block.
pub(crate) async fn run_async(mut command: Command) -> Result<String> {
    blocking(move || run(&mut command)).await
}

/// Runs blocking work beside the runtime's own threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::Invalid(format!("a step of the lab ended early: {e}")))?
}

fn shown(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

/// The last `bytes` of a text, cut at a character and, if possible, at a line.
pub(crate) fn tail(text: &str, bytes: usize) -> &str {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let cut = &text[from..];
    match cut.find('\n') {
        Some(end) if from > 0 => &cut[end + 1..],
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_what_was_printed() {
        let error = run(Command::new("sh").args(["-c", "echo out; echo why >&2; exit 3"]))
            .expect_err("exit 3");
        let text = error.to_string();
        assert!(text.contains("out\nwhy") && text.contains('3'), "{text}");
    }

    #[test]
    fn the_tail_begins_at_a_line() {
        assert_eq!(tail("one\ntwo\nthree", 8), "three");
        assert_eq!(tail("short", 80), "short");
        assert_eq!(tail("äöü", 3), "ü");
    }
}

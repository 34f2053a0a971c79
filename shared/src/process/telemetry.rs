//! Logs: lines for people, JSON on request.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing::Level;
use tracing_subscriber::filter::{FilterExt, LevelFilter, ParseError, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, registry};

/// Flags of the log, to be flattened into a binary's arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct LogArgs {
    /// What is logged, as `tracing` directives: `info`, or `info,sluice_keeper=debug`.
    #[arg(long, env = "SLUICE_LOG", default_value = "info", global = true)]
    pub log: String,
    /// Lines for people, or one JSON object a line.
    #[arg(long, env = "SLUICE_LOG_FORMAT", value_enum, default_value_t, global = true)]
    pub log_format: LogFormat,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// One short line for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Libraries whose lines can carry headers or bodies, and so credentials, by the beginnings of their
/// names, with the most that they may say. No directive of a user gets more out of them.
const QUIET: [(&str, LevelFilter); 9] = [
    // They warn of an answer that they cannot read with the whole answer, keys included. What
    // matters comes back as an error and is told by us.
    ("aws_", LevelFilter::OFF),
    ("h2", LevelFilter::WARN),
    ("hyper", LevelFilter::WARN),
    // It warns of an answer that it cannot read with the whole answer.
    ("kube_client", LevelFilter::ERROR),
    ("log", LevelFilter::WARN),
    ("reqwest", LevelFilter::WARN),
    ("rustls", LevelFilter::WARN),
    ("tower", LevelFilter::WARN),
    ("want", LevelFilter::WARN),
];

/// Whether a line may be written at all.
fn is_allowed(target: &str, level: Level) -> bool {
    let most = QUIET.iter().find(|(library, _)| target.starts_with(library)).map(|(_, most)| most);
    most.is_none_or(|most| level <= *most)
}

impl LogArgs {
    /// Starts logging to standard error.
    ///
    /// # Errors
    /// When the directives of `--log` cannot be read.
    pub fn init(&self) -> Result<(), ParseError> {
        self.init_with(&[])
    }

    /// The same with further directives of the program itself, which beat those of the flag:
    /// `kube_client=off` where the program tells of such errors in its own words.
    ///
    /// # Errors
    /// As [`Self::init`].
    pub fn init_with(&self, directives: &[&str]) -> Result<(), ParseError> {
        let mut filter: EnvFilter = self.log.parse()?;
        for directive in directives {
            filter = filter.add_directive(directive.parse()?);
        }
        let allowed = filter_fn(|line| is_allowed(line.target(), *line.level()));
        let filter = filter.and(allowed);
        let colour = std::io::stderr().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_ansi(colour);
        match self.log_format {
            LogFormat::Text => registry().with(lines.with_filter(filter)).init(),
            LogFormat::Json => {
                registry().with(lines.json().flatten_event(true).with_filter(filter)).init();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_see_credentials_say_little_and_ours_everything() {
        for (target, level, expected) in [
            ("sluice_tap::forward", Level::TRACE, true),
            ("aws_smithy_runtime::client::orchestrator", Level::DEBUG, false),
            ("aws_config::profile", Level::ERROR, false),
            ("rustls::webpki", Level::WARN, true),
            ("hyper_util::client::legacy", Level::TRACE, false),
            ("h2::codec", Level::TRACE, false),
            ("kube_client::client", Level::WARN, false),
            ("kube_client::client", Level::ERROR, true),
            ("kube_runtime::watcher", Level::DEBUG, true),
        ] {
            assert_eq!(is_allowed(target, level), expected, "{target} {level}");
        }
    }
}

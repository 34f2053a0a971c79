//! Logs: lines for people, JSON on request.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

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

/// Libraries whose debug lines can carry headers or bodies, and so credentials. They stay at
/// `warn` whatever the flag says.
const QUIET: [&str; 8] = [
    "aws_config",
    "aws_runtime",
    "aws_sdk_braket",
    "aws_sigv4",
    "aws_smithy_runtime",
    "h2",
    "hyper",
    "reqwest",
];

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
        for library in QUIET {
            filter = filter.add_directive(format!("{library}=warn").parse()?);
        }
        for directive in directives {
            filter = filter.add_directive(directive.parse()?);
        }
        let colour = std::io::stderr().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_ansi(colour);
        match self.log_format {
            LogFormat::Text => builder.init(),
            LogFormat::Json => builder.json().flatten_event(true).init(),
        }
        Ok(())
    }
}

//! The command line.

use clap::{Parser, Subcommand, ValueEnum};

/// What the queues of quantum Jobs did.
#[derive(Debug, Parser)]
#[command(name = "kubectl-sluice", bin_name = "kubectl sluice", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Places in the vendor's queue, its size and the device's status over time.
    Series(Series),
}

/// Which series, and in which form.
#[derive(Debug, clap::Args)]
pub struct Series {
    /// A gang or a Job; without one, all of the namespace.
    pub name: Option<String>,
    /// Where the gangs are.
    #[command(flatten)]
    pub place: Place,
    /// In which form.
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,
}

/// Where gangs are.
#[derive(Debug, Default, clap::Args)]
pub struct Place {
    /// The namespace; without one, that of the kubeconfig's context.
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// The context of the kubeconfig; without one, the current one.
    #[arg(long)]
    pub context: Option<String>,
}

/// Forms of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A picture for each task, for people.
    Text,
    /// A table with a line of names, for programs.
    Csv,
    /// One JSON object a line, with the same names.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let line = ["kubectl-sluice", "series", "maxcut", "-n", "team", "-o", "csv"];
        let Command::Series(series) = Args::try_parse_from(line).unwrap().command;
        assert_eq!(series.name.as_deref(), Some("maxcut"));
        assert_eq!(series.place.namespace.as_deref(), Some("team"));
        assert_eq!(series.output, Form::Csv);
        let both = ["kubectl-sluice", "series", "-A", "-n", "team"];
        assert!(Args::try_parse_from(both).is_err(), "one or all");
    }
}

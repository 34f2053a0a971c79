//! The command line of `lab`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use sluice_lab::{Release, V1_36, images::parse_file};

/// A real Kubernetes cluster on this machine, for tests and trials.
#[derive(Debug, Parser)]
#[command(name = "lab", version)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Build the programs of the cluster into the cache (minutes the first time).
    Build {
        /// Version of Kubernetes.
        #[arg(long, value_parser = release, default_value = V1_36.version)]
        kubernetes: &'static Release,
    },
    /// Print the interpreter of the Python environment, building that first if it is missing.
    Python,
    /// Start a cluster.
    Up {
        #[command(flatten)]
        place: Place,
        /// Version of Kubernetes.
        #[arg(long, value_parser = release, default_value = V1_36.version)]
        kubernetes: &'static Release,
        /// Seconds to wait for another cluster of this machine to go.
        #[arg(long, default_value_t = 0)]
        wait: u64,
        /// Nodes without machines to add.
        #[arg(long, default_value_t = 0)]
        kwok_nodes: u32,
        /// Feature gates to switch on besides the usual ones, as in `WorkloadWithJob`.
        #[arg(long = "feature", value_name = "GATE")]
        features: Vec<String>,
    },
    /// Stop the cluster and remove what is left of it, but its logs.
    Down {
        #[command(flatten)]
        place: Place,
    },
    /// Show what runs.
    Status {
        #[command(flatten)]
        place: Place,
    },
    /// Make an image of files and load it into the node.
    Image {
        #[command(flatten)]
        place: Place,
        /// Name and tag of the image.
        #[arg(value_name = "NAME:TAG")]
        name: String,
        /// A file and its place in the image; shared libraries of programs are added.
        #[arg(long = "file", value_name = "/FILE=/PLACE", value_parser = parse_file, required = true)]
        files: Vec<(PathBuf, PathBuf)>,
        /// What the image starts, with its arguments; the first file's place if not given.
        #[arg(long, num_args = 1..)]
        entrypoint: Vec<String>,
    },
    /// Load the images that tests use: tools and Python.
    Images {
        #[command(flatten)]
        place: Place,
    },
    /// Build the product, load its images, and apply its manifests.
    Install {
        #[command(flatten)]
        place: Place,
        /// Folder with the kustomization.
        #[arg(long, default_value = "manifests/overlays/lab")]
        kustomization: PathBuf,
        /// Name of the webhook's image, as the manifests name it.
        #[arg(long)]
        webhook_image: Option<String>,
        /// Name of the sidecar's image, as the manifests name it.
        #[arg(long)]
        sidecar_image: Option<String>,
    },
    /// Run kubectl on the cluster.
    Kubectl {
        #[command(flatten)]
        place: Place,
        /// What kubectl is told.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

/// Which cluster.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// State directory; below the cache if not given.
    #[arg(long, env = "SLUICE_LAB_DIR")]
    pub(crate) dir: Option<PathBuf>,
}

fn release(text: &str) -> Result<&'static Release, String> {
    Release::of(text).ok_or_else(|| {
        let known: Vec<_> = sluice_lab::RELEASES.iter().map(|release| release.version).collect();
        format!("this lab knows Kubernetes {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        LabArgs::command().debug_assert();
    }

    #[test]
    fn an_unknown_version_is_refused_with_the_known_ones() {
        let error = LabArgs::try_parse_from(["lab", "up", "--kubernetes", "1.20"])
            .expect_err("unknown")
            .to_string();
        assert!(error.contains("1.36.3"), "{error}");
    }

    #[test]
    fn features_and_nodes_are_read() {
        let line = ["lab", "up", "--feature", "A", "--feature", "B", "--kwok-nodes", "3"];
        let Action::Up { features, kwok_nodes, .. } =
            LabArgs::try_parse_from(line).expect("valid").action
        else {
            panic!("not `up`");
        };
        assert_eq!((features, kwok_nodes), (vec!["A".to_owned(), "B".to_owned()], 3));
    }
}

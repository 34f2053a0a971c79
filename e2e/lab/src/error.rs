//! The one error of the crate. Every message says what was wrong, where, and what to do.

use std::{fmt::Display, io, path::Path, time::Duration};

/// What can go wrong in the lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something of the machine is missing; the text lists all of it.
    #[error("{0}")]
    Missing(String),
    /// A file or a system call failed.
    #[error("could not {doing}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("{command} failed ({status}):\n{output}")]
    Command {
        /// The command line.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A part of the cluster did not become ready.
    #[error("{part} was not ready within {} s: {reason}\nlog: {log}\n{tail}", limit.as_secs())]
    NotReady {
        /// Which part.
        part: String,
        /// How long was waited.
        limit: Duration,
        /// What the last probe said.
        reason: String,
        /// The file with its log.
        log: String,
        /// The last lines of that file.
        tail: String,
    },
    /// Another cluster is in the way.
    #[error("{0}")]
    Occupied(String),
    /// There is no running cluster.
    #[error("no cluster runs from {0}: start one with `lab up`")]
    NotRunning(String),
    /// The Kubernetes API refused or was out of reach.
    #[error("could not {doing}")]
    Kube {
        /// What was asked.
        doing: String,
        /// The client's error.
        #[source]
        source: Box<kube::Error>,
    },
    /// A condition was not met in time.
    #[error("{what}: not so within {} s; last seen:\n{seen}", limit.as_secs())]
    Unmet {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// The object as it was last seen, as YAML.
        seen: String,
    },
    /// A value could not be used.
    #[error("{0}")]
    Invalid(String),
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err`: names the step that a system error belongs to.
    pub(crate) fn io(doing: impl Display) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing: doing.to_string(), source }
    }

    /// For `map_err`: names the step that an API error belongs to.
    pub(crate) fn kube(doing: impl Display) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube { doing: doing.to_string(), source: Box::new(source) }
    }

    /// The error with all its causes in one text.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(inner) = cause {
            text.push_str(": ");
            text.push_str(&inner.to_string());
            cause = inner.source();
        }
        text
    }
}

/// Writes a file, making its folder.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    if let Some(folder) = path.parent() {
        make_dir(folder)?;
    }
    std::fs::write(path, text).map_err(Error::io(format!("write {}", path.display())))
}

/// Makes a folder and those above it.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(Error::io(format!("make {}", path.display())))
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))
}

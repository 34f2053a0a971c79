//! The state directory: what is where.

use std::path::{Path, PathBuf};

use crate::{
    cache,
    error::{Error, Result},
    process,
};

/// The paths below one state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

/// A Unix socket has a path of at most 107 bytes; the longest of ours adds 36 to the root.
const LONGEST_ROOT: usize = 107 - 36;

impl Layout {
    /// The layout below `root`, or below the cache if none is given.
    ///
    /// # Errors
    /// If the path is too long for the sockets in it.
    pub fn of(root: Option<&Path>) -> Result<Self> {
        let root = match root {
            Some(root) => std::path::absolute(root)
                .map_err(Error::io(format!("make {} absolute", root.display())))?,
            None => cache::root()?.join("lab"),
        };
        let length = root.as_os_str().len();
        if length > LONGEST_ROOT {
            return Err(Error::Invalid(format!(
                "the state directory {} has a path of {length} bytes; sockets allow {LONGEST_ROOT}: choose a shorter one with --dir",
                root.display()
            )));
        }
        Ok(Self { root })
    }

    /// The state directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// The logs; they stay when the cluster goes.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The log of one component.
    #[must_use]
    pub fn log(&self, component: &str) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    pub(crate) fn pid(&self, component: &str) -> PathBuf {
        process::pid_file(&self.root.join("pids"), component)
    }

    /// How this cluster was asked for, for a later start of one component.
    pub(crate) fn wishes(&self) -> PathBuf {
        self.root.join("wishes.json")
    }

    /// Kernel settings as they were before.
    pub(crate) fn kernel_settings(&self) -> PathBuf {
        self.root.join("kernel.json")
    }

    pub(crate) fn credential(&self, name: &str) -> PathBuf {
        self.root.join("credentials").join(name)
    }

    pub(crate) fn settings(&self, name: &str) -> PathBuf {
        self.root.join("settings").join(name)
    }

    pub(crate) fn etcd(&self) -> PathBuf {
        self.root.join("etcd")
    }

    pub(crate) fn kubelet(&self) -> PathBuf {
        self.root.join("kubelet")
    }

    pub(crate) fn containerd(&self) -> PathBuf {
        self.root.join("containerd")
    }

    /// The socket of containerd.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.containerd().join("containerd.sock")
    }

    pub(crate) fn cni(&self) -> PathBuf {
        self.root.join("cni")
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_too_long_for_sockets_is_refused() {
        let long = format!("/{}", "a".repeat(90));
        let error = Layout::of(Some(Path::new(&long))).expect_err("too long");
        assert!(error.to_string().contains("--dir"));
    }

    #[test]
    fn the_longest_root_leaves_room_for_the_sockets() {
        let root = format!("/{}", "a".repeat(LONGEST_ROOT - 1));
        let layout = Layout::of(Some(Path::new(&root))).expect("fits");
        // containerd adds this to the name of its socket.
        let longest = format!("{}.ttrpc", layout.socket().display());
        assert!(longest.len() <= 107, "{}", longest.len());
    }
}

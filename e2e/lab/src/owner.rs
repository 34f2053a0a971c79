//! One cluster at a time: who has the machine.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    components::{ALL, Component},
    error::{Error, Result, make_dir, read, write},
    layout::Layout,
    process::{self, Identity},
};

const FOLDER: &str = "/run/sluice-lab";

/// The cluster that has the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Its state directory.
    pub(crate) dir: PathBuf,
    /// The process whose cluster it is; none if it stands on its own.
    pub(crate) holder: Option<Identity>,
}

impl Owner {
    /// The cluster that is recorded now.
    pub(crate) fn recorded() -> Option<Self> {
        serde_json::from_str(&read(&file()).ok()?).ok()
    }

    /// Records this one.
    pub(crate) fn record(&self) -> Result<()> {
        write(&file(), serde_json::to_vec(self).unwrap_or_default())
    }

    /// Nobody has the machine.
    pub(crate) fn forget() -> Result<()> {
        match std::fs::remove_file(file()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(format!("remove {}", file().display()))(e))
            }
            _ => Ok(()),
        }
    }

    /// Is that cluster in use? Not if its holder has died or none of its processes runs.
    pub(crate) fn in_use(&self) -> bool {
        let held = self.holder.as_ref().is_none_or(Identity::is_alive);
        held && Layout::of(Some(&self.dir)).is_ok_and(|layout| is_running(&layout))
    }
}

/// Does any component of the cluster run?
pub(crate) fn is_running(layout: &Layout) -> bool {
    ALL.into_iter().any(|component| !processes(layout, component).is_empty())
}

/// The living processes of a component: the one that is remembered, and any that was started
/// from this state directory and forgotten, say because somebody emptied the directory.
pub(crate) fn processes(layout: &Layout, component: Component) -> Vec<Identity> {
    let remembered = process::recall(&layout.pid(component.name())).filter(Identity::is_alive);
    let mut all = process::running_from(layout.root(), component.name());
    all.retain(|identity| remembered.as_ref() != Some(identity) && identity.is_alive());
    remembered.into_iter().chain(all).collect()
}

/// Held while a cluster is started or stopped, by one process of the machine.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: File,
}

impl Turn {
    /// Waits until it is our turn.
    pub(crate) fn take() -> Result<Self> {
        make_dir(Path::new(FOLDER))?;
        let path = Path::new(FOLDER).join("lock");
        let lock = File::create(&path).map_err(Error::io(format!("open {}", path.display())))?;
        lock.lock().map_err(Error::io(format!("lock {}", path.display())))?;
        Ok(Self { _lock: lock })
    }
}

fn file() -> PathBuf {
    Path::new(FOLDER).join("owner.json")
}

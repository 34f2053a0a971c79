//! Python environments of the programs of tests and demo, each built from a committed lock file.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    cache,
    command::run,
    error::{Error, Result, write},
    prerequisites::{self, Need},
    progress::Step,
};

const LOCK: &str = include_str!("../python/requirements.txt");
const VENDORS: &str = include_str!("../python/vendors.txt");

/// A virtual environment with amazon-braket-sdk and boto3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonEnv {
    /// The environment: `<cache>/python/<hash>`.
    pub venv: PathBuf,
    /// Where the interpreter itself and its library are installed (`sys.base_prefix`).
    pub base_prefix: PathBuf,
}

impl PythonEnv {
    /// The interpreter of the environment.
    #[must_use]
    pub fn python(&self) -> PathBuf {
        self.venv.join("bin/python")
    }

    /// The folders of the host that a container needs to run this Python, at the same paths.
    #[must_use]
    pub fn host_paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = ["/usr", "/lib", "/lib64"].map(PathBuf::from).into();
        for path in [&self.venv, &self.base_prefix] {
            if !paths.iter().any(|known| path.starts_with(known)) {
                paths.push(path.clone());
            }
        }
        paths
    }

    /// The `volumes` of a pod that bring the Python in from the host.
    #[must_use]
    pub fn volumes(&self) -> Value {
        self.host_paths()
            .iter()
            .enumerate()
            .map(|(n, path)| {
                json!({"name": format!("python-{n}"), "hostPath": {"path": path, "type": "Directory"}})
            })
            .collect()
    }

    /// The `volumeMounts` of a container that go with [`PythonEnv::volumes`].
    #[must_use]
    pub fn mounts(&self) -> Value {
        self.host_paths()
            .iter()
            .enumerate()
            .map(|(n, path)| {
                json!({"name": format!("python-{n}"), "mountPath": path, "readOnly": true})
            })
            .collect()
    }
}

/// The environment of the cluster's programs, built first if it is missing (about a minute).
///
/// # Errors
/// If Python is missing or too old, or packages cannot be installed.
pub fn python_env() -> Result<PythonEnv> {
    python_env_of("the cluster's programs", LOCK)
}

/// The environment with QRMI and the Python clients of its vendors, built first if it is missing
/// (about a minute, 0.8 GB).
///
/// # Errors
/// If Python is missing or too old, or packages cannot be installed.
pub fn vendors_python_env() -> Result<PythonEnv> {
    python_env_of("the vendors' clients", VENDORS)
}

/// The environment of a lock file (the text of it, as `pip freeze` writes it), built first if it
/// is missing. `whose` is shown while it is built. Equal texts share one environment.
///
/// # Errors
/// If Python is missing or too old, or packages cannot be installed.
pub fn python_env_of(whose: &str, lock: &str) -> Result<PythonEnv> {
    prerequisites::ensure(Need::Python)?;
    // The interpreter is part of the key: an environment does not outlive it.
    let base = run(Command::new("python3")
        .args(["-c", "import sys; print(sys.base_prefix); print(sys.version)"]))?;
    let key = cache::key(&[("lock", lock.as_bytes()), ("python", base.as_bytes())]);
    let base_prefix = PathBuf::from(base.lines().next().unwrap_or_default());
    let place = cache::root()?.join("python").join(&key);
    let venv = cache::entry("python", &key, |work| {
        let step = Step::begin(format!("building the Python environment of {whose}"), true);
        install(work, &place, lock)?;
        step.done();
        Ok(())
    })?;
    Ok(PythonEnv { venv, base_prefix })
}

fn install(work: &Path, place: &Path, lock: &str) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(work))?;
    let file = work.join("requirements.txt");
    write(&file, lock)?;
    run(Command::new(work.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "-r"])
        .arg(&file))?;
    relocate(work, place)
}

/// Scripts name the interpreter by its full path: they are written for the final place.
fn relocate(work: &Path, place: &Path) -> Result<()> {
    let bin = work.join("bin");
    let entries = std::fs::read_dir(&bin).map_err(Error::io(format!("list {}", bin.display())))?;
    let (from, to) = (work.to_string_lossy(), place.to_string_lossy());
    for entry in entries {
        let path = entry.map_err(Error::io(format!("list {}", bin.display())))?.path();
        if path.is_symlink() {
            continue;
        }
        // Programs that are not text have no such line.
        if let Ok(text) = std::fs::read_to_string(&path)
            && text.contains(&*from)
        {
            write(&path, text.replace(&*from, &to))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(base: &str) -> PythonEnv {
        PythonEnv { venv: "/cache/python/abc".into(), base_prefix: base.into() }
    }

    #[test]
    fn a_path_below_another_is_not_mounted_twice() {
        let paths = |base| env(base).host_paths().len();
        assert_eq!(paths("/usr"), 4);
        assert_eq!(paths("/usr/local"), 4);
        assert_eq!(paths("/opt/python"), 5);
    }

    #[test]
    fn mounts_and_volumes_go_together() {
        let env = env("/opt/python");
        let names = |value: &Value| -> Vec<String> {
            value
                .as_array()
                .expect("a list")
                .iter()
                .map(|entry| entry["name"].as_str().expect("a name").to_owned())
                .collect()
        };
        assert_eq!(names(&env.volumes()), names(&env.mounts()));
        assert_eq!(env.mounts()[3]["mountPath"], "/cache/python/abc");
        assert_eq!(env.mounts()[3]["readOnly"], true);
    }

    #[test]
    fn the_lock_is_full() {
        let pins: Vec<_> = LOCK.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(pins.contains(&"amazon-braket-sdk==1.127.5") && pins.contains(&"boto3==1.44.8"));
        assert!(pins.iter().all(|pin| pin.contains("==")), "{pins:?}");
    }
}

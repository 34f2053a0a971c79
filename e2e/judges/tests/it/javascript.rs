//! Packages for Node from the committed lock, in the cache beside the Python environments.

use std::path::{Path, PathBuf};
use std::process::Command;

use sluice_lab::{Error, cache};

const PACKAGE: &str = include_str!("../../javascript/package.json");
const LOCK: &str = include_str!("../../javascript/package-lock.json");
const NEEDED: &str = "the JavaScript judge needs node 20 or newer and npm in PATH: install them \
                      (Debian: nodejs npm)";

/// The folder `node_modules`, installed first if it is missing.
pub(crate) fn modules() -> PathBuf {
    let version = output(Command::new("node").arg("--version"));
    let major = version.trim_start_matches('v').split('.').next().unwrap_or_default();
    assert!(major.parse::<u32>().is_ok_and(|major| major >= 20), "{NEEDED}; found {version}");
    let key = cache::key(&[("package", PACKAGE.as_bytes()), ("lock", LOCK.as_bytes())]);
    cache::entry("node", &key, install).unwrap().join("node_modules")
}

fn install(work: &Path) -> Result<(), Error> {
    for (name, text) in [("package.json", PACKAGE), ("package-lock.json", LOCK)] {
        let path = work.join(name);
        std::fs::write(&path, text)
            .map_err(|source| Error::Io { doing: format!("write {}", path.display()), source })?;
    }
    output(
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(work),
    );
    Ok(())
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{NEEDED}; {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

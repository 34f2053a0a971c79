//! Processes of containers, seen from the machine: whom a fault kills.

use std::fs;

use anyhow::{Context, Result, bail};
use sluice_lab::process::Identity;

/// A process of a container.
#[derive(Debug, Clone)]
pub struct Found {
    /// Which process.
    pub identity: Identity,
    parent: i32,
}

/// The processes whose program is `program` and whose environment holds `mark`
/// (`NAME=value`).
#[must_use]
pub fn find(program: &str, mark: &str) -> Vec<Found> {
    let Ok(listing) = fs::read_dir("/proc") else { return Vec::new() };
    listing
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| command(*pid).is_some_and(|c| c.rsplit('/').next() == Some(program)))
        .filter(|pid| has_mark(*pid, mark))
        .filter_map(|pid| Some(Found { identity: Identity::of(pid)?, parent: parent(pid)? }))
        .collect()
}

/// The one among them that is a child of another one: the worker beside its parent.
///
/// # Errors
/// If there is none, or more than one.
pub fn worker(program: &str, mark: &str) -> Result<Identity> {
    let all = find(program, mark);
    let mut workers = all.iter().filter(|p| all.iter().any(|other| other.identity.pid == p.parent));
    let worker =
        workers.next().with_context(|| format!("no worker of {program} with {mark}: {all:?}"))?;
    if workers.next().is_some() {
        bail!("more than one worker of {program} with {mark}: {all:?}");
    }
    Ok(worker.identity.clone())
}

fn command(pid: i32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = line.split(|b| *b == 0).next()?;
    Some(String::from_utf8_lossy(first).into_owned())
}

fn has_mark(pid: i32, mark: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|b| *b == 0).any(|entry| entry == mark.as_bytes()))
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()
}

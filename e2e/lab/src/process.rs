//! Processes that outlive the program that started them, and how to stop exactly those.
//!
//! A process is known by its id, its start time and the boot of the machine: a number that was
//! given to another process since is never signalled.

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid,
};
use serde::{Deserialize, Serialize};

use crate::{
    components::Launch,
    error::{Error, Result, make_dir, read, write},
};

/// One process of this machine, for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its id.
    pub pid: i32,
    /// Its start, in clock ticks since the boot.
    pub started: u64,
    /// The boot it belongs to.
    pub boot: String,
}

/// What `/proc/<pid>/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    started: u64,
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may hold anything, even parentheses.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

impl Identity {
    /// The process that has this id now.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, started: stat(pid)?.started, boot: boot() })
    }

    /// This very process.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(i32::try_from(std::process::id()).ok()?)
    }

    /// Does it still run? A zombie does not.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // If it is our child and has ended, nobody else takes its status.
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        self.is_listed() && stat(self.pid).is_some_and(|now| !matches!(now.state, 'Z' | 'X'))
    }

    fn is_listed(&self) -> bool {
        self.boot == boot() && stat(self.pid).is_some_and(|now| now.started == self.started)
    }

    /// Sends a signal; nothing happens if the process is gone.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        // The descriptor is taken first and the identity checked after: what the descriptor
        // names cannot change any more.
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
            && self.is_listed()
        {
            let _ = pidfd_send_signal(handle, signal);
        }
    }

    /// Waits until it is gone. False if it still runs after `limit`.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.is_alive() {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    /// Asks it to end, and after `grace` kills it. Blocks until it is gone.
    ///
    /// # Errors
    /// If it is still there ten seconds after it was killed.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        self.signal(Signal::TERM);
        // A stopped process takes no other signal.
        self.signal(Signal::CONT);
        if self.wait(grace) {
            return Ok(());
        }
        self.kill()
    }

    /// Kills it. Blocks until it is gone.
    ///
    /// # Errors
    /// If it is still there after ten seconds.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL);
        if self.wait(Duration::from_secs(10)) {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "process {} does not end although it was killed: look at /proc/{}/stack",
            self.pid, self.pid
        )))
    }
}

/// Starts a program in a session of its own, with its output appended to `log`.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn spawn(launch: &Launch, log: &Path, home: &Path) -> Result<Identity> {
    if let Some(folder) = log.parent() {
        make_dir(folder)?;
    }
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(Error::io(format!("open the log {}", log.display())))?;
    let errors = file.try_clone().map_err(Error::io("share a log"))?;
    let doing = || format!("start {}", launch.program.display());
    // setsid replaces itself by the program, so the id stays. The environment is not inherited:
    // it may hold secrets and proxies of the user.
    let child = Command::new("setsid")
        .arg(&launch.program)
        .args(&launch.args)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", home)
        .envs(launch.env.iter().copied())
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .map_err(Error::io(doing()))?;
    i32::try_from(child.id())
        .ok()
        .and_then(Identity::of)
        .ok_or_else(|| Error::Invalid(format!("could not {}: it ended at once", doing())))
}

/// The file that remembers a process.
pub(crate) fn remember(file: &Path, identity: &Identity) -> Result<()> {
    write(file, serde_json::to_vec(identity).unwrap_or_default())
}

/// The process that a file remembers; none if there is no such file or it is damaged.
pub(crate) fn recall(file: &Path) -> Option<Identity> {
    serde_json::from_str(&read(file).ok()?).ok()
}

/// All processes of the machine: id, parent, command line with blanks between the words.
fn all() -> Vec<(i32, i32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            Some((pid, stat(pid)?.parent, line))
        })
        .collect()
}

/// The processes of a program that were given a path below `folder`.
pub(crate) fn running_from(folder: &Path, program: &str) -> Vec<Identity> {
    let mark = format!("{}/", folder.display());
    all()
        .into_iter()
        .filter(|(_, _, line)| is_program(line, program) && line.contains(&mark))
        .filter_map(|(pid, _, _)| Identity::of(pid))
        .collect()
}

fn is_program(line: &str, program: &str) -> bool {
    let first = line.split(' ').next().unwrap_or_default();
    first.rsplit('/').next() == Some(program)
}

/// The shims of a containerd and every process below them, the deepest first.
pub(crate) fn containers_of(socket: &Path) -> Vec<Identity> {
    let mark = format!("-address {} ", socket.display());
    let processes = all();
    let shims = processes
        .iter()
        .filter(|(_, _, line)| {
            line.contains("containerd-shim") && format!("{line} ").contains(&mark)
        })
        .map(|(pid, _, _)| *pid);
    let tree = descendants(shims.collect(), &processes);
    tree.into_iter().rev().filter_map(Identity::of).collect()
}

fn descendants(roots: Vec<i32>, processes: &[(i32, i32, String)]) -> Vec<i32> {
    let mut found = roots;
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        for (pid, of, _) in processes {
            if *of == parent && !found.contains(pid) {
                found.push(*pid);
            }
        }
        next += 1;
    }
    found
}

/// The processes whose command line names a path: for tests and for messages.
#[must_use]
pub fn naming(path: &Path) -> Vec<(i32, String)> {
    let text = path.to_string_lossy().into_owned();
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    all()
        .into_iter()
        .filter(|(pid, _, line)| *pid != own && line.contains(&text))
        .map(|(pid, _, line)| (pid, line))
        .collect()
}

/// Where the process of a component is remembered.
pub(crate) fn pid_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_whatever_the_name() {
        let rest = "S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
        let wanted = Some(Stat { state: 'S', parent: 7, started: 4242 });
        assert_eq!(parse_stat(&format!("12 (a b) c) {rest}")), wanted);
        assert_eq!(parse_stat("12 (cut"), None);
        assert_eq!(parse_stat("12 (short) S 7"), None);
    }

    #[test]
    fn a_reused_number_is_another_process() {
        let own = Identity::own().expect("this process");
        assert!(own.is_alive());
        let earlier = Identity { started: own.started - 1, ..own.clone() };
        assert!(!earlier.is_alive());
        let other_boot = Identity { boot: "another".into(), ..own };
        assert!(!other_boot.is_alive());
    }

    #[test]
    fn a_foreign_process_survives_stop() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let real = Identity::of(i32::try_from(child.id()).expect("pid")).expect("identity");
        let stale = Identity { started: real.started + 1, ..real.clone() };
        stale.stop(Duration::from_millis(1)).expect("nothing to do");
        stale.signal(Signal::KILL);
        assert!(real.is_alive());
        real.stop(Duration::from_secs(5)).expect("stopped");
        assert!(!real.is_alive());
        let _ = child.wait();
    }

    #[test]
    fn one_that_ignores_the_request_is_killed() {
        let dir = tempfile::tempdir().expect("dir");
        let log = dir.path().join("log");
        let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done".to_owned();
        let shell = Launch { program: "/bin/sh".into(), args: vec!["-c".into(), script], env: &[] };
        let stubborn = spawn(&shell, &log, dir.path()).expect("started");
        let end = Instant::now() + Duration::from_secs(10);
        while std::fs::read_to_string(&log).unwrap_or_default().is_empty() {
            assert!(Instant::now() < end, "the shell did not begin");
            std::thread::yield_now();
        }
        stubborn.stop(Duration::from_millis(200)).expect("killed");
        assert!(!stubborn.is_alive());
    }

    #[test]
    fn a_program_is_known_by_its_file_name() {
        assert!(is_program("/cache/bin/etcd --data-dir=/lab/etcd", "etcd"));
        assert!(is_program("kwok", "kwok"));
        assert!(!is_program("vim /lab/etcd", "etcd"));
        assert!(!is_program("/bin/etcdctl", "etcd"));
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let processes = [(5, 4, String::new()), (4, 1, String::new()), (9, 1, String::new())];
        assert_eq!(descendants(vec![4], &processes), [4, 5]);
    }

    #[test]
    fn what_is_remembered_is_recalled() {
        let dir = tempfile::tempdir().expect("dir");
        let own = Identity::own().expect("this process");
        let file = pid_file(dir.path(), "etcd");
        assert_eq!(recall(&file), None);
        remember(&file, &own).expect("written");
        assert_eq!(recall(&file), Some(own));
    }
}

//! The parent process: owns the sockets and the signals, and keeps a worker running.
//!
//! An SDK gives up on a closed port within a fraction of a second, but waits for an answer on an
//! open one. So the sockets live here, in a process that does nothing that could fail, and a
//! worker that dies is replaced while the kernel holds the program's connections.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getppid, kill_process, set_parent_process_death_signal,
    wait,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};
use tracing::{error, warn};

use crate::app::Sockets;
use crate::ending::act::LONGEST;
use crate::environment::{self, Change};

/// First descriptor that is handed down, by the convention of socket activation.
const FIRST: i32 = 3;
/// The worker's time to end after it was told to.
const GRACE: Duration = Duration::from_secs(2);
/// The same for a worker that asks for more: it has live tasks to settle. The kubelet may be
/// quicker.
const LONG_GRACE: Duration = LONGEST.saturating_add(GRACE);
/// The signal by which a worker asks for it.
const MORE: Signal = Signal::USR1;
/// A worker that lived this long did not die of its start.
const HEALTHY: Duration = Duration::from_secs(5);

/// Asks the kernel to end this worker with its parent, whatever ends the parent.
///
/// # Errors
/// When the kernel refuses.
pub fn die_with_it() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("no tie to the parent process")
}

/// Asks the parent for more time to end. A worker that hangs does not, and is killed early.
pub fn ask_for_time() {
    if let Some(parent) = getppid() {
        send(Some(parent), MORE);
    }
}

/// Keeps a worker running until told to stop.
///
/// # Errors
/// When signals cannot be received, or the sockets cannot be handed down.
pub async fn run(sockets: &Sockets) -> Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut child = signal(SignalKind::child())?;
    let mut more = signal(SignalKind::user_defined1())?;
    let mut crashes: u32 = 0;
    // Until when the worker has to be gone, once told to stop.
    let mut deadline: Option<Instant> = None;
    let mut worker = start(sockets);
    let mut started = Instant::now();
    let mut restart_at: Option<Instant> = worker.is_none().then_some(started);
    loop {
        tokio::select! {
            biased;
            _ = child.recv() => {}
            _ = term.recv() => deadline = Some(stop(worker, deadline, Signal::TERM)),
            _ = int.recv() => deadline = Some(stop(worker, deadline, Signal::INT)),
            _ = more.recv() => deadline = deadline.map(|_| Instant::now() + LONG_GRACE),
            () = wake(restart_at) => {
                started = Instant::now();
                worker = start(sockets);
                restart_at = worker.is_none().then(|| {
                    crashes = crashes.saturating_add(1);
                    started + pause(crashes)
                });
            }
            () = wake(deadline) => {
                warn!("the worker did not end in time and is killed");
                deadline = Some(Instant::now() + GRACE);
                send(worker, Signal::KILL);
            }
        }
        if let Some(status) = worker.and_then(reap) {
            worker = None;
            if deadline.is_none() {
                crashes = if started.elapsed() < HEALTHY { crashes.saturating_add(1) } else { 0 };
                let pause = pause(crashes);
                warn!(
                    "the worker ended ({}) and is started again in {} ms; requests are held",
                    words(status),
                    pause.as_millis()
                );
                restart_at = Some(Instant::now() + pause);
            }
        }
        if deadline.is_some() && worker.is_none() {
            return Ok(());
        }
    }
}

/// Sleeps until `at`, without one for ever.
async fn wake(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Passes a signal on; a second one ends the worker at once.
fn stop(worker: Option<Pid>, told: Option<Instant>, with: Signal) -> Instant {
    if told.is_some() {
        send(worker, Signal::KILL);
        return Instant::now() + GRACE;
    }
    send(worker, with);
    Instant::now() + GRACE
}

fn send(process: Option<Pid>, signal: Signal) {
    let Some(process) = process else { return };
    if let Err(error) = kill_process(process, signal) {
        // It has ended a moment ago; a worker is about to be reaped.
        tracing::debug!("process {process:?} takes no signal: {error}");
    }
}

/// Pause before the next start: none after a single crash, growing to a second in a loop of
/// crashes. There is no last start. PURE.
#[must_use]
pub fn pause(crashes: u32) -> Duration {
    match crashes {
        0 | 1 => Duration::ZERO,
        n => Duration::from_millis(25).saturating_mul(1 << n.min(10)).min(Duration::from_secs(1)),
    }
}

fn start(sockets: &Sockets) -> Option<Pid> {
    match spawn(sockets) {
        Ok(pid) => pid,
        Err(error) => {
            error!("the worker cannot be started: {error:#}; trying again");
            None
        }
    }
}

/// Starts a worker with the sockets as its descriptors 3 and 4. Who started it reaps it by its id,
/// see [`reap`].
fn spawn(sockets: &Sockets) -> Result<Option<Pid>> {
    let listeners = std::iter::once(&sockets.control).chain(&sockets.tap);
    let mut mappings = Vec::new();
    for (child_fd, listener) in (FIRST..).zip(listeners) {
        let parent_fd = OwnedFd::from(listener.try_clone().context("no copy of a socket")?);
        mappings.push(FdMapping { parent_fd, child_fd });
    }
    let own = std::env::current_exe().context("the own binary is not found")?;
    let mut command = Command::new(own);
    let environment = environment::changes(
        |name| std::env::var(name).ok(),
        |path| std::path::Path::new(path).exists(),
    );
    for change in environment {
        match change {
            Change::Set(name, value) => command.env(name, value),
            Change::Remove(name, path) => {
                warn!(
                    "{name} names {path}, which the sidecar does not have; it trusts the roots of \
                     its own image; mount that file as a volume in the container that asks for \
                     the qpu"
                );
                command.env_remove(name)
            }
        };
    }
    command
        .arg("worker")
        .env("LISTEN_FDS", mappings.len().to_string())
        // The worker's own id is not known before it runs; without the variable it is not checked.
        .env_remove("LISTEN_PID")
        .fd_mappings(mappings)
        .context("the sockets cannot be handed down")?;
    let child = command.spawn().context("the own binary cannot be run")?;
    Ok(i32::try_from(child.id()).ok().and_then(Pid::from_raw))
}

/// Collects every child that has ended (process 1 inherits orphans of the pod's containers), and
/// says whether the worker is among them.
fn reap(worker: Pid) -> Option<WaitStatus> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == worker {
            ended = Some(status);
        }
    }
    ended
}

fn words(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_at_once_and_the_pause_stays_under_a_second() {
        let millis: Vec<u128> =
            [0, 1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|n| pause(n).as_millis()).into();
        assert_eq!(millis, [0, 0, 100, 200, 400, 800, 1000, 1000, 1000]);
    }
}

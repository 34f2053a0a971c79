//! Stopping a cluster, whatever state it is in.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::{
    command::blocking,
    components::{ALL, Component},
    error::Result,
    host,
    layout::Layout,
    owner::{Owner, Turn, processes},
    process::{self, Identity},
    progress::Step,
};

/// Stops the cluster of a state directory and removes what is left of it, but the logs. Nothing
/// happens if there is none.
///
/// # Errors
/// If something cannot be stopped or removed.
pub async fn down(dir: Option<&Path>) -> Result<()> {
    down_from(&Layout::of(dir)?).await
}

pub(crate) async fn down_from(layout: &Layout) -> Result<()> {
    let layout = layout.clone();
    let step = Step::begin("stopping the cluster", false);
    blocking(move || {
        let _turn = Turn::take()?;
        sweep(&layout)
    })
    .await?;
    step.done();
    Ok(())
}

/// What runs, for people: each component with its process, or that it does not run.
///
/// # Errors
/// If the state directory's path cannot be used.
pub fn status(dir: Option<&Path>) -> Result<Vec<(&'static str, Option<Identity>)>> {
    let layout = Layout::of(dir)?;
    let of = |component: Component| {
        process::recall(&layout.pid(component.name())).filter(Identity::is_alive)
    };
    Ok(ALL.map(|component| (component.name(), of(component))).into())
}

/// Stops every process of a cluster, the last started first, then removes what is left.
pub(crate) fn sweep(layout: &Layout) -> Result<()> {
    // kubelet first, so that nothing starts again what is being stopped.
    for component in ALL.into_iter().rev() {
        if component == Component::Containerd {
            for container in process::containers_of(&layout.socket()) {
                container.kill()?;
            }
        }
        for identity in processes(layout, component) {
            identity.stop(grace(component))?;
        }
    }
    host::clear(layout)?;
    if Owner::recorded().is_some_and(|owner| owner.dir == layout.root()) {
        Owner::forget()?;
    }
    Ok(())
}

/// How long a component may take to end. Nothing of it is kept, so not long.
fn grace(component: Component) -> Duration {
    match component {
        // It waits for the watches of its clients.
        Component::ApiServer => Duration::from_secs(1),
        _ => Duration::from_secs(3),
    }
}

/// Stops a cluster when it goes, unless dismissed.
#[derive(Debug)]
pub(crate) struct Keeper {
    layout: Layout,
    stopped: AtomicBool,
}

impl Keeper {
    pub(crate) fn of(layout: Layout) -> Self {
        Self { layout, stopped: AtomicBool::new(false) }
    }

    /// Somebody else sees to it.
    pub(crate) fn dismiss(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        eprintln!("stopping the cluster; its logs are kept in {}", self.layout.logs().display());
        if let Err(error) = Turn::take().and_then(|_turn| sweep(&self.layout)) {
            eprintln!("the cluster could not be stopped: {}", error.chain());
        }
    }
}

//! Faults on purpose: single components are ended, halted and started again.

use std::time::Duration;

use rustix::process::Signal;

use crate::{
    command::blocking,
    components::Component,
    error::{Error, Result},
    lab::Lab,
    process::{self, Identity},
    readiness::Probe,
    startup::launch,
};

impl Lab {
    /// The process of a component, as in `kube-apiserver`.
    ///
    /// # Errors
    /// If there is no such component, or it does not run.
    pub fn process(&self, component: &str) -> Result<Identity> {
        let component = Component::named(component)?;
        process::recall(&self.layout().pid(component.name()))
            .filter(Identity::is_alive)
            .ok_or_else(|| Error::Invalid(format!("{} does not run", component.name())))
    }

    /// Asks a component to end, and kills it after ten seconds. Returns when it is gone.
    ///
    /// # Errors
    /// If it does not run or does not end.
    pub async fn stop(&self, component: &str) -> Result<()> {
        let identity = self.process(component)?;
        blocking(move || identity.stop(Duration::from_secs(10))).await
    }

    /// Kills a component. Returns when it is gone.
    ///
    /// # Errors
    /// If it does not run or does not end.
    pub async fn kill(&self, component: &str) -> Result<()> {
        let identity = self.process(component)?;
        blocking(move || identity.kill()).await
    }

    /// Halts a component without ending it: its connections stay open and nothing answers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn freeze(&self, component: &str) -> Result<()> {
        self.process(component)?.signal(Signal::STOP);
        Ok(())
    }

    /// Lets a halted component go on.
    ///
    /// # Errors
    /// If it does not run.
    pub fn thaw(&self, component: &str) -> Result<()> {
        self.process(component)?.signal(Signal::CONT);
        Ok(())
    }

    /// Starts a component again and waits until it is ready.
    ///
    /// # Errors
    /// If it runs already or does not become ready.
    pub async fn start(&self, component: &str) -> Result<()> {
        if let Ok(running) = self.process(component) {
            return Err(Error::Invalid(format!(
                "{component} runs already, as process {}",
                running.pid
            )));
        }
        let component = Component::named(component)?;
        let identity =
            launch(component, self.layout(), self.programs(), self.release(), self.wishes())?;
        Probe::of(self.layout())?.until_ready(component, &identity, self.layout()).await
    }
}

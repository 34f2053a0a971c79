//! Steering the vendors of QRMI: jobs, machines, keys.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::access::Account;
use super::machine::{Machine, MachineChange};
use super::machines::{Job, Machines, Phase};
use crate::braket::change::ControlError;
use crate::clock;
use crate::emulator::Steering;

/// A job as the control API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    /// The vendor's id.
    pub id: String,
    /// `<service>/<machine>`.
    pub machine: String,
    /// Owner.
    pub account: String,
    /// `WAITING`, `RUNNING`, `COMPLETED`, `FAILED` or `CANCELLED`, whatever the vendor's word is.
    pub state: String,
    /// Why it failed or was cancelled.
    pub reason: Option<String>,
    /// Place in its line, while it waits.
    pub position: Option<u64>,
    /// Its session or batch.
    pub group: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

impl JobView {
    fn of(machines: &Machines, job: &Job) -> Self {
        let reason = match &job.phase {
            Phase::Failed { reason } | Phase::Cancelled { reason } => Some(reason.clone()),
            _ => None,
        };
        let machine = machines.machine(&job.machine).map(Machine::full_name);
        Self {
            id: job.id.clone(),
            machine: machine.unwrap_or_else(|| job.machine.clone()),
            account: job.account.clone(),
            state: job.phase.as_str().to_owned(),
            reason,
            position: machines.position(&job.id),
            group: job.group.clone(),
            created: job.created,
            started: job.started,
            ended: job.ended,
        }
    }
}

/// An end that is forced onto a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Forced {
    /// It fails.
    Failed,
    /// It is cancelled, by nobody who uses it.
    Cancelled,
}

impl Steering {
    /// Jobs at the vendors of QRMI, newest first within a vendor.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobView> {
        clock::advance(&self.hub, &self.tracker);
        let state = self.hub.lock();
        let of = |machines: &Machines| {
            machines.jobs().map(|job| JobView::of(machines, job)).collect::<Vec<_>>()
        };
        state.vendors.each().flat_map(|vendor| of(vendor.machines())).collect()
    }

    /// Machines of the vendors of QRMI.
    #[must_use]
    pub fn machines(&self) -> Vec<Machine> {
        let state = self.hub.lock();
        state.vendors.each().flat_map(|vendor| vendor.machines().all()).cloned().collect()
    }

    /// Changes a machine, named `<service>/<name>`.
    ///
    /// # Errors
    /// No such machine.
    pub fn change_machine(
        &self,
        full_name: &str,
        change: MachineChange,
    ) -> Result<Machine, ControlError> {
        let unknown = || ControlError::NoDevice(full_name.to_owned());
        let changed = {
            let state = &mut *self.hub.lock();
            let (service, name) = machine_of(&state.vendors, full_name).ok_or_else(unknown)?;
            let (vendor, _) = state.vendors.of(service).ok_or_else(unknown)?;
            vendor.machines_mut().change(&name, change, Timestamp::now()).ok_or_else(unknown)?
        };
        self.hub.changed.notify_one();
        Ok(changed)
    }

    /// Moves the line of one machine by a step, or the lines of all. `false`: no such machine.
    pub(crate) fn step_machines(&self, full_name: Option<&str>) -> bool {
        let now = Timestamp::now();
        let work = {
            let state = &mut *self.hub.lock();
            match full_name {
                None => state
                    .vendors
                    .each_mut()
                    .flat_map(|vendor| vendor.machines_mut().step(None, now))
                    .collect(),
                Some(full_name) => {
                    let Some((service, name)) = machine_of(&state.vendors, full_name) else {
                        return false;
                    };
                    let Some((vendor, _)) = state.vendors.of(service) else { return false };
                    vendor.machines_mut().step(Some(&name), now)
                }
            }
        };
        clock::work(&self.hub, &self.tracker, work);
        clock::advance(&self.hub, &self.tracker);
        self.hub.moved.notify_waiters();
        true
    }

    /// Ends a job by force.
    ///
    /// # Errors
    /// No such job, or one that has ended.
    pub fn force_job(&self, id: &str, state: Forced, reason: &str) -> Result<(), ControlError> {
        let now = Timestamp::now();
        {
            let vendors = &mut self.hub.lock().vendors;
            let machines = vendors
                .each_mut()
                .map(|vendor| vendor.machines_mut())
                .find(|machines| machines.job(id).is_some())
                .ok_or_else(|| ControlError::NoTask(id.to_owned()))?;
            let done = match state {
                Forced::Failed => machines.fail(id, reason, now),
                Forced::Cancelled => machines.cancel(id, reason, now),
            };
            if !done {
                return Err(ControlError::Impossible {
                    id: id.to_owned(),
                    state: format!("{state:?}"),
                    why: "it has ended",
                });
            }
        }
        clock::advance(&self.hub, &self.tracker);
        self.hub.moved.notify_waiters();
        Ok(())
    }

    /// Ends every access token that the vendors of QRMI gave out.
    pub fn end_tokens(&self) {
        self.hub.lock().vendors.access.end_tokens();
    }

    /// Takes the key of an account of these vendors away. `false`: there is no such account.
    #[must_use]
    pub fn revoke_key(&self, account: &str) -> bool {
        self.hub.lock().vendors.access.revoke(account)
    }

    /// Gives an account of these vendors a key, the old one or another.
    pub fn renew_key(&self, account: &str, key: &str) {
        self.hub.lock().vendors.access.allow(Account::new(account, key));
    }
}

fn machine_of(
    vendors: &super::Vendors,
    full_name: &str,
) -> Option<(crate::error::Service, String)> {
    vendors
        .each()
        .flat_map(|vendor| vendor.machines().all())
        .find(|machine| machine.full_name() == full_name)
        .map(|machine| (machine.service, machine.name.clone()))
}

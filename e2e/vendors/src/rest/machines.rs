//! The machines of one vendor, their lines, and the jobs in them: a pure state machine.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::compute::{Measured, Program};
use super::machine::{Busy, Machine, MachineChange, Status};
use crate::error::Service;
use crate::queue::{Happened, Lane, Queue};

/// Where a job is in its life. Each vendor has its own words for these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// In the line.
    Waiting,
    /// On the machine.
    Running,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed {
        /// For people.
        reason: String,
    },
    /// Ended by a cancel.
    Cancelled {
        /// Who or what cancelled it.
        reason: String,
    },
}

impl Phase {
    /// Whether nothing more can happen.
    #[must_use]
    pub fn ended(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }

    /// The emulator's own word, for the control API.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Failed { .. } => "FAILED",
            Self::Cancelled { .. } => "CANCELLED",
        }
    }
}

/// One job of a vendor.
#[derive(Debug, Clone)]
pub struct Job {
    /// The vendor's id of it.
    pub id: String,
    /// Account that owns it.
    pub account: String,
    /// Name of its machine.
    pub machine: String,
    /// What the client sent.
    pub request: Value,
    /// Its input, where that is not in the request.
    pub input: Value,
    /// What belongs to the job besides: its kind, tag, session or batch.
    pub group: Option<String>,
    /// What it computes.
    pub programs: Vec<Program>,
    /// Where it is.
    pub phase: Phase,
    /// When it was made.
    pub created: Timestamp,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// What was measured, one for each program; empty until it is completed.
    pub measured: Vec<Measured>,
}

impl Job {
    /// A job that waits.
    #[must_use]
    pub fn new(id: String, account: &str, machine: &str, request: Value, now: Timestamp) -> Self {
        Self {
            id,
            account: account.to_owned(),
            machine: machine.to_owned(),
            request,
            input: Value::Null,
            group: None,
            programs: Vec::new(),
            phase: Phase::Waiting,
            created: now,
            started: None,
            ended: None,
            measured: Vec::new(),
        }
    }
}

/// Programs that have to be computed because their job started.
#[derive(Debug, Clone)]
pub struct Work {
    /// The vendor.
    pub service: Service,
    /// The job.
    pub job: String,
    /// What to compute.
    pub programs: Vec<Program>,
}

#[derive(Debug, Clone)]
struct Line {
    machine: Machine,
    queue: Queue,
}

/// All machines and jobs of a vendor.
#[derive(Debug, Clone)]
pub struct Machines {
    service: Service,
    lines: BTreeMap<String, Line>,
    jobs: BTreeMap<String, Job>,
    order: Vec<String>,
    outcomes: BTreeMap<String, Result<Vec<Measured>, String>>,
    /// Work of jobs that were started out of turn, until it is asked for.
    started: Vec<Work>,
    /// Jobs that ended, until it is asked for them.
    ended: Vec<String>,
}

impl Machines {
    /// The machines of a service out of a list, without jobs.
    #[must_use]
    pub fn new(service: Service, machines: &[Machine], now: Timestamp) -> Self {
        let line = |machine: &Machine| {
            let queue = Queue::new(machine.pace, machine.ahead);
            let mut machine = machine.clone();
            machine.busy.from = Some(now);
            (machine.name.clone(), Line { machine, queue })
        };
        Self {
            service,
            lines: machines.iter().filter(|one| one.service == service).map(line).collect(),
            jobs: BTreeMap::new(),
            order: Vec::new(),
            outcomes: BTreeMap::new(),
            started: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// A machine by name.
    #[must_use]
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.lines.get(name).map(|line| &line.machine)
    }

    /// All machines.
    pub fn all(&self) -> impl Iterator<Item = &Machine> {
        self.lines.values().map(|line| &line.machine)
    }

    /// A job by id.
    #[must_use]
    pub fn job(&self, id: &str) -> Option<&Job> {
        self.jobs.get(id)
    }

    /// The same, to change what its client may.
    pub fn job_mut(&mut self, id: &str) -> Option<&mut Job> {
        self.jobs.get_mut(id)
    }

    /// A job by id, for the account that owns it: to others it is as if there were none.
    #[must_use]
    pub fn job_of(&self, account: &str, id: &str) -> Option<&Job> {
        self.job(id).filter(|job| job.account == account)
    }

    /// Jobs, newest first.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.order.iter().rev().filter_map(|id| self.jobs.get(id))
    }

    /// Place of a job in its line, from 1.
    #[must_use]
    pub fn position(&self, id: &str) -> Option<u64> {
        self.lines.get(&self.jobs.get(id)?.machine)?.queue.position(id)
    }

    /// Places in the line of a machine, foreign ones included.
    #[must_use]
    pub fn waiting(&self, machine: &str) -> u64 {
        self.lines.get(machine).map_or(0, |line| {
            let places = |lane| line.queue.waiting(lane);
            let all = places(Lane::Normal) + places(Lane::Priority);
            // Before the first submission the foreign places exist only as a number.
            if all == 0 && !line.queue.has_own() { line.machine.ahead.normal } else { all }
        })
    }

    /// Takes a job into the line of its machine.
    pub fn submit(&mut self, job: Job, lane: Lane, now: Timestamp) {
        let Some(of) = self.lines.get_mut(&job.machine) else { return };
        of.queue.hold(of.machine.status != Status::Online, now);
        of.queue.submit(&job.id, lane, now);
        self.order.push(job.id.clone());
        self.jobs.insert(job.id.clone(), job);
    }

    /// Takes a job that runs at once: on a machine without a line.
    pub fn run(&mut self, mut job: Job, now: Timestamp) {
        let Some(line) = self.lines.get_mut(&job.machine) else { return };
        line.queue.submit(&job.id, Lane::Priority, now);
        line.queue.jump(&job.id, now);
        job.phase = Phase::Running;
        job.started = Some(now);
        let (service, programs) = (self.service, job.programs.clone());
        self.started.push(Work { service, job: job.id.clone(), programs });
        self.order.push(job.id.clone());
        self.jobs.insert(job.id.clone(), job);
    }

    /// Forgets a job, as if it had never been.
    pub fn forget(&mut self, id: &str) {
        self.order.retain(|known| known != id);
        self.jobs.remove(id);
    }

    /// The jobs that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<String> {
        std::mem::take(&mut self.ended)
    }

    /// Ends a job before its time. `false`: it has ended otherwise, or there is none.
    pub fn cancel(&mut self, id: &str, reason: &str, now: Timestamp) -> bool {
        self.end(id, Phase::Cancelled { reason: reason.to_owned() }, now)
    }

    /// Lets a job fail. `false`: it has ended otherwise, or there is none.
    pub fn fail(&mut self, id: &str, reason: &str, now: Timestamp) -> bool {
        self.end(id, Phase::Failed { reason: reason.to_owned() }, now)
    }

    fn end(&mut self, id: &str, phase: Phase, now: Timestamp) -> bool {
        let Some(job) = self.jobs.get_mut(id).filter(|job| !job.phase.ended()) else {
            return false;
        };
        job.phase = phase;
        job.ended = Some(now);
        if let Some(line) = self.lines.get_mut(&job.machine) {
            line.queue.remove(id);
        }
        self.outcomes.remove(id);
        self.started.retain(|work| work.job != id);
        self.ended.push(id.to_owned());
        true
    }

    /// Lets time pass: the work of the jobs that started.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Work> {
        let happened = self.lines.values_mut().flat_map(|line| line.queue.advance(now)).collect();
        self.take(happened)
    }

    /// Moves the line of one machine, or of all, by one step.
    pub fn step(&mut self, machine: Option<&str>, now: Timestamp) -> Vec<Work> {
        let happened = self
            .lines
            .iter_mut()
            .filter(|(name, _)| machine.is_none_or(|wanted| wanted == *name))
            .flat_map(|(_, line)| line.queue.step(now))
            .collect();
        self.take(happened)
    }

    fn take(&mut self, happened: Vec<Happened>) -> Vec<Work> {
        let mut work = std::mem::take(&mut self.started);
        for event in happened {
            match event {
                Happened::Started { id, at } => {
                    let Some(job) = self.jobs.get_mut(&id) else { continue };
                    job.phase = Phase::Running;
                    job.started = Some(at);
                    let (service, programs) = (self.service, job.programs.clone());
                    work.push(Work { service, job: id, programs });
                }
                Happened::Ended { id, at } => {
                    let Some(job) = self.jobs.get_mut(&id) else { continue };
                    job.ended = Some(at);
                    self.ended.push(id.clone());
                    job.phase = match self.outcomes.remove(&id) {
                        Some(Ok(measured)) => {
                            job.measured = measured;
                            Phase::Completed
                        }
                        Some(Err(reason)) => Phase::Failed { reason },
                        None => Phase::Failed { reason: "no outcome".to_owned() },
                    };
                }
            }
        }
        work
    }

    /// Says what came out of the programs of a job that started.
    pub fn computed(&mut self, id: &str, outcome: Result<Vec<Measured>, String>, now: Timestamp) {
        // A job that was cancelled meanwhile needs no outcome.
        let Some(job) = self.jobs.get(id).filter(|job| job.phase == Phase::Running) else { return };
        if let Some(line) = self.lines.get_mut(&job.machine) {
            self.outcomes.insert(id.to_owned(), outcome);
            line.queue.ready(id, now);
        }
    }

    /// Whether a job runs whose programs are still computed.
    #[must_use]
    pub fn computes(&self) -> bool {
        self.lines.values().any(|line| line.queue.computes())
    }

    /// When something will happen next by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.lines.values().filter_map(|line| line.queue.next_due()).min()
    }

    /// Changes a machine. `None`: there is none of that name.
    pub fn change(&mut self, name: &str, change: MachineChange, now: Timestamp) -> Option<Machine> {
        let line = self.lines.get_mut(name)?;
        if let Some(status) = change.status {
            line.machine.status = status;
            line.queue.hold(status != Status::Online, now);
        }
        if let Some(pace) = change.pace {
            line.machine.pace = pace;
            line.queue.set_pace(pace, now);
        }
        if let Some(ahead) = change.ahead {
            line.machine.ahead = ahead;
            line.queue.set_ahead(ahead);
        }
        if let Some(places) = change.add_ahead {
            line.queue.add_foreign(Lane::Normal, places, now);
        }
        if let Some(reserved) = change.reserved {
            line.machine.reserved = reserved;
        }
        if let Some(busy) = change.busy {
            line.machine.busy = Busy { from: Some(now), ..busy };
        }
        Some(line.machine.clone())
    }
}

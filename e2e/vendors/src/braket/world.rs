//! Everything Braket remembers: devices, lines, tasks. Plain state; time comes in as `now`.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::change::{ControlError, DeviceChange, StateChange};
use super::device::{Device, Status};
use super::job::HybridJob;
use super::task::{Phase, Task};
use crate::error::ApiError;
use crate::queue::{Happened, Lane, Pace, Queue, TaskId, millis};

/// A program that has to be computed because its task started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The task.
    pub id: TaskId,
    /// The task's ARN.
    pub arn: String,
    /// The program, as sent.
    pub action: String,
    /// Shots.
    pub shots: u64,
    /// ARN of the device.
    pub device: String,
    /// Account that owns the result.
    pub account: String,
    /// Bucket of the result.
    pub bucket: String,
    /// Key of the result.
    pub key: String,
}

/// The state of Braket.
#[derive(Debug, Clone)]
pub struct World {
    configured: Vec<Device>,
    devices: Vec<Device>,
    queues: HashMap<(String, String), Queue>,
    tasks: HashMap<TaskId, Task>,
    order: Vec<TaskId>,
    jobs: Vec<HybridJob>,
    tokens: HashMap<(String, String, String), (Value, TaskId)>,
    outcomes: HashMap<TaskId, Result<(), String>>,
    failures: HashMap<String, (u64, String)>,
    waited: HashMap<String, usize>,
}

impl World {
    /// A world without tasks.
    #[must_use]
    pub fn new(devices: Vec<Device>) -> Self {
        Self {
            configured: devices.clone(),
            devices,
            queues: HashMap::new(),
            tasks: HashMap::new(),
            order: Vec::new(),
            jobs: Vec::new(),
            tokens: HashMap::new(),
            outcomes: HashMap::new(),
            failures: HashMap::new(),
            waited: HashMap::new(),
        }
    }

    /// Forgets all tasks and changes.
    pub fn reset(&mut self) {
        *self = Self::new(std::mem::take(&mut self.configured));
    }

    /// All devices.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// A device that a region serves.
    #[must_use]
    pub fn device(&self, arn: &str, region: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.arn == arn && device.in_region(region))
    }

    /// Tasks, newest first.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.order.iter().rev().filter_map(|id| self.tasks.get(id))
    }

    /// Hybrid jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &HybridJob> {
        self.jobs.iter()
    }

    pub(super) fn add_job(&mut self, job: HybridJob) {
        self.jobs.push(job);
    }

    /// ARN of the hybrid job with this token.
    #[must_use]
    pub fn job_of(&self, token: &str) -> Option<String> {
        self.jobs.iter().find(|job| job.token == token).map(|job| job.arn.clone())
    }

    /// A task by id or ARN.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.get(name.rsplit('/').next().unwrap_or(name))
    }

    /// The same, to change.
    pub fn task_mut(&mut self, name: &str) -> Option<&mut Task> {
        self.tasks.get_mut(name.rsplit('/').next().unwrap_or(name))
    }

    /// Place of a task in its lane.
    #[must_use]
    pub fn position(&self, task: &Task) -> Option<u64> {
        self.queue(&task.device, &task.region)?.position(&task.id)
    }

    /// Places in a lane of a device.
    #[must_use]
    pub fn waiting(&self, device: &Device, region: &str, lane: Lane) -> u64 {
        // Before the first submission the foreign places exist only as a number.
        self.queue(&device.arn, region).map_or(device.ahead.of(lane), |queue| queue.waiting(lane))
    }

    /// The task that an earlier request with the same token made, and that request.
    #[must_use]
    pub fn known_token(
        &self,
        account: &str,
        region: &str,
        token: &str,
    ) -> Option<&(Value, TaskId)> {
        self.tokens.get(&(account.to_owned(), region.to_owned(), token.to_owned()))
    }

    /// Takes a new task into its line.
    pub fn submit(&mut self, task: Task, token: &str, request: Value, now: Timestamp) {
        let Some(device) = self.device(&task.device, &task.region).cloned() else { return };
        let queue = self
            .queues
            .entry((task.device.clone(), task.region.clone()))
            .or_insert_with(|| Queue::new(device.pace, device.ahead));
        queue.hold(device.status != Status::Online, now);
        let places = queue.waiting(task.lane).max(device.ahead.of(task.lane)) + 1;
        if !queue.has_own() && !device.waits_ms.is_empty() {
            let turn = self.waited.entry(device.arn.clone()).or_default();
            let wait = device.waits_ms[*turn % device.waits_ms.len()];
            *turn += 1;
            let moves = places.div_ceil(u64::from(device.pace.places.max(1)));
            queue.set_pace(Pace { step_ms: wait / moves, ..device.pace }, now);
        }
        queue.submit(&task.id, task.lane, now);
        let key = (task.account.clone(), task.region.clone(), token.to_owned());
        self.tokens.insert(key, (request, task.id.clone()));
        self.order.push(task.id.clone());
        self.tasks.insert(task.id.clone(), task);
    }

    /// Asks a task to end. Returns the vendor's word for what happens.
    ///
    /// # Errors
    /// `ConflictException` when it has ended otherwise.
    pub fn cancel(&mut self, id: &str, now: Timestamp) -> Result<&'static str, ApiError> {
        let Some(task) = self.tasks.get_mut(id) else {
            return Err(ApiError::not_found(format!("Quantum task {id} does not exist.")));
        };
        match task.phase {
            Phase::Cancelled => return Ok("CANCELLED"),
            Phase::Cancelling { .. } => return Ok("CANCELLING"),
            Phase::Completed | Phase::Failed { .. } => {
                let status = task.status(now);
                return Err(ApiError::new(
                    "ConflictException",
                    format!("Cannot cancel a quantum task in {status} status."),
                ));
            }
            Phase::Waiting { .. } | Phase::Running => {}
        }
        let device = self.devices.iter().find(|device| device.arn == task.device);
        let wait = device.map_or(0, |device| device.pace.cancelling_ms);
        task.phase = Phase::Cancelling { until: now + millis(wait) };
        self.leave_line(id);
        Ok("CANCELLING")
    }

    /// Lets time pass. Returns the programs of the tasks that started.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Job> {
        let happened: Vec<_> =
            self.queues.values_mut().flat_map(|queue| queue.advance(now)).collect();
        let jobs = self.take(happened, now);
        for task in self.tasks.values_mut() {
            match task.phase {
                Phase::Cancelling { until } if until <= now => {
                    task.phase = Phase::Cancelled;
                    task.ended = Some(until);
                }
                _ => {}
            }
        }
        jobs
    }

    /// Moves lines by one step: of one device, or of all. Returns the programs to compute.
    ///
    /// # Errors
    /// No such device.
    pub fn step(&mut self, device: Option<&str>, now: Timestamp) -> Result<Vec<Job>, ControlError> {
        let arn = device.map(|name| self.arn_of(name)).transpose()?;
        let happened: Vec<_> = self
            .queues
            .iter_mut()
            .filter(|((device, _), _)| arn.as_ref().is_none_or(|arn| arn == device))
            .flat_map(|(_, queue)| queue.step(now))
            .collect();
        Ok(self.take(happened, now))
    }

    /// Whether a running task still has no result.
    #[must_use]
    pub fn computes(&self) -> bool {
        self.queues.values().any(Queue::computes)
    }

    /// When something will happen next by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let cancels = self.tasks.values().filter_map(|task| match task.phase {
            Phase::Cancelling { until } => Some(until),
            _ => None,
        });
        self.queues.values().filter_map(Queue::next_due).chain(cancels).min()
    }

    /// Whether a task is on its device.
    #[must_use]
    pub fn runs(&self, id: &str) -> bool {
        self.tasks.get(id).is_some_and(|task| task.phase == Phase::Running)
    }

    /// Says how the computation of a started task ended.
    pub fn computed(&mut self, id: &str, outcome: Result<(), String>, now: Timestamp) {
        // A task that was cancelled meanwhile needs no outcome.
        let Some(task) = self.tasks.get(id).filter(|task| task.phase == Phase::Running) else {
            return;
        };
        let key = (task.device.clone(), task.region.clone());
        if let Some(queue) = self.queues.get_mut(&key) {
            self.outcomes.insert(id.to_owned(), outcome);
            queue.ready(id, now);
        }
    }

    /// Changes a device.
    ///
    /// # Errors
    /// No such device.
    pub fn change_device(
        &mut self,
        name: &str,
        change: DeviceChange,
        now: Timestamp,
    ) -> Result<Device, ControlError> {
        let arn = self.arn_of(name)?;
        if let Some(count) = change.fail_next {
            let reason = change.fail_reason.unwrap_or_else(|| "The device failed.".to_owned());
            self.failures.insert(arn.clone(), (count, reason));
        }
        let Some(device) = self.devices.iter_mut().find(|device| device.arn == arn) else {
            return Err(ControlError::NoDevice(name.to_owned()));
        };
        if let Some(status) = change.status {
            device.status = status;
            device.status_reason = None;
        }
        device.status_reason = change.status_reason.or(device.status_reason.take());
        device.windows = change.windows.unwrap_or(std::mem::take(&mut device.windows));
        device.pace = change.pace.unwrap_or(device.pace);
        device.ahead = change.ahead.unwrap_or(device.ahead);
        if let Some(waits) = change.waits_ms {
            device.waits_ms = waits;
            self.waited.remove(&arn);
        }
        let device = device.clone();
        // Foreign places may be added before the first task comes.
        for region in &device.regions {
            self.queues
                .entry((arn.clone(), region.clone()))
                .or_insert_with(|| Queue::new(device.pace, device.ahead));
        }
        for (_, queue) in self.queues.iter_mut().filter(|((of, _), _)| *of == arn) {
            queue.hold(device.status != Status::Online, now);
            queue.set_pace(device.pace, now);
            queue.set_ahead(device.ahead);
            if change.clear_priority {
                queue.clear_foreign(Lane::Priority);
            }
            queue.add_foreign(Lane::Normal, change.add_normal.unwrap_or(0), now);
            queue.add_foreign(Lane::Priority, change.add_priority.unwrap_or(0), now);
        }
        Ok(device)
    }

    /// Forces a state onto a task. Returns the programs to compute.
    ///
    /// # Errors
    /// No such task, or one that has ended.
    pub fn change_state(
        &mut self,
        name: &str,
        change: StateChange,
        now: Timestamp,
    ) -> Result<Vec<Job>, ControlError> {
        let Some(task) = self.task_mut(name) else {
            return Err(ControlError::NoTask(name.to_owned()));
        };
        if let Some(pretence) = change.pretend {
            task.pretence = pretence;
        }
        let Some(state) = change.state else { return Ok(Vec::new()) };
        let id = task.id.clone();
        let impossible =
            |why| ControlError::Impossible { id: id.clone(), state: state.clone(), why };
        if task.is_final() {
            return Err(impossible("it has ended; use 'pretend'"));
        }
        let key = (task.device.clone(), task.region.clone());
        let phase = match state.as_str() {
            "RUNNING" | "COMPLETED" => {
                if matches!(task.phase, Phase::Cancelling { .. }) {
                    return Err(impossible("it is being cancelled"));
                }
                let Some(queue) = self.queues.get_mut(&key) else {
                    return Err(impossible("it is in no line"));
                };
                let mut happened = Vec::new();
                if queue.jump(&id, now) {
                    happened.push(Happened::Started { id: id.clone(), at: now });
                }
                if state == "COMPLETED" {
                    queue.finish(&id, now);
                }
                return Ok(self.take(happened, now));
            }
            "FAILED" => Phase::Failed {
                reason: change.reason.unwrap_or_else(|| "The task failed.".to_owned()),
            },
            "CANCELLED" => Phase::Cancelled,
            "CANCELLING" => Phase::Cancelling { until: now + millis(3_600_000) },
            _ => return Err(impossible("not a state that can be forced; use 'pretend'")),
        };
        task.ended = (!matches!(phase, Phase::Cancelling { .. })).then_some(now);
        task.phase = phase;
        self.leave_line(&id);
        Ok(Vec::new())
    }

    fn arn_of(&self, name: &str) -> Result<String, ControlError> {
        self.devices
            .iter()
            .find(|device| {
                device.arn == name
                    || device.short_name().eq_ignore_ascii_case(name)
                    || device.name.eq_ignore_ascii_case(name)
            })
            .map(|device| device.arn.clone())
            .ok_or_else(|| ControlError::NoDevice(name.to_owned()))
    }

    fn queue(&self, device: &str, region: &str) -> Option<&Queue> {
        self.queues.get(&(device.to_owned(), region.to_owned()))
    }

    fn leave_line(&mut self, id: &str) {
        for queue in self.queues.values_mut() {
            queue.remove(id);
        }
        self.outcomes.remove(id);
    }

    fn take(&mut self, happened: Vec<Happened>, now: Timestamp) -> Vec<Job> {
        let mut jobs = Vec::new();
        for event in happened {
            match event {
                Happened::Started { id, .. } => {
                    let Some(task) = self.tasks.get_mut(&id) else { continue };
                    task.phase = Phase::Running;
                    let job = Job {
                        id: id.clone(),
                        arn: task.arn.clone(),
                        action: task.action.clone(),
                        shots: task.shots,
                        device: task.device.clone(),
                        account: task.account.clone(),
                        bucket: task.bucket.clone(),
                        key: format!("{}/results.json", task.directory),
                    };
                    match self.failures.get_mut(&job.device) {
                        Some((count, reason)) if *count > 0 => {
                            *count -= 1;
                            let reason = reason.clone();
                            self.computed(&id, Err(reason), now);
                        }
                        _ => jobs.push(job),
                    }
                }
                Happened::Ended { id, at } => {
                    let outcome = self.outcomes.remove(&id);
                    let Some(task) = self.tasks.get_mut(&id) else { continue };
                    task.ended = Some(at);
                    task.phase = match outcome {
                        Some(Err(reason)) => Phase::Failed { reason },
                        _ => Phase::Completed,
                    };
                }
            }
        }
        jobs
    }
}

#[cfg(test)]
#[path = "world_tests.rs"]
mod tests;

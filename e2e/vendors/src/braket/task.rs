//! Quantum tasks and what the vendor's API says about them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::device::size_text;
use super::time_text;
use crate::queue::{Lane, TaskId};

/// Where a task is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// In the line; `CREATED` until the time given, then `QUEUED`.
    Waiting {
        /// When it counts as queued.
        queued_at: Timestamp,
    },
    /// On the device.
    Running,
    /// A cancel was asked for.
    Cancelling {
        /// When it will be cancelled.
        until: Timestamp,
    },
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed {
        /// For people.
        reason: String,
    },
    /// Ended by a cancel.
    Cancelled,
}

/// What a control call makes the API say instead of the truth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Pretence {
    /// Any status word, also one that no client knows.
    pub status: Option<String>,
    /// Any text as position.
    pub position: Option<String>,
    /// Any text as message of the queue.
    pub message: Option<String>,
    /// No `queueInfo` at all, even when asked for.
    pub no_queue_info: bool,
}

/// One quantum task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Last part of the ARN.
    pub id: TaskId,
    /// The ARN.
    pub arn: String,
    /// Account that owns it.
    pub account: String,
    /// Region it was made in.
    pub region: String,
    /// Its device's ARN.
    pub device: String,
    /// Shots asked for.
    pub shots: u64,
    /// Bucket of the result.
    pub bucket: String,
    /// Folder of the result in the bucket.
    pub directory: String,
    /// The program, as sent.
    pub action: String,
    /// The action's schema name.
    pub action_type: String,
    /// Device parameters, as sent.
    pub device_parameters: String,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Associations, as sent.
    pub associations: Vec<Value>,
    /// Experimental capabilities, as sent.
    pub experimental: Option<Value>,
    /// ARN of the hybrid job that it belongs to.
    pub job: Option<String>,
    /// Lane it waits in.
    pub lane: Lane,
    /// When it was made.
    pub created: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Where it is in its life.
    pub phase: Phase,
    /// What the API is made to say.
    pub pretence: Pretence,
}

impl Task {
    /// The vendor's word for its state.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> &str {
        if let Some(status) = &self.pretence.status {
            return status;
        }
        match &self.phase {
            Phase::Waiting { queued_at } if now < *queued_at => "CREATED",
            Phase::Waiting { .. } => "QUEUED",
            Phase::Running => "RUNNING",
            Phase::Cancelling { .. } => "CANCELLING",
            Phase::Completed => "COMPLETED",
            Phase::Failed { .. } => "FAILED",
            Phase::Cancelled => "CANCELLED",
        }
    }

    /// Whether nothing will change any more.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.phase, Phase::Completed | Phase::Failed { .. } | Phase::Cancelled)
    }

    /// The entry of `SearchQuantumTasks`.
    #[must_use]
    pub fn summary(&self, now: Timestamp) -> Value {
        let mut answer = json!({
            "quantumTaskArn": self.arn,
            "status": self.status(now),
            "deviceArn": self.device,
            "shots": self.shots,
            "outputS3Bucket": self.bucket,
            "outputS3Directory": self.directory,
            "createdAt": time_text(self.created),
            "tags": self.tags,
        });
        if let Some(ended) = self.ended {
            answer["endedAt"] = Value::from(time_text(ended));
        }
        answer
    }

    /// The answer of `GetQuantumTask`; `position` only counts while it waits.
    #[must_use]
    pub fn details(&self, position: Option<u64>, queue_info: bool, now: Timestamp) -> Value {
        let mut answer = self.summary(now);
        answer["deviceParameters"] = Value::from(self.device_parameters.as_str());
        answer["associations"] = Value::from(self.associations.clone());
        answer["actionMetadata"] = json!({ "actionType": self.action_type });
        if let Some(job) = &self.job {
            answer["jobArn"] = Value::from(job.as_str());
        }
        match &self.phase {
            Phase::Failed { reason } => answer["failureReason"] = Value::from(reason.as_str()),
            Phase::Completed => answer["numSuccessfulShots"] = Value::from(self.shots),
            _ => {}
        }
        if let Some(experimental) = &self.experimental {
            answer["experimentalCapabilities"] = experimental.clone();
        }
        if queue_info && !self.pretence.no_queue_info {
            answer["queueInfo"] = self.queue_info(position, now);
        }
        answer
    }

    fn queue_info(&self, position: Option<u64>, now: Timestamp) -> Value {
        let waits = matches!(self.phase, Phase::Waiting { .. });
        let (position, message) = match position.filter(|_| waits) {
            Some(position) => (size_text(position, 2_000), None),
            None => (
                "None".to_owned(),
                Some(format!(
                    "Task is in {} status. AmazonBraket does not show queue position for this \
                     status.",
                    self.status(now)
                )),
            ),
        };
        let mut info = json!({
            "queue": "QUANTUM_TASKS_QUEUE",
            "position": self.pretence.position.as_ref().unwrap_or(&position),
            "queuePriority": self.lane.as_str(),
        });
        if let Some(message) = self.pretence.message.clone().or(message) {
            info["message"] = Value::from(message);
        }
        info
    }
}

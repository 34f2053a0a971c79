//! Braket's answers as values. PURE.

use aws_sdk_braket::operation::get_device::GetDeviceOutput;
use aws_sdk_braket::operation::get_quantum_task::GetQuantumTaskOutput;
use aws_sdk_braket::types::{QueueName, QueuePriority};
use jiff::Timestamp;
use sluice_dialect::quote;
use sluice_shared::series::queue_size;
use sluice_shared::task::TaskState;

use super::device::Extras;
use super::{DeviceReading, Reading};

/// Longest reason of a failed task that is repeated.
const REASON: usize = 1024;
/// Longest foreign word that is repeated.
const WORD: usize = 64;

/// What an answer of `GetQuantumTask` says.
#[must_use]
pub fn reading(id: &str, answer: &GetQuantumTaskOutput) -> Reading {
    let queue = answer.queue_info();
    Reading {
        id: id.to_owned(),
        device: Some(answer.device_arn().to_owned()).filter(|d| !d.is_empty()),
        state: TaskState::from(answer.status().as_str()),
        position: position(queue.map(aws_sdk_braket::types::QuantumTaskQueueInfo::position)),
        priority: queue.and_then(|q| q.queue_priority()) == Some(&QueuePriority::Priority),
        reason: answer.failure_reason().map(|reason| quote(reason, REASON)),
        submitted_at: Timestamp::from_second(answer.created_at().secs()).ok(),
        shots: u64::try_from(answer.shots()).ok(),
        job: answer.job_arn().map(str::to_owned),
        resource: None,
        session: None,
    }
}

/// The position as people should see it: the literal `None` of a task that left the queue is no
/// position.
#[must_use]
pub fn position(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|t| !t.is_empty() && *t != "None").map(str::to_owned)
}

/// What an answer of `GetDevice` says, with what the SDK does not know of it.
#[must_use]
pub fn device_reading(answer: &GetDeviceOutput, extras: Extras) -> DeviceReading {
    let size_of = |priority: &QueuePriority| {
        answer
            .device_queue_info()
            .iter()
            .filter(|q| *q.queue() == QueueName::QuantumTasksQueue)
            .find(|q| q.queue_priority() == Some(priority))
            .map(aws_sdk_braket::types::DeviceQueueInfo::queue_size)
    };
    let Extras { reason, until, windows } = extras;
    DeviceReading {
        status: answer.device_status().as_str().to_owned(),
        reason,
        until,
        windows,
        queue: size_of(&QueuePriority::Normal).map(|size| quote(size, WORD)),
        priority_queue: size_of(&QueuePriority::Priority).and_then(queue_size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_literal_none_is_no_position() {
        for (text, expected) in [
            (Some("None"), None),
            (Some(""), None),
            (None, None),
            (Some("14"), Some("14")),
            (Some(">2000"), Some(">2000")),
        ] {
            assert_eq!(position(text).as_deref(), expected);
        }
    }
}

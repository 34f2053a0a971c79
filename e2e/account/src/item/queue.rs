//! Queues: what the vendor tells of a place, in its own words.

use std::time::Duration;

use anyhow::Result;
use aws_sdk_braket::operation::get_quantum_task::GetQuantumTaskOutput;
use aws_sdk_braket::types::{QuantumTaskAdditionalAttributeName, QuantumTaskStatus};
use jiff::Timestamp;
use sluice_shared::task::{Position, TaskState, device_name, short_id};
use tokio::time::{Instant, sleep};

use super::task::is_final;
use super::{finding, refusal, submit, token};
use crate::args::Args;
use crate::program::{Program, SV1};
use crate::report::{Finding, Verdict};

/// A simulator's task ends within this time, or its end is not seen.
const SIMULATOR: Duration = Duration::from_mins(5);
const BETWEEN: Duration = Duration::from_secs(1);
/// Between two looks at a QPU's queue: near enough to see each place.
const BETWEEN_QPU: Duration = Duration::from_secs(2);

/// A device tells how many tasks wait.
pub(super) async fn device(program: &Program) -> Finding {
    let question = "A device tells its status and the sizes of its queues";
    let client = program.tapped(None);
    match client.get_device().device_arn(SV1).send().await {
        Ok(device) => {
            let mut seen = vec![format!("status {}", device.device_status)];
            let queues = device.device_queue_info();
            seen.extend(queues.iter().map(|q| {
                let priority = q.queue_priority().map_or("no priority", |p| p.as_str());
                format!("{} ({priority}): {:?}", q.queue(), q.queue_size())
            }));
            let verdict = if queues.is_empty() { Verdict::Differs } else { Verdict::Expected };
            finding(question, verdict, seen)
        }
        Err(error) => finding(question, Verdict::Unseen, vec![refusal(&error)]),
    }
}

/// The words of a task's way through the queue are those that Sluice reads.
pub(super) async fn followed(program: &Program, arn: &str) -> Finding {
    let question = "States and places of a task are words that Sluice knows";
    let mut way = Way::default();
    let limit = Instant::now() + SIMULATOR;
    let end = loop {
        match look(program, None, arn).await {
            Ok(task) => {
                way.take(&task);
                if is_final(&task.status) {
                    break task;
                }
            }
            Err(refusal) => {
                way.seen.push(refusal);
                return finding(question, Verdict::Unseen, way.seen);
            }
        }
        if Instant::now() >= limit {
            way.seen.push(format!("it has not ended after {} s", SIMULATOR.as_secs()));
            return finding(question, Verdict::Unseen, way.seen);
        }
        sleep(BETWEEN).await;
    };
    if let Some(reason) = end.failure_reason() {
        way.seen.push(format!("the vendor says: {reason}"));
    }
    let verdict = match (way.unknown, end.status) {
        (false, QuantumTaskStatus::Completed) => Verdict::Expected,
        // The way of a task with a result was not seen.
        (false, _) => Verdict::Unseen,
        (true, _) => Verdict::Differs,
    };
    finding(question, verdict, way.seen)
}

/// A QPU's task at position 1 is the next to run.
pub(super) async fn of_qpu(
    program: &Program,
    args: &Args,
    qpu: &str,
    say: &mut dyn FnMut(&str) -> Result<()>,
) -> Finding {
    let question = "On a QPU the task at position 1 is the next to run";
    let region = qpu.split(':').nth(3).filter(|r| !r.is_empty());
    let client = program.tapped(region);
    let arn = match submit(&client, args, qpu, args.shots, &token()).await {
        Ok(arn) => arn,
        Err(error) => return finding(question, Verdict::Unseen, vec![refusal(&error)]),
    };
    let mut way = Way::default();
    let limit = Instant::now() + Duration::from_mins(args.watch.into());
    let mut waits = true;
    while waits && Instant::now() < limit {
        match look(program, region, &arn).await {
            Ok(task) => {
                if let Some(line) = way.take(&task)
                    // Only progress: the report holds it too.
                    && say(&format!("  {} on {}: {line}", short_id(&arn), device_name(qpu))).is_err()
                {
                    break;
                }
                waits = TaskState::from(task.status.as_str()).is_waiting();
            }
            Err(refusal) => {
                way.seen.push(refusal);
                break;
            }
        }
        sleep(BETWEEN_QPU).await;
    }
    if waits {
        let cancel = client.cancel_quantum_task().quantum_task_arn(&arn).send().await;
        way.seen.push(match cancel {
            Ok(_) => "it was cancelled while it waited".to_owned(),
            Err(error) => format!(
                "it could NOT be cancelled and may run and be charged: {}; cancel task {} by hand",
                refusal(&error),
                short_id(&arn)
            ),
        });
        return finding(question, Verdict::Unseen, way.seen);
    }
    let verdict = match way.last {
        Position::At(1) if !way.unknown => Verdict::Expected,
        // It left the queue between two looks.
        Position::Unknown => Verdict::Unseen,
        Position::At(_) | Position::Beyond(_) => Verdict::Differs,
    };
    finding(question, verdict, way.seen)
}

async fn look(
    program: &Program,
    region: Option<&str>,
    arn: &str,
) -> Result<GetQuantumTaskOutput, String> {
    // Past the tap: it would answer from what it knows.
    let client = program.direct_in(region);
    let call = client
        .get_quantum_task()
        .quantum_task_arn(arn)
        .additional_attribute_names(QuantumTaskAdditionalAttributeName::QueueInfo);
    call.send().await.map_err(|error| refusal(&error))
}

/// What a task was seen to go through.
struct Way {
    seen: Vec<String>,
    /// The last place before it left the queue.
    last: Position,
    /// A word was seen that Sluice does not know.
    unknown: bool,
}

impl Default for Way {
    fn default() -> Self {
        Self { seen: Vec::new(), last: Position::Unknown, unknown: false }
    }
}

impl Way {
    /// Takes in a look; gives the line if it is a new one.
    fn take(&mut self, task: &GetQuantumTaskOutput) -> Option<String> {
        let state = TaskState::from(task.status.as_str());
        let queue = task.queue_info();
        let text = queue.map(aws_sdk_braket::types::QuantumTaskQueueInfo::position);
        let position = Position::of(text);
        let odd = text.is_some_and(|t| t != "None") && position == Position::Unknown;
        self.unknown |= odd || matches!(state, TaskState::Unknown(_));
        if state == TaskState::Queued && position != Position::Unknown {
            self.last = position;
        }
        let place = text.unwrap_or("not told");
        let mut parts = vec![state.to_string(), format!("position {place}")];
        if let Some(queue) = queue {
            parts.push(queue.queue().to_string());
            parts.extend(queue.queue_priority().map(ToString::to_string));
            parts.extend(queue.message().map(|message| format!("{message:?}")));
        }
        let line = parts.join(", ");
        if self.seen.last().is_some_and(|last| last.ends_with(&line)) {
            return None;
        }
        self.seen.push(format!("{} {line}", Timestamp::now().strftime("%T")));
        Some(line)
    }
}

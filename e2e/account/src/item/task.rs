//! One task: submitted, submitted again, found again, cancelled.

use std::time::Duration;

use aws_sdk_braket::error::ProvideErrorMetadata;
use aws_sdk_braket::types::{
    QuantumTaskStatus, SearchQuantumTasksFilter, SearchQuantumTasksFilterOperator,
};
use jiff::Timestamp;
use sluice_shared::task::short_id;
use sluice_tap::TapEvent;
use tokio::time::{Instant, sleep};

use super::{Submitted, finding, refusal, submit, token};
use crate::args::Args;
use crate::program::{Program, SV1};
use crate::report::{Finding, Verdict};

const SHOTS: u32 = 10;
/// A cancelled task ends within this time, or it is not seen.
const ENDS: Duration = Duration::from_mins(2);
const BETWEEN: Duration = Duration::from_secs(1);

/// A submission through the tap is taken, and the tap tells its id.
pub(super) async fn submitted(program: &Program, args: &Args) -> (Finding, Option<Submitted>) {
    let question = "A submission passes the tap, which learns the task's id";
    let token = token();
    match submit(&program.tapped(None), args, SV1, SHOTS, &token).await {
        Ok(arn) => {
            let told = program.told().await;
            let told = told
                .iter()
                .any(|e| matches!(e, TapEvent::Submitted { task_id, .. } if *task_id == arn));
            let verdict = if told { Verdict::Expected } else { Verdict::Differs };
            let seen = format!("task {}, told by the tap: {told}", short_id(&arn));
            (finding(question, verdict, vec![seen]), Some(Submitted { arn, token }))
        }
        Err(error) => {
            let seen = format!("{}; nothing more is checked", refusal(&error));
            (finding(question, Verdict::Unseen, vec![seen]), None)
        }
    }
}

/// The same request with the same token makes no second task.
pub(super) async fn same_token(program: &Program, args: &Args, first: &Submitted) -> Finding {
    let question = "The same request with the same clientToken gives the same task";
    match submit(&program.tapped(None), args, SV1, SHOTS, &first.token).await {
        Ok(arn) if arn == first.arn => {
            finding(question, Verdict::Expected, vec![format!("task {} again", short_id(&arn))])
        }
        Ok(arn) => {
            let seen = format!("a second task, {}: it may be charged", short_id(&arn));
            finding(question, Verdict::Differs, vec![seen])
        }
        Err(error) => finding(question, Verdict::Differs, vec![refusal(&error)]),
    }
}

/// A token that was used for something else is refused.
pub(super) async fn token_of_another(program: &Program, args: &Args, first: &Submitted) -> Finding {
    let question = "Another request with a used clientToken makes no task";
    match submit(&program.tapped(None), args, SV1, SHOTS + 1, &first.token).await {
        Err(error) if error.as_service_error().is_some() => {
            finding(question, Verdict::Expected, vec![refusal(&error)])
        }
        Err(error) => finding(question, Verdict::Unseen, vec![refusal(&error)]),
        Ok(arn) if arn == first.arn => {
            let seen = "the first task is handed out, although the requests differ".to_owned();
            finding(question, Verdict::Differs, vec![seen])
        }
        Ok(arn) => {
            let seen = format!("a new task, {}: it may be charged", short_id(&arn));
            finding(question, Verdict::Differs, vec![seen])
        }
    }
}

/// The search finds the task by time and device.
pub(super) async fn found_again(program: &Program, arn: &str, start: Timestamp) -> Finding {
    let question = "A search by time and device finds the task";
    let filter = |name: &str, operator, value: String| {
        SearchQuantumTasksFilter::builder().name(name).operator(operator).values(value).build()
    };
    // A minute of grace for clocks.
    let since = start - jiff::SignedDuration::from_mins(1);
    let by_time = filter(
        "createdAt",
        SearchQuantumTasksFilterOperator::Gte,
        since.strftime("%FT%TZ").to_string(),
    );
    let by_device = filter("deviceArn", SearchQuantumTasksFilterOperator::Equal, SV1.to_owned());
    let (Ok(by_time), Ok(by_device)) = (by_time, by_device) else {
        return finding(question, Verdict::Unseen, vec!["the filter cannot be written".into()]);
    };
    let client = program.tapped(None);
    let call = client.search_quantum_tasks().filters(by_time).filters(by_device);
    match call.send().await {
        Ok(page) if page.quantum_tasks().iter().any(|t| t.quantum_task_arn == arn) => {
            let seen = format!("{} task(s) on the first page", page.quantum_tasks().len());
            finding(question, Verdict::Expected, vec![seen])
        }
        Ok(page) => {
            let seen =
                format!("not among {} task(s) of the first page", page.quantum_tasks().len());
            finding(question, Verdict::Differs, vec![seen])
        }
        Err(error) => finding(question, Verdict::Unseen, vec![refusal(&error)]),
    }
}

/// A task can be cancelled.
pub(super) async fn cancelled(program: &Program, args: &Args) -> Finding {
    let question = "A task is cancelled on request";
    let client = program.tapped(None);
    let arn = match submit(&client, args, SV1, SHOTS, &token()).await {
        Ok(arn) => arn,
        Err(error) => return finding(question, Verdict::Unseen, vec![refusal(&error)]),
    };
    let mut seen = Vec::new();
    match client.cancel_quantum_task().quantum_task_arn(&arn).send().await {
        Ok(answer) => seen.push(format!("cancel: {}", answer.cancellation_status().as_str())),
        // A simulator may be faster than us.
        Err(error) if error.code() == Some("ConflictException") => seen.push(refusal(&error)),
        Err(error) => return finding(question, Verdict::Unseen, vec![refusal(&error)]),
    }
    let limit = Instant::now() + ENDS;
    let end = loop {
        match client.get_quantum_task().quantum_task_arn(&arn).send().await {
            Ok(task) if is_final(&task.status) => break task.status,
            Ok(_) if Instant::now() < limit => sleep(BETWEEN).await,
            Ok(task) => {
                seen.push(format!("it is still {} after {} s", task.status, ENDS.as_secs()));
                return finding(question, Verdict::Differs, seen);
            }
            Err(error) => {
                seen.push(refusal(&error));
                return finding(question, Verdict::Unseen, seen);
            }
        }
    };
    seen.push(format!("it ended as {end}"));
    // Either answer is fine for Sluice; people who read the report may want to know which.
    let again = client.cancel_quantum_task().quantum_task_arn(&arn).send().await;
    seen.push(match again {
        Ok(answer) => format!("cancel again: {}", answer.cancellation_status().as_str()),
        Err(error) => format!("cancel again: {}", refusal(&error)),
    });
    let verdict = match end {
        QuantumTaskStatus::Cancelled => Verdict::Expected,
        _ => Verdict::Unseen,
    };
    finding(question, verdict, seen)
}

/// Whether the vendor will not change it any more.
pub(super) const fn is_final(status: &QuantumTaskStatus) -> bool {
    matches!(
        status,
        QuantumTaskStatus::Completed | QuantumTaskStatus::Failed | QuantumTaskStatus::Cancelled
    )
}

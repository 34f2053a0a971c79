//! Samples as rows: one row for each, with everything that is needed to read it alone. PURE.

use kube::ResourceExt;
use serde::Serialize;
use sluice_shared::gang::{QuantumGang, Task};
use sluice_shared::series::{Sample, queue_size};
use sluice_shared::task::{Position, short_id};

/// One sample. The order of the fields is the order of the columns; the contract reference
/// describes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Namespace of the gang.
    pub namespace: String,
    /// The gang.
    pub gang: String,
    /// Its Job, or its pod where it has none.
    pub job: String,
    /// The task: the vendor's whole id while the gang lists it, else its short form.
    pub task: String,
    /// The vendor's name of the device; empty when the gang does not list the task any more.
    pub device: String,
    /// When the task was submitted, RFC 3339.
    pub submitted_at: Option<String>,
    /// When the sample became known, RFC 3339.
    pub at: String,
    /// Seconds from the submission to the sample.
    pub waited_s: Option<i64>,
    /// The vendor's word for the state of the task.
    pub state: String,
    /// The vendor's text of the position.
    pub position: Option<String>,
    /// The position as a number; 1 is next.
    pub place: Option<u32>,
    /// Whether the place is a lower bound.
    pub place_is_bound: bool,
    /// The vendor's text of the size of the normal queue.
    pub queue: Option<String>,
    /// That as a number.
    pub queue_size: Option<u32>,
    /// Whether the size is a lower bound.
    pub queue_is_bound: bool,
    /// Tasks that are served before all of the normal queue.
    pub priority_queue: Option<u32>,
    /// The vendor's word for the status of the device.
    pub device_status: Option<String>,
}

/// The rows of a gang, in the order of time.
#[must_use]
pub fn rows(gang: &QuantumGang) -> Vec<Row> {
    let vendor = gang.status.as_ref().and_then(|status| status.vendor.as_ref());
    vendor.map_or_else(Vec::new, |vendor| {
        let task = |sample: &Sample| vendor.tasks.iter().find(|t| short_id(&t.id) == sample.task);
        vendor.series.iter().map(|sample| row(gang, sample, task(sample))).collect()
    })
}

fn row(gang: &QuantumGang, sample: &Sample, task: Option<&Task>) -> Row {
    let position = Position::of(sample.position.as_deref());
    let submitted_at = task.and_then(|task| task.submitted_at.as_ref());
    let is_bound = |text: &Option<String>| text.as_ref().is_some_and(|t| t.trim().starts_with('>'));
    Row {
        namespace: gang.namespace().unwrap_or_default(),
        gang: gang.name_any(),
        job: gang.spec.owner.name.clone(),
        task: task.map_or_else(|| sample.task.clone(), |task| task.id.clone()),
        device: task.map(|task| task.device.clone()).unwrap_or_default(),
        submitted_at: submitted_at.map(|at| at.0.to_string()),
        at: sample.at.0.to_string(),
        waited_s: submitted_at.map(|from| sample.at.0.duration_since(from.0).as_secs()),
        state: sample.state.clone(),
        position: sample.position.clone(),
        place: match position {
            Position::At(place) | Position::Beyond(place) => Some(place),
            Position::Unknown => None,
        },
        place_is_bound: matches!(position, Position::Beyond(_)),
        queue: sample.queue.clone(),
        queue_size: sample.queue.as_deref().and_then(queue_size),
        queue_is_bound: is_bound(&sample.queue),
        priority_queue: sample.priority_queue,
        device_status: sample.device_status.clone(),
    }
}

const COLUMNS: [&str; 17] = [
    "namespace",
    "gang",
    "job",
    "task",
    "device",
    "submitted_at",
    "at",
    "waited_s",
    "state",
    "position",
    "place",
    "place_is_bound",
    "queue",
    "queue_size",
    "queue_is_bound",
    "priority_queue",
    "device_status",
];

/// A table with a line of names, as RFC 4180 has it but for its line ends. What is not known is
/// empty.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    fn text<T: ToString>(value: Option<&T>) -> String {
        value.map(T::to_string).unwrap_or_default()
    }
    let mut table = COLUMNS.join(",") + "\n";
    for row in rows {
        let fields = [
            row.namespace.clone(),
            row.gang.clone(),
            row.job.clone(),
            row.task.clone(),
            row.device.clone(),
            text(row.submitted_at.as_ref()),
            row.at.clone(),
            text(row.waited_s.as_ref()),
            row.state.clone(),
            text(row.position.as_ref()),
            text(row.place.as_ref()),
            row.place_is_bound.to_string(),
            text(row.queue.as_ref()),
            text(row.queue_size.as_ref()),
            row.queue_is_bound.to_string(),
            text(row.priority_queue.as_ref()),
            text(row.device_status.as_ref()),
        ];
        table.push_str(&fields.map(quoted).join(","));
        table.push('\n');
    }
    table
}

fn quoted(field: String) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

/// One JSON object a line.
///
/// # Errors
/// Never in practice: rows are plain strings and numbers.
pub fn json(rows: &[Row]) -> serde_json::Result<String> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&serde_json::to_string(row)?);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn mk_gang(samples: &Value) -> QuantumGang {
        serde_json::from_value(json!({
            "apiVersion": "sluice.flux-framework.org/v1alpha1",
            "kind": "QuantumGang",
            "metadata": {"name": "maxcut-2c26b46b", "namespace": "team"},
            "spec": {
                "owner": {"kind": "Job", "name": "maxcut", "uid": "u"},
                "size": 8, "mode": "shared", "policy": "front", "tasks": 1, "follow": "any",
                "gate": "g", "stampVersion": 1,
            },
            "status": {"vendor": {
                "tasks": [{
                    "id": "arn:aws:braket:eu-north-1:123456789012:quantum-task/834b21ed-1-2-3-4",
                    "device": "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet",
                    "state": "QUEUED", "submittedAt": "2026-11-30T16:00:00Z",
                }],
                "series": samples,
            }},
        }))
        .unwrap()
    }

    fn two() -> Vec<Row> {
        rows(&mk_gang(&json!([
            {
                "at": "2026-11-30T16:01:40Z", "task": "834b21ed", "state": "QUEUED",
                "position": ">2000", "queue": ">4000", "priorityQueue": 2,
                "deviceStatus": "ONLINE",
            },
            {"at": "2026-11-30T16:02:00Z", "task": "gone", "state": "a \"new\", word"},
        ])))
    }

    #[test]
    fn a_row_stands_alone() {
        let rows = two();
        assert_eq!((rows[0].place, rows[0].place_is_bound), (Some(2000), true));
        assert_eq!((rows[0].queue_size, rows[0].queue_is_bound), (Some(4000), true));
        assert_eq!(rows[0].waited_s, Some(100));
        // A task that the gang does not list any more.
        assert_eq!((rows[1].task.as_str(), rows[1].device.as_str()), ("gone", ""));
        assert_eq!((rows[1].place, rows[1].waited_s), (None, None));
    }

    #[test]
    fn a_table_for_programs() {
        insta::assert_snapshot!(csv(&two()));
    }

    #[test]
    fn json_has_the_names_of_the_table_in_its_order() {
        let text = json(&two()).unwrap();
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            let mut from = 0;
            for column in COLUMNS {
                let at = line[from..].find(&format!("\"{column}\":"));
                from += at.unwrap_or_else(|| panic!("{column} is missing or out of order: {line}"));
            }
        }
    }
}

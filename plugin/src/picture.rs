//! The way of each task through its queue, as a picture of plain characters. PURE.

use std::fmt::Write;

use jiff::Timestamp;
use sluice_shared::task::{device_name, short_id};

use crate::rows::Row;

/// Size of a picture, in characters.
const WIDTH: usize = 64;
/// As above.
const HEIGHT: usize = 10;

/// One picture for each task, in the order in which tasks first appear.
#[must_use]
pub fn of(rows: &[Row]) -> String {
    let mut tasks: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let same = |of: &&mut Vec<&Row>| {
            let first = of[0];
            (&first.namespace, &first.gang, &first.task) == (&row.namespace, &row.gang, &row.task)
        };
        match tasks.iter_mut().find(same) {
            Some(task) => task.push(row),
            None => tasks.push(vec![row]),
        }
    }
    tasks.iter().map(|task| picture(task)).collect::<Vec<_>>().join("\n")
}

fn picture(task: &[&Row]) -> String {
    let (first, last) = (task[0], task[task.len() - 1]);
    let mut text = format!("{}/{}  task {}", first.namespace, first.gang, short_id(&first.task));
    if !last.device.is_empty() {
        let _ = write!(text, " on {}", device_name(&last.device));
    }
    let _ = write!(text, "  {}", last.state);
    if let Some(position) = &last.position {
        let _ = write!(text, " position {position}");
    }
    text.push('\n');
    let facts = [
        last.queue.as_ref().map(|size| format!("queue {size}")),
        last.priority_queue.map(|size| format!("priority queue {size}")),
        last.device_status.as_ref().map(|status| format!("device {status}")),
        Some(format!("{} sample{}", task.len(), if task.len() == 1 { "" } else { "s" })),
    ];
    let _ = writeln!(text, "{}", facts.into_iter().flatten().collect::<Vec<_>>().join(", "));
    text.push_str(&chart(task));
    text
}

/// Places over time. A place holds until the next sample; after the queue there is none.
fn chart(task: &[&Row]) -> String {
    let points: Vec<(Timestamp, Option<u32>)> =
        task.iter().filter_map(|row| Some((row.at.parse().ok()?, row.place))).collect();
    let places = || points.iter().filter_map(|(_, place)| *place);
    let (Some(most), Some(&(from, _)), Some(&(to, _))) =
        (places().max(), points.first(), points.last())
    else {
        return String::new();
    };
    let seconds = to.duration_since(from).as_secs_f64();
    if seconds <= 0.0 {
        return String::new();
    }
    let column = |number: usize| {
        #[expect(clippy::cast_precision_loss, reason = "a picture is a few characters wide")]
        let at = seconds * number as f64 / (WIDTH - 1) as f64;
        let known = points.iter().rfind(|(t, _)| t.duration_since(from).as_secs_f64() <= at + 1e-6);
        known.and_then(|(_, place)| *place).map(|place| level(place, most))
    };
    let levels: Vec<Option<usize>> = (0..WIDTH).map(column).collect();
    let mut text = String::new();
    for row in (0..HEIGHT).rev() {
        let label = match row {
            0 => "1".to_owned(),
            _ if row == HEIGHT - 1 => most.to_string(),
            _ => String::new(),
        };
        let dots = levels.iter().map(|level| if *level == Some(row) { '•' } else { ' ' });
        let line = format!("{label:>6} │{}", dots.collect::<String>());
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "       └{}", "─".repeat(WIDTH));
    let (start, end) = (clock(from, seconds), clock(to, seconds));
    let _ = writeln!(text, "        {start}{end:>width$}", width = WIDTH - start.len());
    text
}

/// The line of the picture, from 0 at the front.
fn level(place: u32, most: u32) -> usize {
    let part = f64::from(place.saturating_sub(1)) / f64::from(most.saturating_sub(1).max(1));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "from 0 to the height of the picture"
    )]
    let level = (part * (HEIGHT - 1) as f64).round() as usize;
    level.min(HEIGHT - 1)
}

/// A time, with the day where the picture spans more than one. UTC.
fn clock(at: Timestamp, seconds: f64) -> String {
    at.strftime(if seconds > 86_400.0 { "%m-%d %H:%MZ" } else { "%H:%M:%SZ" }).to_string()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;
    use crate::rows::rows;
    use crate::rows::tests::mk_gang;

    #[test]
    fn a_task_that_comes_to_the_front() {
        let start: Timestamp = "2026-11-30T16:00:00Z".parse().unwrap();
        let sample = |second: i64, state: &str, place: Option<i64>| {
            json!({
                "at": (start + SignedDuration::from_secs(second)).to_string(),
                "task": "834b21ed", "state": state,
                "position": place.map(|place| place.to_string()),
                "queue": "21", "priorityQueue": 0, "deviceStatus": "ONLINE",
            })
        };
        let mut samples: Vec<Value> =
            (0..20).map(|n| sample(n * 30, "QUEUED", Some(20 - n))).collect();
        samples.push(sample(900, "RUNNING", None));
        samples.push(sample(960, "COMPLETED", None));
        insta::assert_snapshot!(of(&rows(&mk_gang(&Value::Array(samples)))));
    }

    #[test]
    fn what_cannot_be_drawn_is_still_told() {
        let one = json!([{"at": "2026-11-30T16:00:00Z", "task": "834b21ed", "state": "CREATED"}]);
        insta::assert_snapshot!(of(&rows(&mk_gang(&one))));
    }
}

//! The series of a queue: what was seen of tasks and their devices over time, in a bounded form.
//!
//! A sample is recorded when something of it changes. When there are too many, the one is dropped
//! whose absence changes the picture least: the triangle that it makes with its two neighbours has
//! the smallest area (Visvalingam and Whyatt, "Line generalisation by repeated elimination of
//! points", 1993). The first and last sample of a task, and those where its state or its device's
//! status changes, go last.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task::Position;

/// Most samples that a gang keeps.
pub const MAX_SAMPLES: usize = 128;

/// What was known of one task at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// When it became known.
    pub at: Time,
    /// The task, by the short form of its id.
    #[schemars(length(max = 64))]
    pub task: String,
    /// The vendor's word for its state.
    #[schemars(length(max = 64))]
    pub state: String,
    /// Position in the queue as the vendor says it; absent when it says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub position: Option<String>,
    /// Tasks in the device's normal queue as the vendor says it, at the last look at the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub queue: Option<String>,
    /// Tasks in the queue that is served before; a lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_queue: Option<u32>,
    /// The vendor's word for the status of the device, at the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub device_status: Option<String>,
}

impl Sample {
    /// Whether it says the same, whenever it was said.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        Self { at: other.at.clone(), ..self.clone() } == *other
    }
}

/// Adds what is known of a task now, if that is news, and keeps the series bounded. Says whether
/// it was.
///
/// Samples come in the order of time; one that is older than the last is taken to be as old.
pub fn record(series: &mut Vec<Sample>, mut sample: Sample) -> bool {
    if series.iter().rev().find(|s| s.task == sample.task).is_some_and(|s| s.says_the_same(&sample))
    {
        return false;
    }
    if let Some(last) = series.last() {
        sample.at = sample.at.max(last.at.clone());
    }
    series.push(sample);
    while series.len() > MAX_SAMPLES {
        series.remove(least(series));
    }
    true
}

/// Index of the sample that tells least.
fn least(series: &[Sample]) -> usize {
    let neighbour = |index: usize, sample: &Sample| {
        let before = series[..index].iter().rposition(|s| s.task == sample.task);
        let after = series[index + 1..].iter().position(|s| s.task == sample.task);
        (before, after.map(|offset| index + 1 + offset))
    };
    let weigh = |(index, sample): (usize, &Sample)| {
        let (Some(before), Some(after)) = neighbour(index, sample) else {
            // An end of its task; the ends of the whole series stay for good.
            let keep = if index == 0 || index + 1 == series.len() { 3 } else { 2 };
            return (keep, 0.0, 0.0);
        };
        let (before, after) = (&series[before], &series[after]);
        let turns = i32::from(is_turn(before, sample));
        (turns, area(before, sample, after), seconds(before, after))
    };
    let mut weights = series.iter().enumerate().map(weigh).enumerate();
    let Some(first) = weights.next() else { return 0 };
    let lighter = |a: &(i32, f64, f64), b: &(i32, f64, f64)| {
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)).is_lt()
    };
    weights.fold(first, |best, next| if lighter(&next.1, &best.1) { next } else { best }).0
}

/// Whether something else than a number changed.
fn is_turn(before: &Sample, sample: &Sample) -> bool {
    before.state != sample.state
        || before.device_status != sample.device_status
        || before.position.is_some() != sample.position.is_some()
        || before.queue.is_some() != sample.queue.is_some()
}

/// What the line through the neighbours leaves out, in tasks times seconds.
fn area(before: &Sample, sample: &Sample, after: &Sample) -> f64 {
    let (whole, part) = (seconds(before, after), seconds(before, sample));
    let triangle = |of: fn(&Sample) -> f64| {
        ((of(sample) - of(before)) * whole - (of(after) - of(before)) * part).abs() / 2.0
    };
    triangle(place) + triangle(queue) + triangle(|s| s.priority_queue.unwrap_or_default().into())
}

fn place(sample: &Sample) -> f64 {
    match Position::of(sample.position.as_deref()) {
        Position::At(place) | Position::Beyond(place) => place.into(),
        Position::Unknown => 0.0,
    }
}

fn queue(sample: &Sample) -> f64 {
    sample.queue.as_deref().and_then(queue_size).unwrap_or_default().into()
}

fn seconds(from: &Sample, to: &Sample) -> f64 {
    to.at.0.duration_since(from.at.0).as_secs_f64()
}

/// Reads a queue size that Braket sends as text: `7`, `>4000`, `0 (1 prioritized job(s)
/// running)`. The number is a lower bound.
///
/// ```
/// assert_eq!(sluice_shared::series::queue_size(">4000"), Some(4000));
/// assert_eq!(sluice_shared::series::queue_size("None"), None);
/// ```
#[must_use]
pub fn queue_size(text: &str) -> Option<u32> {
    let text = text.trim();
    let bound = text.strip_prefix('>').unwrap_or(text).trim_start();
    let digits: &str = bound.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use proptest::prelude::*;

    use super::*;

    fn at(second: u32) -> Time {
        let start = Timestamp::from_second(1_796_000_000).unwrap();
        Time(start + SignedDuration::from_secs(second.into()))
    }

    fn mk_sample(second: u32, place: u32) -> Sample {
        Sample {
            at: at(second),
            task: "834b21ed".into(),
            state: "QUEUED".into(),
            position: Some(place.to_string()),
            queue: Some("40".into()),
            priority_queue: Some(0),
            device_status: Some("ONLINE".into()),
        }
    }

    fn recorded(samples: impl IntoIterator<Item = Sample>) -> Vec<Sample> {
        let mut series = Vec::new();
        for sample in samples {
            record(&mut series, sample);
            assert!(series.len() <= MAX_SAMPLES);
        }
        series
    }

    /// The place at a time, on the line through the samples around it.
    fn read(series: &[Sample], second: u32) -> f64 {
        let after = series.iter().position(|s| s.at >= at(second)).unwrap();
        let (b, a) = (&series[after.saturating_sub(1)], &series[after]);
        if seconds(b, a) == 0.0 {
            return place(a);
        }
        let part = Sample { at: at(second), ..a.clone() };
        place(b) + (place(a) - place(b)) * seconds(b, &part) / seconds(b, a)
    }

    #[test]
    fn only_news_is_recorded() {
        let same = Sample { at: at(9), ..mk_sample(0, 3) };
        let series = recorded([mk_sample(0, 3), same, mk_sample(20, 2)]);
        assert_eq!(series, [mk_sample(0, 3), mk_sample(20, 2)]);
    }

    #[test]
    fn a_wait_of_eight_days_keeps_its_shape() {
        // 2,000 places at an uneven pace, with a day on which nothing moves.
        let mut truth = Vec::new();
        let mut second = 0;
        for place in (1..=2000).rev() {
            truth.push((second, place));
            second += if place == 1200 { 86_400 } else { 100 + (place * 7919) % 400 };
        }
        let series = recorded(truth.iter().map(|(second, place)| mk_sample(*second, *place)));
        assert_eq!(series.len(), MAX_SAMPLES);
        let worst = truth
            .iter()
            .map(|(second, place)| (read(&series, *second) - f64::from(*place)).abs())
            .fold(0.0, f64::max);
        assert!(worst < 10.0, "{worst} places of 2,000");
        let stood = series.windows(2).any(|pair| seconds(&pair[0], &pair[1]) >= 86_400.0);
        assert!(stood, "the day on which nothing moved is lost");
    }

    #[test]
    fn turns_outlive_the_places_between_them() {
        let mut samples: Vec<_> = (0..1000).map(|n| mk_sample(n * 60, 1000 - n)).collect();
        for sample in &mut samples[400..420] {
            sample.device_status = Some("OFFLINE".into());
        }
        let series = recorded(samples);
        let turn = |from: &str, to: &str| {
            series.windows(2).position(|pair| {
                pair[0].device_status.as_deref() == Some(from)
                    && pair[1].device_status.as_deref() == Some(to)
            })
        };
        let (left, back) = (turn("ONLINE", "OFFLINE").unwrap(), turn("OFFLINE", "ONLINE").unwrap());
        assert_eq!(series[left + 1].at, at(400 * 60));
        assert_eq!(series[back + 1].at, at(420 * 60));
    }

    #[test]
    fn the_ends_of_each_task_are_kept_while_there_is_room() {
        let of = |task: u32, second, place| Sample {
            task: format!("t{task}"),
            ..mk_sample(second, place)
        };
        let samples = (0..50).flat_map(|n| (0..40).map(move |task| (task, n * 40 + task, 100 - n)));
        let series = recorded(samples.map(|(task, second, place)| of(task, second, place)));
        for task in 0..40 {
            let own: Vec<_> = series.iter().filter(|s| s.task == format!("t{task}")).collect();
            assert_eq!(own.first().unwrap().position.as_deref(), Some("100"), "t{task}");
            assert_eq!(own.last().unwrap().position.as_deref(), Some("51"), "t{task}");
        }
        // More tasks than there is room for: still bounded, and the ends of all are there.
        let series = recorded((0..300).map(|task| of(task, task, 1)));
        assert_eq!(series.len(), MAX_SAMPLES);
        assert_eq!((series[0].task.as_str(), series[127].task.as_str()), ("t0", "t299"));
    }

    #[test]
    fn queue_sizes_in_words() {
        for (text, size) in [
            ("7", Some(7)),
            (">4000", Some(4000)),
            ("0 (1 prioritized job(s) running)", Some(0)),
            (" 3 ", Some(3)),
            ("", None),
            ("None", None),
            ("many", None),
            ("99999999999", None),
        ] {
            assert_eq!(queue_size(text), size, "{text:?}");
        }
    }

    fn any_sample() -> impl Strategy<Value = (u32, usize, Option<u32>, usize, usize)> {
        (0u32..1000, 0usize..3, proptest::option::of(0u32..3000), 0usize..3, 0usize..2)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn whatever_comes_the_series_is_a_bounded_ordered_part_of_it(
            seen in proptest::collection::vec(any_sample(), 1..600),
        ) {
            let mut second = 0;
            let samples: Vec<_> = seen
                .into_iter()
                .map(|(pause, task, place, state, status)| {
                    second += pause;
                    Sample {
                        task: format!("t{task}"),
                        state: ["QUEUED", "RUNNING", "PONDERING"][state].into(),
                        position: place.map(|place| place.to_string()),
                        device_status: Some(["ONLINE", "OFFLINE"][status].into()),
                        ..mk_sample(second, 1)
                    }
                })
                .collect();
            let series = recorded(samples.clone());
            prop_assert!(series.is_sorted_by_key(|s| s.at.clone()));
            prop_assert!(series.iter().all(|s| samples.contains(s)));
            prop_assert_eq!(&series[0], &samples[0]);
            // The last thing that was said of each task is the last thing that is known of it.
            for task in ["t0", "t1", "t2"] {
                let last = |list: &[Sample]| list.iter().rev().find(|s| s.task == task).cloned();
                match (last(&series), last(&samples)) {
                    (Some(kept), Some(said)) => prop_assert!(kept.says_the_same(&said)),
                    (kept, said) => prop_assert_eq!(kept, said),
                }
            }
        }

        #[test]
        fn a_line_that_only_falls_only_falls(
            steps in proptest::collection::vec((1u32..5000, 1u32..4), 1..800),
        ) {
            let (mut second, mut place) = (0, 4000);
            let series = recorded(steps.into_iter().map(|(pause, fall)| {
                second += pause;
                place -= fall;
                mk_sample(second, place)
            }));
            prop_assert!(series.windows(2).all(|w| super::place(&w[0]) > super::place(&w[1])));
        }
    }
}

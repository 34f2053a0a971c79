//! The series of the gang: what is taken down of each task, and when it is written. PURE.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sluice_shared::series::{Sample, record};
use sluice_shared::task::{TaskState, short_id};

use super::followed::Followed;
use super::report::cut;
use super::state::State;

/// Samples go with the next write of the status; without one they are written after this time.
pub(super) const WRITTEN_WITHIN: Duration = Duration::from_mins(10);

/// Takes down what is known of each task now, where it is news.
pub(super) fn take_down(state: &mut State, at: Timestamp) {
    for task in &state.tasks {
        if task.observed_at.is_some() {
            let sample = sample(state, task, at);
            state.series_news |= record(&mut state.series, sample);
        }
    }
}

fn sample(state: &State, task: &Followed, at: Timestamp) -> Sample {
    let id = cut(short_id(&task.reading.id), 64);
    let mut sample = Sample {
        at: Time(at),
        state: cut(task.reading.state.as_str(), 64),
        position: task.reading.position.as_deref().map(|text| cut(text, 64)),
        queue: None,
        priority_queue: None,
        device_status: None,
        task: id,
    };
    // Only a task that waits has its device looked at.
    if task.reading.state != TaskState::Queued {
        return sample;
    }
    let device = task.device().and_then(|device| state.devices.get(&device));
    if let Some(reading) = device.and_then(|device| device.reading.as_ref()) {
        sample.queue = reading.queue.as_deref().map(|text| cut(text, 64));
        sample.priority_queue = reading.priority_queue;
        sample.device_status = Some(cut(&reading.status, 64));
    } else if let Some(last) = state.series.iter().rev().find(|s| s.task == sample.task) {
        // Not looked at yet, or not since this worker started: what was known stays.
        sample.queue.clone_from(&last.queue);
        sample.priority_queue = last.priority_queue;
        sample.device_status.clone_from(&last.device_status);
    }
    sample
}

/// Goes on with the series of an earlier worker.
pub(super) fn take_up(state: &mut State, earlier: &[Sample]) {
    state.series_news = false;
    let own = std::mem::replace(&mut state.series, earlier.to_vec());
    for sample in own {
        state.series_news |= record(&mut state.series, sample);
    }
}

#[cfg(test)]
mod tests {
    use sluice_shared::gang::VendorStatus;
    use sluice_shared::policy::ReleasePolicy;

    use super::*;
    use crate::follow::decide::play::{Play, mk_gang, mk_reading, online};
    use crate::follow::state::{Seen, Step};
    use crate::vendor::DeviceReading;

    fn written(play: &mut Play) -> Vec<VendorStatus> {
        let steps = std::mem::take(&mut play.steps);
        let writes = steps.into_iter().filter_map(|step| match step {
            Step::Write(status) => Some(*status),
            _ => None,
        });
        writes.collect()
    }

    fn poll(play: &mut Play, place: u32) {
        let place = place.to_string();
        play.later(60.0).poll(mk_reading("t", "QUEUED", Some(&place)));
    }

    fn busy(queue: &str) -> DeviceReading {
        DeviceReading { queue: Some(queue.into()), ..online() }
    }

    #[test]
    fn places_sizes_and_states_are_taken_down_once_each() {
        let mut play = Play::producer(ReleasePolicy::Completed);
        play.gang();
        for place in [30, 30, 29, 28] {
            poll(&mut play, place);
        }
        play.device(busy(">4000"));
        play.later(60.0).poll(mk_reading("t", "RUNNING", None));
        play.later(60.0).poll(mk_reading("t", "COMPLETED", None));
        let series = written(&mut play).pop().unwrap().series;
        let said: Vec<_> = series
            .iter()
            .map(|s| (s.state.as_str(), s.position.as_deref(), s.queue.as_deref()))
            .collect();
        let expected = [
            ("QUEUED", Some("30"), None),
            ("QUEUED", Some("29"), None),
            ("QUEUED", Some("28"), None),
            ("QUEUED", Some("28"), Some(">4000")),
            ("RUNNING", None, None),
            ("COMPLETED", None, None),
        ];
        assert_eq!(said, expected);
        assert_eq!(series[3].device_status.as_deref(), Some("ONLINE"));
    }

    #[test]
    fn a_size_alone_is_no_write_of_its_own_but_is_not_kept_back_for_long() {
        let mut play = Play::producer(ReleasePolicy::Completed);
        play.gang();
        poll(&mut play, 30);
        play.device(busy("40"));
        written(&mut play);
        let samples = play.state.series.len();
        for (minute, queue) in ["41", "42", "43", "44"].into_iter().enumerate() {
            play.later(60.0).device(busy(queue));
            assert!(written(&mut play).is_empty(), "minute {minute}");
        }
        assert_eq!(play.state.series.len(), samples + 4);
        play.later(WRITTEN_WITHIN.as_secs_f64());
        let status = written(&mut play).pop().expect("not written for ten minutes");
        assert_eq!(status.series.len(), samples + 4);
        play.later(WRITTEN_WITHIN.as_secs_f64());
        assert!(written(&mut play).is_empty(), "there is no news");
    }

    #[test]
    fn a_new_worker_goes_on_with_the_series() {
        let mut first = Play::producer(ReleasePolicy::Completed);
        first.gang();
        poll(&mut first, 30);
        first.device(busy("40"));
        poll(&mut first, 29);
        let status = written(&mut first).pop().unwrap();

        let mut second = Play::producer(ReleasePolicy::Completed);
        second.now = first.now;
        // It sees a poll before it has read the gang.
        poll(&mut second, 28);
        second.see(Seen::Gang(Some(mk_gang(Some(status.clone())))));
        let series = written(&mut second).pop().unwrap().series;
        assert_eq!(series[..status.series.len()], status.series);
        assert_eq!(series.last().unwrap().position.as_deref(), Some("28"));
        poll(&mut second, 27);
        let last = written(&mut second).pop().unwrap().series.pop().unwrap();
        assert_eq!((last.position.as_deref(), last.queue.as_deref()), (Some("27"), None));
    }
}

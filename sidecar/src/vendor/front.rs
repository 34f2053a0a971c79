//! Whether Braket will run a task next. PURE.
//!
//! Position 1 alone is not enough: the device may be offline, outside of its hours or reserved,
//! and tasks of the Priority queue run before every normal one.

use jiff::Timestamp;
use sluice_dialect::abilities;
use sluice_shared::task::{Position, TaskState, device_name};

use super::{DeviceReading, Reading};

/// What is known of the device when the front is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceSeen<'a> {
    /// Not read yet, or too long ago.
    Unknown,
    /// The account may not read it, or the vendor does not list it: the position has to do.
    Unreadable,
    /// Read lately.
    Read(&'a DeviceReading),
}

/// The place of a task, judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Front {
    /// Whether the vendor will run it next.
    pub front: bool,
    /// The position, when the vendor gives only a lower bound.
    pub at_least: Option<u32>,
    /// Tasks known to run before it, whatever its position.
    pub priority_ahead: Option<u32>,
    /// Its turn from now, priority tasks counted; 1 is the front. `None` where the position is
    /// not told exactly, or the device does not run tasks now.
    pub place: Option<u32>,
    /// Tasks in the queue of the device, where the vendor tells no position.
    pub queue: Option<String>,
    /// Why a task whose position decides does not satisfy the policy.
    pub held_by: Option<String>,
}

impl Front {
    /// Judges a reading. `deciding`: the last place that satisfies the policy
    /// ([`ReleasePolicy::place`](sluice_shared::policy::ReleasePolicy::place)).
    ///
    /// Only a queued task can be at the front or have a place; a running one has passed them, and
    /// an unknown position, device or state never has.
    #[must_use]
    pub fn of(reading: &Reading, device: DeviceSeen<'_>, deciding: u32, now: Timestamp) -> Self {
        let position = Position::of(reading.position.as_deref());
        let mut view = Self {
            at_least: match position {
                Position::Beyond(bound) => Some(bound),
                Position::At(_) | Position::Unknown => None,
            },
            ..Self::default()
        };
        if reading.state != TaskState::Queued {
            return view;
        }
        if let (DeviceSeen::Read(device), false) = (device, reading.priority) {
            view.priority_ahead = device.priority_queue.filter(|ahead| *ahead > 0);
        }
        let tells_place = abilities(reading.resource.as_ref()).position;
        if let (DeviceSeen::Read(device), false) = (device, tells_place) {
            let name = device_name(reading.device.as_deref().unwrap_or("the device"));
            view.held_by = device.rests(now).map(|rest| rest.sentence(&name, now));
            view.queue.clone_from(&device.queue);
            return view;
        }
        let Position::At(position) = position else { return view };
        view.place = match device {
            // It is about to be read; nothing to tell people yet.
            DeviceSeen::Unknown => None,
            DeviceSeen::Unreadable => Some(position),
            DeviceSeen::Read(device) => {
                if let Some(rest) = device.rests(now) {
                    // Far from its turn the device has time to come back.
                    let name = device_name(reading.device.as_deref().unwrap_or("the device"));
                    view.held_by = (position <= deciding).then(|| rest.sentence(&name, now));
                    return view;
                }
                let ahead = view.priority_ahead.unwrap_or_default();
                let place = position.saturating_add(ahead);
                if position <= deciding && place > deciding {
                    view.held_by = Some(match ahead {
                        1 => "1 priority task ahead".to_owned(),
                        ahead => format!("{ahead} priority tasks ahead"),
                    });
                }
                Some(place)
            }
        };
        view.front = view.place == Some(1);
        view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn mk_reading(state: &str, position: Option<&str>, priority: bool) -> Reading {
        Reading {
            device: Some("d".into()),
            position: position.map(str::to_owned),
            priority,
            ..Reading::new("t", state.into())
        }
    }

    fn mk_device(status: &str, priority_queue: Option<u32>) -> DeviceReading {
        DeviceReading { status: status.into(), priority_queue, ..DeviceReading::default() }
    }

    #[test]
    fn without_a_position_only_the_queue_and_a_rest_are_told() {
        let mut reading = mk_reading("QUEUED", None, false);
        reading.resource = Some("ibm-quantum-compute-service/ibm_fez".parse().unwrap());
        let works = DeviceReading { queue: Some("4".into()), ..mk_device("ONLINE", None) };
        let view = Front::of(&reading, DeviceSeen::Read(&works), 1, NOW);
        assert_eq!((view.front, view.place, view.queue.as_deref()), (false, None, Some("4")));
        assert_eq!(view.held_by, None);
        let rests = DeviceReading { queue: Some("4".into()), ..mk_device("maintenance", None) };
        let view = Front::of(&reading, DeviceSeen::Read(&rests), 1, NOW);
        assert_eq!(view.held_by.as_deref(), Some("d is maintenance"));
    }

    #[test]
    fn the_table_of_the_front() {
        let online = mk_device("ONLINE", Some(0));
        let silent = mk_device("ONLINE", None);
        let busy = mk_device("ONLINE", Some(3));
        let offline = mk_device("OFFLINE", Some(0));
        let paused = mk_device("PAUSED", Some(0));
        let retired = mk_device("RETIRED", Some(0));
        let odd = mk_device("NAPPING", Some(0));
        let read = DeviceSeen::Read;
        let rows = [
            // state, position, priority queue of its own, device, front
            ("QUEUED", Some("1"), false, read(&online), true),
            ("QUEUED", Some(" 1 "), false, read(&online), true),
            ("QUEUED", Some("1"), false, read(&silent), true),
            ("QUEUED", Some("1"), false, read(&busy), false),
            ("QUEUED", Some("1"), true, read(&busy), true),
            ("QUEUED", Some("1"), false, read(&offline), false),
            ("QUEUED", Some("1"), false, read(&paused), false),
            ("QUEUED", Some("1"), false, read(&retired), false),
            ("QUEUED", Some("1"), false, read(&odd), false),
            ("QUEUED", Some("1"), true, read(&offline), false),
            ("QUEUED", Some("1"), false, DeviceSeen::Unknown, false),
            ("QUEUED", Some("1"), false, DeviceSeen::Unreadable, true),
            ("QUEUED", Some("2"), false, read(&online), false),
            ("QUEUED", Some("0"), false, read(&online), false),
            ("QUEUED", Some(">2000"), false, read(&online), false),
            ("QUEUED", Some(">1"), false, read(&online), false),
            ("QUEUED", Some("None"), false, read(&online), false),
            ("QUEUED", Some("1st"), false, read(&online), false),
            ("QUEUED", Some(""), false, read(&online), false),
            ("QUEUED", None, false, read(&online), false),
            ("CREATED", Some("1"), false, read(&online), false),
            ("RUNNING", Some("1"), false, read(&online), false),
            ("FAILED", Some("1"), false, read(&online), false),
            ("PONDERING", Some("1"), false, read(&online), false),
        ];
        for (state, position, priority, device, front) in rows {
            let view = Front::of(&mk_reading(state, position, priority), device, 1, NOW);
            assert_eq!(view.front, front, "{state} {position:?} {priority} {device:?}");
            assert_eq!(view.place == Some(1), front, "{state} {position:?} {priority} {device:?}");
        }
    }

    #[test]
    fn the_table_of_places() {
        let online = mk_device("ONLINE", Some(0));
        let busy = mk_device("ONLINE", Some(3));
        let offline = mk_device("OFFLINE", Some(0));
        let read = DeviceSeen::Read;
        let held = |text: &str| Some(text.to_owned());
        let rows = [
            // state, position, priority queue of its own, device, place, held by (5 decides)
            ("QUEUED", Some("5"), false, read(&online), Some(5), None),
            ("QUEUED", Some("6"), false, read(&online), Some(6), None),
            ("QUEUED", Some("2"), false, read(&busy), Some(5), None),
            ("QUEUED", Some("3"), false, read(&busy), Some(6), held("3 priority tasks ahead")),
            ("QUEUED", Some("9"), false, read(&busy), Some(12), None),
            ("QUEUED", Some("3"), true, read(&busy), Some(3), None),
            ("QUEUED", Some("5"), false, read(&offline), None, held("d is OFFLINE")),
            ("QUEUED", Some("6"), false, read(&offline), None, None),
            ("QUEUED", Some("5"), false, DeviceSeen::Unknown, None, None),
            ("QUEUED", Some("5"), false, DeviceSeen::Unreadable, Some(5), None),
            ("QUEUED", Some(">2000"), false, read(&online), None, None),
            ("QUEUED", Some("None"), false, read(&online), None, None),
            ("QUEUED", None, false, read(&online), None, None),
            ("QUEUED", Some("4294967295"), false, read(&busy), Some(u32::MAX), None),
            ("CREATED", Some("2"), false, read(&online), None, None),
            ("RUNNING", Some("2"), false, read(&online), None, None),
        ];
        for (state, position, priority, device, place, held_by) in rows {
            let view = Front::of(&mk_reading(state, position, priority), device, 5, NOW);
            let said = (view.place, view.held_by);
            assert_eq!(said, (place, held_by), "{state} {position:?} {priority} {device:?}");
        }
    }

    #[test]
    fn a_held_front_says_by_what() {
        let busy = mk_device("ONLINE", Some(3));
        let first = mk_reading("QUEUED", Some("1"), false);
        let view = Front::of(&first, DeviceSeen::Read(&busy), 1, NOW);
        assert_eq!(view.priority_ahead, Some(3));
        assert_eq!(view.held_by.as_deref(), Some("3 priority tasks ahead"));
        let paused = mk_device("PAUSED", None);
        let view = Front::of(&first, DeviceSeen::Read(&paused), 1, NOW);
        assert_eq!(view.held_by.as_deref(), Some("d is PAUSED"));
    }

    #[test]
    fn a_lower_bound_is_kept_as_one() {
        let view =
            Front::of(&mk_reading("QUEUED", Some(">2000"), false), DeviceSeen::Unknown, 1, NOW);
        assert_eq!(view.at_least, Some(2000));
    }
}

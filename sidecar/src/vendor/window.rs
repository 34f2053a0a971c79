//! The hours in which a device runs tasks, in UTC. PURE.
//!
//! The days and hours are those of `service.executionWindows` in a device's capabilities, read as
//! amazon-braket-sdk reads them: a window that ends before it starts runs past midnight and
//! belongs to the day on which it starts; both ends belong to it, to the second.

use jiff::civil::{DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Unit};
use serde::Deserialize;

/// One window of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    days: Days,
    start: Time,
    end: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Days {
    Every,
    Week,
    Weekend,
    One(Weekday),
}

/// A window on the wire.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawWindow {
    execution_day: String,
    window_start_hour: String,
    window_end_hour: String,
}

/// Reads all windows; `None` when one of them cannot be read, so that nothing is judged by halves.
#[must_use]
pub fn read(raw: &[RawWindow]) -> Option<Vec<Window>> {
    raw.iter().map(Window::read).collect()
}

impl Window {
    fn read(raw: &RawWindow) -> Option<Self> {
        let days = match raw.execution_day.as_str() {
            "Everyday" => Days::Every,
            "Weekdays" => Days::Week,
            "Weekend" => Days::Weekend,
            "Monday" => Days::One(Weekday::Monday),
            "Tuesday" => Days::One(Weekday::Tuesday),
            "Wednesday" => Days::One(Weekday::Wednesday),
            "Thursday" => Days::One(Weekday::Thursday),
            "Friday" => Days::One(Weekday::Friday),
            "Saturday" => Days::One(Weekday::Saturday),
            "Sunday" => Days::One(Weekday::Sunday),
            _ => return None,
        };
        let start: Time = raw.window_start_hour.parse().ok()?;
        let end: Time = raw.window_end_hour.parse().ok()?;
        (start != end).then_some(Self { days, start, end })
    }

    fn starts_on(&self, day: Weekday) -> bool {
        let weekend = matches!(day, Weekday::Saturday | Weekday::Sunday);
        match self.days {
            Days::Every => true,
            Days::Week => !weekend,
            Days::Weekend => weekend,
            Days::One(only) => only == day,
        }
    }

    fn holds(&self, now: DateTime) -> bool {
        let (day, time) = (now.weekday(), now.time());
        if self.start < self.end {
            return self.starts_on(day) && self.start <= time && time <= self.end;
        }
        let began_today = self.starts_on(day) && time >= self.start;
        began_today || (self.starts_on(day.previous()) && time <= self.end)
    }
}

/// Whether the device runs tasks at that time. Without windows it is not known to rest.
#[must_use]
pub fn open(windows: &[Window], now: Timestamp) -> bool {
    let now = seconds(now);
    windows.is_empty() || windows.iter().any(|window| window.holds(now))
}

/// When the next window begins.
#[must_use]
pub fn opens(windows: &[Window], now: Timestamp) -> Option<Timestamp> {
    let now = seconds(now);
    let starts =
        (0..=7).filter_map(|days| now.date().checked_add(days.days()).ok()).flat_map(|date| {
            let of_day = windows.iter().filter(move |w| w.starts_on(date.weekday()));
            of_day.map(move |w| date.to_datetime(w.start))
        });
    let next = starts.filter(|start| *start > now).min()?;
    next.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

fn seconds(at: Timestamp) -> DateTime {
    let at = at.to_zoned(TimeZone::UTC).datetime();
    // Down: the last second of a window belongs to it whole.
    at.round(jiff::civil::DateTimeRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Floor))
        .unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(day: &str, start: &str, end: &str) -> RawWindow {
        RawWindow {
            execution_day: day.into(),
            window_start_hour: start.into(),
            window_end_hour: end.into(),
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_table_of_windows() {
        // 2026-11-30 is a Monday.
        let day = [mk("Everyday", "09:00", "19:00:00")];
        let work = [mk("Weekdays", "08:00:00", "12:00:00"), mk("Weekend", "13:00", "14:00")];
        let night = [mk("Friday", "22:00", "06:00")];
        let always = [mk("Everyday", "00:00", "23:59:59")];
        let rows: [(&[RawWindow], &str, bool, Option<&str>); 16] = [
            (&day, "2026-11-30T08:59:59.9Z", false, Some("2026-11-30T09:00:00Z")),
            (&day, "2026-11-30T09:00:00Z", true, Some("2026-12-01T09:00:00Z")),
            (&day, "2026-11-30T19:00:00.9Z", true, Some("2026-12-01T09:00:00Z")),
            (&day, "2026-11-30T19:00:01Z", false, Some("2026-12-01T09:00:00Z")),
            (&day, "2026-12-31T23:00:00Z", false, Some("2027-01-01T09:00:00Z")),
            (&work, "2026-11-30T10:00:00Z", true, Some("2026-12-01T08:00:00Z")),
            (&work, "2026-11-30T13:30:00Z", false, Some("2026-12-01T08:00:00Z")),
            (&work, "2026-12-04T13:00:00Z", false, Some("2026-12-05T13:00:00Z")),
            (&work, "2026-12-05T13:30:00Z", true, Some("2026-12-06T13:00:00Z")),
            (&night, "2026-12-04T23:00:00Z", true, Some("2026-12-11T22:00:00Z")),
            (&night, "2026-12-05T05:00:00Z", true, Some("2026-12-11T22:00:00Z")),
            (&night, "2026-12-04T05:00:00Z", false, Some("2026-12-04T22:00:00Z")),
            (&night, "2026-12-05T06:00:01Z", false, Some("2026-12-11T22:00:00Z")),
            (&always, "2026-11-30T23:59:59.999Z", true, Some("2026-12-01T00:00:00Z")),
            (&always, "2026-11-30T00:00:00Z", true, Some("2026-12-01T00:00:00Z")),
            (&[], "2026-11-30T00:00:00Z", true, None),
        ];
        for (raw, now, is_open, next) in rows {
            let windows = read(raw).unwrap();
            assert_eq!(open(&windows, at(now)), is_open, "{raw:?} at {now}");
            assert_eq!(opens(&windows, at(now)), next.map(at), "{raw:?} at {now}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_judged() {
        let good = mk("Everyday", "09:00", "19:00");
        for odd in [
            mk("Holidays", "09:00", "19:00"),
            mk("Everyday", "nine", "19:00"),
            mk("Everyday", "09:00", "25:00"),
            mk("Everyday", "09:00", "09:00"),
        ] {
            assert_eq!(read(&[good.clone(), odd.clone()]), None, "{odd:?}");
        }
    }
}

//! What one look at a device told, and whether it runs tasks now. PURE.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;
use sluice_dialect::quote;

use super::window::{self, RawWindow, Window};

/// The device status with which tasks are run.
const ONLINE: &str = "ONLINE";
/// Longest foreign word that is repeated in our texts.
const WORD: usize = 64;

/// What one look at a device told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceReading {
    /// The vendor's word, `ONLINE` when it works.
    pub status: String,
    /// Why it has that status, in the vendor's word.
    pub reason: Option<String>,
    /// Until when, as far as the vendor knows.
    pub until: Option<Timestamp>,
    /// The hours in which it runs tasks; empty when they are not told.
    pub windows: Vec<Window>,
    /// Tasks in the normal queue, as the vendor says it.
    pub queue: Option<String>,
    /// Tasks that are served before every normal one; a lower bound, `None` when not told.
    pub priority_queue: Option<u32>,
}

/// Why a device runs no tasks now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// What it is: `outside its window`, `in maintenance`, `PAUSED`.
    pub what: String,
    /// Until when, if that is known.
    pub until: Option<Timestamp>,
}

impl DeviceReading {
    /// Why the device runs no tasks at that time; `None` when it does, as far as is known.
    #[must_use]
    pub fn rests(&self, now: Timestamp) -> Option<Rest> {
        let inside = window::open(&self.windows, now);
        let online = self.status == ONLINE;
        if online && inside {
            return None;
        }
        let told = self.until.filter(|until| *until > now);
        let opens = || window::opens(&self.windows, now);
        let rest = |what: &str, until| Some(Rest { what: what.to_owned(), until });
        match self.reason.as_deref().filter(|_| !online) {
            Some("OUTSIDE_AVAILABILITY_WINDOW") => rest("outside its window", told.or_else(opens)),
            Some("MAINTENANCE") => rest("in maintenance", told),
            Some("RESERVATION") => rest("reserved", told),
            Some(other) => {
                rest(&format!("{} ({})", quote(&self.status, WORD), quote(other, WORD)), told)
            }
            None if !inside => rest("outside its window", told.or_else(opens)),
            None => rest(&quote(&self.status, WORD), told),
        }
    }
}

impl Rest {
    /// `iqm Garnet is outside its window until 14:00 UTC`; with the date where it is not today.
    #[must_use]
    pub fn sentence(&self, device: &str, now: Timestamp) -> String {
        let what = &self.what;
        let Some(until) = self.until else { return format!("{device} is {what}") };
        let date = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        let format = if date(until) == date(now) { "%H:%M" } else { "%Y-%m-%d %H:%M" };
        format!("{device} is {what} until {} UTC", until.strftime(format))
    }
}

/// What the SDK of this build does not know of an answer of `GetDevice`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// For [`DeviceReading::reason`].
    pub reason: Option<String>,
    /// For [`DeviceReading::until`].
    pub until: Option<Timestamp>,
    /// For [`DeviceReading::windows`].
    pub windows: Vec<Window>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    device_status_reason: Option<Value>,
    device_capabilities: Option<String>,
}

// Calibration data makes capabilities large; only what is named here is kept.
#[derive(Deserialize)]
struct Capabilities {
    service: Option<Service>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Service {
    #[serde(default)]
    execution_windows: Vec<RawWindow>,
}

impl Extras {
    /// Reads the body of an answer; what is absent or odd is left out.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        let Ok(answer) = serde_json::from_slice::<Answer>(body) else { return Self::default() };
        let reason = answer.device_status_reason.unwrap_or_default();
        let windows = answer
            .device_capabilities
            .and_then(|text| serde_json::from_str::<Capabilities>(&text).ok())
            .and_then(|capabilities| window::read(&capabilities.service?.execution_windows));
        Self {
            reason: reason.get("reason").and_then(Value::as_str).map(str::to_owned),
            until: reason.get("estimatedEndAt").and_then(time),
            windows: windows.unwrap_or_default(),
        }
    }
}

/// A time as text or as seconds of the epoch: both forms are in use.
fn time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(seconds) => jiff::SignedDuration::try_from_secs_f64(seconds.as_f64()?)
            .ok()
            .and_then(|since| Timestamp::from_duration(since).ok()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn mk(status: &str, reason: Option<&str>, until: Option<&str>, hours: Option<&str>) -> Vec<u8> {
        let windows = hours.map(|hours| {
            let (start, end) = hours.split_once('-').unwrap();
            json!([{
                "executionDay": "Everyday", "windowStartHour": start, "windowEndHour": end,
            }])
        });
        let capabilities = json!({
            "service": {"executionWindows": windows.unwrap_or(json!([])), "shotsRange": [1, 2]},
            "standardized": {"large": [1, 2, 3]},
        });
        let mut body = json!({
            "deviceStatus": status, "deviceCapabilities": capabilities.to_string(),
        });
        if let Some(reason) = reason {
            body["deviceStatusReason"] = json!({"reason": reason, "estimatedEndAt": until});
        }
        body.to_string().into_bytes()
    }

    #[test]
    fn what_people_read_of_a_device_that_rests() {
        let now = at("2026-11-30T12:10:00Z");
        let day = Some("14:00-18:00");
        let rows = [
            ("ONLINE", None, None, None, None),
            ("ONLINE", None, None, Some("09:00-18:00"), None),
            ("ONLINE", None, None, day, Some("outside its window until 14:00 UTC")),
            (
                "ONLINE",
                None,
                None,
                Some("09:00-12:00"),
                Some("outside its window until 2026-12-01 09:00 UTC"),
            ),
            // A reason of the past is no reason of an online device.
            ("ONLINE", Some("MAINTENANCE"), Some("2026-11-30T13:00:00Z"), None, None),
            (
                "OFFLINE",
                Some("OUTSIDE_AVAILABILITY_WINDOW"),
                Some("2026-11-30T15:30:00Z"),
                day,
                Some("outside its window until 15:30 UTC"),
            ),
            (
                "OFFLINE",
                Some("OUTSIDE_AVAILABILITY_WINDOW"),
                None,
                day,
                Some("outside its window until 14:00 UTC"),
            ),
            (
                "PAUSED",
                Some("MAINTENANCE"),
                Some("2026-12-02T08:00:00Z"),
                None,
                Some("in maintenance until 2026-12-02 08:00 UTC"),
            ),
            // An estimate that has passed tells nothing.
            (
                "PAUSED",
                Some("RESERVATION"),
                Some("2026-11-30T11:00:00Z"),
                Some("09:00-18:00"),
                Some("reserved"),
            ),
            ("PAUSED", None, None, None, Some("PAUSED")),
            ("OFFLINE", None, None, day, Some("outside its window until 14:00 UTC")),
            ("OFFLINE", Some("LUNCH"), None, None, Some("OFFLINE (LUNCH)")),
            ("NAPPING", None, None, None, Some("NAPPING")),
        ];
        for (status, reason, until, hours, said) in rows {
            let Extras { reason: why, until: end, windows } =
                Extras::of(&mk(status, reason, until, hours));
            let device = DeviceReading {
                status: status.into(),
                reason: why,
                until: end,
                windows,
                ..DeviceReading::default()
            };
            let found = device.rests(now).map(|rest| rest.sentence("iqm Garnet", now));
            let said = said.map(|said| format!("iqm Garnet is {said}"));
            assert_eq!(found, said, "{status} {reason:?} {until:?} {hours:?}");
        }
    }

    #[test]
    fn odd_answers_tell_nothing_and_times_come_in_two_forms() {
        for body in ["", "{}", "[]", "{\"deviceCapabilities\": \"<html>\"}", "\u{0}"] {
            assert_eq!(Extras::of(body.as_bytes()), Extras::default(), "{body}");
        }
        let odd = json!({
            "deviceStatusReason": {"reason": 7, "estimatedEndAt": [1]},
            "deviceCapabilities": json!({"service": {"executionWindows": [{
                "executionDay": "Someday", "windowStartHour": "1", "windowEndHour": "2",
            }]}}).to_string(),
        });
        assert_eq!(Extras::of(odd.to_string().as_bytes()), Extras::default());
        let epoch =
            json!({"deviceStatusReason": {"reason": "X", "estimatedEndAt": 1_796_050_800.5}});
        let text = json!({"deviceStatusReason": {
            "reason": "X", "estimatedEndAt": "2026-11-30T15:00:00.500Z",
        }});
        assert!(Extras::of(epoch.to_string().as_bytes()).until.is_some());
        assert_eq!(
            Extras::of(epoch.to_string().as_bytes()),
            Extras::of(text.to_string().as_bytes())
        );
    }
}

//! A follower that is told things, one after the other, and what it is told: for the tests.

use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::gang::VendorStatus;
use sluice_shared::policy::{Follow, Mismatch, ReleasePolicy};
use sluice_shared::role::Role;
use sluice_tap::Stretch;

use super::decide;
use crate::follow::passing::Submitted;
use crate::follow::report;
use crate::follow::state::{GangSeen, Rules, Seen, State, Step};
use crate::follow::timing::{Now, after};
use crate::vendor::{DeviceReading, Failure, FailureKind, Reading};

pub(in crate::follow) const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
pub(in crate::follow) const SV1: &str = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";

pub(in crate::follow) fn mk_rules(role: Role, policy: ReleasePolicy) -> Rules {
    Rules {
        role,
        policy,
        needed: 1,
        follow: Follow::Any,
        backend: None,
        mismatch: Mismatch::Warn,
        max_cost: None,
        incarnation: "pod-1".into(),
        gang: "ns/g".into(),
        hints: Vec::new(),
        announce_url: "http://127.0.0.1:8730".into(),
    }
}

pub(in crate::follow) fn mk_reading(id: &str, state: &str, position: Option<&str>) -> Reading {
    Reading {
        device: Some(GARNET.into()),
        position: position.map(str::to_owned),
        ..Reading::new(id, state.into())
    }
}

pub(in crate::follow) fn mk_failure(kind: FailureKind) -> Failure {
    Failure { kind, message: "what the vendor says".into(), retry_after: None }
}

pub(in crate::follow) fn mk_gang(vendor: Option<VendorStatus>) -> GangSeen {
    GangSeen { uid: "g-1".into(), vendor, ..GangSeen::default() }
}

pub(in crate::follow) fn submitted(id: &str) -> Seen {
    Seen::Submitted(Submitted {
        resource: None,
        id: id.into(),
        device: Some(GARNET.into()),
        digest: Some("d1".into()),
        shots: None,
        client_token: Some("t1".into()),
    })
}

pub(in crate::follow) fn online() -> DeviceReading {
    DeviceReading { status: "ONLINE".into(), priority_queue: Some(0), ..DeviceReading::default() }
}

/// A follower that is told things, one after the other.
pub(in crate::follow) struct Play {
    pub(in crate::follow) state: State,
    pub(in crate::follow) now: Timestamp,
    pub(in crate::follow) steps: Vec<Step>,
}

impl Play {
    pub(in crate::follow) fn new(rules: Rules) -> Self {
        let now = Timestamp::from_second(1_796_000_000).unwrap();
        Self { state: State::new(rules, now), now, steps: Vec::new() }
    }

    pub(in crate::follow) fn producer(policy: ReleasePolicy) -> Self {
        Self::new(mk_rules(Role::Producer, policy))
    }

    pub(in crate::follow) fn see(&mut self, seen: Seen) -> &mut Self {
        let state = self.state.clone();
        let now = Now { at: self.now, luck: 0.5, stretch: Stretch::default() };
        let (state, steps) = decide(state, seen, now);
        self.state = state;
        self.steps.extend(steps);
        self
    }

    pub(in crate::follow) fn later(&mut self, seconds: f64) -> &mut Self {
        self.now = after(self.now, Duration::from_secs_f64(seconds));
        self.see(Seen::Time)
    }

    pub(in crate::follow) fn poll(&mut self, reading: Reading) -> &mut Self {
        let at = self.now;
        self.see(Seen::Polled(reading, at))
    }

    pub(in crate::follow) fn read(&mut self, reading: Reading) -> &mut Self {
        let at = self.now;
        self.see(Seen::Read(reading.id.clone(), at, Ok(reading)))
    }

    pub(in crate::follow) fn device(&mut self, reading: DeviceReading) -> &mut Self {
        self.see(Seen::DeviceRead(GARNET.into(), Ok(reading)))
    }

    pub(in crate::follow) fn gang(&mut self) -> &mut Self {
        self.see(Seen::Gang(Some(mk_gang(None))))
    }

    pub(in crate::follow) fn lines(&self) -> Vec<&str> {
        self.steps
            .iter()
            .filter_map(|s| match s {
                Step::Say(line) => Some(line.text.as_str()),
                _ => None,
            })
            .collect()
    }

    pub(in crate::follow) fn writes(&self) -> Vec<&VendorStatus> {
        self.steps
            .iter()
            .filter_map(|s| match s {
                Step::Write(status) => Some(&**status),
                _ => None,
            })
            .collect()
    }

    /// Tasks of the orders that were written, without repetition.
    pub(in crate::follow) fn orders(&self) -> Vec<(&str, &str)> {
        let mut orders: Vec<_> = self
            .writes()
            .into_iter()
            .filter_map(|w| w.order.as_ref())
            .map(|o| (o.task_id.as_str(), o.reason.as_str()))
            .collect();
        orders.dedup();
        orders
    }

    pub(in crate::follow) fn looks(&self, id: &str) -> usize {
        self.steps.iter().filter(|s| matches!(s, Step::Read { id: read, .. } if read == id)).count()
    }

    pub(in crate::follow) fn problem(&self) -> Option<String> {
        report::problem(&self.state, self.now)
    }
}

//! What the keeper counts.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use sluice_shared::gang::{OrderReason, Phase};

/// Bounds of the release times, in seconds: from one fast patch to minutes of trouble.
const RELEASE_SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Label of gauges that count gangs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PhaseLabel {
    phase: PhaseValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
enum PhaseValue {
    Starting,
    Queued,
    Front,
    Releasing,
    Released,
    Finished,
}

impl From<Phase> for PhaseLabel {
    fn from(phase: Phase) -> Self {
        let phase = match phase {
            Phase::Starting => PhaseValue::Starting,
            Phase::Queued => PhaseValue::Queued,
            Phase::Front => PhaseValue::Front,
            Phase::Releasing => PhaseValue::Releasing,
            Phase::Released => PhaseValue::Released,
            Phase::Finished => PhaseValue::Finished,
        };
        Self { phase }
    }
}

/// Label of orders.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OrderLabel {
    reason: OrderValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
enum OrderValue {
    PolicyMet,
    ProducerSucceeded,
    ProducerFailed,
    Person,
}

impl From<OrderReason> for OrderLabel {
    fn from(reason: OrderReason) -> Self {
        let reason = match reason {
            OrderReason::PolicyMet => OrderValue::PolicyMet,
            OrderReason::ProducerSucceeded => OrderValue::ProducerSucceeded,
            OrderReason::ProducerFailed => OrderValue::ProducerFailed,
            OrderReason::Person => OrderValue::Person,
        };
        Self { reason }
    }
}

/// What a write was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum WriteKind {
    Binding,
    Gang,
    Status,
    Group,
    Gate,
    Event,
}

/// How a write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    Done,
    /// The API server said no.
    Refused,
    /// No answer, a busy server, a lost connection.
    Failed,
}

/// Labels of the counter of writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct WriteLabel {
    pub write: WriteKind,
    pub outcome: Outcome,
}

/// The keeper's metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) leading: Gauge,
    pub(crate) gangs: Family<PhaseLabel, Gauge>,
    pub(crate) gated: Gauge,
    pub(crate) releasing: Gauge,
    pub(crate) orders: Family<OrderLabel, Counter>,
    pub(crate) release: Histogram,
    pub(crate) writes: Family<WriteLabel, Counter>,
}

impl Metrics {
    /// Makes the metrics and registers them under `sluice_keeper_`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            leading: Gauge::default(),
            gangs: Family::default(),
            gated: Gauge::default(),
            releasing: Gauge::default(),
            orders: Family::default(),
            release: Histogram::new(RELEASE_SECONDS),
            writes: Family::default(),
        };
        let ours = registry.sub_registry_with_prefix("sluice_keeper");
        ours.register("leading", "1 when this replica acts", metrics.leading.clone());
        ours.register("gangs", "Gangs by phase", metrics.gangs.clone());
        ours.register("gated_pods", "Consumers that our gate holds", metrics.gated.clone());
        ours.register(
            "releasing_pods",
            "Consumers that our gate holds although an order stands",
            metrics.releasing.clone(),
        );
        ours.register("orders", "Orders taken up, by reason", metrics.orders.clone());
        ours.register(
            "release_seconds",
            "Time from the order to the last expected gate gone",
            metrics.release.clone(),
        );
        ours.register("writes", "Writes to the API server", metrics.writes.clone());
        metrics
    }
}

//! Metrics of admission.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// What happened to a review.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Labels {
    /// `jobs` or `pods`.
    pub resource: &'static str,
    /// `pass`, `change`, `deny` or `invalid`.
    pub outcome: &'static str,
    /// The role that the pod got, or the reason of the refusal.
    pub detail: &'static str,
}

/// Metrics of admission.
#[derive(Debug, Clone)]
pub struct Metrics {
    reviews: Family<Labels, Counter>,
    seconds: Histogram,
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reviews: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 14)),
        };
        let registry = registry.sub_registry_with_prefix("sluice_admission");
        registry.register("reviews", "Reviews that were answered", metrics.reviews.clone());
        registry.register(
            "duration_seconds",
            "From the body of a review to its answer",
            metrics.seconds.clone(),
        );
        metrics
    }

    /// Counts an answer.
    pub fn answered(&self, labels: &Labels, seconds: f64) {
        self.reviews.get_or_create(labels).inc();
        self.seconds.observe(seconds);
    }
}

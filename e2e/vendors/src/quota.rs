//! Request quotas of one account in one region: token buckets.
//!
//! Rates and bursts are those of the vendor's published quotas; one more bucket counts all
//! requests together.

use std::collections::HashMap;

use jiff::Timestamp;

/// Sustained requests a second and burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Tokens that come back each second.
    pub per_second: f64,
    /// Most tokens that a bucket holds.
    pub burst: f64,
}

const ALL: &str = "*";

/// The quota of an operation (`*`: of all together).
#[must_use]
pub fn rate_of(operation: &str) -> Option<Rate> {
    let (per_second, burst) = match operation {
        ALL => (140.0, 600.0),
        "CreateQuantumTask" => (20.0, 40.0),
        "GetQuantumTask" => (100.0, 500.0),
        "SearchQuantumTasks" | "GetDevice" | "SearchDevices" => (5.0, 50.0),
        "CancelQuantumTask" => (2.0, 20.0),
        "CreateJob" => (1.0, 5.0),
        "GetJob" => (5.0, 25.0),
        // Five a minute.
        "ibm-quantum-compute-service:CreateJob" => (5.0 / 60.0, 5.0),
        _ => return None,
    };
    Some(Rate { per_second, burst })
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Timestamp,
}

/// Buckets by account, region and operation.
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    /// Factor on every rate and burst; 0 switches quotas off.
    scale: f64,
    buckets: HashMap<(String, String, &'static str), Bucket>,
}

impl Quotas {
    /// Full buckets.
    #[must_use]
    pub fn new(scale: f64) -> Self {
        Self { scale, buckets: HashMap::new() }
    }

    /// Takes one request that is counted alone. `false`: there is no token, and none is taken.
    pub fn take_alone(
        &mut self,
        account: &str,
        region: &str,
        operation: &'static str,
        now: Timestamp,
    ) -> bool {
        self.take_from([operation], account, region, now)
    }

    /// Takes one request that also counts among all. `false`: there is no token, and none is taken.
    pub fn take(
        &mut self,
        account: &str,
        region: &str,
        operation: &'static str,
        now: Timestamp,
    ) -> bool {
        self.take_from([operation, ALL], account, region, now)
    }

    fn take_from<const N: usize>(
        &mut self,
        names: [&'static str; N],
        account: &str,
        region: &str,
        now: Timestamp,
    ) -> bool {
        if self.scale <= 0.0 {
            return true;
        }
        let keys = names.map(|name| (account.to_owned(), region.to_owned(), name));
        let enough = keys.iter().all(|key| self.level(key, now).is_none_or(|tokens| tokens >= 1.0));
        if enough {
            for key in keys {
                if let Some(tokens) = self.level(&key, now) {
                    self.buckets.insert(key, Bucket { tokens: tokens - 1.0, filled: now });
                }
            }
        }
        enough
    }

    fn level(&self, key: &(String, String, &'static str), now: Timestamp) -> Option<f64> {
        let rate = rate_of(key.2)?;
        let burst = (rate.burst * self.scale).max(1.0);
        Some(self.buckets.get(key).map_or(burst, |bucket| {
            let passed = now.duration_since(bucket.filled).as_secs_f64().max(0.0);
            (bucket.tokens + passed * rate.per_second * self.scale).min(burst)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_796_000_000_000 + ms).unwrap()
    }

    fn taken(quotas: &mut Quotas, tries: usize, operation: &'static str, ms: i64) -> usize {
        (0..tries).filter(|_| quotas.take("1", "us-east-1", operation, at(ms))).count()
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut quotas = Quotas::new(1.0);
        assert_eq!(taken(&mut quotas, 100, "SearchQuantumTasks", 0), 50);
        assert_eq!(taken(&mut quotas, 100, "SearchQuantumTasks", 1_000), 5);
        assert_eq!(taken(&mut quotas, 100, "SearchQuantumTasks", 1_000_000), 50);
    }

    #[test]
    fn accounts_and_regions_have_their_own() {
        let mut quotas = Quotas::new(1.0);
        assert_eq!(taken(&mut quotas, 30, "CancelQuantumTask", 0), 20);
        assert!(quotas.take("2", "us-east-1", "CancelQuantumTask", at(0)));
        assert!(quotas.take("1", "us-west-1", "CancelQuantumTask", at(0)));
    }

    #[test]
    fn all_requests_together_are_limited_too() {
        let mut quotas = Quotas::new(1.0);
        assert_eq!(taken(&mut quotas, 600, "GetQuantumTask", 0), 500);
        assert_eq!(taken(&mut quotas, 600, "ListTagsForResource", 0), 100);
        assert!(!quotas.take("1", "us-east-1", "GetDevice", at(0)));
    }

    #[test]
    fn the_scale_counts_and_zero_is_off() {
        assert_eq!(taken(&mut Quotas::new(0.1), 100, "GetQuantumTask", 0), 50);
        assert_eq!(taken(&mut Quotas::new(0.0), 10_000, "GetQuantumTask", 0), 10_000);
    }
}

//! A gang as the keeper sees it.

use sluice_shared::gang::{QuantumGang, QuantumGangSpec, QuantumGangStatus};

use super::{Place, kept_by_place};

/// A `QuantumGang`, without what nobody reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GangSeen {
    pub place: Place,
    /// The version as the server wrote it, for writes that must not meet another.
    pub resource_version: String,
    pub generation: i64,
    pub deleting: bool,
    /// Whether it still names its owner: the cluster takes the name away when pods should outlive
    /// their Job (`--cascade=orphan`).
    pub owned: bool,
    pub spec: QuantumGangSpec,
    pub status: QuantumGangStatus,
}

kept_by_place!(GangSeen);

impl GangSeen {
    /// Reads a gang.
    pub(crate) fn of(mut gang: QuantumGang) -> Self {
        let uid = gang.spec.owner.uid.as_str();
        let owned = gang.metadata.owner_references.iter().flatten().any(|o| o.uid == uid);
        // The longest part of it, which is for people.
        if let Some(vendor) = gang.status.as_mut().and_then(|status| status.vendor.as_mut()) {
            vendor.series = Vec::new();
        }
        Self {
            owned,
            place: Place::of(&gang.metadata),
            resource_version: gang.metadata.resource_version.unwrap_or_default(),
            generation: gang.metadata.generation.unwrap_or_default(),
            deleting: gang.metadata.deletion_timestamp.is_some(),
            spec: gang.spec,
            status: gang.status.unwrap_or_default(),
        }
    }
}

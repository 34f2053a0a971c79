//! A `PodGroup` as the keeper sees it.

use kube::core::Object;
use kube::core::object::NotUsed;
use serde::Deserialize;

use super::{Place, kept_by_place};

/// The `PodGroup` on the wire. The part that is read is the same in every version.
pub(crate) type RawGroup = Object<RawGroupSpec, NotUsed>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawGroupSpec {
    #[serde(default)]
    scheduling_policy: RawPolicy,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawPolicy {
    gang: Option<RawGang>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawGang {
    min_count: Option<u32>,
}

/// A `PodGroup` that the keeper made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupSeen {
    pub place: Place,
    /// How many members must be there before any is placed.
    pub min: u32,
    /// Uids of the owners.
    pub owners: Vec<String>,
    pub deleting: bool,
}

kept_by_place!(GroupSeen);

impl GroupSeen {
    /// Reads a `PodGroup`.
    pub(crate) fn of(raw: &RawGroup) -> Self {
        let owners = raw.metadata.owner_references.iter().flatten();
        Self {
            place: Place::of(&raw.metadata),
            min: raw.spec.scheduling_policy.gang.as_ref().and_then(|g| g.min_count).unwrap_or(0),
            owners: owners.map(|o| o.uid.clone()).collect(),
            deleting: raw.metadata.deletion_timestamp.is_some(),
        }
    }
}

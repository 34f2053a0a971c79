//! What the keeper knows of the cluster: objects cut down to what decisions read.

pub(crate) mod gang;
pub(crate) mod group;
pub(crate) mod indexes;
pub(crate) mod job;
pub(crate) mod pod;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Something that is kept under its uid, newest version first.
pub(crate) trait Kept {
    /// Namespace of the object.
    fn namespace(&self) -> &str;
    /// Name of the object.
    fn name(&self) -> &str;
    /// Uid of the object.
    fn uid(&self) -> &str;
    /// Its version, as a number: the API server's versions of one kind can be compared.
    fn version(&self) -> u64;
}

/// The version of an object as a number, 0 when the server writes it otherwise.
pub(crate) fn version_of(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Where an object is, taken out of its metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub version: u64,
}

impl Place {
    /// Reads the metadata.
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: version_of(meta),
        }
    }
}

/// Implements [`Kept`] for a type with a field `place`.
macro_rules! kept_by_place {
    ($type:ty) => {
        impl crate::facts::Kept for $type {
            fn namespace(&self) -> &str {
                &self.place.namespace
            }
            fn name(&self) -> &str {
                &self.place.name
            }
            fn uid(&self) -> &str {
                &self.place.uid
            }
            fn version(&self) -> u64 {
                self.place.version
            }
        }
    };
}
pub(crate) use kept_by_place;

//! Events, each under a name of its own.
//!
//! The client's recorder names Events by the clock and remembers them in the process. Here the
//! name is made from what is told, so that two keepers, or one before and after a restart, write
//! one Event: the second creation is refused, which is fine.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::PostParams;
use sha2::{Digest, Sha256};

use crate::act::Hands;
use crate::call::{CallError, within};
use crate::decide::status::cut;
use crate::decide::tidings::Tiding;

/// Who reports.
const CONTROLLER: &str = "sluice-keeper";
/// Longest note that the API takes, in bytes.
const NOTE_BYTES: usize = 1024;
/// Bytes of the object's name in the Event's name.
const READABLE: usize = 200;

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Regarding {
    /// `Job` or `Pod`.
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// The name of the Event: the same tiding about the same object always has the same.
pub(crate) fn name_of(regarding: &Regarding, tiding: &Tiding) -> String {
    let mut digest = Sha256::new();
    for part in [regarding.uid.as_str(), tiding.reason, tiding.which.as_str()] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    let start = digest.finalize().iter().take(8).fold(0_u64, |n, b| n << 8 | u64::from(*b));
    format!("{}.{start:016x}", cut(&regarding.name, READABLE))
}

/// The Event.
pub(crate) fn mk_event(
    regarding: &Regarding,
    tiding: &Tiding,
    instance: &str,
    now: Timestamp,
) -> Event {
    let api_version = if regarding.kind == "Job" { "batch/v1" } else { "v1" };
    let mut note = tiding.note.clone();
    while note.len() > NOTE_BYTES {
        note.pop();
    }
    Event {
        metadata: ObjectMeta {
            name: Some(name_of(regarding, tiding)),
            namespace: Some(regarding.namespace.clone()),
            ..ObjectMeta::default()
        },
        action: Some(tiding.action.to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(note),
        reason: Some(tiding.reason.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(api_version.to_owned()),
            kind: Some(regarding.kind.to_owned()),
            namespace: Some(regarding.namespace.clone()),
            name: Some(regarding.name.clone()),
            uid: Some(regarding.uid.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(cut(instance, 128)),
        type_: Some(if tiding.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

impl Hands {
    /// Writes an Event, once.
    pub(crate) async fn tell(&self, event: Event) -> Result<(), CallError> {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        let create = api.create(&params, &event);
        match within(self.limit, "write an Event", create).await {
            Err(error) if error.code() != Some(409) => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tidings::not_stamped;

    #[test]
    fn one_name_for_one_tiding() {
        let regarding = |uid: &str| Regarding {
            kind: "Job",
            namespace: "n".into(),
            name: "j".repeat(300),
            uid: uid.into(),
        };
        let (one, mut other) = (not_stamped("a"), not_stamped("b"));
        assert_eq!(name_of(&regarding("u"), &one), name_of(&regarding("u"), &other));
        assert_ne!(name_of(&regarding("u"), &one), name_of(&regarding("v"), &one));
        other.which = "task".into();
        assert_ne!(name_of(&regarding("u"), &one), name_of(&regarding("u"), &other));
        other.note = "ä".repeat(1000);
        let event = mk_event(&regarding("u"), &other, "keeper-0", Timestamp::UNIX_EPOCH);
        assert!(event.note.is_some_and(|n| n.len() <= NOTE_BYTES));
        assert!(event.metadata.name.is_some_and(|n| n.len() <= 253));
    }
}

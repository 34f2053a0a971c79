//! Watching one gang.

use std::time::Duration;

use futures::future::{BoxFuture, OptionFuture};
use futures::{FutureExt, StreamExt};
use kube::api::{Api, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, ExponentialBackoff, watch_object};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

use super::kind;
use super::trouble::{Trouble, explain};
use crate::follow::state::{GangSeen, Seen};

/// Names of a gang and of the pod that speaks for it, for messages.
#[derive(Debug, Clone)]
pub struct Name {
    /// Name of the gang.
    pub gang: String,
    /// Namespace of gang and pod.
    pub namespace: String,
    /// Uid of the pod.
    pub pod_uid: String,
}

impl Name {
    /// `namespace/name`.
    #[must_use]
    pub fn full(&self) -> String {
        format!("{}/{}", self.namespace, self.gang)
    }
}

/// Tells of every change of the gang, until nobody listens, and after it went whether gangs can
/// still be made. Errors are retried without end.
pub async fn observe(api: Api<DynamicObject>, name: Name, seen: mpsc::Sender<Seen>) {
    // The rights come with the gang, seconds after the pod: short pauses at first.
    let pauses = backon::ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(Duration::from_secs(8))
        .without_max_times()
        .with_jitter();
    let client = api.clone().into_client();
    let stream = watch_object(api, &name.gang).backoff(ExponentialBackoff::from(pauses));
    let mut stream = std::pin::pin!(stream);
    let mut trouble = Trouble::default();
    let mut known = false;
    let mut asking: OptionFuture<BoxFuture<'static, bool>> = None.into();
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            Some(stays) = &mut asking => {
                asking = None.into();
                if seen.send(Seen::GangType(stays)).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(event) = event else { return };
        match event {
            Ok(gang) => {
                match &gang {
                    None if known => {
                        asking = Some(kind::stays(client.clone()).boxed()).into();
                    }
                    _ => asking = None.into(),
                }
                known = gang.is_some();
                if trouble.over() {
                    info!("gang {} can be read again", name.full());
                }
                if seen.send(Seen::Gang(gang.as_ref().map(gang_seen))).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if trouble.note(Instant::now()) {
                    warn!("gang {} cannot be read: {}", name.full(), words(&error, &name));
                }
            }
        }
    }
}

fn words(error: &watcher::Error, name: &Name) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => explain(error, &name.full(), &name.pod_uid),
        other => other.to_string(),
    }
}

/// What the follower reads of a gang. PURE.
#[must_use]
pub fn gang_seen(gang: &DynamicObject) -> GangSeen {
    let status = gang.data.get("status").unwrap_or(&Value::Null);
    let order = status.get("order").unwrap_or(&Value::Null);
    GangSeen {
        uid: gang.metadata.uid.clone().unwrap_or_default(),
        vendor: read(status, "vendor"),
        phase: read(status, "phase"),
        consumers: read(status, "consumers"),
        by: read(order, "reason"),
        producer: read(status, "producer"),
    }
}

fn read<T: DeserializeOwned>(value: &Value, field: &str) -> Option<T> {
    serde_json::from_value(value.get(field)?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_shared::gang::{OrderReason, Phase};

    use super::*;

    fn mk_gang(status: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "sluice.flux-framework.org/v1alpha1",
            "kind": "QuantumGang",
            "metadata": {"name": "g", "uid": "u"},
            "spec": {},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn open_is_what_the_keeper_says_and_counts() {
        let consumers =
            |gated, released| json!({"expected": 7, "gated": gated, "released": released});
        let rows = [
            (json!({"phase": "Released", "consumers": consumers(0, 7)}), true),
            (json!({"phase": "Released", "consumers": consumers(1, 7)}), false),
            (json!({"phase": "Released", "consumers": consumers(0, 6)}), false),
            (json!({"phase": "Releasing", "consumers": consumers(0, 7)}), false),
            (json!({"phase": "Released"}), false),
            (json!({}), false),
        ];
        for (status, open) in rows {
            assert_eq!(gang_seen(&mk_gang(&status)).is_open(), open, "{status}");
        }
    }

    #[test]
    fn fields_of_tomorrow_do_not_blind_it() {
        let seen = gang_seen(&mk_gang(&json!({
            "phase": "Pondering",
            "order": {"reason": "PolicyMet"},
            "vendor": {"tasks": [{"id": "t", "state": "QUEUED", "mood": "fine"}]},
        })));
        assert_eq!(seen.phase, None::<Phase>);
        assert_eq!(seen.by, Some(OrderReason::PolicyMet));
        assert_eq!(seen.vendor.unwrap().tasks[0].id, "t");
    }
}

//! Writing `status.vendor`, and nothing else.

use std::time::Duration;

use backon::BackoffBuilder;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use sluice_shared::gang::VendorStatus;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::observer::Name;
use super::trouble::{Trouble, explain};

/// Two writes are at least this far apart, unless an order is in the second.
const FLOOR: Duration = Duration::from_secs(1);
/// Time for one write.
const CALL: Duration = Duration::from_secs(10);

/// Keeps the gang's status at what is wanted, until nobody wants anything any more. A refused
/// write is tried again without end; the newest status counts.
pub async fn write(
    api: Api<DynamicObject>,
    name: Name,
    mut wanted: watch::Receiver<Option<VendorStatus>>,
) {
    let mut last: Option<Instant> = None;
    let mut written = VendorStatus::default();
    let mut trouble = Trouble::default();
    while wanted.changed().await.is_ok() {
        if let Some(last) = last {
            keep_floor(&mut wanted, &written, last + FLOOR).await;
        }
        let mut pauses = pauses().build();
        loop {
            let Some(status) = wanted.borrow_and_update().clone() else { break };
            match send(&api, &name.gang, &status).await {
                Ok(()) => {
                    last = Some(Instant::now());
                    written = status;
                    if trouble.over() {
                        info!("the status of gang {} can be written again", name.full());
                    }
                    break;
                }
                Err(error) => {
                    if trouble.note(Instant::now()) {
                        let text = error.words(&name);
                        warn!("the status of gang {} cannot be written: {text}", name.full());
                    }
                }
            }
            // The builder has no last pause.
            tokio::time::sleep(pauses.next().unwrap_or(CALL)).await;
        }
    }
}

fn pauses() -> backon::ExponentialBuilder {
    backon::ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(8))
        .without_max_times()
        .with_jitter()
}

/// Waits until the floor is reached, or until another order is wanted than the written one, or
/// until a submission waits for what is written.
async fn keep_floor(
    wanted: &mut watch::Receiver<Option<VendorStatus>>,
    written: &VendorStatus,
    floor: Instant,
) {
    let hurries =
        |status: &Option<VendorStatus>| status.as_ref().is_some_and(|s| hurries(s, written));
    let order = wanted.wait_for(hurries);
    // A sender that is gone ends the wait too: the last status is still written.
    let _ = tokio::time::timeout_at(floor, order).await;
}

fn hurries(status: &VendorStatus, written: &VendorStatus) -> bool {
    let handed_on = |status: &VendorStatus| -> Vec<Option<String>> {
        status.tasks.iter().map(|t| t.incarnation.clone()).collect()
    };
    status.order != written.order
        || status.intents.iter().any(|intent| !written.intents.contains(intent))
        || handed_on(status) != handed_on(written)
}

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("no answer within {} s", CALL.as_secs())]
    TimedOut,
    #[error(transparent)]
    Refused(#[from] kube::Error),
}

impl WriteError {
    fn words(&self, name: &Name) -> String {
        match self {
            Self::Refused(error) => explain(error, &name.full(), &name.pod_uid),
            timed_out @ Self::TimedOut => timed_out.to_string(),
        }
    }
}

async fn send(
    api: &Api<DynamicObject>,
    gang: &str,
    status: &VendorStatus,
) -> Result<(), WriteError> {
    let patch = Patch::Merge(patch(status));
    let params = PatchParams { field_manager: Some("sluice-sidecar".into()), ..Default::default() };
    tokio::time::timeout(CALL, api.patch_status(gang, &params, &patch))
        .await
        .map_err(|_| WriteError::TimedOut)??;
    Ok(())
}

/// The JSON merge patch for this status. Everything outside of `status.vendor` is the keeper's.
/// PURE.
#[must_use]
pub fn patch(status: &VendorStatus) -> Value {
    // Plain strings and numbers always serialise.
    let mut vendor = serde_json::to_value(status).unwrap_or_default();
    if let Some(fields) = vendor.as_object_mut() {
        // A merge patch keeps what it does not name.
        for field in ["folded", "intents", "order", "problem"] {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    json!({"status": {"vendor": vendor}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patch_names_only_vendor_and_takes_back_what_is_gone() {
        let patch = patch(&VendorStatus::default());
        assert_eq!(
            patch,
            json!({"status": {"vendor": {
                "tasks": [], "folded": null, "intents": null, "order": null, "problem": null
            }}})
        );
    }
}

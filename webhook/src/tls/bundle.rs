//! The CA bundle in the webhook configuration.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

/// The webhook configuration of this installation.
pub(super) struct Bundle {
    api: Api<MutatingWebhookConfiguration>,
    name: String,
}

impl Bundle {
    pub(super) fn new(client: &Client, name: &str) -> Self {
        Self { api: Api::all(client.clone()), name: name.to_owned() }
    }

    /// Has every webhook of the configuration trust `pem`, and writes only what differs.
    pub(super) async fn publish(&self, pem: &str) -> Result<(), kube::Error> {
        let found = self.api.get(&self.name).await?;
        let wanted = ByteString(pem.as_bytes().to_vec());
        let stale: Vec<_> = found
            .webhooks
            .iter()
            .flatten()
            .filter(|w| w.client_config.ca_bundle.as_ref() != Some(&wanted))
            .map(|w| json!({"name": w.name, "clientConfig": {"caBundle": wanted}}))
            .collect();
        if stale.is_empty() {
            return Ok(());
        }
        // Merged by the name of the webhook, so the rest of the configuration stays.
        let patch = Patch::Strategic(json!({"webhooks": stale}));
        self.api.patch(&self.name, &PatchParams::default(), &patch).await?;
        tracing::info!(configuration = self.name, "published the CA bundle");
        Ok(())
    }
}

//! The sidecar's gang at the API server: watched by name, and its `status.vendor` written.

pub mod kind;
pub mod observer;
pub mod trouble;
pub mod writer;

use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, Config, Resource};
use sluice_shared::gang::QuantumGang;
use tokio::time::Instant;
use tracing::warn;

use trouble::Trouble;

/// Time to connect to the API server.
const CONNECT: Duration = Duration::from_secs(5);
/// Pause between two attempts to find the cluster.
const AGAIN: Duration = Duration::from_secs(10);

/// Gangs of the namespace, read leniently: a field of a newer Sluice must not blind an older
/// sidecar.
#[must_use]
pub fn api(client: Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: QuantumGang::group(&()).into_owned(),
        version: QuantumGang::version(&()).into_owned(),
        api_version: QuantumGang::api_version(&()).into_owned(),
        kind: QuantumGang::kind(&()).into_owned(),
        plural: QuantumGang::plural(&()).into_owned(),
    };
    Api::namespaced_with(client, namespace, &resource)
}

/// A client from the pod's own token (read again from its file by the client, about once a
/// minute), or outside of a cluster from a kubeconfig. Tries without end.
pub async fn connect() -> Client {
    let mut trouble = Trouble::default();
    loop {
        match discover().await {
            Ok(client) => return client,
            Err(error) => {
                if trouble.note(Instant::now()) {
                    warn!(
                        "the API server cannot be used: {error:#}; check that the sidecar's token \
                         is mounted; the task is followed, but no gate can be opened"
                    );
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn discover() -> anyhow::Result<Client> {
    let mut config = match Config::incluster() {
        Ok(config) => config,
        Err(incluster) => match Config::infer().await {
            Ok(config) => config,
            Err(_) => return Err(incluster.into()),
        },
    };
    config.connect_timeout = Some(CONNECT);
    // The program's proxy leads to the vendor; inside of a cluster the client uses none either.
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

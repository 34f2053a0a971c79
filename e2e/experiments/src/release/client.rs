//! A client that sends small requests at once.

use std::path::Path;

use anyhow::{Context, Result};
use hyper_util::client::legacy::{Client as Http, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// The administrator's client for the floor.
///
/// The usual client leaves Nagle's algorithm on: on an idle connection the second part of a small
/// request waits for the answer to the first, up to 40 ms. A floor does not.
pub(super) async fn prompt(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(Http::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace))
}

//! The HTTP client of the AWS libraries where the system's roots are not what the user trusts.

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{self, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use sluice_tap::Roots;

/// The client that trusts these roots, with proxies as the environment says; `None` where the
/// libraries' own client is right.
#[must_use]
pub fn client(roots: &Roots) -> Option<SharedHttpClient> {
    let store = match roots {
        Roots::System => return None,
        Roots::Only(pem) => TrustStore::empty().with_pem_certificate(pem.as_slice()),
        Roots::Also(pem) => TrustStore::default().with_pem_certificate(pem.as_slice()),
    };
    let context = TlsContext::builder().with_trust_store(store).build().ok()?;
    let made = move |settings: Option<&_>, components: Option<&_>| {
        let mut connector = Connector::builder().proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        let sleep = components.and_then(
            aws_smithy_runtime_api::client::runtime_components::RuntimeComponents::sleep_impl,
        );
        connector.set_sleep_impl(sleep);
        connector
            .tls_provider(tls::Provider::Rustls(CryptoMode::AwsLc))
            .tls_context(context.clone())
            .build()
    };
    Some(Builder::new().build_with_connector_fn(made))
}

//! The Secret: reading and writing what [`Stored`] says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use sluice_certs::Issued;
use sluice_certs::rotation::Stored;
use sluice_shared::names;

/// Annotation: since when clients are told to trust the next certificate.
const STAGED_AT: &str = "sluice.flux-framework.org/staged-at";
/// Annotation: since when the current certificate is served instead of the previous one.
const SWITCHED_AT: &str = "sluice.flux-framework.org/switched-at";
/// Keys of the current certificate, as in every Secret of its type.
const CURRENT: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
/// Keys of the next one.
const NEXT: [&str; 3] = ["next-ca.crt", "next.crt", "next.key"];
/// Key of the authority of the previous one.
const PREVIOUS: &str = "previous-ca.crt";
/// HTTP status of a lost race.
const CONFLICT: u16 = 409;

/// A Secret that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Secret {secret:?} has no usable {key:?}; delete it, and it is made anew")]
pub struct Unreadable {
    secret: String,
    key: &'static str,
}

/// The Secret of the serving certificate.
pub(super) struct Store {
    api: Api<Secret>,
    name: String,
}

impl Store {
    pub(super) fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client.clone(), namespace), name: name.to_owned() }
    }

    /// What is stored, with its resource version.
    pub(super) async fn read(&self) -> Result<Option<(Stored, Option<String>)>, super::Failure> {
        let Some(secret) = self.api.get_opt(&self.name).await? else { return Ok(None) };
        let version = secret.metadata.resource_version.clone();
        Ok(Some((self.parse(&secret)?, version)))
    }

    /// Makes the Secret; false when it is there already.
    pub(super) async fn create(&self, stored: &Stored) -> Result<bool, kube::Error> {
        won(self.api.create(&PostParams::default(), &self.render(stored, None)).await)
    }

    /// Replaces the Secret; false when it changed meanwhile.
    pub(super) async fn replace(
        &self,
        stored: &Stored,
        version: Option<String>,
    ) -> Result<bool, kube::Error> {
        let secret = self.render(stored, version);
        won(self.api.replace(&self.name, &PostParams::default(), &secret).await)
    }

    fn render(&self, stored: &Stored, resource_version: Option<String>) -> Secret {
        let mut data = BTreeMap::new();
        let mut annotations = BTreeMap::new();
        let mut put = |keys: [&str; 3], issued: &Issued| {
            for (key, text) in
                keys.into_iter().zip([&issued.ca_pem, &issued.cert_pem, &issued.key_pem])
            {
                data.insert(key.to_owned(), ByteString(text.clone().into_bytes()));
            }
        };
        put(CURRENT, &stored.current);
        if let Some((next, since)) = &stored.next {
            put(NEXT, next);
            annotations.insert(STAGED_AT.to_owned(), since.to_string());
        }
        if let Some((previous, since)) = &stored.previous {
            data.insert(PREVIOUS.to_owned(), ByteString(previous.clone().into_bytes()));
            annotations.insert(SWITCHED_AT.to_owned(), since.to_string());
        }
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version,
                annotations: Some(annotations),
                labels: Some(
                    [(names::MANAGED_BY.to_owned(), names::MANAGED_BY_VALUE.to_owned())].into(),
                ),
                ..ObjectMeta::default()
            },
            data: Some(data),
            type_: Some("kubernetes.io/tls".to_owned()),
            ..Secret::default()
        }
    }

    fn parse(&self, secret: &Secret) -> Result<Stored, Unreadable> {
        let missing = |key| Unreadable { secret: self.name.clone(), key };
        let text = |key: &'static str| {
            secret
                .data
                .as_ref()
                .and_then(|d| d.get(key))
                .and_then(|b| String::from_utf8(b.0.clone()).ok())
                .filter(|t| !t.is_empty())
        };
        let time = |key: &'static str| {
            let annotations = secret.metadata.annotations.as_ref()?;
            annotations.get(key)?.parse::<Timestamp>().ok()
        };
        let issued = |keys: [&'static str; 3]| {
            let get = |key| text(key).ok_or_else(|| missing(key));
            Ok(Issued { ca_pem: get(keys[0])?, cert_pem: get(keys[1])?, key_pem: get(keys[2])? })
        };
        let next = match time(STAGED_AT) {
            Some(since) => Some((issued(NEXT)?, since)),
            None => None,
        };
        let previous = text(PREVIOUS).zip(time(SWITCHED_AT));
        Ok(Stored { current: issued(CURRENT)?, next, previous })
    }
}

fn won<T>(result: Result<T, kube::Error>) -> Result<bool, kube::Error> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == CONFLICT => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_phase_of_a_rotation_survives_the_secret() {
        let client = Client::new(
            tower::service_fn(async |_: http::Request<kube::client::Body>| {
                Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
            }),
            "default",
        );
        let store = Store::new(&client, "ns", "s");
        let mk = |n: &str| Issued {
            ca_pem: format!("ca{n}"),
            cert_pem: format!("cert{n}"),
            key_pem: format!("key{n}"),
        };
        let now: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
        let steady = Stored::new(mk("1"));
        let staged = steady.clone().staged(mk("2"), now);
        let switched = staged.clone().switched(now);
        for stored in [steady, staged, switched.clone(), switched.retired()] {
            assert_eq!(store.parse(&store.render(&stored, None)), Ok(stored));
        }
        let message = store.parse(&Secret::default()).unwrap_err().to_string();
        assert!(message.contains("ca.crt") && message.contains("delete it"), "{message}");
    }
}

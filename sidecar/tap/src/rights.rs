//! The rights that pass: by which headers the program signed in last at each resource. In memory
//! alone, for the sidecar's own looks where the environment holds no credentials.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderName, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use sluice_shared::resource::Resource;

/// The headers that sign in.
const HEADERS: [HeaderName; 3] = [
    http::header::AUTHORIZATION,
    HeaderName::from_static("service-crn"),
    HeaderName::from_static("ibm-api-version"),
];

/// Headers by which a request signs in.
type Signed = Vec<(HeaderName, SecretString)>;

/// What was seen last.
#[derive(Clone, Default)]
pub struct Rights(Arc<Mutex<HashMap<Resource, Signed>>>);

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rights")
    }
}

impl Rights {
    /// A request of the program was answered.
    pub(crate) fn note(&self, resource: &Resource, headers: &HeaderMap, status: StatusCode) {
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return;
        }
        let seen: Vec<_> = HEADERS
            .into_iter()
            .filter_map(|name| {
                let value = headers.get(&name)?.to_str().ok()?;
                Some((name, SecretString::from(value)))
            })
            .collect();
        if seen.iter().any(|(name, _)| *name == http::header::AUTHORIZATION) {
            self.lock().insert(resource.clone(), seen);
        }
    }

    /// The headers by which the program signed in last; none when it has not yet.
    #[must_use]
    pub fn of(&self, resource: &Resource) -> Vec<(HeaderName, SecretString)> {
        let copy = |(name, value): &(HeaderName, SecretString)| {
            (name.clone(), SecretString::from(value.expose_secret()))
        };
        self.lock().get(resource).map(|seen| seen.iter().map(copy).collect()).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Resource, Signed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_last_right_that_was_not_refused_is_kept_and_never_shown() {
        let rights = Rights::default();
        let resource: Resource = "iqm-server/garnet".parse().unwrap();
        let with = |value: &'static str| {
            HeaderMap::from_iter([(HEADERS[0].clone(), HeaderValue::from_static(value))])
        };
        rights.note(&resource, &with("Bearer one"), StatusCode::OK);
        rights.note(&resource, &with("Bearer two"), StatusCode::UNAUTHORIZED);
        rights.note(&resource, &HeaderMap::new(), StatusCode::OK);
        let seen = rights.of(&resource);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].1.expose_secret(), "Bearer one");
        assert!(!format!("{rights:?} {seen:?}").contains("one"));
        assert!(rights.of(&"iqm-server/emerald".parse().unwrap()).is_empty());
    }
}

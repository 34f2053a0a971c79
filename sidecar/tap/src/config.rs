//! What the tap is told at its start. No secret is in here; credentials come apart from it.

use std::sync::Arc;
use std::time::Duration;

use sluice_shared::resource::Resource;

use crate::quota::Quota;

/// The whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where requests of Braket go.
    pub upstream: Upstream,
    /// Where requests of other vendors go.
    pub resources: Vec<Route>,
    /// How long a request is held while the vendor is away. Keep it under the 60 s after which
    /// botocore gives up.
    pub hold: Duration,
    /// Whom to trust as the vendor.
    pub roots: Roots,
    /// What is known of the vendor's quotas, shared with whoever else asks for this pod.
    pub quota: Arc<Quota>,
    /// Limits and time-outs.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            upstream: Upstream::default(),
            resources: Vec::new(),
            hold: Duration::from_secs(50),
            roots: Roots::default(),
            quota: Arc::default(),
            limits: Limits::default(),
        }
    }
}

/// A resource that the program can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Which one.
    pub resource: Resource,
    /// Where it is, or why its endpoint cannot be used, as a sentence for people.
    pub endpoint: Result<Endpoint, String>,
}

/// Root certificates, in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Roots {
    /// Those of the system.
    #[default]
    System,
    /// These instead of the system's (what `AWS_CA_BUNDLE` names).
    Only(Vec<u8>),
    /// These beside the system's (what `NODE_EXTRA_CA_CERTS` names).
    Also(Vec<u8>),
}

/// Limits and time-outs of single steps. None of them ends a wait for a task.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one request body; a larger one is refused.
    pub body: usize,
    /// Bytes of a compressed submission as it is read; a larger one is not read.
    pub plain: usize,
    /// Bytes of all request bodies at one time; more wait.
    pub bodies: usize,
    /// Bytes of an answer that the tap reads; a larger one passes unread.
    pub answer: usize,
    /// Time for a request's headers, and for the next request on an idle connection. Long: an open
    /// connection tells that the program is still the same.
    pub header_time: Duration,
    /// Time for a request's whole body.
    pub body_time: Duration,
    /// Time to connect to the vendor.
    pub connect_time: Duration,
    /// Time from the request sent to the head of its answer, and between two parts of the answer.
    pub answer_time: Duration,
    /// Time for one question to the source of credentials.
    pub credentials_time: Duration,
    /// Time for the record of an intent before the submission goes on without it.
    pub intent_time: Duration,
    /// Time for the submission itself, however long its intent has taken.
    pub send_time: Duration,
    /// Time for running requests after the stop.
    pub drain: Duration,
    /// Connections at one time; more wait to be accepted.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            plain: 4 << 20,
            bodies: 32 << 20,
            answer: 4 << 20,
            header_time: Duration::from_hours(1),
            body_time: Duration::from_secs(30),
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(20),
            credentials_time: Duration::from_secs(10),
            intent_time: Duration::from_secs(50),
            send_time: Duration::from_secs(8),
            drain: Duration::from_millis(500),
            connections: 512,
        }
    }
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upstream {
    /// The vendor's host in the region of the caller's signature.
    Regional(Hosts),
    /// One endpoint for all regions, as the user had set it.
    Url(Endpoint),
}

impl Default for Upstream {
    fn default() -> Self {
        Self::Regional(Hosts::default())
    }
}

/// Which of the vendor's hosts of a region are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Those with validated cryptography (`AWS_USE_FIPS_ENDPOINT`).
    pub fips: bool,
    /// Those with IPv4 and IPv6 (`AWS_USE_DUALSTACK_ENDPOINT`).
    pub dual_stack: bool,
}

impl Hosts {
    /// The host of a region.
    #[must_use]
    pub fn of(self, region: &str) -> String {
        let service = if self.fips { "braket-fips" } else { "braket" };
        let domain = if self.dual_stack { "api.aws" } else { "amazonaws.com" };
        format!("{service}.{region}.{domain}")
    }
}

/// An endpoint URL of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Scheme and authority.
    origin: String,
    /// Path before every request's path, without a slash at its end.
    prefix: String,
    host: String,
}

/// An endpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the endpoint {url:?} cannot be used: {reason}; write it as https://host[:port][/path]")]
pub struct EndpointError {
    url: String,
    reason: &'static str,
}

impl Endpoint {
    /// Reads an endpoint.
    ///
    /// # Errors
    /// It is no http or https URL, or it has user, query or fragment.
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        let error = |reason| EndpointError { url: without_user(url), reason };
        let parsed = reqwest::Url::parse(url.trim()).map_err(|_| error("it is no URL"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(error("its scheme is neither http nor https"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(error("it holds a user or password"));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(error("it has a query or a fragment"));
        }
        let name = parsed.host_str().ok_or_else(|| error("it has no host"))?;
        // As HTTP clients write it: without the scheme's own port.
        let host = match parsed.port() {
            Some(port) => format!("{name}:{port}"),
            None => name.to_owned(),
        };
        Ok(Self {
            origin: format!("{}://{host}", parsed.scheme()),
            prefix: parsed.path().trim_end_matches('/').to_owned(),
            host,
        })
    }
}

fn without_user(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(start), Some(end)) if start + 3 <= end => {
            format!("{}…{}", &url[..start + 3], &url[end..])
        }
        _ => url.to_owned(),
    }
}

/// Where one request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Scheme and authority.
    pub origin: String,
    /// Value of the `Host` header.
    pub host: String,
    /// Path before the request's own.
    pub prefix: String,
}

impl Endpoint {
    /// Where a request goes.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { origin: self.origin.clone(), host: self.host.clone(), prefix: self.prefix.clone() }
    }

    fn is_plain(&self) -> bool {
        self.origin.starts_with("http://")
    }
}

impl Config {
    /// Whether the way to the vendors is never encrypted.
    pub(crate) fn is_plain(&self) -> bool {
        let of_braket = matches!(&self.upstream, Upstream::Url(endpoint) if endpoint.is_plain());
        let routes = || self.resources.iter().filter_map(|route| route.endpoint.as_ref().ok());
        of_braket && routes().all(Endpoint::is_plain)
    }
}

impl Upstream {
    /// Where a request for this region goes.
    #[must_use]
    pub fn target(&self, region: &str) -> Target {
        match self {
            Self::Regional(hosts) => {
                let host = hosts.of(region);
                Target { origin: format!("https://{host}"), host, prefix: String::new() }
            }
            Self::Url(endpoint) => endpoint.target(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (url, origin, host, prefix) in [
            ("http://10.89.0.1:4570", "http://10.89.0.1:4570", "10.89.0.1:4570", ""),
            (
                "https://braket.us-east-1.api.aws/",
                "https://braket.us-east-1.api.aws",
                "braket.us-east-1.api.aws",
                "",
            ),
            (
                "https://gate.example:443/aws/braket/",
                "https://gate.example",
                "gate.example",
                "/aws/braket",
            ),
            ("http://[::1]:80", "http://[::1]", "[::1]", ""),
        ] {
            let target = Upstream::Url(Endpoint::parse(url).unwrap()).target("eu-north-1");
            assert_eq!(
                (&*target.origin, &*target.host, &*target.prefix),
                (origin, host, prefix),
                "{url}"
            );
        }
        for (fips, dual_stack, origin) in [
            (false, false, "https://braket.eu-north-1.amazonaws.com"),
            (true, false, "https://braket-fips.eu-north-1.amazonaws.com"),
            (false, true, "https://braket.eu-north-1.api.aws"),
            (true, true, "https://braket-fips.eu-north-1.api.aws"),
        ] {
            let upstream = Upstream::Regional(Hosts { fips, dual_stack });
            assert_eq!(upstream.target("eu-north-1").origin, origin);
        }
    }

    #[test]
    fn endpoints_that_cannot_be_used_are_named_without_their_password() {
        for url in ["", "braket", "ftp://a/b", "http://a?b=c", "https://user:hunter2@a/"] {
            let error = Endpoint::parse(url).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("https://host"), "{error}");
        }
    }
}

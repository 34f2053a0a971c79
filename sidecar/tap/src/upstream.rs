//! One attempt at the vendor, and what is known of whether the vendor is there.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, Response};
use jiff::Timestamp;
use reqwest::Url;
use tokio::time::timeout;

use crate::config::{Config, Roots, Target};
use crate::events::{Outbox, TapEvent};
use crate::headers::backward;
use crate::keys::chain;
use crate::polls::Whole;

/// What came of one attempt.
pub(crate) enum Attempt {
    Answer(reqwest::Response),
    /// Not a byte has left.
    NotSent(String),
    /// The request may have arrived.
    Lost(String),
}

/// A body that was to be read.
pub(crate) enum Reading {
    Whole(Whole),
    /// Too long to be read: the start and the rest go on as a stream.
    TooLong(Response<Body>),
    /// It broke off: what there was goes on, then the connection closes.
    Broken(Response<Body>, String),
}

/// The URL of a request, if it goes out exactly as it came in.
pub(crate) fn url(target: &Target, path_and_query: &str) -> Option<Url> {
    let text = format!("{}{}{path_and_query}", target.origin, target.prefix);
    Url::parse(&text).ok().filter(|url| url.as_str() == text)
}

/// The client for all attempts: proxies as the environment says, no redirects, no decoding.
///
/// # Errors
/// No root certificates, or an odd proxy variable.
pub fn client(config: &Config) -> Result<reqwest::Client, reqwest::Error> {
    client_that_waits(config, config.limits.answer_time)
}

/// The same with another time for the head of an answer and between two parts of it: the library
/// takes no such limit for one request alone.
pub(crate) fn client_that_waits(
    config: &Config,
    silence: Duration,
) -> Result<reqwest::Client, reqwest::Error> {
    let limits = &config.limits;
    let builder = reqwest::Client::builder();
    let read = reqwest::Certificate::from_pem_bundle;
    let builder = match &config.roots {
        Roots::Only(bundle) => builder.tls_certs_only(read(bundle)?),
        Roots::Also(bundle) => builder.tls_certs_merge(read(bundle)?),
        // The system's are not needed, and a small image has none.
        Roots::System if config.is_plain() => builder.tls_certs_only([]),
        Roots::System => builder,
    };
    builder
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .http1_only()
        .connect_timeout(limits.connect_time)
        .read_timeout(silence)
        // Below the time after which load balancers close idle connections.
        .pool_idle_timeout(Duration::from_secs(20))
        .build()
}

/// Sends one request and waits for the head of its answer.
pub(crate) async fn attempt(
    client: &reqwest::Client,
    (method, url): (Method, Url),
    headers: HeaderMap,
    body: Bytes,
    limit: Duration,
) -> Attempt {
    let mut request = client.request(method, url).headers(headers);
    if !body.is_empty() {
        request = request.body(body);
    }
    match timeout(limit, request.send()).await {
        Ok(Ok(answer)) => Attempt::Answer(answer),
        Ok(Err(error)) => {
            let not_sent = error.is_connect() || error.is_builder();
            let text = chain(&error.without_url());
            if not_sent { Attempt::NotSent(text) } else { Attempt::Lost(text) }
        }
        Err(_) => Attempt::Lost(format!("no answer within {} s", limit.as_secs_f32())),
    }
}

/// The time for which the vendor wants to be left alone.
pub(crate) fn wish(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The answer as a stream: nothing of it is kept.
pub(crate) fn streamed(answer: reqwest::Response) -> Response<Body> {
    let (status, headers) = (answer.status(), backward(answer.headers()));
    let mut response = Response::new(Body::from_stream(answer.bytes_stream()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Reads an answer of at most `limit` bytes.
pub(crate) async fn read(answer: reqwest::Response, limit: usize) -> Reading {
    let (status, headers) = (answer.status(), backward(answer.headers()));
    let mut rest = answer.bytes_stream();
    let mut start = BytesMut::new();
    let shape = |body| {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers.clone();
        response
    };
    while let Some(part) = rest.next().await {
        match part {
            Ok(part) if start.len() + part.len() > limit => {
                let start = stream::iter([Ok(start.freeze()), Ok(part)]);
                return Reading::TooLong(shape(Body::from_stream(start.chain(rest))));
            }
            Ok(part) => start.extend_from_slice(&part),
            Err(error) => {
                let error = error.without_url();
                let text = chain(&error);
                let parts = stream::iter([Ok(start.freeze()), Err(error)]);
                return Reading::Broken(shape(Body::from_stream(parts)), text);
            }
        }
    }
    Reading::Whole(Whole { status, headers, body: start.freeze() })
}

/// Which hosts do not answer, and since when.
#[derive(Debug, Default)]
pub(crate) struct Away(Mutex<HashMap<String, Timestamp>>);

impl Away {
    /// A host did not answer. Told once until it is back.
    pub(crate) fn mark(&self, host: &str, error: &str, outbox: &Outbox) {
        let since = Timestamp::now();
        let is_new = {
            let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            !hosts.contains_key(host) && hosts.insert(host.to_owned(), since).is_none()
        };
        if is_new {
            tracing::debug!(
                host,
                error,
                "the vendor cannot be reached; requests are held until it answers, check the network"
            );
            let (host, error) = (host.to_owned(), error.to_owned());
            outbox.put(TapEvent::UpstreamAway { host, since, error });
        }
    }

    /// A host answered.
    pub(crate) fn clear(&self, host: &str, outbox: &Outbox) {
        let since = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
        if let Some(since) = since {
            let at = Timestamp::now();
            tracing::debug!(host, away = %at.duration_since(since), "Braket answers again");
            outbox.put(TapEvent::UpstreamBack { host: host.to_owned(), since, at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Endpoint, Upstream};

    #[test]
    fn paths_go_out_byte_for_byte_or_not_at_all() {
        let arn = "arn%3Aaws%3Abraket%3A%3A%3Adevice%2Fquantum-simulator%2Famazon%2Fsv1";
        let plain = Upstream::Url(Endpoint::parse("http://127.0.0.1:9/under").unwrap());
        for target in [Upstream::default().target("us-east-1"), plain.target("us-east-1")] {
            for path in [
                format!("/device/{arn}"),
                format!("/quantum-task/{arn}?additionalAttributeNames=QueueInfo"),
                "/tags/a?tagKeys=a%20b&tagKeys=%C3%A4".to_owned(),
                "/devices?".to_owned(),
            ] {
                let url = url(&target, &path).unwrap();
                assert!(url.as_str().ends_with(&path), "{url}");
            }
            for path in ["/device/../jobs", "/device/%2e%2e/jobs", "/device/a\u{e4}", "/tags/a?b=<"]
            {
                assert_eq!(url(&target, path), None, "{path}");
            }
        }
    }
}

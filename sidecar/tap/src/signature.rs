//! Signature Version 4: the caller's signature computed again, and a new one for the vendor.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use sluice_dialect::sha256_hex;

use crate::headers::{CONTENT_SHA256, DATE, SECURITY_TOKEN};

/// Name of the service in the credential scope.
const SERVICE: &str = "braket";

/// Why a signature cannot be checked or made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureError {
    /// There is no `Authorization` header.
    #[error("the request is not signed")]
    Missing,
    /// The signature is there but cannot be read.
    #[error("{0}")]
    Malformed(String),
    /// The body is not the one whose hash was signed, or no hash of it was signed.
    #[error("{0}")]
    Body(String),
}

fn malformed(what: impl Into<String>) -> SignatureError {
    SignatureError::Malformed(what.into())
}

/// What the `Authorization` header and the date header claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Public half of the caller's key.
    pub(crate) key_id: String,
    /// Region of the credential scope: where the request is meant to go.
    pub(crate) region: String,
    /// Time of the signature.
    pub(crate) time: Timestamp,
    /// Whether the caller sent a session token.
    pub(crate) has_token: bool,
    signed_headers: Vec<String>,
    signature: String,
}

/// Whether a request is signed for AWS, rightly or not: none to another vendor ever is.
pub(crate) fn is_for_aws(headers: &HeaderMap) -> bool {
    headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"AWS4-"))
}

impl Claim {
    /// Reads the claim.
    ///
    /// # Errors
    /// No signature, or one that is not Signature Version 4 for Braket in the header.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, SignatureError> {
        let value = headers.get(AUTHORIZATION).ok_or(SignatureError::Missing)?;
        let value = value.to_str().map_err(|_| malformed("the Authorization header is no text"))?;
        let parts = value
            .strip_prefix("AWS4-HMAC-SHA256")
            .ok_or_else(|| malformed("the signature is not AWS4-HMAC-SHA256"))?;
        let (mut scope, mut signed, mut signature) = (None, None, None);
        for part in parts.split(',') {
            match part.trim().split_once('=') {
                Some(("Credential", text)) => scope = Some(text),
                Some(("SignedHeaders", text)) => signed = Some(text),
                Some(("Signature", text)) => signature = Some(text),
                _ => return Err(malformed("the Authorization header has a part without a name")),
            }
        }
        let (Some(scope), Some(signed), Some(signature)) = (scope, signed, signature) else {
            return Err(malformed(
                "the Authorization header lacks Credential, SignedHeaders or Signature",
            ));
        };
        let scope: Vec<_> = scope.split('/').collect();
        let [key_id, day, region, service, "aws4_request"] = scope[..] else {
            return Err(malformed("the credential scope has not the form key/day/region/service"));
        };
        if service != SERVICE {
            return Err(malformed(format!(
                "the request is signed for {service:?}, not for braket"
            )));
        }
        if !is_region(region) {
            return Err(malformed(format!("{region:?} is not the name of a region")));
        }
        if !is_key_id(key_id) {
            return Err(malformed("the key id in the credential scope is not one"));
        }
        let stamp = text(headers, &DATE)?.ok_or_else(|| malformed("there is no X-Amz-Date"))?;
        let time = read_time(stamp)
            .filter(|_| stamp.starts_with(day))
            .ok_or_else(|| malformed(format!("X-Amz-Date {stamp:?} does not fit the scope")))?;
        let signed_headers: Vec<_> = signed.split(';').map(str::to_owned).collect();
        for needed in ["host", "x-amz-date"] {
            if !signed_headers.iter().any(|name| name == needed) {
                return Err(malformed(format!("the header {needed} is not signed")));
            }
        }
        Ok(Self {
            key_id: key_id.to_owned(),
            region: region.to_owned(),
            time,
            has_token: headers.contains_key(SECURITY_TOKEN),
            signed_headers,
            signature: signature.to_owned(),
        })
    }
}

/// A request as far as a signature covers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Covered<'a> {
    /// HTTP method.
    pub(crate) method: &'a str,
    /// Raw path and query.
    pub(crate) target: &'a str,
    /// The headers.
    pub(crate) headers: &'a HeaderMap,
    /// The whole body.
    pub(crate) body: &'a [u8],
}

/// Whether the claim's signature is the one that `credentials` give for this request.
///
/// # Errors
/// A signed header is absent, or the body is not covered by the signature.
pub(crate) fn verifies(
    request: Covered<'_>,
    claim: &Claim,
    credentials: &Credentials,
) -> Result<bool, SignatureError> {
    check_body(request)?;
    let mut covered = Vec::new();
    for name in &claim.signed_headers {
        let name: HeaderName =
            name.parse().map_err(|_| malformed("a signed header has no name"))?;
        let mut values = request.headers.get_all(&name).iter().peekable();
        if values.peek().is_none() {
            return Err(malformed(format!("the signed header {name} is absent")));
        }
        // The signer adds the date itself; twice it would be signed as a list.
        if name == DATE {
            continue;
        }
        for value in values {
            let value = value.to_str().map_err(|_| malformed(format!("{name} is no text")))?;
            covered.push((name.clone(), value));
        }
    }
    let host = text(request.headers, &HOST)?.ok_or_else(|| malformed("there is no Host"))?;
    // The token is among the signed headers where the caller signed it.
    let key = Credentials::new(
        credentials.access_key_id(),
        credentials.secret_access_key(),
        None,
        None,
        "tap",
    );
    let url = format!("http://{host}{}", request.target);
    let headers = covered.iter().map(|(name, value)| (name.as_str(), *value));
    let (computed, _) = signed(request, &url, headers, claim, key)?;
    Ok(same(&computed, &claim.signature))
}

/// Headers of a new signature for the vendor: host, date, token and authorization.
///
/// The time stays the caller's, so that the vendor judges the caller's clock and not ours. Of
/// `request.headers` those are signed that the caller had signed.
///
/// # Errors
/// The URL or a header cannot be signed.
pub(crate) fn signed_again(
    request: Covered<'_>,
    origin: &str,
    host: &str,
    claim: &Claim,
    credentials: &Credentials,
) -> Result<HeaderMap, SignatureError> {
    let mut covered = vec![("host", host)];
    for (name, value) in request.headers {
        if claim.signed_headers.iter().any(|signed| signed == name.as_str()) {
            let value = value.to_str().map_err(|_| malformed(format!("{name} is no text")))?;
            covered.push((name.as_str(), value));
        }
    }
    let url = format!("{origin}{}", request.target);
    let (_, made) = signed(request, &url, covered.into_iter(), claim, credentials.clone())?;
    let mut headers = HeaderMap::new();
    let host = HeaderValue::from_str(host).map_err(|_| malformed("the host is no text"))?;
    headers.insert(HOST, host);
    for (name, value) in made {
        let name: HeaderName = name.parse().map_err(|_| malformed("a header has no name"))?;
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| malformed("the session token of the sidecar is no text"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

type Made = (String, Vec<(String, String)>);

fn signed<'a>(
    request: Covered<'a>,
    url: &'a str,
    headers: impl Iterator<Item = (&'a str, &'a str)>,
    claim: &Claim,
    key: Credentials,
) -> Result<Made, SignatureError> {
    let mut settings = SigningSettings::default();
    // The caller chose what is signed; nothing is left out by our choice.
    settings.excluded_headers = None;
    let identity = key.into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(&claim.region)
        .name(SERVICE)
        .time(SystemTime::from(claim.time))
        .settings(settings)
        .build()
        .map_err(|_| malformed("the signature lacks a part"))?
        .into();
    let body = SignableBody::Bytes(request.body);
    let signable = SignableRequest::new(request.method, url, headers, body)
        .map_err(|_| malformed("the path is not that of a URL"))?;
    let (made, signature) = sign(signable, &params)
        .map_err(|_| malformed("a signed header cannot be signed again"))?
        .into_parts();
    let made = made.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok((signature, made))
}

/// A stated hash of the body must be that of the body, since the new signature covers the body.
fn check_body(request: Covered<'_>) -> Result<(), SignatureError> {
    let Some(stated) = text(request.headers, &CONTENT_SHA256)? else { return Ok(()) };
    if stated == sha256_hex(request.body) {
        return Ok(());
    }
    Err(SignatureError::Body(if stated.len() == 64 {
        "x-amz-content-sha256 is not the hash of the body that arrived".to_owned()
    } else {
        format!(
            "x-amz-content-sha256 is {stated:?}: the signature does not cover the body; sign the \
             payload"
        )
    }))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, SignatureError> {
    headers
        .get(name)
        .map(|value| value.to_str().map_err(|_| malformed(format!("{name} is no text"))))
        .transpose()
}

/// A region becomes part of a host name, so nothing but its own characters may pass.
fn is_region(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
}

/// Key ids are shown in messages, so nothing but their own characters may pass.
fn is_key_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

fn read_time(stamp: &str) -> Option<Timestamp> {
    let time = DateTime::strptime("%Y%m%dT%H%M%SZ", stamp).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Compares without telling by its duration how much was right.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |odd, (a, b)| odd | (a ^ b)) == 0
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;

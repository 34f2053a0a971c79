//! Signature Version 4, seen from the vendor's side: the signature of a request is computed
//! again with the secret that belongs to its key id, and compared.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode,
    sign,
};
use aws_sigv4::sign::v4::SigningParams;
use http::HeaderMap;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use crate::error::{ApiError, Service};
use crate::identity::{Principal, Principals};

/// How far the clock of a caller may be off.
const SKEW: Duration = Duration::from_mins(15);

/// The `Authorization` header, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// Public half of the caller's key.
    pub access_key_id: String,
    /// Day of the signature, `YYYYMMDD`.
    pub date: String,
    /// Region of the credential scope.
    pub region: String,
    /// Service name of the credential scope.
    pub service: String,
    signed_headers: Vec<String>,
    signature: String,
}

impl Authorization {
    /// Reads the header value.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (mut scope, mut headers, mut signature) = (None, None, None);
        for part in value.strip_prefix("AWS4-HMAC-SHA256")?.split(',') {
            match part.trim().split_once('=')? {
                ("Credential", text) => scope = Some(text),
                ("SignedHeaders", text) => headers = Some(text),
                ("Signature", text) => signature = Some(text),
                _ => return None,
            }
        }
        let scope: Vec<_> = scope?.split('/').collect();
        let [key, date, region, service, "aws4_request"] = scope[..] else { return None };
        Some(Self {
            access_key_id: key.to_owned(),
            date: date.to_owned(),
            region: region.to_owned(),
            service: service.to_owned(),
            signed_headers: headers?.split(';').map(str::to_owned).collect(),
            signature: signature?.to_owned(),
        })
    }
}

/// A request as far as its signature covers it.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Raw path and query, as they came.
    pub target: &'a str,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The whole body.
    pub body: &'a [u8],
}

/// Why a request is not accepted as the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No `Authorization` header.
    Missing,
    /// The header cannot be read, or a signed header is absent.
    Malformed(String),
    /// No such key, or the session token is not that of the key.
    Unknown,
    /// Temporary credentials have ended.
    Expired,
    /// The time of the signature is too far from now.
    Skewed(String),
    /// The signature is not the one that the key gives.
    Mismatch,
    /// The body is not the one whose hash was signed.
    Body,
}

impl Refusal {
    /// The answer that the service gives.
    #[must_use]
    pub fn error(&self, service: Service) -> ApiError {
        let (braket, s3, sts, message) = match self {
            Self::Missing => (
                "MissingAuthenticationTokenException",
                "AccessDenied",
                "MissingAuthenticationToken",
                "Missing Authentication Token".to_owned(),
            ),
            Self::Malformed(what) => (
                "IncompleteSignatureException",
                "AuthorizationHeaderMalformed",
                "IncompleteSignature",
                what.clone(),
            ),
            Self::Unknown => (
                "UnrecognizedClientException",
                "InvalidAccessKeyId",
                "InvalidClientTokenId",
                "The security token included in the request is invalid.".to_owned(),
            ),
            Self::Expired => (
                "ExpiredTokenException",
                "ExpiredToken",
                "ExpiredToken",
                "The security token included in the request is expired".to_owned(),
            ),
            Self::Skewed(what) => (
                "InvalidSignatureException",
                "RequestTimeTooSkewed",
                "SignatureDoesNotMatch",
                what.clone(),
            ),
            Self::Mismatch => (
                "InvalidSignatureException",
                "SignatureDoesNotMatch",
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided. \
                 Check your AWS Secret Access Key and signing method. Consult the service \
                 documentation for details."
                    .to_owned(),
            ),
            Self::Body => (
                "InvalidSignatureException",
                "XAmzContentSHA256Mismatch",
                "SignatureDoesNotMatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed."
                    .to_owned(),
            ),
        };
        let code = match service {
            Service::Braket => braket,
            Service::S3 => s3,
            // The vendors of QRMI know no signatures.
            _ => sts,
        };
        let mut error = ApiError::new(code, message);
        // The three services differ here; the texts of the codes do not tell.
        if matches!((service, code), (Service::Sts, _)) {
            error.status = 403;
        }
        error
    }
}

/// Checks a request: key, token, time, signature, body. Returns the caller.
///
/// # Errors
/// The first reason to refuse, in the order in which the vendor checks.
pub fn verify<'a>(
    request: Signed<'_>,
    authorization: &Authorization,
    principals: &'a Principals,
    now: Timestamp,
) -> Result<&'a Principal, Refusal> {
    let principal = principals.get(&authorization.access_key_id).ok_or(Refusal::Unknown)?;
    let token = header(request.headers, "x-amz-security-token");
    if token != principal.session_token.as_ref().map(ExposeSecret::expose_secret) {
        return Err(Refusal::Unknown);
    }
    if principal.expires.is_some_and(|end| end <= now) {
        return Err(Refusal::Expired);
    }
    let stamp = header(request.headers, "x-amz-date")
        .ok_or_else(|| Refusal::Malformed("Authorization header requires 'X-Amz-Date'.".into()))?;
    let time = signing_time(stamp).filter(|_| stamp.starts_with(&authorization.date)).ok_or_else(
        || {
            Refusal::Malformed(format!(
                "Date in Credential scope does not match X-Amz-Date '{stamp}'."
            ))
        },
    )?;
    if now.duration_since(time).unsigned_abs() > SKEW {
        return Err(Refusal::Skewed(format!(
            "Signature expired: {stamp} is not within 15 min. of {}",
            now.strftime("%Y%m%dT%H%M%SZ")
        )));
    }
    if signature(request, authorization, principal, time)? != authorization.signature {
        return Err(Refusal::Mismatch);
    }
    match header(request.headers, "x-amz-content-sha256") {
        Some(hash) if hash.len() == 64 && hash != sha256_hex(request.body) => Err(Refusal::Body),
        _ => Ok(principal),
    }
}

fn signature(
    request: Signed<'_>,
    authorization: &Authorization,
    principal: &Principal,
    time: Timestamp,
) -> Result<String, Refusal> {
    let malformed = |what: &str| Refusal::Malformed(what.to_owned());
    let mut headers = Vec::new();
    for name in &authorization.signed_headers {
        let mut found = false;
        for value in request.headers.get_all(name) {
            let value = value.to_str().map_err(|_| malformed("A signed header is not text."))?;
            headers.push((name.as_str(), value));
            found = true;
        }
        if !found {
            return Err(Refusal::Malformed(format!(
                "Authorization header names the signed header '{name}', which is absent."
            )));
        }
    }
    // The date is added again by the signer; twice it would be signed as a list.
    headers.retain(|(name, _)| *name != "x-amz-date");
    let host = header(request.headers, "host").ok_or_else(|| malformed("No Host header."))?;

    let mut settings = SigningSettings::default();
    // The caller chose what is signed; nothing is left out by our choice.
    settings.excluded_headers = None;
    if authorization.service == "s3" {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    }
    // The session token is among the signed headers where the caller signed it.
    let credentials = Credentials::new(
        &principal.access_key_id,
        principal.secret_access_key.expose_secret(),
        None,
        None,
        "emulator",
    );
    let identity = credentials.into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(&authorization.region)
        .name(&authorization.service)
        .time(SystemTime::from(time))
        .settings(settings)
        .build()
        .map_err(|_| malformed("The signature lacks a part."))?
        .into();
    let body = match header(request.headers, "x-amz-content-sha256") {
        Some(hash) => SignableBody::Precomputed(hash.to_owned()),
        None => SignableBody::Bytes(request.body),
    };
    let uri = format!("http://{host}{}", request.target);
    let signable = SignableRequest::new(request.method, uri, headers.into_iter(), body)
        .map_err(|_| malformed("The request target is not a URI."))?;
    let output = sign(signable, &params).map_err(|_| malformed("The request cannot be signed."))?;
    Ok(output.signature().to_owned())
}

/// A header as text.
#[must_use]
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// SHA-256 in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing into a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn signing_time(stamp: &str) -> Option<Timestamp> {
    let time = DateTime::strptime("%Y%m%dT%H%M%SZ", stamp).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;

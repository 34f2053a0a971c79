//! Issuing a certificate, and reading when one ends.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::OffsetDateTime;
use x509_parser::pem::parse_x509_pem;

/// How far clocks of clients may be behind ours.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// A serving certificate with the authority that signed it, all as PEM.
///
/// The authority's key is gone: it signs this one certificate and no other, ever.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// What clients must trust.
    pub ca_pem: String,
    /// What the server shows.
    pub cert_pem: String,
    /// The server's private key.
    pub key_pem: String,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued")
            .field("ca_pem", &self.ca_pem)
            .field("cert_pem", &self.cert_pem)
            .field("key_pem", &"<secret>")
            .finish()
    }
}

/// Why no certificate could be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// A name, or the cryptography below, does not work.
    #[error("cannot issue a certificate for {names:?}")]
    Generate {
        /// The names that were asked for.
        names: Vec<String>,
        /// What went wrong.
        #[source]
        source: rcgen::Error,
    },
    /// The lifetime leaves the calendar.
    #[error("cannot issue a certificate that lives {0:#}; give a lifetime of days to years")]
    Lifetime(SignedDuration),
}

/// Why the end of a certificate could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no certificate in PEM form: {0}")]
pub struct ReadError(String);

/// Issues a certificate for `names` that is valid from just before `now` for `lifetime`.
///
/// # Errors
/// When a name is no DNS name, or the lifetime is not usable.
pub fn issue(
    names: &[String],
    lifetime: SignedDuration,
    now: Timestamp,
) -> Result<Issued, IssueError> {
    let bound = |t: Option<Timestamp>| {
        t.and_then(|t| OffsetDateTime::from_unix_timestamp(t.as_second()).ok())
            .ok_or(IssueError::Lifetime(lifetime))
    };
    if !lifetime.is_positive() {
        return Err(IssueError::Lifetime(lifetime));
    }
    let from = bound(now.checked_sub(SKEW).ok())?;
    let until = bound(now.checked_add(lifetime).ok())?;
    let failed = |source| IssueError::Generate { names: names.to_vec(), source };

    let mut ca = CertificateParams::default();
    ca.not_before = from;
    ca.not_after = until;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // During a rotation clients hold two authorities: the name tells them apart.
    ca.distinguished_name.push(DnType::CommonName, format!("sluice {}", now.as_second()));
    let ca_key = KeyPair::generate().map_err(failed)?;
    let ca_cert = ca.self_signed(&ca_key).map_err(failed)?;

    let mut leaf = CertificateParams::new(names.to_vec()).map_err(failed)?;
    leaf.not_before = from;
    leaf.not_after = until;
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.distinguished_name.push(DnType::CommonName, "sluice webhook");
    let key = KeyPair::generate().map_err(failed)?;
    let cert = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).map_err(failed)?;

    Ok(Issued { ca_pem: ca_cert.pem(), cert_pem: cert.pem(), key_pem: key.serialize_pem() })
}

/// When the first certificate in `pem` ends.
///
/// # Errors
/// When there is no certificate in it.
pub fn not_after(pem: &str) -> Result<Timestamp, ReadError> {
    let (_, block) = parse_x509_pem(pem.as_bytes()).map_err(|e| ReadError(e.to_string()))?;
    let cert = block.parse_x509().map_err(|e| ReadError(e.to_string()))?;
    Timestamp::from_second(cert.validity().not_after.timestamp())
        .map_err(|e| ReadError(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_now() -> Timestamp {
        "2026-11-29T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_end_is_what_was_asked_for() {
        let now = mk_now();
        let lifetime = SignedDuration::from_hours(24 * 365);
        let issued = issue(&["sluice.sluice-system.svc".to_owned()], lifetime, now).unwrap();
        assert_eq!(not_after(&issued.cert_pem).unwrap(), now + lifetime);
        assert_eq!(not_after(&issued.ca_pem).unwrap(), now + lifetime);
    }

    #[test]
    fn the_key_is_never_printed() {
        let issued = issue(&["a.b".to_owned()], SignedDuration::from_hours(1), mk_now()).unwrap();
        let text = format!("{issued:?}");
        assert!(issued.key_pem.contains("PRIVATE KEY") && !text.contains("PRIVATE KEY"), "{text}");
    }

    #[test]
    fn the_leaf_is_signed_by_its_authority_and_by_no_other() {
        let names = ["a.b".to_owned()];
        let one = issue(&names, SignedDuration::from_hours(1), mk_now()).unwrap();
        let two = issue(&names, SignedDuration::from_hours(1), mk_now()).unwrap();
        let verifies = |leaf: &str, ca: &str| {
            let (_, leaf) = parse_x509_pem(leaf.as_bytes()).unwrap();
            let (_, ca) = parse_x509_pem(ca.as_bytes()).unwrap();
            let (leaf, ca) = (leaf.parse_x509().unwrap(), ca.parse_x509().unwrap());
            let key_ids = |c: &x509_parser::certificate::X509Certificate<'_>| {
                c.extensions()
                    .iter()
                    .find_map(|e| match e.parsed_extension() {
                        x509_parser::extensions::ParsedExtension::AuthorityKeyIdentifier(a) => {
                            a.key_identifier.as_ref().map(|k| k.0.to_vec())
                        }
                        _ => None,
                    })
                    .unwrap_or_default()
            };
            let subject = ca
                .extensions()
                .iter()
                .find_map(|e| match e.parsed_extension() {
                    x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(k) => {
                        Some(k.0.to_vec())
                    }
                    _ => None,
                })
                .unwrap();
            key_ids(&leaf) == subject
        };
        assert!(verifies(&one.cert_pem, &one.ca_pem));
        assert!(!verifies(&one.cert_pem, &two.ca_pem));
    }

    #[test]
    fn what_cannot_be_issued_is_refused() {
        let now = mk_now();
        assert!(issue(&["ä".to_owned()], SignedDuration::from_hours(1), now).is_err());
        assert!(issue(&["a".to_owned()], SignedDuration::ZERO, now).is_err());
        assert!(issue(&["a".to_owned()], SignedDuration::MAX, now).is_err());
        assert!(not_after("hello").is_err());
    }
}

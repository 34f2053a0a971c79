//! Which headers pass the tap, in either direction, and what they say of a body.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST,
    HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};

/// Hash of the body, as the caller states it.
pub(crate) const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
/// Time of the signature.
pub(crate) const DATE: HeaderName = HeaderName::from_static("x-amz-date");
/// Token of temporary credentials.
pub(crate) const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Headers about one connection (RFC 9110, 7.6.1); the `Connection` header can name more.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers that the tap writes itself: those of the signature, and of the body it buffered.
const WRITTEN_AGAIN: [HeaderName; 7] =
    [HOST, AUTHORIZATION, DATE, SECURITY_TOKEN, CONTENT_SHA256, CONTENT_LENGTH, EXPECT];

/// The caller's headers as far as they go on to the vendor. `read`: the tap reads the answer, so
/// it must not be compressed.
pub(crate) fn onward(headers: &HeaderMap, read: bool) -> HeaderMap {
    let mut kept = without_hop_by_hop(headers);
    for name in &WRITTEN_AGAIN {
        kept.remove(name);
    }
    if read {
        kept.remove(ACCEPT_ENCODING);
    }
    kept
}

/// The same where the caller's own right goes on with the request.
pub(crate) fn onward_as_sent(headers: &HeaderMap, read: bool) -> HeaderMap {
    let mut kept = without_hop_by_hop(headers);
    for name in [HOST, CONTENT_LENGTH, EXPECT] {
        kept.remove(name);
    }
    if read {
        kept.remove(ACCEPT_ENCODING);
    }
    kept
}

/// The vendor's headers as far as they go back to the program.
pub(crate) fn backward(headers: &HeaderMap) -> HeaderMap {
    without_hop_by_hop(headers)
}

/// Whether a body is compressed in the one way that the tap can read.
pub(crate) fn is_packed(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|value| {
        let value = value.as_bytes();
        value.eq_ignore_ascii_case(b"gzip") || value.eq_ignore_ascii_case(b"x-gzip")
    })
}

/// A compressed body as it is read; the one that was sent goes on as it is. What is broken, or
/// larger than `most` bytes, stays as it is.
pub(crate) fn plain(body: &Bytes, most: usize) -> Bytes {
    let mut text = Vec::new();
    // One byte more than is allowed tells that there is more.
    let room = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    match MultiGzDecoder::new(body.as_ref()).take(room).read_to_end(&mut text) {
        Ok(read) if read <= most => text.into(),
        _ => body.clone(),
    }
}

fn without_hop_by_hop(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let mut kept = headers.clone();
    for name in HOP_BY_HOP.iter().chain(&named) {
        kept.remove(name);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn end_to_end_headers_go_on_and_connection_headers_stay() {
        let sent = map(&[
            ("host", "127.0.0.1:8731"),
            ("user-agent", "Boto3/1.44.8 BraketSchemas/1.32.1"),
            ("braket-trackers", "0"),
            ("content-type", "application/json"),
            ("amz-sdk-request", "attempt=1; max=3"),
            ("authorization", "AWS4-HMAC-SHA256 Credential=x"),
            ("x-amz-date", "20261129T155034Z"),
            ("x-amz-security-token", "t"),
            ("content-length", "3"),
            ("connection", "keep-alive, x-private"),
            ("x-private", "1"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("accept-encoding", "gzip"),
        ]);
        let names = |map: &HeaderMap| {
            let mut names: Vec<_> = map.keys().map(ToString::to_string).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(
            names(&onward(&sent, true)),
            "amz-sdk-request braket-trackers content-type user-agent"
        );
        assert!(onward(&sent, false).contains_key(ACCEPT_ENCODING));
    }

    #[test]
    fn a_compressed_body_is_read_and_a_strange_one_left() {
        let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut zip, b"{\"jobs\": []}").unwrap();
        let packed = Bytes::from(zip.finish().unwrap());
        let text = Bytes::from_static(b"{\"jobs\": []}");
        for (body, most, expected) in
            [(&packed, 12, &text), (&packed, 11, &packed), (&text, 12, &text)]
        {
            assert_eq!(plain(body, most), expected, "{most}");
        }
        for (encoding, expected) in [("gzip", true), ("GZIP", true), ("zstd", false)] {
            assert_eq!(is_packed(&map(&[("content-encoding", encoding)])), expected, "{encoding}");
        }
        assert!(!is_packed(&map(&[])));
    }

    #[test]
    fn the_vendor_s_answer_keeps_all_but_the_connection() {
        let answer = map(&[
            ("content-type", "application/json"),
            ("content-length", "2"),
            ("x-amzn-errortype", "ThrottlingException"),
            ("retry-after", "3"),
            ("date", "Sun, 29 Nov 2026 15:50:34 GMT"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
        ]);
        let kept = backward(&answer);
        assert_eq!(kept.len(), 5);
        assert!(kept.contains_key("retry-after") && kept.contains_key("content-length"));
    }
}

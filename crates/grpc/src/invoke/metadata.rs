//! Conversion between metadata of the `grpc` crate and HTTP headers.
//!
//! The crate exposes neither the names nor the base64 encoding of binary values, but it converts
//! from and to tonic's metadata, which is a header map.

use grpc::metadata::MetadataMap;
use http::header::{HeaderMap, HeaderValue};
use tonic::metadata::MetadataMap as Headers;

/// The headers of the protocol: callers neither set nor see them. `grpc-status-details-bin` is not
/// listed, since a status of this release has no other place for it.
const RESERVED: [&str; 8] = [
    "content-type",
    "te",
    "grpc-accept-encoding",
    "grpc-encoding",
    "grpc-message",
    "grpc-message-type",
    "grpc-status",
    "grpc-timeout",
];

/// Converts a caller's metadata to request headers.
pub(super) fn into_headers(metadata: MetadataMap) -> HeaderMap {
    without_reserved(Headers::from(metadata).into_headers())
}

/// Converts a server's headers or trailers to metadata. Headers whose names or characters are not
/// valid in metadata are left out.
///
/// # Errors
/// Returns an error if a binary value is not base64.
pub(super) fn from_headers(headers: HeaderMap) -> Result<MetadataMap, String> {
    Headers::from_headers(without_commas(without_reserved(headers))).try_into()
}

fn without_reserved(mut headers: HeaderMap) -> HeaderMap {
    for name in RESERVED {
        headers.remove(name);
    }
    headers
}

/// Splits binary values that were joined with commas; text values keep theirs.
fn without_commas(headers: HeaderMap) -> HeaderMap {
    let joined = |(name, value): (&http::HeaderName, &HeaderValue)| {
        name.as_str().ends_with("-bin") && value.as_bytes().contains(&b',')
    };
    if !headers.iter().any(joined) {
        return headers;
    }
    let mut split = HeaderMap::with_capacity(headers.len());
    for (name, value) in &headers {
        if !joined((name, value)) {
            split.append(name, value.clone());
            continue;
        }
        let parts = value.as_bytes().split(|it| *it == b',');
        for part in parts.filter_map(|it| HeaderValue::from_bytes(it.trim_ascii()).ok()) {
            split.append(name, part);
        }
    }
    split
}

#[cfg(test)]
mod tests {
    use grpc::metadata::MetadataValue;

    use super::*;

    fn blobs(metadata: &MetadataMap) -> Vec<Vec<u8>> {
        let all = metadata.get_all_bin("blob-bin");
        all.iter().map(|it| bytes::Bytes::from(it.clone()).to_vec()).collect()
    }

    #[test]
    fn binary_values_are_base64_on_the_wire_and_bytes_elsewhere() {
        let mut metadata = MetadataMap::new();
        metadata.insert("word", "plain, with a comma".parse().unwrap());
        metadata.append_bin("blob-bin", MetadataValue::from_bytes(&[0, 255, 10]));
        metadata.append_bin("blob-bin", MetadataValue::from_bytes(b""));
        let headers = into_headers(metadata);
        assert_eq!(headers["word"], "plain, with a comma");
        assert_eq!(headers.get_all("blob-bin").iter().collect::<Vec<_>>(), ["AP8K", ""]);
        let back = from_headers(headers).unwrap();
        assert_eq!(back.get("word").unwrap(), "plain, with a comma");
        assert_eq!(blobs(&back), [&[0, 255, 10][..], b""]);
    }

    #[test]
    fn binary_values_may_be_joined_and_padded() {
        let mut headers = HeaderMap::new();
        headers.append("blob-bin", HeaderValue::from_static("AA==, AQ ,Ag=="));
        headers.append("blob-bin", HeaderValue::from_static("Aw"));
        let metadata = from_headers(headers).unwrap();
        assert_eq!(blobs(&metadata), [[0], [1], [2], [3]]);
    }

    #[test]
    fn an_invalid_base64_value_is_reported_by_name() {
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("blob-bin"),
            HeaderValue::from_static("!"),
        )]);
        assert!(from_headers(headers).unwrap_err().contains("blob-bin"));
    }

    #[test]
    fn protocol_headers_are_neither_sent_nor_shown() {
        let mut metadata = MetadataMap::new();
        metadata.insert("grpc-timeout", "1S".parse().unwrap());
        metadata.insert("content-type", "text/plain".parse().unwrap());
        metadata.insert("mine", "yes".parse().unwrap());
        let mut headers = into_headers(metadata);
        assert_eq!((headers.len(), &headers["mine"]), (1, &HeaderValue::from_static("yes")));
        headers.insert("grpc-status", HeaderValue::from_static("0"));
        headers.insert("grpc-status-details-bin", HeaderValue::from_static("AA"));
        let metadata = from_headers(headers).unwrap();
        assert!(metadata.len() == 2 && metadata.contains_key("grpc-status-details-bin"));
    }
}

//! The digest of a document: SHA-512 in upper-case hexadecimal, as in k8s.io/apiserver v0.36.4
//! pkg/endpoints/discovery/aggregated/etag.go.

use std::fmt::Write;

use sha2::{Digest, Sha512};

/// Returns the digest of these bytes.
pub fn digest(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(128);
    for byte in Sha512::digest(bytes) {
        write!(out, "{byte:02X}").expect("writing to a string does not fail");
    }
    out
}

/// Returns the digest in quotes, for the `ETag` header.
pub fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha_512_in_upper_case() {
        assert_eq!(digest(b"abc")[..16], *"DDAF35A193617ABA");
        assert_eq!(digest(b"").len(), 128);
        assert_eq!(etag(b"abc"), format!("\"{}\"", digest(b"abc")));
    }
}

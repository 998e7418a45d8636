//! What can be wrong with our own TLS settings, said so that a person can repair it.
//!
//! Found before the first byte is sent. What is wrong with the server's certificate is worded in `explain.rs`.

use std::io;

/// What is wrong with our own TLS settings. Repeating the request does not help; editing the file named does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// Both a CA and "do not verify" were asked for.
    #[error("a certificate authority and insecure-skip-tls-verify exclude each other; remove one of them")]
    CaAndInsecure,
    /// A file could not be read.
    #[error("cannot read {what}")]
    Unreadable {
        /// The file.
        what: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file or field is not PEM, or does not hold what it should.
    #[error("{what} is malformed: {reason}")]
    Malformed {
        /// The file or the field.
        what: String,
        /// What was expected and not found.
        reason: &'static str,
    },
    /// A key has a form that we cannot sign with.
    #[error("the private key in {what} cannot be used")]
    UnusableKey {
        /// The file or the field.
        what: String,
        /// What the cryptography library says.
        #[source]
        source: rustls::Error,
    },
    /// Certificate and key are of two different pairs.
    #[error("the key in {key} does not belong to the certificate in {certificate}")]
    KeyMismatch {
        /// Where the certificate came from.
        certificate: String,
        /// Where the key came from.
        key: String,
    },
    /// No CA was given and the system has none either.
    #[error("this system has no root certificates; give the cluster's certificate authority")]
    NoSystemRoots,
    /// `tls-server-name`, or the host of the URL, can be in no certificate.
    #[error("{name:?} is neither a DNS name nor an IP address that a certificate could carry")]
    ServerName {
        /// The name.
        name: String,
    },
    /// rustls refuses the combination.
    #[error("the TLS settings cannot be used together")]
    Setup(#[source] rustls::Error),
}

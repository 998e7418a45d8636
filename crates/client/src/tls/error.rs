//! Errors of the client's own TLS settings.
//!
//! They are found before the first byte is sent. Problems with the server's certificate are
//! described in `explain.rs`.

use std::io;

/// An error of the client's TLS settings. Retrying does not help; correct the named file or
/// setting.
///
/// ```
/// use dogwatch_client::tls::TlsError;
///
/// fn remedy(error: &TlsError) -> &'static str {
///     match error {
///         TlsError::Unreadable { .. } => "check the path and its permissions",
///         TlsError::KeyMismatch { .. } => "renew certificate and key together",
///         TlsError::NoSystemRoots => "set certificate-authority",
///         _ => "correct the kubeconfig",
///     }
/// }
/// assert_eq!(remedy(&TlsError::NoSystemRoots), "set certificate-authority");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// Both a CA and `insecure-skip-tls-verify` are set.
    #[error("a certificate authority and insecure-skip-tls-verify exclude each other; remove one of them")]
    CaAndInsecure,
    /// A file could not be read.
    #[error("cannot read {what}")]
    Unreadable {
        /// The file.
        what: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// A file or field is not PEM, or has other content than expected.
    #[error("{what} is malformed: {reason}")]
    Malformed {
        /// The file or the field.
        what: String,
        /// The expected content that is missing.
        reason: &'static str,
    },
    /// A key has a format or algorithm that is not supported.
    #[error("the private key in {what} cannot be used")]
    UnusableKey {
        /// The file or the field.
        what: String,
        /// The error of the cryptography library.
        #[source]
        source: rustls::Error,
    },
    /// Certificate and key do not belong together.
    #[error("the key in {key} does not belong to the certificate in {certificate}")]
    KeyMismatch {
        /// The file or field of the certificate.
        certificate: String,
        /// The file or field of the key.
        key: String,
    },
    /// No CA is set and the system has no roots.
    #[error("this system has no root certificates; set the cluster's certificate authority")]
    NoSystemRoots,
    /// `tls-server-name`, or the host of the URL, is not a valid name for a certificate.
    #[error("{name:?} is neither a DNS name nor an IP address")]
    ServerName {
        /// The name.
        name: String,
    },
    /// rustls rejects the combination of settings.
    #[error("the TLS settings cannot be used together")]
    Setup(#[source] rustls::Error),
}

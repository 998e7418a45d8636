//! PEM text from a field or a file, and the certificates and keys in it.
//!
//! Every error names the file or the kubeconfig field, and never quotes its content.

use std::path::Path;

use rustls::pki_types::pem::{Error as Syntax, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::{Digest, Sha256};

use super::TlsError;
use crate::config::Pem;

/// PEM text with its name for messages.
pub(super) struct PemText {
    /// A path, or the name of a kubeconfig field.
    pub(super) name: String,
    bytes: SecretSlice<u8>,
}

impl PemText {
    /// Takes inline data, named `field`, or reads the file.
    pub(super) fn read(pem: &Pem, field: &str) -> Result<Self, TlsError> {
        match pem {
            Pem::Data(data) => Ok(Self::new(field.to_owned(), data.expose_secret().as_bytes().to_vec())),
            Pem::File(path) => {
                let bytes = std::fs::read(path).map_err(|source| unreadable(path, source))?;
                Ok(Self::new(path.display().to_string(), bytes))
            }
        }
    }

    /// Reads the file without blocking the runtime.
    pub(super) async fn reload(path: &Path) -> Result<Self, TlsError> {
        let bytes = tokio::fs::read(path).await.map_err(|source| unreadable(path, source))?;
        Ok(Self::new(path.display().to_string(), bytes))
    }

    fn new(name: String, bytes: Vec<u8>) -> Self {
        Self { name, bytes: bytes.into() }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.expose_secret()
    }

    /// Returns a digest, to detect changes without keeping the text.
    pub(super) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.bytes()).into()
    }

    pub(super) fn is_blank(&self) -> bool {
        self.bytes().iter().all(u8::is_ascii_whitespace)
    }

    /// Returns all certificates, in order; at least one.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let found = CertificateDer::pem_slice_iter(self.bytes()).collect::<Result<Vec<_>, _>>();
        match found {
            Ok(certificates) if certificates.is_empty() => {
                Err(self.malformed("it contains no PEM certificate"))
            }
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(self.malformed(describe(&error))),
        }
    }

    /// Returns the first private key.
    pub(super) fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_slice(self.bytes()).map_err(|error| match error {
            Syntax::NoItemsFound => self.malformed("it contains no PEM private key"),
            other => self.malformed(describe(&other)),
        })
    }

    pub(super) fn malformed(&self, reason: &'static str) -> TlsError {
        TlsError::Malformed { what: self.name.clone(), reason }
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> TlsError {
    TlsError::Unreadable { what: path.display().to_string(), source }
}

/// Describes an error. The messages of the PEM library quote the text, which may be a key.
fn describe(error: &Syntax) -> &'static str {
    match error {
        Syntax::MissingSectionEnd { .. } => "a PEM section has no END line",
        Syntax::IllegalSectionStart { .. } => "a BEGIN line is broken",
        Syntax::Base64Decode(_) => "a PEM section is not base64",
        Syntax::NoItemsFound => "it contains no PEM section",
        _ => "it is not PEM",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &str) -> PemText {
        PemText::new("client-key-data".to_owned(), content.as_bytes().to_vec())
    }

    #[test]
    fn malformed_pem_is_named_and_never_quoted() {
        let cases = [
            ("", "contains no PEM private key"),
            ("s3cret", "contains no PEM private key"),
            ("-----BEGIN PRIVATE KEY-----\ns3cret", "no END line"),
            ("-----BEGIN PRIVATE KEY-----\ns3cret!\n-----END PRIVATE KEY-----\n", "not base64"),
            ("-----BEGIN s3cret", "malformed"),
        ];
        for (content, expected) in cases {
            let error = text(content).private_key().unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains("client-key-data"), "{shown}");
            assert!(error.to_string().contains(expected), "{content:?}: {error}");
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }

    #[test]
    fn a_key_instead_of_a_certificate_is_a_distinct_error() {
        let key = text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        assert_eq!(
            key.certificates().unwrap_err().to_string(),
            "client-key-data is malformed: it contains no PEM certificate"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let path = std::path::PathBuf::from("/nonexistent/ca.crt");
        let error = PemText::read(&Pem::File(path), "certificate-authority").err().unwrap();
        assert_eq!(error.to_string(), "cannot read /nonexistent/ca.crt");
    }
}

//! The client certificate: loaded, checked against its key, and looked up by each handshake.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use super::TlsError;
use super::pem::PemText;
use crate::config::{Identity, Pem};

/// A certificate with its key, ready to sign.
#[derive(Clone, Debug)]
pub(super) struct LoadedIdentity {
    key: Arc<CertifiedKey>,
    /// Digests of the PEM texts of certificate and key, to detect a change without keeping them.
    digests: [[u8; 32]; 2],
}

/// The current certificate. Shared by every rustls configuration of a transport.
#[derive(Debug, Default)]
pub(super) struct CurrentCertificate {
    loaded: ArcSwapOption<LoadedIdentity>,
}

impl LoadedIdentity {
    /// Reads and checks an identity. Errors name the fields as in the kubeconfig.
    pub(super) fn read(identity: &Identity, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let certificate = PemText::read(&identity.certificate, "client-certificate-data")?;
        let key = PemText::read(&identity.key, "client-key-data")?;
        Self::parse(&certificate, &key, provider)
    }

    /// Reads and checks the two files without blocking the runtime.
    pub(super) async fn reload(files: &IdentityFiles, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let certificate = PemText::reload(&files.certificate).await?;
        let key = PemText::reload(&files.key).await?;
        Self::parse(&certificate, &key, provider)
    }

    fn parse(certificate: &PemText, key: &PemText, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let unusable = |source| TlsError::UnusableKey { what: key.name.clone(), source };
        let signing = provider.key_provider.load_private_key(key.private_key()?).map_err(unusable)?;
        let certified = CertifiedKey::new(certificate.certificates()?, signing);
        match certified.keys_match() {
            // `Unknown` is returned for keys without access to their public half; the server judges
            // those.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(TlsError::KeyMismatch {
                    certificate: certificate.name.clone(),
                    key: key.name.clone(),
                });
            }
            Err(rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding)) => {
                return Err(certificate.malformed("its first certificate cannot be parsed"));
            }
            // The server judges a certificate that rustls would not accept from a server, such as
            // an X.509 version 1 certificate.
            Err(_) => {}
        }
        Ok(Self { key: Arc::new(certified), digests: [certificate.digest(), key.digest()] })
    }
}

/// The paths of certificate and key, if both are files and so may rotate (rule TR-4).
#[derive(Clone, Debug)]
pub(super) struct IdentityFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl IdentityFiles {
    /// Returns `None` if either part is data: data never changes.
    pub(super) fn of(identity: &Identity) -> Option<Self> {
        match (&identity.certificate, &identity.key) {
            (Pem::File(certificate), Pem::File(key)) => {
                Some(Self { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        }
    }
}

impl CurrentCertificate {
    /// Replaces the certificate; returns true if it differs from the previous one.
    pub(super) fn set(&self, loaded: Option<LoadedIdentity>) -> bool {
        let before = self.loaded.load();
        let same = before.as_ref().map(|it| it.digests) == loaded.as_ref().map(|it| it.digests);
        if !same {
            self.loaded.store(loaded.map(Arc::new));
        }
        !same
    }
}

impl ResolvesClientCert for CurrentCertificate {
    fn resolve(&self, _roots: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.loaded.load().as_ref().map(|loaded| Arc::clone(&loaded.key))
    }

    fn has_certs(&self) -> bool {
        self.loaded.load().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn load(certificate: &str, key: &str) -> Result<LoadedIdentity, TlsError> {
        let identity = Identity { certificate: Pem::Data(certificate.into()), key: Pem::Data(key.into()) };
        LoadedIdentity::read(&identity, &rustls::crypto::ring::default_provider())
    }

    #[test]
    fn a_key_of_another_certificate_is_rejected_with_both_names() {
        let ((certificate, _), (_, key)) = (pair(), pair());
        let error = load(&certificate, &key).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the key in client-key-data does not belong to the certificate in client-certificate-data"
        );
    }

    /// Tools such as `openssl x509 -req` still create them, and API servers accept them.
    #[test]
    fn a_certificate_of_version_1_is_presented_and_garbage_is_not() {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap();
        let mut der = certificate.der().to_vec();
        let version = der.windows(5).position(|it| it == [0xa0, 3, 2, 1, 2]).unwrap();
        der[version + 4] = 0;
        let pem = |der: &[u8]| {
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der))
        };
        assert!(load(&pem(&der), &key.serialize_pem()).is_ok());
        let error = load(&pem(b"garbage"), &key.serialize_pem()).unwrap_err().to_string();
        assert!(error.contains("client-certificate-data") && error.contains("cannot be parsed"), "{error}");
    }

    #[test]
    fn setting_the_same_certificate_is_not_a_change() {
        let (certificate, key) = pair();
        let current = CurrentCertificate::default();
        assert!(!current.has_certs());
        assert!(current.set(Some(load(&certificate, &key).unwrap())));
        assert!(!current.set(Some(load(&certificate, &key).unwrap())));
        assert!(current.has_certs());
        assert!(current.set(None));
    }

    #[test]
    fn debug_output_contains_no_key() {
        let (certificate, key) = pair();
        let shown = format!("{:?}", load(&certificate, &key).unwrap());
        let secret = key.lines().nth(1).unwrap();
        assert!(!shown.contains(secret), "{shown}");
    }
}

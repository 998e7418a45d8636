//! Trusted roots: the given CA and no other, the system's roots, or no verification.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::TlsError;
use super::pem::PemText;
use crate::config::{Pem, TlsSettings};

/// The kubeconfig's name of a CA that is not a file.
const CA_FIELD: &str = "certificate-authority-data";

/// The verification of the server's certificate.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// No verification.
    Unverified,
    /// The roots of the system: no CA was given.
    System(Arc<RootCertStore>),
    /// Only these roots; none of the system's.
    Custom {
        /// Empty for an empty CA file: then no server is trusted.
        roots: Arc<RootCertStore>,
        /// The file or field they came from.
        name: String,
        /// A digest of the text, to detect a change.
        digest: [u8; 32],
    },
}

impl Trust {
    /// Loads the roots of the settings (rules TR-1 and TR-5).
    pub(super) fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        match (&settings.ca, settings.insecure_skip_verify) {
            (Some(_), true) => Err(TlsError::CaAndInsecure),
            (None, true) => Ok(Self::Unverified),
            (Some(ca), false) => Self::custom(&PemText::read(ca, CA_FIELD)?),
            (None, false) => Ok(Self::System(Arc::new(system_roots()?))),
        }
    }

    /// Trusts only these roots. Blank text is an empty set, so that an incomplete mount cannot
    /// widen the trust.
    pub(super) fn custom(text: &PemText) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        if !text.is_blank() {
            let (added, ignored) = roots.add_parsable_certificates(text.certificates()?);
            if added == 0 {
                return Err(text.malformed("none of its certificates can be parsed"));
            }
            if ignored > 0 {
                tracing::warn!(ca = %text.name, ignored, "certificates of the CA bundle cannot be parsed");
            }
        }
        Ok(Self::Custom { roots: Arc::new(roots), name: text.name.clone(), digest: text.digest() })
    }

    /// Returns true if these roots were read from the same text.
    pub(super) fn is_from(&self, text: &PemText) -> bool {
        matches!(self, Self::Custom { digest, .. } if *digest == text.digest())
    }

    /// Returns the end of the sentence "the certificate is not signed by …".
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Unverified => "anyone".to_owned(),
            Self::System(_) => {
                "any root certificate of this system; set the cluster's certificate authority".to_owned()
            }
            Self::Custom { roots, name, .. } if roots.is_empty() => {
                format!("the certificate authority in {name}, which is empty")
            }
            Self::Custom { name, .. } => format!("the certificate authority in {name}"),
        }
    }

    /// Returns the roots for an HTTPS proxy: the system's and the cluster's, since both sign
    /// proxies in practice.
    pub(super) fn for_proxy(&self) -> RootCertStore {
        // Without system roots, the cluster's remain.
        let mut roots = system_roots().unwrap_or_else(|_| RootCertStore::empty());
        if let Self::Custom { roots: cluster, .. } = self {
            roots.extend(cluster.roots.iter().cloned());
        }
        roots
    }
}

/// Returns the path of the CA if it is a file, that is, if it can change.
pub(super) fn ca_file(settings: &TlsSettings) -> Option<&std::path::PathBuf> {
    match &settings.ca {
        Some(Pem::File(path)) => Some(path),
        _ => None,
    }
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a root certificate of the system cannot be read");
    }
    collect(found.certs)
}

fn collect(certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() { Err(TlsError::NoSystemRoots) } else { Ok(roots) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pem: &str) -> TlsSettings {
        TlsSettings { ca: Some(Pem::Data(pem.into())), ..TlsSettings::default() }
    }

    #[test]
    fn tr_1_a_ca_and_insecure_together_are_an_error() {
        let settings = TlsSettings { insecure_skip_verify: true, ..data("") };
        assert!(matches!(Trust::load(&settings), Err(TlsError::CaAndInsecure)));
    }

    #[test]
    fn tr_5_an_empty_ca_trusts_no_server_instead_of_the_systems_roots() {
        let Trust::Custom { roots, .. } = Trust::load(&data(" \n")).unwrap() else {
            panic!("a CA was given")
        };
        assert!(roots.is_empty());
    }

    #[test]
    fn a_ca_that_is_not_pem_is_an_error_that_names_the_field() {
        let error = Trust::load(&data("not pem")).unwrap_err();
        assert!(error.to_string().starts_with("certificate-authority-data is malformed"), "{error}");
    }

    #[test]
    fn a_system_without_roots_is_a_distinct_error() {
        assert!(matches!(collect(Vec::new()), Err(TlsError::NoSystemRoots)));
    }
}

//! Verification of the certificates of webhooks, by the bundle of their configuration, or by the
//! roots of the system if it has none.
//!
//! Like Go's verifier in kube-apiserver (`Certificate.Verify` in Go 1.26 crypto/x509/verify.go),
//! this accepts a certificate that is itself in the bundle, in addition to those that an authority
//! of the bundle has issued. Test environments rely on it.

use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The authorities that the machine trusts. Read once: some machines have a file for each
/// authority.
static SYSTEM: LazyLock<Vec<CertificateDer<'static>>> = LazyLock::new(|| {
    let found = rustls_native_certs::load_native_certs();
    if !found.errors.is_empty() {
        tracing::warn!(errors = ?found.errors, "cannot read all certificates of the system");
    }
    found.certs
});

#[derive(Debug)]
struct Trust {
    bundle: Vec<CertificateDer<'static>>,
    /// The verifier of certificates that an authority of the bundle has issued; `None` if the
    /// bundle has no authority.
    issued: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

/// Returns a TLS configuration for a webhook that presents one of these certificates, or one issued
/// by them. Without any, the authorities of the machine are trusted.
///
/// # Errors
/// An error if the TLS provider cannot be configured.
pub(super) fn config(bundle: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let trust = Trust::new(bundle, || SYSTEM.clone());
    let config = ClientConfig::builder_with_provider(Arc::clone(&trust.provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust))
        .with_no_client_auth();
    Ok(config)
}

impl Trust {
    fn new(
        bundle: Vec<CertificateDer<'static>>,
        system: impl FnOnce() -> Vec<CertificateDer<'static>>,
    ) -> Self {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(if bundle.is_empty() { system() } else { bundle.clone() });
        let issued =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().ok();
        Self { bundle, issued, provider }
    }

    /// Verifies a certificate that is in the bundle: its name and its validity.
    fn verify_known(
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let (validity, now) = (parsed.validity(), i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        if now < validity.not_before.timestamp() {
            return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
        }
        if now > validity.not_after.timestamp() {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.bundle.iter().any(|it| it == certificate) {
            return Self::verify_known(certificate, name, now);
        }
        match &self.issued {
            Some(issued) => issued.verify_server_cert(certificate, intermediates, name, ocsp, now),
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn made(names: &[&str]) -> CertificateDer<'static> {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        rcgen::generate_simple_self_signed(names).unwrap().cert.der().clone()
    }

    fn judge(
        bundle: &[CertificateDer<'static>],
        shown: &CertificateDer<'_>,
        name: &str,
        now: UnixTime,
    ) -> bool {
        let trust =
            Trust { bundle: bundle.to_vec(), issued: None, provider: Arc::new(ring::default_provider()) };
        let name = ServerName::try_from(name).unwrap();
        trust.verify_server_cert(shown, &[], &name, &[], now).is_ok()
    }

    #[test]
    fn without_a_bundle_the_authorities_of_the_system_count() {
        let authority = |name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            (params.self_signed(&key).unwrap().der().clone(), rcgen::Issuer::new(params, key))
        };
        let ((system, issuer), (other, _)) = (authority("system"), authority("other"));
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        let shown = params.signed_by(&key, &issuer).unwrap().der().clone();
        let name = ServerName::try_from("a.test").unwrap();
        let judge = |bundle: Vec<CertificateDer<'static>>| {
            let trust = Trust::new(bundle, || vec![system.clone()]);
            trust.verify_server_cert(&shown, &[], &name, &[], UnixTime::now()).is_ok()
        };
        assert!(judge(Vec::new()));
        assert!(judge(vec![system.clone()]));
        assert!(!judge(vec![other]), "a bundle replaces the authorities of the system");
    }

    #[test]
    fn a_certificate_of_the_bundle_is_trusted_for_its_names_and_its_validity() {
        let (ours, other) = (made(&["a.test", "127.0.0.1"]), made(&["a.test"]));
        let bundle = [ours.clone()];
        assert!(judge(&bundle, &ours, "a.test", UnixTime::now()));
        assert!(judge(&bundle, &ours, "127.0.0.1", UnixTime::now()));
        assert!(!judge(&bundle, &ours, "b.test", UnixTime::now()));
        assert!(!judge(&bundle, &other, "a.test", UnixTime::now()));
        // rcgen's certificates without explicit times are valid from 1975 to 4096.
        assert!(!judge(&bundle, &ours, "a.test", UnixTime::since_unix_epoch(Duration::ZERO)));
        let late = UnixTime::since_unix_epoch(Duration::from_secs(70_000_000_000));
        assert!(!judge(&bundle, &ours, "a.test", late));
    }
}

//! TLS to backends: the client certificate for kubelets, and the verification of theirs.
//!
//! kube-apiserver verifies the certificate of a kubelet only with `--kubelet-certificate-authority`
//! (`transportConfig` in k8s.io/kubernetes v1.36.4 pkg/kubelet/client/kubelet_client.go), and that
//! of a proxied pod or service never (`CreateProxyTransport` in
//! pkg/controlplane/apiserver/config.go).

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

/// The reason that TLS to backends cannot be set up.
pub(crate) type InvalidTls = Box<dyn std::error::Error + Send + Sync>;

/// The TLS settings for kubelets.
#[derive(Default)]
pub(crate) struct KubeletTls {
    /// The client certificate and its private key; `None` to present none.
    pub(crate) identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    /// The authorities that issue the certificates of kubelets. These are not verified if there is
    /// none.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
}

/// The role of a backend, which decides about certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A kubelet: it is shown the client certificate, and its own is verified if an authority is
    /// set.
    Kubelet,
    /// A kubelet whose certificate is not verified for this request.
    UnverifiedKubelet,
    /// A program in a pod, or behind a service.
    Program,
}

/// The TLS configurations, one for each [`Peer`].
#[derive(Clone)]
pub(super) struct BackendTls {
    kubelet: Arc<ClientConfig>,
    unverified_kubelet: Arc<ClientConfig>,
    program: Arc<ClientConfig>,
}

impl BackendTls {
    /// Prepares the configurations.
    ///
    /// # Errors
    /// Returns an error if a certificate or the key cannot be used.
    pub(super) fn new(kubelet: &KubeletTls) -> Result<Self, InvalidTls> {
        let provider = Arc::new(ring::default_provider());
        let unverified = || -> Arc<dyn ServerCertVerifier> { Arc::new(Unverified(Arc::clone(&provider))) };
        let verified: Arc<dyn ServerCertVerifier> = if kubelet.authorities.is_empty() {
            unverified()
        } else {
            let mut roots = RootCertStore::empty();
            for authority in &kubelet.authorities {
                roots.add(authority.clone())?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?
        };
        let config = |verifier: Arc<dyn ServerCertVerifier>, shows_identity: bool| {
            let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()?
                .dangerous()
                .with_custom_certificate_verifier(verifier);
            let mut config = match kubelet.identity.as_ref().filter(|_| shows_identity) {
                Some((chain, key)) => config.with_client_auth_cert(chain.clone(), key.clone_key())?,
                None => config.with_no_client_auth(),
            };
            // Not HTTP/2, which cannot switch protocols.
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok::<_, Error>(Arc::new(config))
        };
        Ok(Self {
            kubelet: config(verified, true)?,
            unverified_kubelet: config(unverified(), true)?,
            program: config(unverified(), false)?,
        })
    }

    /// Returns the connector for a backend.
    pub(super) fn connector(&self, peer: Peer) -> TlsConnector {
        TlsConnector::from(Arc::clone(match peer {
            Peer::Kubelet => &self.kubelet,
            Peer::UnverifiedKubelet => &self.unverified_kubelet,
            Peer::Program => &self.program,
        }))
    }
}

/// Omits the key.
impl fmt::Debug for KubeletTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeletTls").finish_non_exhaustive()
    }
}

impl fmt::Debug for BackendTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendTls").finish_non_exhaustive()
    }
}

/// Accepts every certificate; the backend still has to prove that it holds the private key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

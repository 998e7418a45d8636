//! TLS: the server's certificate, and optional client certificates.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificates::Certificates;
use super::handler::BoxError;
use crate::auth::PeerIdentity;

/// The application protocols (ALPN), in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The TLS configuration of a server: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, with optional client
/// certificates.
///
/// A client certificate of another authority does not fail the handshake. Its requests get 401
/// unless they carry other credentials.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Tls {
    /// Presents the certificate `server`, and authenticates clients by certificates of the
    /// generated authority, or of one of `others`.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificates cannot be used.
    pub(crate) fn new(
        server: (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
        certificates: &Certificates,
        others: Vec<CertificateDer<'static>>,
    ) -> Result<Self, BoxError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificates.authority_der())?;
        for other in others {
            roots.add(other)?;
        }
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()?;
        let (chain, key) = server;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(AnyAuthority(Arc::clone(&clients))))
            .with_single_cert(chain, key)?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), clients })
    }

    /// Performs the handshake and returns the identity in the client's certificate, if it presented
    /// one.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        limit: Option<Duration>,
    ) -> io::Result<(TlsStream<TcpStream>, Option<PeerIdentity>)> {
        let handshake = self.acceptor.accept(stream);
        let stream = match limit {
            Some(limit) => tokio::time::timeout(limit, handshake).await??,
            None => handshake.await?,
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::split_first);
        let peer = shown.map(|(own, others)| {
            let verified = self.clients.verify_client_cert(own, others, UnixTime::now());
            verified.ok().and_then(|_| PeerIdentity::from_der(own)).unwrap_or_else(PeerIdentity::stranger)
        });
        Ok((stream, peer))
    }
}

/// Accepts certificates of any authority; the client still has to prove that it holds the private
/// key.
#[derive(Debug)]
struct AnyAuthority(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyAuthority {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

//! TLS: the server proves who it is, and a client may.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificates::Certificates;
use super::handler::BoxError;
use crate::auth::PeerIdentity;

/// What to speak, in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Makes connections private. TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1; a client certificate is welcome and not needed, and one
/// of another authority ends the handshake.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Shows the server's certificate, and believes clients that show one of the same authority.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub fn new(certificates: &Certificates) -> Result<Self, BoxError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificates.authority_der())?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()?;
        let (chain, key) = certificates.server_der();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// The handshake, and who the client is if it showed a certificate.
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
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let peer = shown.and_then(|it| PeerIdentity::from_der(it));
        Ok((stream, peer))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

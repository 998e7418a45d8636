//! A client of a single connection, so that a test sees exactly what happens to it.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::serving::{BoxError, ClientCertificate};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

type Body = Full<Bytes>;

/// The sending half of one connection.
pub(crate) enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

pub(crate) async fn send(sender: &mut Sender, path: &str) -> hyper::Result<Response<Incoming>> {
    match sender {
        Sender::Http1(sender) => {
            let request = Request::get(path).header("host", "localhost").body(Body::default()).unwrap();
            sender.ready().await?;
            sender.send_request(request).await
        }
        Sender::Http2(sender) => {
            let uri = format!("http://localhost{path}");
            sender.ready().await?;
            sender.send_request(Request::get(uri).body(Body::default()).unwrap()).await
        }
    }
}

/// Performs the HTTP handshake over a stream.
pub(crate) async fn handshake<S>(stream: S, version: Version) -> Sender
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    if version == Version::HTTP_2 {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        Sender::Http2(sender)
    } else {
        let (sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        Sender::Http1(sender)
    }
}

pub(crate) async fn over_tcp(address: SocketAddr, version: Version) -> Sender {
    handshake(TcpStream::connect(address).await.unwrap(), version).await
}

/// Connects to `localhost` with TLS, trusting this authority, with the protocol that the server
/// selects.
pub(crate) async fn over_tls(
    address: SocketAddr,
    authority: &str,
    identity: Option<&ClientCertificate>,
    protocols: &[&str],
) -> Result<Sender, BoxError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => config.with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes())?],
            PrivateKeyDer::from_pem_slice(identity.key.expose_secret().as_bytes())?,
        )?,
    };
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost")?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let chosen = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok(handshake(stream, if chosen { Version::HTTP_2 } else { Version::HTTP_11 }).await)
}

//! An external server, named by the environment: to verify the scenarios against kube-apiserver.
//!
//! `DOGWATCH_ORACLE_SERVER` is its URL, `DOGWATCH_ORACLE_TOKEN` a bearer token,
//! `DOGWATCH_ORACLE_AUTHORIZATION` its authorization mode, and `DOGWATCH_ORACLE_ADMISSION` is
//! `ServiceAccount` if it has that plugin. Its certificate is not verified: it is a server under
//! test.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::http_client::{Client, Dial, Dialing, Stream};

/// Returns a client of the external server, if the environment names one.
pub(crate) fn client() -> Option<Client> {
    let url = std::env::var("DOGWATCH_ORACLE_SERVER").ok()?;
    let token = std::env::var("DOGWATCH_ORACLE_TOKEN").ok();
    let address: http::Uri = url.parse().unwrap_or_else(|it| panic!("{url}: {it}"));
    let tls = address.scheme_str() == Some("https");
    let host = address.host().unwrap_or("127.0.0.1").to_owned();
    let port = address.port_u16().unwrap_or(if tls { 443 } else { 80 });
    Some(Client::new(Box::new(ExternalServer { host, port, tls }), token))
}

/// Returns true if the external server authorizes requests by roles.
pub(crate) fn authorizes() -> bool {
    std::env::var("DOGWATCH_ORACLE_AUTHORIZATION").is_ok_and(|it| it == "RBAC")
}

/// Returns true if the external server gives pods their service accounts.
pub(crate) fn gives_accounts() -> bool {
    std::env::var("DOGWATCH_ORACLE_ADMISSION").is_ok_and(|it| it == "ServiceAccount")
}

struct ExternalServer {
    host: String,
    port: u16,
    tls: bool,
}

impl Dial for ExternalServer {
    fn dial(&self) -> Dialing<'_> {
        Box::pin(async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            if !self.tls {
                return Ok(Box::new(stream) as Box<dyn Stream>);
            }
            let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
            let stream = TlsConnector::from(unverified_tls()?).connect(name, stream).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

fn unverified_tls() -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Unverified(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(verifier);
    Ok(Arc::new(config.with_no_client_auth()))
}

/// A verifier that accepts any certificate.
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

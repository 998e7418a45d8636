//! Plain connections to a server: one TLS connection, HTTP/1.1 or HTTP/2, and unmodified requests
//! on it.
//!
//! They are for measurements, where a client's own work would distort the result: no retries and no
//! decoding. The tasks that check behaviour use the real client.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use dogwatch::Config;
use dogwatch::config::Pem;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The flow-control windows of HTTP/2, large enough that a server never waits. Go's client uses 1
/// GiB for a connection (golang.org/x/net v0.49.0 http2/transport.go, transportDefaultConnFlow).
const WINDOW: u32 = 16 << 20;

/// The address, trust and credentials of a server.
#[derive(Clone)]
pub struct Connector {
    authority: String,
    bearer: String,
    tls: Arc<ClientConfig>,
}

/// An HTTP/1.1 connection: one request at a time.
#[derive(Debug)]
pub struct Http1Connection {
    connector: Connector,
    sender: http1::SendRequest<Full<Bytes>>,
}

/// An HTTP/2 connection: many concurrent requests. Clones share it.
#[derive(Clone, Debug)]
pub struct Http2Connection {
    connector: Connector,
    sender: http2::SendRequest<Full<Bytes>>,
}

impl Connector {
    /// Creates a connector to `authority`, whose certificate `ca` has to have signed, with a bearer
    /// token.
    pub fn new(authority: String, ca: &str, token: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            roots.add(certificate.context("the CA certificate is not PEM")?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = Arc::new(tls.with_root_certificates(roots).with_no_client_auth());
        Ok(Self { authority, bearer: format!("Bearer {token}"), tls })
    }

    /// Creates a connector for the server of a kubeconfig, with its bearer token.
    ///
    /// # Errors
    /// If the server is not on https, or if the kubeconfig has no CA certificate or no token.
    pub fn from_config(config: &Config) -> Result<Self> {
        let server = &config.server;
        ensure!(server.scheme() == "https", "{server} is not on https, and the connections need TLS");
        let host = server.host_str().with_context(|| format!("there is no host in {server}"))?;
        let port = server.port_or_known_default().unwrap_or(443);
        Self::new(format!("{host}:{port}"), &ca_of(config)?, &token_of(config)?)
    }

    /// The server's `HOST:PORT`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Opens an HTTP/1.1 connection.
    pub async fn http1(&self) -> Result<Http1Connection> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.connect("http/1.1").await?)).await?;
        // An error of the connection also fails the requests on it.
        tokio::spawn(connection);
        Ok(Http1Connection { connector: self.clone(), sender })
    }

    /// Opens an HTTP/2 connection.
    pub async fn http2(&self) -> Result<Http2Connection> {
        let stream = TokioIo::new(self.connect("h2").await?);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (sender, connection) = builder.handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Http2Connection { connector: self.clone(), sender })
    }

    /// Returns true if `/readyz` responds with `ok`.
    pub async fn is_ready(&self) -> bool {
        let ask = async { self.http1().await?.send(Method::GET, "/readyz", Bytes::new()).await };
        ask.await.is_ok_and(|(code, body)| code == StatusCode::OK && body == "ok")
    }

    async fn connect(&self, protocol: &str) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let (host, _) = self.authority.rsplit_once(':').context("the authority has no port")?;
        let name = ServerName::try_from(host.to_owned())?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
        let agreed = stream.get_ref().1.alpn_protocol();
        ensure!(agreed == Some(protocol.as_bytes()), "the server did not negotiate {protocol}");
        Ok(stream)
    }

    fn request(&self, method: Method, target: &str, body: Bytes) -> Result<Request<Full<Bytes>>> {
        let builder = Request::builder().method(method).header(AUTHORIZATION, &self.bearer);
        let builder =
            if body.is_empty() { builder } else { builder.header(CONTENT_TYPE, "application/json") };
        Ok(builder.uri(target).body(Full::new(body))?)
    }
}

impl Http1Connection {
    /// Sends a request and reads the whole response.
    pub async fn send(&mut self, method: Method, target: &str, body: Bytes) -> Result<(StatusCode, Bytes)> {
        let mut request = self.connector.request(method, target, body)?;
        request.headers_mut().insert(HOST, self.connector.authority.parse()?);
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        Ok((response.status(), response.into_body().collect().await?.to_bytes()))
    }

    /// Sends a GET request and returns the response with its body as a stream.
    pub async fn open(&mut self, target: &str) -> Result<Response<Incoming>> {
        let mut request = self.connector.request(Method::GET, target, Bytes::new())?;
        request.headers_mut().insert(HOST, self.connector.authority.parse()?);
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

impl Http2Connection {
    /// Sends a GET request and returns the response with its body as a stream. The request has this
    /// bearer token, or else the connector's.
    pub async fn open(&mut self, target: &str, token: Option<&str>) -> Result<Response<Incoming>> {
        let target = format!("https://{}{target}", self.connector.authority);
        let mut request = self.connector.request(Method::GET, &target, Bytes::new())?;
        if let Some(token) = token {
            request.headers_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse()?);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

/// Returns the bearer token of a kubeconfig's user.
///
/// # Errors
/// If the user has none, or its file cannot be read.
pub fn token_of(config: &Config) -> Result<String> {
    let token = match (&config.auth.token_file, &config.auth.token) {
        (Some(file), _) => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the token in {}", file.display()))?,
        (None, Some(token)) => token.expose_secret().to_owned(),
        (None, None) => {
            bail!("the user of {} has no bearer token: name one that has, in the kubeconfig", config.server)
        }
    };
    Ok(token.trim().to_owned())
}

/// Returns the CA certificate of a server, as PEM.
///
/// # Errors
/// If the kubeconfig names none, or its file cannot be read.
pub fn ca_of(config: &Config) -> Result<String> {
    match &config.tls.ca {
        Some(Pem::Data(pem)) => Ok(pem.expose_secret().to_owned()),
        Some(Pem::File(path)) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the CA certificate {}", path.display())),
        _ => bail!("there is no CA certificate of {} in the kubeconfig", config.server),
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("authority", &self.authority).finish_non_exhaustive()
    }
}

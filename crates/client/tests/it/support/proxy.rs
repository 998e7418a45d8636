//! Two tiny proxies that connect every name to one server and record the requested targets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{Leaf, Running, listen};

type Log = Arc<Mutex<Vec<String>>>;

/// An HTTP proxy with `CONNECT`, over plaintext or TLS.
pub(crate) struct ConnectProxy {
    address: SocketAddr,
    asked: Log,
    _running: Running,
}

/// A SOCKS5 proxy, with or without a password.
pub(crate) struct SocksProxy {
    address: SocketAddr,
    asked: Log,
    _running: Running,
}

impl ConnectProxy {
    /// `authorization` is the required header, if any.
    pub(crate) async fn to(server: SocketAddr, authorization: Option<&'static str>) -> Self {
        Self::start(server, authorization, None).await
    }

    /// The same over TLS.
    pub(crate) async fn over_tls(server: SocketAddr, leaf: &Leaf) -> Self {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS")
            .with_no_client_auth()
            .with_single_cert(vec![leaf.certificate_der()], leaf.key_der())
            .expect("our own pair");
        Self::start(server, None, Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn start(server: SocketAddr, auth: Option<&'static str>, tls: Option<TlsAcceptor>) -> Self {
        let asked = Log::default();
        let log = Arc::clone(&asked);
        let (address, running) = listen(move |client| {
            let (log, tls) = (Arc::clone(&log), tls.clone());
            async move {
                // A client that disconnects early is no error of the proxy.
                let _ = match tls {
                    None => tunnel(client, server, auth, &log).await,
                    Some(tls) => match tls.accept(client).await {
                        Ok(client) => tunnel(client, server, auth, &log).await,
                        Err(error) => Err(error),
                    },
                };
            }
        })
        .await;
        Self { address, asked, _running: running }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requested targets so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn tunnel<S>(mut client: S, server: SocketAddr, auth: Option<&str>, log: &Log) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split_whitespace().nth(1).unwrap_or_default();
    log.lock().expect("no panic").push(target.to_owned());
    let allowed = auth.is_none_or(|auth| {
        head.lines().any(|line| line.eq_ignore_ascii_case(&format!("proxy-authorization: {auth}")))
    });
    if !allowed {
        return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    }
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    let mut server = TcpStream::connect(server).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

impl SocksProxy {
    /// `login` is the required user and password, if any.
    pub(crate) async fn to(server: SocketAddr, login: Option<(&'static str, &'static str)>) -> Self {
        let asked = Log::default();
        let log = Arc::clone(&asked);
        let (address, running) = listen(move |client| {
            let log = Arc::clone(&log);
            async move {
                let _ = socks(client, server, login, &log).await;
            }
        })
        .await;
        Self { address, asked, _running: running }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requested targets so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// RFC 1928 and RFC 1929, as far as a test needs them.
async fn socks(
    mut client: TcpStream,
    server: SocketAddr,
    login: Option<(&str, &str)>,
    log: &Log,
) -> std::io::Result<()> {
    let _version = client.read_u8().await?;
    let methods = read_counted(&mut client).await?;
    let method = if login.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        return client.write_all(&[5, 0xff]).await;
    }
    client.write_all(&[5, method]).await?;
    if let Some((user, password)) = login {
        let _version = client.read_u8().await?;
        let (given_user, given) = (read_counted(&mut client).await?, read_counted(&mut client).await?);
        let right = given_user == user.as_bytes() && given == password.as_bytes();
        client.write_all(&[1, u8::from(!right)]).await?;
        if !right {
            return Ok(());
        }
    }
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => {
            let mut address = [0; 4];
            client.read_exact(&mut address).await?;
            std::net::Ipv4Addr::from(address).to_string()
        }
        3 => String::from_utf8_lossy(&read_counted(&mut client).await?).into_owned(),
        _ => return client.write_all(&[5, 8, 0, 1, 0, 0, 0, 0, 0, 0]).await,
    };
    let port = client.read_u16().await?;
    log.lock().expect("no panic").push(format!("{host}:{port}"));
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    let mut server = TcpStream::connect(server).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

async fn read_counted(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

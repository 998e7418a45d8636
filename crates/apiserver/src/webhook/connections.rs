//! Connections to webhooks, which are kept open between calls.
//!
//! A handshake takes several round trips and signatures, and thousands of writes may call the same
//! webhook. A connection serves one call at a time. It is kept only if its call has completed; a
//! connection whose call is cancelled, by a timeout or because the client is gone, is closed.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use super::target::Host;
use super::trust;

/// The largest response: several times the largest object.
const LONGEST: usize = 16 * 1024 * 1024;
/// The time for which an idle connection is kept. Go's servers close theirs after minutes at the
/// earliest.
const IDLE: Duration = Duration::from_secs(30);
/// The number of idle connections that are kept for one host, and for all. More are opened when
/// needed, and closed after their call.
const MOST_OF_HOST: usize = 16;
const MOST: usize = 256;
/// The time a kept connection may take to become ready for its next call, which it does when the
/// previous response has ended.
const READY: Duration = Duration::from_millis(100);

/// The idle connections. Dropping it closes them.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    idle: Mutex<HashMap<Host, Vec<Connection>>>,
}

/// A connection without a call in progress.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// The time when its last call ended.
    since: Instant,
    /// The task that reads and writes. It ends with the connection.
    _driver: AbortOnDropHandle<()>,
}

/// The failure of a call.
enum Failure {
    /// The connection was closed before the request was sent.
    Unsent(String),
    /// The webhook may have received the request: there is no response, or it was cut off or is too
    /// long.
    Broken(String),
}

impl Connections {
    /// Sends a request to a host, once. A kept connection that the other end has closed meanwhile
    /// is skipped: the next one is used then, and finally a new one.
    ///
    /// A request that may have arrived is not sent again, as in Go's client (`shouldRetryRequest`
    /// in Go 1.26 net/http/transport.go): the webhook may have side effects, or have failed because
    /// of it.
    ///
    /// # Errors
    /// The reason why there is no response, with messages like those of kube-apiserver.
    pub(super) async fn send(
        &self,
        host: &Host,
        request: &Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), String> {
        while let Some(mut kept) = self.take(host) {
            // Lets the connection's task read what has arrived, in particular the end of the
            // stream.
            tokio::task::yield_now().await;
            if !matches!(tokio::time::timeout(READY, kept.sender.ready()).await, Ok(Ok(()))) {
                continue;
            }
            match kept.call(request.clone()).await {
                Ok(answer) => {
                    self.keep(host, kept);
                    return Ok(answer);
                }
                Err(Failure::Unsent(_)) => {}
                Err(Failure::Broken(why)) => return Err(why),
            }
        }
        let mut opened = Connection::open(host).await?;
        let called = opened.call(request.clone()).await;
        let answer = called.map_err(|(Failure::Unsent(why) | Failure::Broken(why))| why)?;
        self.keep(host, opened);
        Ok(answer)
    }

    /// Takes the most recently used connection of a host.
    fn take(&self, host: &Host) -> Option<Connection> {
        let mut idle = self.idle();
        let connections = idle.get_mut(host)?;
        let taken = connections.pop();
        if connections.is_empty() {
            idle.remove(host);
        }
        taken.filter(Connection::is_usable)
    }

    fn keep(&self, host: &Host, mut connection: Connection) {
        connection.since = Instant::now();
        let mut idle = self.idle();
        idle.retain(|_, connections| {
            connections.retain(Connection::is_usable);
            !connections.is_empty()
        });
        let all: usize = idle.values().map(Vec::len).sum();
        let of_host = idle.get(host).map_or(0, Vec::len);
        if all < MOST && of_host < MOST_OF_HOST && connection.is_usable() {
            idle.entry(host.clone()).or_default().push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Host, Vec<Connection>>> {
        self.idle.lock()
    }
}

impl Connection {
    async fn open(host: &Host) -> Result<Self, String> {
        let stream = connect(host).await?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|why| why.to_string())?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a webhook ended early");
            }
        });
        Ok(Self { sender, since: Instant::now(), _driver: AbortOnDropHandle::new(driver) })
    }

    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.since.elapsed() < IDLE
    }

    async fn call(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Failure> {
        let answer = self.sender.try_send_request(request).await.map_err(|mut why| {
            // The request is returned only if no byte of it was written.
            let unsent = why.take_message().is_some();
            let why = why.into_error().to_string();
            if unsent { Failure::Unsent(why) } else { Failure::Broken(why) }
        })?;
        let code = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        Ok((code, body.map_err(|why| Failure::Broken(why.to_string()))?.to_bytes()))
    }
}

async fn connect(host: &Host) -> Result<TlsStream<TcpStream>, String> {
    let (address, port) = &host.address;
    let unreached = |why: io::Error| match why.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {address}:{port}: connect: connection refused"),
        _ => format!("dial tcp {address}:{port}: {why}"),
    };
    let stream = TcpStream::connect((address.as_str(), *port)).await.map_err(unreached)?;
    // A review takes several writes, and its response is awaited.
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(host.name.clone()).map_err(|why| why.to_string())?;
    let config = trust::config(host.bundle.clone()).map_err(|why| why.to_string())?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(|why| format!("tls: failed to verify certificate: {why}"))
}

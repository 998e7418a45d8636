//! Connections to webhooks: kept open between calls, and opened anew where there is none.
//!
//! A handshake takes several round trips and signatures, and a write may be one of thousands that all go by the same
//! webhook. A connection serves one call at a time. It is kept only if the call came to its end on it, so one that is left in
//! the middle, because it took too long or the client went away, is closed.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// How long an answer may be: an object of the greatest size, several times over.
const LONGEST: usize = 16 * 1024 * 1024;
/// How long a connection is kept without a call. Go's servers close theirs after minutes at the earliest.
const IDLE: Duration = Duration::from_secs(30);
/// How many connections are kept for one host, and for all. More are opened when they are needed, and closed after their call.
const MOST_OF_HOST: usize = 16;
const MOST: usize = 256;
/// How long a connection may take to be ready for its next call. It is when the answer before has ended.
const READY: Duration = Duration::from_millis(100);

/// The connections that are kept for later calls. Dropping it closes them.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    idle: Mutex<HashMap<Host, Vec<Connection>>>,
}

/// A connection on which no call is under way.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// When its last call ended.
    since: Instant,
    /// The task that reads and writes. It ends with the connection.
    _driver: AbortOnDropHandle<()>,
}

/// Why a call has no answer.
enum Failure {
    /// Nothing came back on the connection.
    Unanswered(String),
    /// The answer broke off, or is too long.
    Broken(String),
}

impl Connections {
    /// Sends a request to a host. A kept connection on which nothing comes back was closed by the other end meanwhile: the
    /// next one is taken then, and in the end a new one.
    ///
    /// # Errors
    /// Why there is no answer, in words like the original's.
    pub(super) async fn send(
        &self,
        host: &Host,
        request: &Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), String> {
        while let Some(mut kept) = self.take(host) {
            if !matches!(tokio::time::timeout(READY, kept.sender.ready()).await, Ok(Ok(()))) {
                continue;
            }
            match kept.call(request.clone()).await {
                Ok(answer) => {
                    self.keep(host, kept);
                    return Ok(answer);
                }
                Err(Failure::Unanswered(_)) => {}
                Err(Failure::Broken(why)) => return Err(why),
            }
        }
        let mut opened = Connection::open(host).await?;
        let called = opened.call(request.clone()).await;
        let answer = called.map_err(|(Failure::Unanswered(why) | Failure::Broken(why))| why)?;
        self.keep(host, opened);
        Ok(answer)
    }

    /// The connection of a host that was used last.
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
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
        let answer = self.sender.send_request(request).await;
        let answer = answer.map_err(|why| Failure::Unanswered(why.to_string()))?;
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
    // A review is several writes, and its answer is waited for.
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(host.name.clone()).map_err(|why| why.to_string())?;
    let config = trust::config(host.bundle.clone()).map_err(|why| why.to_string())?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(|why| format!("tls: failed to verify certificate: {why}"))
}

//! The byte stream to a backend: TCP, with TLS or without.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::origin::Origin;
use super::reach::{Reach, localhost_addresses};

/// The time to resolve a name and to connect: `SetOldTransportDefaults` in k8s.io/apimachinery
/// v0.36.4 pkg/util/net/http.go has the same.
const CONNECT: Duration = Duration::from_secs(30);

/// The time for the TLS handshake, as in Go's `http.DefaultTransport`.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The TCP keep-alive interval, so that the tunnels of vanished backends end.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// A connected stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Connects to a backend, with TLS if a connector is given.
///
/// # Errors
/// The reason, as Go's `net.Dial` words it.
pub(super) async fn connect(
    origin: &Origin,
    reach: Reach,
    tls: Option<TlsConnector>,
) -> Result<Box<dyn Stream>, String> {
    let stream = connect_tcp(origin, reach).await?;
    // The bytes of a terminal should leave at once. A socket without the options still works.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE));
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(origin.host.clone()).map_err(|error| error.to_string())?;
    match timeout(HANDSHAKE, tls.connect(name, stream)).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) => Err(handshake_failure(&error)),
        Err(_) => Err("net/http: TLS handshake timeout".to_owned()),
    }
}

async fn connect_tcp(origin: &Origin, reach: Reach) -> Result<TcpStream, String> {
    let until = Instant::now().checked_add(CONNECT).unwrap_or_else(Instant::now);
    let late = |at: &str| format!("dial tcp {at}: i/o timeout");
    let addresses = match timeout_at(until, addresses(origin, reach)).await {
        Ok(found) => found?,
        Err(_) => return Err(late(&origin.authority())),
    };
    let mut failure = format!("dial tcp: lookup {}: no such host", origin.host);
    for address in addresses {
        match timeout_at(until, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = format!("dial tcp {address}: connect: {}", described(&error)),
            Err(_) => return Err(late(&address.to_string())),
        }
    }
    Err(failure)
}

/// Returns the addresses to try, all of which are allowed.
async fn addresses(origin: &Origin, reach: Reach) -> Result<Vec<SocketAddr>, String> {
    let (host, port) = (origin.host.as_str(), origin.port);
    let at_port = |it: IpAddr| SocketAddr::new(it, port);
    let found: Vec<SocketAddr> = if let Ok(address) = host.parse::<IpAddr>() {
        vec![at_port(address)]
    } else if let Some(known) = localhost_addresses(host) {
        known.map(at_port).to_vec()
    } else if reach.permits(host) {
        let found = tokio::net::lookup_host((host, port)).await;
        found.map_err(|_| format!("dial tcp: lookup {host}: no such host"))?.collect()
    } else {
        return Err(reach.refusal(host));
    };
    // A name may lead anywhere: its addresses count.
    match found.iter().find(|it| !reach.permits_address(it.ip())) {
        Some(refused) => Err(reach.refusal(&refused.ip().to_string())),
        None => Ok(found),
    }
}

/// Describes an error of the operating system as Go does.
fn described(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}

fn handshake_failure(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: {why}")
        }
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => described(error),
    }
}

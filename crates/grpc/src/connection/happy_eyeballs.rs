//! Happy eyeballs: connects to one of the addresses of an endpoint, as in RFC 8305 and gRPC's A61.
//!
//! The next address is tried when the last one failed or has not answered for 250 ms. The first
//! complete connection wins, so that an address that only accepts TCP does not block the others.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::error::ConnectionError;
use super::keep_alive::KeepAlive;

/// The time after which the next address is tried concurrently (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// The time for which sent bytes may stay unacknowledged before the kernel closes the connection
/// (gRPC's A18).
const USER_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval and the number of the kernel's keep-alive probes on an idle connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
/// The longest idle time that Linux accepts (`MAX_TCP_KEEPIDLE`).
const LONGEST_IDLE: Duration = Duration::from_secs(32_767);
/// A practically infinite timeout; Linux rejects more milliseconds than an `int` can hold.
const LONGEST_USER_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

/// Connects to the first address that succeeds.
///
/// # Errors
/// Returns the last error if every address failed. There is no timeout for addresses that do not
/// answer; the caller sets one.
pub(crate) async fn dial<T, F>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, ConnectionError>
where
    F: Future<Output = Result<T, ConnectionError>>,
{
    let mut waiting = addresses.iter().copied();
    let mut attempts = FuturesUnordered::new();
    let mut failed = ConnectionError::NoAddress;
    attempts.extend(waiting.next().map(&connect));
    while !attempts.is_empty() {
        let more = waiting.len() > 0;
        tokio::select! {
            Some(answer) = attempts.next() => match answer {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    failed = error;
                    attempts.extend(waiting.next().map(&connect));
                }
            },
            () = sleep(HEAD_START), if more => attempts.extend(waiting.next().map(&connect)),
        }
    }
    Err(failed)
}

/// Connects to an address with `TCP_NODELAY`, and with TCP keep-alive unless keep-alive is off.
///
/// # Errors
/// Returns an error if the address refuses the connection.
pub(crate) async fn connect(
    address: SocketAddr,
    keep_alive: Option<KeepAlive>,
) -> Result<TcpStream, ConnectionError> {
    let prepared = async {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        if let Some(keep_alive) = keep_alive {
            // Detects a vanished node without pings, which servers would count.
            probe(&socket, keep_alive)?;
        }
        Ok(socket)
    };
    prepared.await.map_err(|source| ConnectionError::Refused { address, source })
}

fn probe(socket: &TcpStream, keep_alive: KeepAlive) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let idle = keep_alive.interval.clamp(Duration::from_secs(1), LONGEST_IDLE);
    let probes = TcpKeepalive::new().with_time(idle).with_interval(PROBE_INTERVAL).with_retries(PROBES);
    socket.set_tcp_keepalive(&probes)?;
    let timeout = if keep_alive.ignore_ping_policy { keep_alive.timeout } else { USER_TIMEOUT };
    user_timeout(&socket, timeout.clamp(Duration::from_millis(1), LONGEST_USER_TIMEOUT))
}

#[cfg(target_os = "linux")]
fn user_timeout(socket: &SockRef<'_>, timeout: Duration) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(timeout))
}

/// On other systems the keep-alive probes must suffice.
#[cfg(not(target_os = "linux"))]
fn user_timeout(_: &SockRef<'_>, _: Duration) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Returns an address on which nothing listens: the port is bound, so that nothing else can.
    fn held() -> (socket2::Socket, SocketAddr) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, address)
    }

    async fn dial_plain(addresses: &[SocketAddr]) -> Result<TcpStream, ConnectionError> {
        dial(addresses, |it| connect(it, Some(KeepAlive::default()))).await
    }

    #[tokio::test]
    async fn a_refused_connection_leads_to_the_next_address_at_once() {
        let (_held, dead) = held();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = listener.local_addr().unwrap();
        let socket = dial_plain(&[dead, alive]).await.unwrap();
        assert_eq!((socket.peer_addr().unwrap(), socket.nodelay().unwrap()), (alive, true));
    }

    /// An address whose accept queue is full drops packets, like one that is no longer routed.
    #[tokio::test(start_paused = true)]
    async fn a_silent_address_leads_to_the_next_one_after_a_head_start() {
        let socket = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let full = socket();
        full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        full.listen(1).unwrap();
        let silent = full.local_addr().unwrap();
        let _guests: Vec<_> = (0..8)
            .map(|_| {
                let guest = socket();
                guest.set_nonblocking(true).unwrap();
                let _ = guest.connect(&silent);
                guest
            })
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = listener.local_addr().unwrap();
        let began = tokio::time::Instant::now();
        let socket = dial_plain(&[silent.as_socket().unwrap(), alive]).await.unwrap();
        assert_eq!((socket.peer_addr().unwrap(), began.elapsed() >= HEAD_START), (alive, true));
    }

    #[tokio::test]
    async fn if_all_addresses_refuse_the_last_error_is_returned() {
        let (_held, dead) = held();
        let error = dial_plain(&[dead]).await.unwrap_err();
        assert!(matches!(error, ConnectionError::Refused { address, .. } if address == dead), "{error:?}");
        assert!(matches!(dial_plain(&[]).await.unwrap_err(), ConnectionError::NoAddress));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_probes_connections_unless_keep_alive_is_off() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ever = Duration::from_secs(100 * 365 * 24 * 3_600);
        let chosen = |interval, timeout| KeepAlive {
            interval,
            timeout,
            ignore_ping_policy: true,
            ..Default::default()
        };
        let table = [
            (None, None),
            (Some(KeepAlive::default()), Some((Duration::from_secs(30), USER_TIMEOUT))),
            (Some(chosen(PROBE_INTERVAL, HEAD_START)), Some((PROBE_INTERVAL, HEAD_START))),
            (Some(chosen(ever, ever)), Some((LONGEST_IDLE, LONGEST_USER_TIMEOUT))),
        ];
        for (keep_alive, expected) in table {
            let socket = connect(address, keep_alive).await.unwrap();
            let socket = SockRef::from(&socket);
            let probed = socket.keepalive().unwrap().then(|| {
                (socket.tcp_keepalive_time().unwrap(), socket.tcp_user_timeout().unwrap().unwrap_or_default())
            });
            assert_eq!(probed, expected, "{keep_alive:?}");
        }
    }
}

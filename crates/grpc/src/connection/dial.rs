//! From the addresses of one endpoint to one socket: happy eyeballs, as in RFC 8305.
//!
//! The next address is tried when the last one failed or has been silent for a quarter of a second; the first that answers wins.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::error::ConnectionError;

/// How long an address may be silent before the next is tried beside it (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// A socket to the first address that answers, without Nagle's delay.
///
/// # Errors
/// The last refusal, when every address refused. It never gives up on silence; the caller does.
pub(crate) async fn dial(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), ConnectionError> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = FuturesUnordered::new();
    let mut refused = ConnectionError::NoAddress;
    attempts.extend(waiting.next().map(connect));
    while !attempts.is_empty() {
        let more = waiting.len() > 0;
        tokio::select! {
            Some((address, answer)) = attempts.next() => match answer {
                Ok(socket) => return Ok((socket, address)),
                Err(source) => {
                    refused = ConnectionError::Refused { address, source };
                    attempts.extend(waiting.next().map(connect));
                }
            },
            () = sleep(HEAD_START), if more => attempts.extend(waiting.next().map(connect)),
        }
    }
    Err(refused)
}

async fn connect(address: SocketAddr) -> (SocketAddr, io::Result<TcpStream>) {
    let answer = TcpStream::connect(address).await.and_then(|it| it.set_nodelay(true).map(|()| it));
    (address, answer)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// An address where nobody listens: the port is held, so that nobody can come to.
    fn held() -> (socket2::Socket, SocketAddr) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, address)
    }

    #[tokio::test]
    async fn a_refusal_leads_to_the_next_address_at_once() {
        let (_held, dead) = held();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = listener.local_addr().unwrap();
        let (socket, address) = dial(&[dead, alive]).await.unwrap();
        assert_eq!((address, socket.nodelay().unwrap()), (alive, true));
    }

    /// An address whose queue of connections is full drops what comes, as one does that nobody routes to any more.
    #[tokio::test(start_paused = true)]
    async fn silence_leads_to_the_next_address_after_a_head_start() {
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
        let (_, address) = dial(&[silent.as_socket().unwrap(), alive]).await.unwrap();
        assert_eq!((address, began.elapsed() >= HEAD_START), (alive, true));
    }

    #[tokio::test]
    async fn when_all_refuse_the_last_refusal_is_told() {
        let (_held, dead) = held();
        let error = dial(&[dead]).await.unwrap_err();
        assert!(matches!(error, ConnectionError::Refused { address, .. } if address == dead), "{error:?}");
        assert!(matches!(dial(&[]).await.unwrap_err(), ConnectionError::NoAddress));
    }
}

//! Errors of connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The reason why an endpoint has no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("cannot connect to {address}")]
    Refused { address: SocketAddr, source: io::Error },
    #[error("there is no address to connect to")]
    NoAddress,
    #[error("TLS with {address} failed")]
    Tls { address: SocketAddr, source: io::Error },
    #[error("{address} does not offer HTTP/2")]
    NotHttp2 { address: SocketAddr },
    #[error("HTTP/2 with {address} failed")]
    Http2 { address: SocketAddr, source: h2::Error },
    #[error("no connection within {0:?}")]
    TooLate(Duration),
    #[error("{address} closed the connection")]
    Closed { address: SocketAddr },
    #[error("{address} accepts no more calls on this connection")]
    GoingAway { address: SocketAddr },
    #[error("{address} did not answer a ping within {timeout:?}")]
    Silent { address: SocketAddr, timeout: Duration },
}

#[cfg(test)]
mod tests {
    use dogwatch_core::ErrorChain;

    use super::*;

    #[test]
    fn a_line_contains_the_whole_chain_of_causes() {
        let address = "127.0.0.1:80".parse().unwrap();
        let source = io::Error::new(io::ErrorKind::ConnectionRefused, "no one there");
        let error = ConnectionError::Refused { address, source };
        assert_eq!(ErrorChain(&error).to_string(), "cannot connect to 127.0.0.1:80: no one there");
    }
}

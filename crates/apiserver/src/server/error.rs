//! Why a server did not start.

use std::io;
use std::net::SocketAddr;

use crate::refusal::Refusal;
use crate::serving::BoxError;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is taken, or not of this machine: choose another.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the machine said.
        source: io::Error,
    },
    /// Others could reach the server and do as they like: it needs TLS and a token there, or to stay on the loopback.
    #[error("{address} can be reached from elsewhere, which needs TLS and a token")]
    Exposed {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// No certificates could be made.
    #[error("cannot set up TLS")]
    Tls(#[source] BoxError),
    /// An object to begin with cannot be read, or is none.
    #[error("object {position} to begin with cannot be read")]
    Unreadable {
        /// Which one of those given, counted from 1.
        position: usize,
        /// What is wrong with it.
        source: BoxError,
    },
    /// An object to begin with was refused, as it would have been by a request.
    #[error("cannot create {object} to begin with")]
    Refused {
        /// Its kind and name.
        object: String,
        /// Why.
        source: Refusal,
    },
}

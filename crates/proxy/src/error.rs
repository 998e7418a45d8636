//! The errors of starting a proxy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error that prevents a proxy from starting.
///
/// ```
/// use dogwatch_proxy::StartError;
///
/// let address = ([0, 0, 0, 0], 80).into();
/// assert!(StartError::Exposed { address }.to_string().contains("0.0.0.0:80"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address of the API server is not one that requests can be sent to.
    #[error("the address of the API server is not a URL with a host")]
    Server,
    /// The settings of the client cannot be used.
    #[error("cannot use the connection to the API server")]
    Client(#[from] dogwatch_client::Error),
    /// The TLS settings of the client cannot be used.
    #[error("cannot use the connection to the API server")]
    Transport(#[from] dogwatch_client::transport::TransportError),
    /// The credentials of the proxy cannot be used.
    #[error("cannot use the credentials for the API server")]
    Credentials(#[from] dogwatch_client::auth::AuthError),
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// Tokens of callers would cross the network in clear text.
    #[error("callers would send their tokens to {address} in clear text")]
    Exposed {
        /// The address, which is not on loopback.
        address: SocketAddr,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("cannot use the certificate: {0}")]
    Certificate(String),
    /// A resource cannot be answered from memory.
    #[error("cannot cache {resource:?}: {reason}")]
    Resource {
        /// The resource as it was given.
        resource: String,
        /// The reason.
        reason: String,
    },
    /// The rules cannot be used. The message names the file, the line and the reason.
    #[error("{0}")]
    Rules(String),
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(String),
}

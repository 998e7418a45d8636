//! The errors of starting a server.

use std::io;
use std::net::SocketAddr;

use crate::ApiError;
use crate::serving::BoxError;

/// An error of starting a server.
///
/// ```
/// use dogwatch_apiserver::{ApiServer, StartError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = ApiServer::builder().in_process();
/// match builder.yaml("{apiVersion: v1, kind: Namespace, metadata: {name: SHOP}}").start().await {
///     Ok(server) => println!("{}", server.url()),
///     Err(StartError::Listen { address, .. }) => println!("{address} is in use"),
///     Err(StartError::Refused { object, source }) => println!("{object}: {source}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is in use or does not belong to this machine: choose another.
    #[error("cannot listen on {address}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Other machines could use the server without credentials: enable TLS and set a token, or
    /// listen on the loopback.
    #[error("{address} is not a loopback address: listening on it requires TLS and a token")]
    Exposed {
        /// The requested address.
        address: SocketAddr,
    },
    /// Other machines could use the server without credentials, in spite of TLS and a token: do not
    /// call [`anonymous`](crate::ApiServerBuilder::anonymous), or listen on the loopback.
    #[error(
        "{address} is not a loopback address, and requests without credentials would be allowed to do everything: \
         reject them (Anonymous::Refused), listen on a loopback address, or call allow_exposure(true)"
    )]
    ExposedToAnonymous {
        /// The requested address.
        address: SocketAddr,
    },
    /// The certificates could not be generated.
    #[error("cannot set up TLS")]
    Tls(#[source] BoxError),
    /// An authority of client certificates cannot be read.
    #[error("cannot read an authority of client certificates")]
    ClientAuthority(#[source] BoxError),
    /// An authority of the certificates of kubelets cannot be read.
    #[error("cannot read an authority of the certificates of kubelets")]
    KubeletAuthority(#[source] BoxError),
    /// The certificate for the server, or its private key, cannot be read.
    #[error("cannot read the certificate of the server or its private key")]
    ServingCertificate(#[source] BoxError),
    /// A certificate for the server needs [`tls`](crate::ApiServerBuilder::tls).
    #[error("a certificate of the server needs TLS: enable it, or give no certificate")]
    ServingCertificateWithoutTls,
    /// Client certificates exist only with TLS: call [`tls`](crate::ApiServerBuilder::tls).
    #[error("client certificates need TLS: enable it, or give no authority of client certificates")]
    ClientAuthorityWithoutTls,
    /// An initial object cannot be read, or is not an object.
    #[error("cannot read initial object {position}")]
    Unreadable {
        /// The position among the given objects, counted from 1.
        position: usize,
        /// The error of the parser.
        source: BoxError,
    },
    /// An initial object was rejected, as a request to create it would have been.
    #[error("cannot create initial object {object}")]
    Refused {
        /// The kind and name of the object.
        object: String,
        /// The reason for the rejection.
        source: ApiError,
    },
}

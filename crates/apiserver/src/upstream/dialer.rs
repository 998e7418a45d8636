//! The dialer: connects to backends and sends requests there.

use std::sync::Arc;

use http::Response;
use tokio_rustls::TlsConnector;

use super::backend_tls::{BackendTls, InvalidTls, KubeletTls, Peer};
use super::exchange::{self, BackendRequest, Failure, ReplyBody};
use super::origin::{Origin, Protocol};
use super::reach::Reach;
use super::stream;

/// Connects to backends. Clones are equivalent. The default one connects to the loopback only, has
/// no client certificate and verifies none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dialer {
    reach: Reach,
    /// The TLS settings; `None` if there is no certificate in them. Then they are made when a
    /// request needs them: most servers never get one.
    tls: Option<Arc<BackendTls>>,
}

impl Dialer {
    /// Creates a dialer. It opens no connection yet.
    ///
    /// # Errors
    /// Returns an error if a certificate or the key of the client certificate cannot be used.
    pub(crate) fn new(reach: Reach, kubelet: &KubeletTls) -> Result<Self, InvalidTls> {
        let is_default = kubelet.identity.is_none() && kubelet.authorities.is_empty();
        let tls = if is_default { None } else { Some(Arc::new(BackendTls::new(kubelet)?)) };
        Ok(Self { reach, tls })
    }

    /// Returns the addresses that may be connected to.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Sends a request to a backend and returns its response when the head has arrived. The body
    /// follows as it is read.
    ///
    /// # Errors
    /// The reason why there is no response.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(crate) async fn send(
        &self,
        origin: &Origin,
        peer: Peer,
        request: BackendRequest,
    ) -> Result<Response<ReplyBody>, Failure> {
        let tls = match origin.protocol {
            Protocol::Http => None,
            Protocol::Https => Some(self.connector(peer)?),
        };
        let stream = stream::connect(origin, self.reach, tls).await.map_err(Failure::Unconnected)?;
        exchange::send(stream, request).await
    }

    fn connector(&self, peer: Peer) -> Result<TlsConnector, Failure> {
        if let Some(tls) = &self.tls {
            return Ok(tls.connector(peer));
        }
        let tls = BackendTls::new(&KubeletTls::default());
        tls.map(|it| it.connector(peer)).map_err(|error| Failure::Unconnected(error.to_string()))
    }
}

//! The connections made with one set of certificates, and the choice of the protocol for a request.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::body::SlotBody;
use super::connector::Connector;
use super::error::{TransportError, TransportErrorKind};
use super::http1::Http1Connector;
use super::http2::{Http2Pool, Sent};
use super::options::TransportOptions;
use crate::body::{OutgoingBody, ResponseBody, boxed};

/// The maximum number of header lines of a response over HTTP/1.1. kube-apiserver limits the length
/// of all warnings together, not their number (`truncateAtTotalRunes` in k8s.io/apiserver v0.36.4
/// pkg/endpoints/filters/warning.go), and sends hundreds of short ones. With hyper's default of 100
/// such a response would fail a write that was carried out.
const MAX_HEADERS: usize = 1024;

/// The connections made with one set of certificates. Dropping it closes the idle ones; responses
/// that are being read finish first.
pub(super) struct Generation {
    /// The version of the certificates.
    pub(super) version: u64,
    connector: Connector,
    http1: Client<Http1Connector, OutgoingBody>,
    /// The HTTP/2 pools by host and port. In practice one: the cluster's.
    http2: Mutex<HashMap<Authority, Arc<Http2Pool>>>,
    only_http1: bool,
    options: Arc<TransportOptions>,
}

impl Generation {
    pub(super) fn new(
        version: u64,
        connector: Connector,
        only_http1: bool,
        options: Arc<TransportOptions>,
    ) -> Self {
        let http1 = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_limit())
            .pool_max_idle_per_host(options.max_idle_per_host)
            .http1_max_headers(MAX_HEADERS)
            .build(Http1Connector::new(connector.clone()));
        Self { version, connector, http1, http2: Mutex::default(), only_http1, options }
    }

    /// Sends a request over HTTP/2 if the server supports it, over HTTP/1.1 otherwise.
    pub(super) async fn send(
        &self,
        request: Request<OutgoingBody>,
    ) -> Result<Response<ResponseBody>, TransportError> {
        let sent = self.send_by_protocol(request).await;
        sent.map_err(|error| if self.connector.may_rotate() { error.with_rotation() } else { error })
    }

    async fn send_by_protocol(
        &self,
        request: Request<OutgoingBody>,
    ) -> Result<Response<ResponseBody>, TransportError> {
        let Some(pool) = self.http2_pool(&request)? else { return self.send_http1(request).await };
        match pool.send(request).await? {
            Sent::Answered(response) => Ok(response),
            Sent::Http1Only(request) => self.send_http1(request).await,
        }
    }

    /// Returns the HTTP/2 pool to try first; `None` for plaintext (HTTP/2 is negotiated during the
    /// TLS handshake) and for upgrades (they exist in HTTP/1.1 only).
    fn http2_pool(&self, request: &Request<OutgoingBody>) -> Result<Option<Arc<Http2Pool>>, TransportError> {
        let uri = request.uri();
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(TransportError::new(TransportErrorKind::Config, "a request needs an absolute URI"));
        };
        if self.only_http1 || *scheme != Scheme::HTTPS || request.headers().contains_key(header::UPGRADE) {
            return Ok(None);
        }
        let mut pools = self.http2.lock();
        if let Some(pool) = pools.get(authority) {
            return Ok(Some(Arc::clone(pool)));
        }
        let server = server_of(scheme, authority)?;
        let pool = Arc::new(Http2Pool::new(server, self.connector.clone(), &self.options));
        pools.insert(authority.clone(), Arc::clone(&pool));
        Ok(Some(pool))
    }

    async fn send_http1(
        &self,
        request: Request<OutgoingBody>,
    ) -> Result<Response<ResponseBody>, TransportError> {
        match self.http1.request(request).await {
            // HTTP/1.1 connections are not shared, so there is no stream slot to hold.
            Ok(response) => Ok(response.map(|body| boxed(SlotBody::new(body, ())))),
            Err(error) if error.is_connect() => Err(from_connector(error)),
            Err(error) => Err(if was_unsent(&error) {
                TransportError::before_sending(error)
            } else {
                TransportError::after_sending(error)
            }),
        }
    }
}

/// Returns true if hyper returned the request without having started to send it.
fn was_unsent(error: &hyper_util::client::legacy::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<hyper::Error>())
        .is_some_and(hyper::Error::is_canceled)
}

/// Returns the connector's own error, which is more specific than that of the pool around it.
fn from_connector(error: hyper_util::client::legacy::Error) -> TransportError {
    let own =
        std::error::Error::source(&error).and_then(|source| source.downcast_ref::<TransportError>()).cloned();
    own.unwrap_or_else(|| TransportError::before_sending(error))
}

fn server_of(scheme: &Scheme, authority: &Authority) -> Result<Uri, TransportError> {
    Uri::builder().scheme(scheme.clone()).authority(authority.clone()).path_and_query("/").build().map_err(
        |error| TransportError::new(TransportErrorKind::Config, "not a server's address").with_source(error),
    )
}

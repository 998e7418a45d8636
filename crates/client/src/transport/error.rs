//! Transport errors, classified by the caller's options.
//!
//! [`TransportErrorKind::of`] is the only place that classifies errors of hyper, h2, rustls and the
//! operating system; everything above uses the kind.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::body::BoxError;
use crate::tls::TlsError;

/// An error of a request, or of the body of its response.
///
/// Cheap to clone: requests that waited for the same connection get the same error.
///
/// ```
/// use dogwatch_client::transport::TransportErrorKind;
/// use dogwatch_client::{Client, Config};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(Config::new("http://127.0.0.1:1".parse()?))?;
/// let request = client.get().path(&["version"]).max_retries(0);
/// let error = request.bytes().await.expect_err("no server listens on port 1");
/// assert_eq!(error.transport(), Some(TransportErrorKind::Refused));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TransportError {
    kind: TransportErrorKind,
    message: Cow<'static, str>,
    sent: bool,
    /// True if certificates are in files or come from a plugin, and may be replaced at any time.
    may_rotate: bool,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of a transport error, by the caller's options.
///
/// ```
/// use std::io;
///
/// use dogwatch_client::transport::TransportErrorKind;
///
/// let reset = io::Error::from(io::ErrorKind::ConnectionReset);
/// assert_eq!(TransportErrorKind::of(&reset), TransportErrorKind::Lost);
/// let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
/// assert_eq!(TransportErrorKind::of(&refused), TransportErrorKind::Refused);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// The server does not accept connections, or there is no route to it.
    Refused,
    /// The connection broke: reset, closed early, GOAWAY, or PING without answer (rule RQ-7).
    Lost,
    /// A time limit was exceeded.
    Timeout,
    /// The TLS handshake or session failed; the certificates need attention.
    Tls,
    /// The proxy could not be reached, or rejected the connection.
    Proxy,
    /// The host name could not be resolved.
    Dns,
    /// The settings are invalid and need to be corrected.
    Config,
    /// Anything else, for example a response that is not HTTP.
    Other,
}

impl TransportError {
    pub(crate) fn new(kind: TransportErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), sent: false, may_rotate: false, source: None }
    }

    pub(crate) fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Creates the error of a request that may have been sent, at least in part.
    pub(crate) fn after_sending(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let kind = TransportErrorKind::of(&*error);
        // RFC 9113, 6.8 and 8.7: a refused stream, and one above the last stream of a GOAWAY, was
        // not processed. h2 0.4 returns the server's GOAWAY, whatever its reason, to requests of
        // such streams and to requests that begin after it, which it does not send
        // (`src/proto/streams/streams.rs`, `recv_go_away` and `ensure_no_conn_error`). Earlier
        // streams go on after a GOAWAY; if the connection closes before they are answered, they
        // fail with an I/O error and count as sent. hyper reports a GOAWAY in one more case, which
        // the pool handles (`is_repeatable_after_go_away`).
        let unprocessed = find::<h2::Error>(&*error).is_some_and(|it| {
            it.is_remote() && (it.is_go_away() || it.reason() == Some(h2::Reason::REFUSED_STREAM))
        });
        let message = match kind {
            TransportErrorKind::Lost => "the connection was lost before the response arrived",
            TransportErrorKind::Timeout => "the connection timed out",
            TransportErrorKind::Tls => {
                "the server ended the TLS session; it may have rejected the client certificate"
            }
            // As after an HTTP request to a server that expects TLS, which answers with an alert.
            _ if find::<hyper::Error>(&*error).is_some_and(hyper::Error::is_parse) => {
                "the response is not HTTP"
            }
            _ => "the request failed",
        };
        Self { sent: !unprocessed, ..Self::new(kind, message).with_source(error) }
    }

    /// Creates the error of a request that was not passed to a connection.
    pub(crate) fn before_sending(error: impl Into<BoxError>) -> Self {
        Self { sent: false, ..Self::after_sending(error) }
    }

    /// Creates the error of reading a response body.
    pub(crate) fn in_body(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let kind = TransportErrorKind::of(&*error);
        let message = match kind {
            TransportErrorKind::Lost => "the connection was lost in the middle of the response",
            _ => "the response could not be read to its end",
        };
        Self { sent: true, ..Self::new(kind, message).with_source(error) }
    }

    /// Marks an error that was found in a response.
    pub(crate) fn found_in_response(self, source: impl Into<BoxError>) -> Self {
        Self { sent: true, ..self.with_source(source) }
    }

    /// Marks an error of a request that the server may have processed after all.
    pub(super) fn with_request_sent(self) -> Self {
        Self { sent: true, ..self }
    }

    /// Marks an error as one with certificates that may be replaced at any time.
    pub(super) fn with_rotation(self) -> Self {
        Self { may_rotate: true, ..self }
    }

    /// Returns the transport error that an error is, or was caused by.
    pub(crate) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        find(error)
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> TransportErrorKind {
        self.kind
    }

    /// Returns true if the server may have processed the request. `false` is certain: then any
    /// method may be repeated.
    pub fn request_was_sent(&self) -> bool {
        self.sent
    }

    /// Returns true if the server is closing the connection (GOAWAY).
    pub(super) fn is_go_away(&self) -> bool {
        self.source.as_deref().and_then(|it| find::<h2::Error>(it)).is_some_and(h2::Error::is_go_away)
    }

    /// Returns true if the server does not accept connections.
    pub fn is_refused(&self) -> bool {
        self.kind == TransportErrorKind::Refused
    }

    /// Returns true if the connection broke (rule RQ-7: a probable EOF).
    pub fn is_lost(&self) -> bool {
        self.kind == TransportErrorKind::Lost
    }

    /// Returns true if a time limit was exceeded.
    pub fn is_timeout(&self) -> bool {
        self.kind == TransportErrorKind::Timeout
    }

    /// Returns true if a retry cannot help: certificates or settings must be changed first.
    ///
    /// False for certificates that are read from files or come from a plugin: while they rotate,
    /// the two sides may not match for some minutes.
    pub fn is_permanent(&self) -> bool {
        match self.kind {
            TransportErrorKind::Tls => !self.may_rotate,
            TransportErrorKind::Config => true,
            _ => false,
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportError")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("sent", &self.sent)
            .field("source", &self.source)
            .finish()
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl From<TlsError> for TransportError {
    fn from(error: TlsError) -> Self {
        Self::new(TransportErrorKind::Config, "the TLS settings cannot be used").with_source(error)
    }
}

impl TransportErrorKind {
    /// Classifies any error, including those of bodies: the first cause with a known kind decides.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        causes(error).find_map(of_one).unwrap_or(Self::Other)
    }
}

/// Iterates over an error and its causes, outermost first. The error inside an `io::Error::other`
/// is included; its `source` would skip it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    causes(error).find_map(|cause| cause.downcast_ref::<E>())
}

/// Classifies one error of the chain by itself.
fn of_one(error: &(dyn Error + 'static)) -> Option<TransportErrorKind> {
    if let Some(error) = error.downcast_ref::<TransportError>() {
        Some(error.kind)
    } else if error.is::<TlsError>() {
        Some(TransportErrorKind::Config)
    } else if error.is::<rustls::Error>() {
        Some(TransportErrorKind::Tls)
    } else if error.is::<super::dns::DnsError>() {
        Some(TransportErrorKind::Dns)
    } else if error.is::<tokio::time::error::Elapsed>() {
        Some(TransportErrorKind::Timeout)
    } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
        of_hyper(error)
    } else if let Some(error) = error.downcast_ref::<h2::Error>() {
        Some(of_h2(error))
    } else {
        error.downcast_ref::<io::Error>().and_then(of_io)
    }
}

fn of_hyper(error: &hyper::Error) -> Option<TransportErrorKind> {
    // The only timer of a hyper client is the PING: a server that does not answer it is a lost
    // connection, not a slow one.
    let lost = error.is_incomplete_message()
        || error.is_timeout()
        || error.is_canceled()
        || error.is_closed()
        || error.is_shutdown()
        || error.is_body_write_aborted();
    if lost {
        // A server that rejects the client certificate ends the TLS session; whether a request was
        // already on its way depends on timing, so the TLS error decides.
        let by_tls = find::<rustls::Error>(error).is_some();
        Some(if by_tls { TransportErrorKind::Tls } else { TransportErrorKind::Lost })
    } else if error.is_parse() || error.is_user() {
        Some(TransportErrorKind::Other)
    } else {
        None
    }
}

fn of_h2(error: &h2::Error) -> TransportErrorKind {
    if let Some(error) = error.get_io() {
        return TransportErrorKind::of(error);
    }
    if error.is_library() {
        // The server violated the protocol, and would again.
        return TransportErrorKind::Other;
    }
    match error.reason() {
        Some(
            h2::Reason::NO_ERROR
            | h2::Reason::CANCEL
            | h2::Reason::REFUSED_STREAM
            | h2::Reason::INTERNAL_ERROR
            | h2::Reason::STREAM_CLOSED
            | h2::Reason::CONNECT_ERROR
            | h2::Reason::ENHANCE_YOUR_CALM,
        ) => TransportErrorKind::Lost,
        _ if error.is_go_away() => TransportErrorKind::Lost,
        _ => TransportErrorKind::Other,
    }
}

fn of_io(error: &io::Error) -> Option<TransportErrorKind> {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused
        | ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::NetworkDown
        | ErrorKind::AddrNotAvailable => Some(TransportErrorKind::Refused),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof
        | ErrorKind::NotConnected => Some(TransportErrorKind::Lost),
        ErrorKind::TimedOut => Some(TransportErrorKind::Timeout),
        // h2 keeps only the text of a rustls error after the handshake, for example a rejected
        // certificate.
        ErrorKind::InvalidData if error.to_string().starts_with("received fatal alert") => {
            Some(TransportErrorKind::Tls)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::TransportErrorKind::{Config, Lost, Other, Refused, Timeout, Tls};
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] BoxError);

    fn io(kind: io::ErrorKind) -> BoxError {
        io::Error::from(kind).into()
    }

    fn h2(reason: h2::Reason) -> BoxError {
        h2::Error::from(reason).into()
    }

    #[test]
    fn rq_7_every_kind_of_failure_is_found_through_its_wrappers() {
        let table: Vec<(BoxError, TransportErrorKind)> = vec![
            (io(io::ErrorKind::ConnectionRefused), Refused),
            (io(io::ErrorKind::HostUnreachable), Refused),
            (io(io::ErrorKind::ConnectionReset), Lost),
            (io(io::ErrorKind::ConnectionAborted), Lost),
            (io(io::ErrorKind::BrokenPipe), Lost),
            (io(io::ErrorKind::UnexpectedEof), Lost),
            (io(io::ErrorKind::NotConnected), Lost),
            (io(io::ErrorKind::TimedOut), Timeout),
            (io(io::ErrorKind::PermissionDenied), Other),
            (h2(h2::Reason::NO_ERROR), Lost),
            (h2(h2::Reason::CANCEL), Lost),
            (h2(h2::Reason::REFUSED_STREAM), Lost),
            (h2(h2::Reason::INTERNAL_ERROR), Lost),
            (h2(h2::Reason::ENHANCE_YOUR_CALM), Lost),
            (h2(h2::Reason::PROTOCOL_ERROR), Other),
            (h2(h2::Reason::FLOW_CONTROL_ERROR), Other),
            (rustls::Error::DecryptError.into(), Tls),
            (TlsError::CaAndInsecure.into(), Config),
            (TransportError::new(Config, "x").into(), Config),
            (io::Error::other(Wrapped(io(io::ErrorKind::BrokenPipe))).into(), Lost),
            (io::Error::new(io::ErrorKind::InvalidData, rustls::Error::DecryptError).into(), Tls),
            (io::Error::new(io::ErrorKind::InvalidData, "received fatal alert: UnknownCA").into(), Tls),
            (io::Error::new(io::ErrorKind::UnexpectedEof, "peer closed without close_notify").into(), Lost),
            ("something else".into(), Other),
        ];
        for (error, expected) in table {
            let shown = format!("{error:?}");
            assert_eq!(TransportErrorKind::of(&*error), expected, "{shown}");
            let twice = Wrapped(Wrapped(error).into());
            assert_eq!(TransportErrorKind::of(&twice), expected, "wrapped {shown}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_elapsed_timer_is_a_timeout() {
        let never = std::future::pending::<()>();
        let elapsed = tokio::time::timeout(std::time::Duration::from_secs(1), never).await.unwrap_err();
        assert_eq!(TransportErrorKind::of(&Wrapped(elapsed.into())), Timeout);
    }

    #[test]
    fn the_text_of_an_error_is_one_level_and_the_cause_is_its_source() {
        let error = TransportError::in_body(io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!(error.to_string(), "the connection was lost in the middle of the response");
        assert_eq!(error.source().unwrap().to_string(), "connection reset");
        assert!(error.request_was_sent());
    }
}

//! Why a request or a body failed, sorted by what the caller can do about it.
//!
//! [`TransportErrorKind::of`] is the one place where errors of hyper, h2, rustls and the operating system are told
//! apart; everything above asks for the kind.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::body::BoxError;
use crate::tls::TlsError;

/// Why a request, or the body of its response, failed.
///
/// Cloning is cheap: requests that waited for the same connection get the same error.
#[derive(Clone)]
pub struct TransportError {
    kind: TransportErrorKind,
    message: Cow<'static, str>,
    sent: bool,
    /// Certificates are in files or come from a plugin, and may be replaced at any time.
    may_rotate: bool,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kinds of failure, by what the caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// Nobody listens at the address, or no route leads there.
    Refused,
    /// The connection broke: reset, closed early, told to go away, or found dead by PING (rule RQ-7).
    Lost,
    /// Something took longer than it may.
    Timeout,
    /// The two sides could not agree on a secure connection; a person must look at the certificates.
    Tls,
    /// The proxy could not be reached, or refused.
    Proxy,
    /// The host name could not be resolved.
    Dns,
    /// The settings cannot work; a person must look at them.
    Config,
    /// Anything else, for example an answer that is not HTTP.
    Other,
}

impl TransportError {
    pub(crate) fn new(kind: TransportErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), sent: false, may_rotate: false, source: None }
    }

    pub(crate) fn because(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// A failure after (parts of) the request may have left.
    pub(crate) fn after_sending(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let kind = TransportErrorKind::of(&*error);
        // RFC 9113, 6.8 and 8.7: a refused stream, and one above the last stream of a GOAWAY, was not processed. h2 gives
        // a stream the error of the GOAWAY only where that holds; the others end with their connection.
        let unprocessed = find::<h2::Error>(&*error).is_some_and(|it| {
            it.is_remote() && (it.is_go_away() || it.reason() == Some(h2::Reason::REFUSED_STREAM))
        });
        let message = match kind {
            TransportErrorKind::Lost => "the connection was lost before the answer came",
            TransportErrorKind::Timeout => "the connection timed out",
            TransportErrorKind::Tls => {
                "the server ended the TLS session; it may not accept our client certificate"
            }
            _ => "the request failed",
        };
        Self { sent: !unprocessed, ..Self::new(kind, message).because(error) }
    }

    /// A failure before the request was handed to a connection.
    pub(crate) fn before_sending(error: impl Into<BoxError>) -> Self {
        Self { sent: false, ..Self::after_sending(error) }
    }

    /// A failure while the body of a response was read.
    pub(crate) fn in_body(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let kind = TransportErrorKind::of(&*error);
        let message = match kind {
            TransportErrorKind::Lost => "the connection was lost in the middle of the answer",
            _ => "the answer could not be read to its end",
        };
        Self { sent: true, ..Self::new(kind, message).because(error) }
    }

    /// Marks a failure found in an answer.
    pub(crate) fn after_the_request(self, source: impl Into<BoxError>) -> Self {
        Self { sent: true, ..self.because(source) }
    }

    /// Marks a failure with certificates that may be replaced at any time.
    pub(super) fn with_rotation(self) -> Self {
        Self { may_rotate: true, ..self }
    }

    /// The failure of a transport that an error is, or was caused by.
    pub(crate) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        find(error)
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> TransportErrorKind {
        self.kind
    }

    /// Whether the server may have acted on the request. `false` is certain: any verb may be repeated then.
    pub fn request_was_sent(&self) -> bool {
        self.sent
    }

    /// The server is closing the connection.
    pub(super) fn is_go_away(&self) -> bool {
        self.source.as_deref().and_then(|it| find::<h2::Error>(it)).is_some_and(h2::Error::is_go_away)
    }

    /// Nobody listens there.
    pub fn is_refused(&self) -> bool {
        self.kind == TransportErrorKind::Refused
    }

    /// The connection broke (rule RQ-7: a probable EOF).
    pub fn is_lost(&self) -> bool {
        self.kind == TransportErrorKind::Lost
    }

    /// Something took too long.
    pub fn is_timeout(&self) -> bool {
        self.kind == TransportErrorKind::Timeout
    }

    /// Repeating cannot help: certificates or settings must be changed first.
    ///
    /// False for certificates that are read from files or handed out by a plugin: while they rotate, the two sides may not
    /// agree for some minutes.
    pub fn needs_a_person(&self) -> bool {
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
        Self::new(TransportErrorKind::Config, "the TLS settings cannot be used").because(error)
    }
}

impl TransportErrorKind {
    /// Sorts any error by walking its causes, the first that says something decides. Works for errors of bodies too.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        causes(error).find_map(of_one).unwrap_or(Self::Other)
    }
}

/// An error and its causes, outermost first. What `io::Error::other` wraps is a cause too, though its `source` skips it.
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

/// What one link of the chain says by itself, if anything.
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
    // A client's only timer in hyper is the PING: a server that does not answer it is a lost connection, not a slow one.
    let lost = error.is_incomplete_message()
        || error.is_timeout()
        || error.is_canceled()
        || error.is_closed()
        || error.is_shutdown()
        || error.is_body_write_aborted();
    if lost {
        // A server that does not accept our certificate ends the TLS session, and whether a request was on its way then is
        // a matter of moments: what TLS said counts.
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
        // We caught the server breaking the protocol: it would again.
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
        // h2 keeps only the text of what rustls reported after the handshake, for example a refused certificate.
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
        assert_eq!(error.to_string(), "the connection was lost in the middle of the answer");
        assert_eq!(error.source().unwrap().to_string(), "connection reset");
        assert!(error.request_was_sent());
    }
}

//! What went wrong, by what the caller does next.

use std::time::Duration;

use dogwatch_core::{InvalidParams, InvalidPath, Status};
use dogwatch_wire::BadItem;

use crate::auth::AuthError;
use crate::body::BoxError;
use crate::config::ConfigError;
use crate::transport::{TransportError, TransportErrorKind};

/// Why a request did not give what it was meant to give.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused. Look at the [`Status`] for the reason, and do what it says.
    #[error("{0}")]
    Refused(Box<Status>),
    /// The server could not be reached, or the connection broke. The same request may succeed later.
    #[error("cannot reach the API server at {server}")]
    Unreachable {
        /// The address that was tried.
        server: String,
        /// What happened to the connection.
        #[source]
        source: BoxError,
    },
    /// No whole answer came within the time given.
    #[error("no answer from the API server within {0:?}")]
    TimedOut(Duration),
    /// The answer makes no sense. Repeating the request will not help.
    #[error("cannot make sense of the answer to {request}: {problem}")]
    Malformed {
        /// Method and path of the request.
        request: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// One object could not be decoded. In a stream, the next one still comes.
    #[error(transparent)]
    Undecodable(#[from] BadItem),
    /// The settings are incomplete or wrong; the message names the file and the field.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No connection can be made with these settings, whatever the server does; the cause names which.
    #[error("cannot connect with these settings")]
    Unconnectable(#[source] TransportError),
    /// The credentials cannot be had; the message names the file or the plugin.
    #[error("cannot get credentials for the API server")]
    Credentials(#[source] AuthError),
    /// The request was wrong before it was sent.
    #[error(transparent)]
    InvalidRequest(#[from] InvalidRequest),
    /// The last of several attempts failed, and an earlier one in another way (rule RQ-9).
    #[error("{current} - error from a previous attempt: {}", previous.told_beside_another())]
    AfterRetries {
        /// How the last attempt failed: what counts.
        #[source]
        current: Box<Error>,
        /// How an earlier one failed.
        previous: Box<Error>,
    },
}

/// Why a request cannot be sent as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// A name would change the meaning of the path.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// Parameters contradict each other.
    #[error(transparent)]
    Params(#[from] InvalidParams),
    /// A body could not be written.
    #[error("cannot write the body of the request: {0}")]
    Body(String),
    /// A header cannot be sent.
    #[error("{0:?} cannot be sent as a header")]
    Header(String),
    /// The object does not say what the request needs.
    #[error("{0}")]
    Object(&'static str),
    /// No resource and no path was given.
    #[error("the request names no resource and no path")]
    NoTarget,
    /// An address leads elsewhere than below the server's own.
    #[error("{0:?} is not a path and query below the server's address")]
    Address(String),
    /// A version is needed to start from.
    #[error("a watch that resumes needs a resourceVersion to start from, not {0:?}")]
    Version(String),
}

impl Error {
    /// The server's refusal, where that is what it is.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            Self::AfterRetries { current, .. } => current.status(),
            _ => None,
        }
    }

    /// What happened to the connection, where that is what went wrong.
    pub fn transport(&self) -> Option<TransportErrorKind> {
        match self {
            Self::Unreachable { source, .. } => Some(TransportErrorKind::of(source.as_ref())),
            Self::TimedOut(_) => Some(TransportErrorKind::Timeout),
            Self::Unconnectable(error) => Some(error.kind()),
            Self::AfterRetries { current, .. } => current.transport(),
            _ => None,
        }
    }

    /// Whether the connection failed in a way that repeating cannot help against.
    pub(crate) fn needs_a_person(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => match TransportError::within(source.as_ref()) {
                Some(error) => error.needs_a_person(),
                // Of a stack that is not ours.
                None => TransportErrorKind::of(source.as_ref()) == TransportErrorKind::Tls,
            },
            Self::Unconnectable(_) => true,
            Self::AfterRetries { current, .. } => current.needs_a_person(),
            _ => false,
        }
    }

    /// No such object or resource.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// An object of that name is there already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// The object changed since it was read, or another manager owns a field.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// The version or the continue token is no longer kept: list again.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|it| it.is_expired() || it.is_gone())
    }

    /// The object or the version is gone, as a server says with `Gone` rather than `Expired`.
    pub fn is_gone(&self) -> bool {
        self.status().is_some_and(Status::is_gone)
    }

    /// Validation refused the object; the causes of the status name the fields.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(Status::is_invalid)
    }

    /// The request made no sense to the server.
    pub fn is_bad_request(&self) -> bool {
        self.status().is_some_and(Status::is_bad_request)
    }

    /// No answer came in time, or the server said that it cannot give one in time.
    pub fn is_timeout(&self) -> bool {
        let refused = |it: &Status| it.is_timeout() || it.is_server_timeout();
        self.transport() == Some(TransportErrorKind::Timeout) || self.status().is_some_and(refused)
    }

    /// No usable credentials.
    pub fn is_unauthorized(&self) -> bool {
        self.status().is_some_and(Status::is_unauthorized)
    }

    /// Not allowed.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// Too many requests.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(Status::is_too_many_requests)
    }

    /// Sorts what a stack of layers reports: credentials, connection, or something a user's layer made.
    pub(crate) fn from_stack(error: BoxError, server: &str) -> Self {
        match error.downcast::<AuthError>() {
            Ok(error) => Self::Credentials(*error),
            Err(source) => Self::Unreachable { server: server.to_owned(), source },
        }
    }

    /// Keeps an earlier failure beside this one, unless it is the same one again.
    pub(crate) fn after(self, previous: Option<Self>) -> Self {
        match previous {
            Some(previous) if with_causes(&previous) != with_causes(&self) => {
                Self::AfterRetries { current: Box::new(self), previous: Box::new(previous) }
            }
            _ => self,
        }
    }

    /// In one line, for a place that shows no causes; the address, which the other failure names, is left out.
    fn told_beside_another(&self) -> String {
        match self {
            Self::Unreachable { source, .. } => with_causes(source.as_ref()),
            other => with_causes(other),
        }
    }
}

/// An error and its causes in one line.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |it| it.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

impl From<InvalidPath> for Error {
    fn from(error: InvalidPath) -> Self {
        Self::InvalidRequest(error.into())
    }
}

impl From<InvalidParams> for Error {
    fn from(error: InvalidParams) -> Self {
        Self::InvalidRequest(error.into())
    }
}

impl From<TransportError> for Error {
    fn from(error: TransportError) -> Self {
        Self::Unconnectable(error)
    }
}

#[cfg(test)]
mod tests {
    use dogwatch_core::Reason;

    use super::*;

    fn refused(reason: Reason, message: &str) -> Error {
        Status::failure(reason, message).into()
    }

    #[test]
    fn rq_9_a_previous_failure_is_kept_unless_it_says_the_same() {
        let error = refused(Reason::NotFound, "b").after(Some(refused(Reason::Conflict, "a")));
        assert_eq!(error.to_string(), "b (NotFound) - error from a previous attempt: a (Conflict)");
        assert!(error.is_not_found() && !error.is_conflict());
        let same = refused(Reason::NotFound, "b").after(Some(refused(Reason::NotFound, "b")));
        assert_eq!(same.to_string(), "b (NotFound)");
        assert_eq!(refused(Reason::NotFound, "b").after(None).to_string(), "b (NotFound)");
    }

    fn unreachable(cause: std::io::ErrorKind) -> Error {
        let source = std::io::Error::from(cause).into();
        Error::Unreachable { server: "https://server.test/".to_owned(), source }
    }

    /// The upstream table WrapPreviousError. A Rust future that is dropped tells nobody, so being cancelled is left out.
    #[test]
    fn rq_9_wrap_previous_error() {
        use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
        let lost = "cannot reach the API server at https://server.test/";
        let late = || Error::TimedOut(Duration::from_secs(1));
        let credentials = || Error::Unconnectable(TransportError::new(TransportErrorKind::Config, "no key"));
        for (current, previous, expected) in [
            (unreachable(UnexpectedEof), None, lost.to_owned()),
            (unreachable(UnexpectedEof), Some(unreachable(UnexpectedEof)), lost.to_owned()),
            (
                unreachable(UnexpectedEof),
                Some(unreachable(ConnectionReset)),
                format!("{lost} - error from a previous attempt: connection reset"),
            ),
            (
                late(),
                Some(unreachable(UnexpectedEof)),
                "no answer from the API server within 1s - error from a previous attempt: unexpected end of file".to_owned(),
            ),
            (
                unreachable(UnexpectedEof),
                Some(credentials()),
                format!("{lost} - error from a previous attempt: cannot connect with these settings: no key"),
            ),
        ] {
            let kept = previous.is_some();
            let error = current.after(previous);
            assert_eq!(error.to_string(), expected);
            assert_eq!(matches!(error, Error::AfterRetries { .. }), kept && expected.contains(" - "));
        }
    }

    #[test]
    fn rq_9_unwrapping_gives_the_last_failure() {
        let error = refused(Reason::NotFound, "b").after(Some(refused(Reason::Conflict, "a")));
        let source = std::error::Error::source(&error).expect("a source");
        assert_eq!(source.to_string(), "b (NotFound)");
    }
}

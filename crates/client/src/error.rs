//! Errors of a request, with one variant per reaction of the caller.

use std::fmt;
use std::time::Duration;

use dogwatch_core::{ErrorChain, InvalidParams, InvalidPath, Status};
use dogwatch_wire::UndecodableItem;

use crate::auth::AuthError;
use crate::body::BoxError;
use crate::config::ConfigError;
use crate::transport::{TransportError, TransportErrorKind};

/// An error of a request.
///
/// ```
/// use dogwatch_client::{Api, Error};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// match maps.get("settings").await {
///     Ok(map) => println!("{:?}", map.data),
///     Err(error) if error.is_not_found() => println!("create it"),
///     Err(error) if error.is_conflict() => println!("read it again"),
///     Err(Error::Unreachable { server, .. }) => println!("{server} is down: try later"),
///     Err(Error::Credentials(error)) => println!("log in again: {error}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error. The [`Status`] holds the reason.
    #[error("{0}")]
    Refused(Box<Status>),
    /// The server could not be reached, or the connection broke. The same request may succeed
    /// later.
    #[error("cannot reach the API server at {server}")]
    Unreachable {
        /// The address that was tried.
        server: String,
        /// The error of the connection.
        #[source]
        source: BoxError,
    },
    /// No complete response arrived within the time limit.
    #[error("no answer from the API server within {0:?}")]
    TimedOut(Duration),
    /// The response could not be understood. Repeating the request does not help.
    #[error("cannot decode the response to {request}: {problem}")]
    Malformed {
        /// Method and path of the request.
        request: String,
        /// The problem with the response.
        problem: String,
    },
    /// One object could not be decoded. A stream continues with the next one.
    #[error(transparent)]
    Undecodable(#[from] UndecodableItem),
    /// The settings are incomplete or invalid; the message names the file and the field.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No connection is possible with these settings, whatever the server does; the source names
    /// the setting.
    #[error("cannot connect with these settings")]
    Unconnectable(#[source] TransportError),
    /// The credentials are not available; the message names the file or the plugin.
    #[error("cannot get credentials for the API server")]
    Credentials(#[source] AuthError),
    /// The request was invalid and was not sent.
    #[error(transparent)]
    InvalidRequest(#[from] InvalidRequest),
    /// The last of several attempts failed, and an earlier attempt failed differently (rule RQ-9;
    /// `WrapPreviousError` in client-go v0.36.4 `rest/with_retry.go`).
    #[error(transparent)]
    AfterRetries(RetriedError),
}

/// The errors of two attempts of one request. The message contains both.
///
/// Its [`source`](std::error::Error::source) is that of the last attempt's error, not that error
/// itself, so that a program that prints the chain of causes prints each message once.
///
/// ```
/// use dogwatch_client::{Error, InvalidRequest, RetriedError};
///
/// /// Returns the error that began a series of attempts.
/// fn first(error: &Error) -> &Error {
///     match error {
///         Error::AfterRetries(RetriedError { previous, .. }) => previous,
///         only => only,
///     }
/// }
///
/// # let error = |it| Box::new(Error::InvalidRequest(it));
/// # let previous = error(InvalidRequest::NoTarget);
/// # let current = error(InvalidRequest::Header("a\nb".to_owned()));
/// # let error = Error::AfterRetries(RetriedError { current, previous });
/// assert_eq!(first(&error).to_string(), "the request names no resource and no path");
/// ```
#[derive(Debug)]
pub struct RetriedError {
    /// The error of the last attempt, which determines the kind of this error.
    pub current: Box<Error>,
    /// The error of an earlier attempt.
    pub previous: Box<Error>,
}

impl fmt::Display for RetriedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} - error from a previous attempt: {}", self.current, self.previous.without_address())
    }
}

impl std::error::Error for RetriedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(self.current.as_ref())
    }
}

/// An error in a request that prevents sending it.
///
/// ```
/// use dogwatch_client::{Error, InvalidRequest};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let result = client.get().bytes().await;
/// assert!(matches!(result, Err(Error::InvalidRequest(InvalidRequest::NoTarget))));
/// let request = client.get().uri("https://elsewhere.example/api");
/// assert!(matches!(request.target(), Err(InvalidRequest::Address(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// A name would change the meaning of the path.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// Parameters contradict each other.
    #[error(transparent)]
    Params(#[from] InvalidParams),
    /// The body could not be serialised.
    #[error("cannot serialise the body of the request: {0}")]
    Body(String),
    /// A header value is invalid.
    #[error("{0:?} cannot be sent as a header")]
    Header(String),
    /// The object lacks a field that the request needs.
    #[error("{0}")]
    Object(&'static str),
    /// No resource and no path was given.
    #[error("the request names no resource and no path")]
    NoTarget,
    /// A path or URI is not below the server's address.
    #[error("{0:?} is not a path and query below the server's address")]
    Address(String),
    /// A watch that resumes was given no `resourceVersion` to start from.
    #[error("a watch that resumes needs a resourceVersion to start from, not {0:?}")]
    Version(String),
}

impl Error {
    /// Returns the server's error response, if this is one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            Self::AfterRetries(error) => error.current.status(),
            _ => None,
        }
    }

    /// Returns the kind of the transport error, if this is one.
    pub fn transport(&self) -> Option<TransportErrorKind> {
        match self {
            Self::Unreachable { source, .. } => Some(TransportErrorKind::of(source.as_ref())),
            Self::TimedOut(_) => Some(TransportErrorKind::Timeout),
            Self::Unconnectable(error) => Some(error.kind()),
            Self::AfterRetries(error) => error.current.transport(),
            _ => None,
        }
    }

    /// Returns true if the connection failed in a way that a retry cannot fix.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => match TransportError::within(source.as_ref()) {
                Some(error) => error.is_permanent(),
                // The error of a stack that was passed to `Client::from_service`.
                None => TransportErrorKind::of(source.as_ref()) == TransportErrorKind::Tls,
            },
            Self::Unconnectable(_) => true,
            Self::AfterRetries(error) => error.current.is_permanent(),
            _ => false,
        }
    }

    /// Returns true if the object or resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// Returns true if an object of that name already exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// Returns true if the object changed since it was read, or another field manager owns a field.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// Returns true if the server no longer keeps the resource version or the continue token: list
    /// again.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|it| it.is_expired() || it.is_gone())
    }

    /// Returns true if the reason is `Gone`, as opposed to `Expired`.
    pub fn is_gone(&self) -> bool {
        self.status().is_some_and(Status::is_gone)
    }

    /// Returns true if the object failed validation; the causes of the status name the fields.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(Status::is_invalid)
    }

    /// Returns true if the server rejected the request as malformed (400).
    pub fn is_bad_request(&self) -> bool {
        self.status().is_some_and(Status::is_bad_request)
    }

    /// Returns true if no response came in time, or the server reported a timeout.
    pub fn is_timeout(&self) -> bool {
        let refused = |it: &Status| it.is_timeout() || it.is_server_timeout();
        self.transport() == Some(TransportErrorKind::Timeout) || self.status().is_some_and(refused)
    }

    /// Returns true if the credentials are missing or invalid (401).
    pub fn is_unauthorized(&self) -> bool {
        self.status().is_some_and(Status::is_unauthorized)
    }

    /// Returns true if the user is not allowed to do this (403).
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// Returns true if the server rejected the request because of its load (429).
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(Status::is_too_many_requests)
    }

    /// Classifies an error of the stack: credentials, or anything else, which counts as a
    /// connection error.
    pub(crate) fn from_stack(error: BoxError, server: &str) -> Self {
        match error.downcast::<AuthError>() {
            Ok(error) => Self::Credentials(*error),
            Err(source) => Self::Unreachable { server: server.to_owned(), source },
        }
    }

    /// Attaches the error of an earlier attempt, unless both have the same text.
    pub(crate) fn after(self, previous: Option<Self>) -> Self {
        match previous {
            Some(previous) if chain(&previous) != chain(&self) => {
                Self::AfterRetries(RetriedError { current: Box::new(self), previous: Box::new(previous) })
            }
            _ => self,
        }
    }

    /// Formats the error and its causes in one line, without the address, which the other error
    /// already names.
    fn without_address(&self) -> String {
        match self {
            Self::Unreachable { source, .. } => chain(source.as_ref()),
            other => chain(other),
        }
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    ErrorChain(error).to_string()
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

    /// The cases of client-go's `TestWrapPreviousError`, except cancellation: a dropped future
    /// returns no error.
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
            assert_eq!(matches!(error, Error::AfterRetries(_)), kept && expected.contains(" - "));
        }
    }

    #[test]
    fn rq_9_unwrapping_gives_the_last_failure() {
        let error = refused(Reason::NotFound, "b").after(Some(refused(Reason::Conflict, "a")));
        assert!(error.is_not_found());
        let Error::AfterRetries(error) = error else { panic!("{error:?}") };
        assert_eq!(error.current.to_string(), "b (NotFound)");
    }

    #[test]
    fn the_chain_of_causes_contains_each_message_once() {
        let cause = || std::io::Error::other("the cable is out");
        let unreachable = Error::Unreachable { server: "127.0.0.1:1".into(), source: Box::new(cause()) };
        let error = unreachable.after(Some(refused(Reason::Conflict, "a")));
        assert_eq!(chain(&error).matches("the cable is out").count(), 1, "{error:?}");
    }
}

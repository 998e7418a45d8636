//! Classification of failures by the request that should follow: pure functions, one table for each
//! kind of request (rules REF-3, REF-5, REF-6, REF-10).

use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_client::transport::TransportErrorKind;
use dogwatch_core::{Reason, Status};

/// The class of a failure, as far as the next request depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server does not keep the requested version any more, or has not reached it: request the
    /// newest state.
    Version,
    /// The connection was refused, or the server is overloaded: retry the same request later.
    Busy,
    /// The connection, the credentials or the configuration failed, or the server is down: another
    /// request would fail in the same way.
    Connection,
    /// The collection does not exist.
    NotFound,
    /// Anything else.
    Other,
}

impl Failure {
    pub(super) fn of(error: &Error) -> Self {
        if error.transport() == Some(TransportErrorKind::Refused) {
            return Self::Busy;
        }
        match error.status() {
            Some(status) => Self::of_status(status),
            None if is_about_the_connection(error) => Self::Connection,
            None => Self::Other,
        }
    }

    pub(super) fn of_status(status: &Status) -> Self {
        match status {
            it if it.is_too_many_requests() => Self::Busy,
            it if it.is_expired() || it.is_gone() || it.is_too_large_resource_version() => Self::Version,
            it if it.is_unauthorized() || is_down(it) => Self::Connection,
            it if it.is_not_found() => Self::NotFound,
            _ => Self::Other,
        }
    }
}

/// Returns true for the answers of a server that is down, or of a proxy in front of it.
fn is_down(status: &Status) -> bool {
    status.is_service_unavailable() || status.is_timeout() || matches!(status.code, 502..=504)
}

fn is_about_the_connection(error: &Error) -> bool {
    match error {
        Error::AfterRetries(error) => is_about_the_connection(&error.current),
        Error::Unreachable { .. }
        | Error::TimedOut(_)
        | Error::Unconnectable(_)
        | Error::Credentials(_)
        | Error::Config(_) => true,
        _ => false,
    }
}

/// Returns true if the server may have been restarted: the connection failed, or a proxy reports
/// that the server is down.
pub(super) fn suggests_a_restart(error: &Error) -> bool {
    error.transport().is_some() || error.status().is_some_and(is_down)
}

/// Returns true if a 404 carries a `Status` from the server itself. A proxy may answer with another
/// page, which the client converts into a status with the cause `UnexpectedServerResponse`.
pub(super) fn is_from_an_api_server(error: &Error) -> bool {
    error.status().is_some_and(|it| !it.causes().iter().any(|it| it.reason == "UnexpectedServerResponse"))
}

/// Returns the delay that the server asked for, if any (429 and some 5xx carry it).
pub(super) fn requested_delay(error: &Error) -> Option<Duration> {
    error.status().and_then(Status::suggested_delay)
}

/// The meaning of an `ERROR` event for the watch that it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// List the collection again.
    Relist,
    /// Open the watch again after a backoff.
    Later,
    /// An internal error of the server; how often it occurred decides whether the watch is opened
    /// again.
    Internal,
}

impl Ending {
    pub(super) fn of(status: &Status) -> Self {
        match status {
            it if it.is_too_many_requests() => Self::Later,
            // By reason alone: the error of an object that cannot be read from storage has code 500
            // too, and the object is missing from lists.
            it if it.reason == Reason::InternalError => Self::Internal,
            _ => Self::Relist,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use dogwatch_client::RetriedError;
    use dogwatch_core::{Cause, Details};

    use super::*;

    fn refused(reason: Reason) -> Error {
        Status::failure(reason, "no").into()
    }

    fn unreachable(kind: ErrorKind) -> Error {
        Error::Unreachable {
            server: "https://server.test".to_owned(),
            source: std::io::Error::from(kind).into(),
        }
    }

    /// The three forms of client-go's TestReflectorFullListIfTooLarge.
    fn too_large() -> [Status; 3] {
        let cause = |reason: &str, message: &str| {
            let cause = Cause { reason: reason.to_owned(), message: message.to_owned(), ..Cause::default() };
            Some(Details { causes: vec![cause], ..Details::default() })
        };
        let timeout = |message: &str| Status::failure(Reason::Timeout, message);
        [
            Status { details: cause("ResourceVersionTooLarge", ""), ..timeout("Timeout") },
            timeout("Too large resource version: 20, current: 10"),
            Status {
                details: cause("", "Too large resource version"),
                ..timeout("Timeout: try again later")
            },
        ]
    }

    #[test]
    fn ref_3_ref_5_and_ref_10_failures_are_classified_by_the_next_request() {
        let malformed = Error::Malformed { request: "GET /x".to_owned(), problem: "no".to_owned() };
        let again = Error::AfterRetries(RetriedError {
            current: Box::new(unreachable(ErrorKind::ConnectionRefused)),
            previous: Box::new(refused(Reason::Expired)),
        });
        for (error, expected) in [
            (refused(Reason::Expired), Failure::Version),
            (refused(Reason::Gone), Failure::Version),
            (refused(Reason::TooManyRequests), Failure::Busy),
            (unreachable(ErrorKind::ConnectionRefused), Failure::Busy),
            (again, Failure::Busy),
            (unreachable(ErrorKind::ConnectionReset), Failure::Connection),
            (Error::TimedOut(Duration::from_secs(1)), Failure::Connection),
            (refused(Reason::Unauthorized), Failure::Connection),
            (refused(Reason::NotFound), Failure::NotFound),
            (refused(Reason::ServiceUnavailable), Failure::Connection),
            (refused(Reason::Timeout), Failure::Connection),
            (Status { code: 502, ..Status::default() }.into(), Failure::Connection),
            (refused(Reason::Forbidden), Failure::Other),
            (refused(Reason::Invalid), Failure::Other),
            (refused(Reason::InternalError), Failure::Other),
            (malformed, Failure::Other),
        ] {
            assert_eq!(Failure::of(&error), expected, "{error:?}");
        }
        for status in too_large() {
            assert_eq!(Failure::of_status(&status), Failure::Version, "{status:?}");
        }
    }

    #[test]
    fn only_failures_to_reach_the_server_suggest_that_it_was_restarted() {
        for (error, expected) in [
            (unreachable(ErrorKind::ConnectionRefused), true),
            (unreachable(ErrorKind::ConnectionReset), true),
            (Error::TimedOut(Duration::from_secs(1)), true),
            (Status { code: 502, ..Status::default() }.into(), true),
            (refused(Reason::ServiceUnavailable), true),
            (refused(Reason::TooManyRequests), false),
            (refused(Reason::Forbidden), false),
            (refused(Reason::NotFound), false),
        ] {
            assert_eq!(suggests_a_restart(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn ref_6_errors_that_end_a_watch() {
        for (reason, expected) in [
            (Reason::Expired, Ending::Relist),
            (Reason::Gone, Ending::Relist),
            (Reason::TooManyRequests, Ending::Later),
            (Reason::InternalError, Ending::Internal),
            (Reason::StorageReadError, Ending::Relist),
            (Reason::ServiceUnavailable, Ending::Relist),
            (Reason::Unknown, Ending::Relist),
        ] {
            assert_eq!(Ending::of(&Status::failure(reason.clone(), "no")), expected, "{reason:?}");
        }
    }

    #[test]
    fn the_delay_that_the_server_asks_for_is_returned() {
        let details = Some(Details { retry_after_seconds: 7, ..Details::default() });
        let status = Status { details, ..Status::failure(Reason::TooManyRequests, "no") };
        assert_eq!(requested_delay(&status.into()), Some(Duration::from_secs(7)));
        assert_eq!(requested_delay(&refused(Reason::TooManyRequests)), None);
    }
}

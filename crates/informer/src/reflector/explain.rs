//! Failures as messages that an operator can act on: the attempt, its result, and what to check.

use dogwatch_client::Error;
use dogwatch_client::transport::TransportErrorKind;
use dogwatch_core::{ErrorChain, ResourceType};

use super::failure::Failure;
use crate::health::ProblemKind;

/// The request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    List,
    Watch,
}

impl Attempt {
    fn verb(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
        }
    }
}

/// Returns the resource as kubectl names it: `pods`, `deployments.apps`.
pub(super) fn named(resource: &ResourceType) -> String {
    match resource.gvk.group.as_str() {
        "" => resource.plural.to_string(),
        group => format!("{}.{group}", resource.plural),
    }
}

/// A failure for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Explanation {
    pub(super) kind: ProblemKind,
    pub(super) message: String,
}

impl Explanation {
    /// Describes a server that sends nothing, or ends a request early.
    pub(super) fn unreachable(message: String) -> Self {
        Self { kind: ProblemKind::Unreachable, message }
    }
}

/// Returns the kind of the error, and a message with the attempt, the error with its causes, and
/// what to check.
pub(super) fn explain(attempt: Attempt, resource: &ResourceType, error: &Error) -> Explanation {
    let (verb, resource) = (attempt.verb(), named(resource));
    let advice = advice(verb, &resource, error).map(|it| format!("; {it}")).unwrap_or_default();
    let message = format!("cannot {verb} {resource}: {}{advice}", ErrorChain(error));
    Explanation { kind: kind(error), message }
}

fn kind(error: &Error) -> ProblemKind {
    match error {
        _ if error.is_unauthorized() => ProblemKind::Unauthorized,
        Error::Credentials(_) => ProblemKind::Unauthorized,
        _ if error.is_forbidden() => ProblemKind::Forbidden,
        _ if error.is_not_found() => ProblemKind::NotServed,
        _ => match Failure::of(error) {
            Failure::Busy if error.status().is_some() => ProblemKind::Overloaded,
            Failure::Busy | Failure::Connection => ProblemKind::Unreachable,
            _ => ProblemKind::Other,
        },
    }
}

fn advice(verb: &str, resource: &str, error: &Error) -> Option<String> {
    use TransportErrorKind::{Dns, Proxy, Refused, Tls};
    match error {
        _ if error.is_unauthorized() => Some("check the credentials".to_owned()),
        _ if error.is_forbidden() => {
            Some(format!("grant the verbs list and watch on {resource}, or leave {resource} out"))
        }
        _ if error.is_not_found() => {
            Some(format!("check that the definition of {resource} is installed in the requested version"))
        }
        _ if error.status().is_some_and(|it| it.is_method_not_allowed()) => {
            Some(format!("the server does not support the verb {verb} on {resource}"))
        }
        Error::Credentials(_) => Some("no request is sent until they are available".to_owned()),
        _ => match error.transport()? {
            Refused => Some("check that the server is running and that the address is correct".to_owned()),
            Dns => Some("check the host name".to_owned()),
            Tls => Some("check the certificate authority and the name in the certificate".to_owned()),
            Proxy => Some("check the proxy settings".to_owned()),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dogwatch_core::{Gvk, Reason, Scope, Status};

    use super::*;

    fn deployments() -> ResourceType {
        ResourceType {
            gvk: Gvk::new("apps", "v1", "Deployment"),
            plural: "deployments".into(),
            scope: Scope::Namespaced,
        }
    }

    #[test]
    fn a_message_names_the_attempt_its_result_and_what_to_check() {
        let refused = |reason, message: &str| Error::from(Status::failure(reason, message));
        let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into();
        let unreachable = Error::Unreachable { server: "https://server.test".to_owned(), source };
        for (attempt, error, kind, expected) in [
            (
                Attempt::List,
                refused(Reason::Forbidden, "u cannot list"),
                ProblemKind::Forbidden,
                "cannot list deployments.apps: u cannot list (Forbidden); grant the verbs list and watch on deployments.apps, or leave deployments.apps out",
            ),
            (
                Attempt::Watch,
                refused(Reason::Unauthorized, "who?"),
                ProblemKind::Unauthorized,
                "cannot watch deployments.apps: who? (Unauthorized); check the credentials",
            ),
            (
                Attempt::List,
                unreachable,
                ProblemKind::Unreachable,
                "cannot list deployments.apps: cannot reach the API server at https://server.test: connection refused; check that the server is running and that the address is correct",
            ),
            (
                Attempt::List,
                refused(Reason::NotFound, "gone"),
                ProblemKind::NotServed,
                "cannot list deployments.apps: gone (NotFound); check that the definition of deployments.apps is installed in the requested version",
            ),
            (
                Attempt::Watch,
                refused(Reason::MethodNotAllowed, "no"),
                ProblemKind::Other,
                "cannot watch deployments.apps: no (MethodNotAllowed); the server does not support the verb watch on deployments.apps",
            ),
            (
                Attempt::List,
                Error::TimedOut(Duration::from_secs(5)),
                ProblemKind::Unreachable,
                "cannot list deployments.apps: no answer from the API server within 5s",
            ),
        ] {
            let expected = Explanation { kind, message: expected.to_owned() };
            assert_eq!(explain(attempt, &deployments(), &error), expected);
        }
    }
}

//! Failures in words that a person can act on: what was tried, what came of it, and where to look.

use dogwatch_client::Error;
use dogwatch_client::transport::TransportErrorKind;
use dogwatch_core::ResourceType;

/// What was tried.
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

/// The resource as kubectl names it: `pods`, `deployments.apps`.
pub(super) fn named(resource: &ResourceType) -> String {
    match resource.gvk.group.as_str() {
        "" => resource.plural.to_string(),
        group => format!("{}.{group}", resource.plural),
    }
}

/// What was tried, what came of it with its causes, and where to look.
pub(super) fn explain(attempt: Attempt, resource: &ResourceType, error: &Error) -> String {
    let (verb, resource) = (attempt.verb(), named(resource));
    let advice = advice(verb, &resource, error).map(|it| format!("; {it}")).unwrap_or_default();
    format!("cannot {verb} {resource}: {}{advice}", with_causes(error))
}

fn advice(verb: &str, resource: &str, error: &Error) -> Option<String> {
    use TransportErrorKind::{Dns, Proxy, Refused, Tls};
    match error {
        _ if error.is_unauthorized() => {
            Some("the server does not know who asks: look at the credentials".to_owned())
        }
        _ if error.is_forbidden() => {
            Some(format!("grant the verbs list and watch on {resource}, or leave {resource} out"))
        }
        _ if error.is_not_found() => {
            Some(format!("is the definition of {resource} installed, in the version asked for?"))
        }
        _ if error.status().is_some_and(|it| it.is_method_not_allowed()) => {
            Some(format!("the server offers no {verb} of {resource}"))
        }
        Error::Credentials(_) => Some("nothing is asked before they can be had".to_owned()),
        _ => match error.transport()? {
            Refused => Some("is the server up, and is this its address?".to_owned()),
            Dns => Some("is the host name right?".to_owned()),
            Tls => Some("look at the certificate authority and at the name in the certificate".to_owned()),
            Proxy => Some("look at the proxy settings".to_owned()),
            _ => None,
        },
    }
}

/// An error and its causes in one line; a cause that its parent has told already is left out.
pub(super) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(it) = cause {
        let told = it.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = it.source();
    }
    text
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
    fn a_person_is_told_what_was_tried_what_came_of_it_and_where_to_look() {
        let refused = |reason, message: &str| Error::from(Status::failure(reason, message));
        let nobody = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let unreachable =
            Error::Unreachable { server: "https://server.test".to_owned(), source: nobody.into() };
        for (attempt, error, expected) in [
            (
                Attempt::List,
                refused(Reason::Forbidden, "u cannot list"),
                "cannot list deployments.apps: u cannot list (Forbidden); grant the verbs list and watch on deployments.apps, or leave deployments.apps out",
            ),
            (
                Attempt::Watch,
                refused(Reason::Unauthorized, "who?"),
                "cannot watch deployments.apps: who? (Unauthorized); the server does not know who asks: look at the credentials",
            ),
            (
                Attempt::List,
                unreachable,
                "cannot list deployments.apps: cannot reach the API server at https://server.test: connection refused; is the server up, and is this its address?",
            ),
            (
                Attempt::List,
                refused(Reason::NotFound, "gone"),
                "cannot list deployments.apps: gone (NotFound); is the definition of deployments.apps installed, in the version asked for?",
            ),
            (
                Attempt::Watch,
                refused(Reason::MethodNotAllowed, "no"),
                "cannot watch deployments.apps: no (MethodNotAllowed); the server offers no watch of deployments.apps",
            ),
            (
                Attempt::List,
                Error::TimedOut(Duration::from_secs(5)),
                "cannot list deployments.apps: no answer from the API server within 5s",
            ),
        ] {
            assert_eq!(explain(attempt, &deployments(), &error), expected);
        }
    }
}

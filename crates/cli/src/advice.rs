//! Hints for failures, in terms of this command's flags.
//!
//! The libraries report what happened and name the file or the field; only the command knows its
//! flags.

use dogwatch::Error;
use dogwatch::config::ConfigError;
use dogwatch::discovery::MapError;
use dogwatch::transport::TransportErrorKind;
use dogwatch_apiserver::StartError;
use dogwatch_proxy::StartError as ProxyError;

use crate::failure::Reason;
use crate::new::NewError;

/// An error for a demo that cannot start its server.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the API server of the demo")]
pub(crate) struct PortTaken(#[source] pub(crate) StartError);

/// An error for a view that needs a terminal.
#[derive(Debug, thiserror::Error)]
#[error("cannot show the view")]
pub(crate) struct NoScreen(#[source] pub(crate) Reason);

/// An error of a server that does not offer fault injection, or lacks a rule.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FaultApiError {
    /// Our server, without the flag.
    #[error("{server} does not accept faults")]
    NotEnabled { server: String, source: Reason },
    /// Another server, such as kube-apiserver.
    #[error("{server} does not accept faults")]
    OtherServer { server: String, source: Reason },
    #[error("there is no fault {id}")]
    NoRule { id: u64 },
}

/// The hint for a server that does not answer.
pub(crate) const UNREACHABLE: &str =
    "check that the server runs at this address, or choose another with --context or --server";

/// Returns the hint for an error, if there is one beyond the error's own text.
pub(crate) fn on(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<StartError>() {
        return on_start(error);
    }
    if let Some(error) = error.downcast_ref::<ProxyError>() {
        return on_proxy(error);
    }
    if error.is::<PortTaken>() {
        return Some("choose another port with --port, or omit it to use a free one");
    }
    if error.is::<NoScreen>() {
        return Some("run it on a terminal, or use `dogwatch watch`, which prints lines");
    }
    if let Some(error) = error.downcast_ref::<FaultApiError>() {
        return Some(match error {
            FaultApiError::NotEnabled { .. } => "restart the server with `dogwatch serve --admin`",
            FaultApiError::OtherServer { .. } => {
                "start a server with `dogwatch serve --admin`, and name it with --server or --kubeconfig"
            }
            FaultApiError::NoRule { .. } => "`dogwatch fault list` shows the faults and their numbers",
        });
    }
    if let Some(error) = error.downcast_ref::<NewError>() {
        return Some(error.hint());
    }
    match error.downcast_ref::<MapError>() {
        Some(MapError::NoMatch(_)) => Some("`kubectl api-resources` lists the resources of the server"),
        Some(MapError::Discovery(error)) => on_request(error),
        _ => on_request(error.downcast_ref::<Error>()?),
    }
}

/// Returns the error to report: without the advice of a library, where the hint has a better one,
/// and with a headline, where its message begins with a file.
pub(crate) fn reported(error: anyhow::Error) -> anyhow::Error {
    if let Some(ProxyError::Rules(message)) = error.downcast_ref() {
        let (file, problem) = message.split_once(": ").unwrap_or(("--rules", message));
        return anyhow::Error::new(Reason::from(problem.to_owned()))
            .context(format!("cannot use the rules in {file}"));
    }
    match error.downcast_ref() {
        Some(Error::Config(ConfigError::NoCluster(searched))) if searched.contexts.is_empty() => {
            let mut reasons = searched.looked_at.clone();
            // The usual reason is a variable that is not set, which every pod has.
            reasons.extend(searched.no_pod.as_ref().map(|it| match it.ends_with(" is not set") {
                true => "not in a pod".to_owned(),
                false => format!("not in a pod: {it}"),
            }));
            anyhow::Error::new(Reason::from(reasons.join("; "))).context("no cluster is configured")
        }
        _ => error,
    }
}

/// Returns the hint for a failed request.
fn on_request(error: &Error) -> Option<&'static str> {
    match error {
        Error::Config(ConfigError::NoCluster(searched)) if !searched.contexts.is_empty() => {
            Some("choose a context with --context NAME, or a server with --server URL")
        }
        Error::Config(ConfigError::NoCluster(_)) => {
            Some("use --kubeconfig FILE or --server URL; or start `dogwatch serve`, or try `dogwatch demo`")
        }
        _ if error.transport() == Some(TransportErrorKind::Tls) && speaks_no_tls(error) => {
            Some("the server does not speak TLS: use an address with http://")
        }
        _ if error.transport() == Some(TransportErrorKind::Tls) => {
            Some("set the cluster's authority in the kubeconfig, or use --insecure-skip-tls-verify")
        }
        Error::Unreachable { .. } | Error::TimedOut(_) => Some(UNREACHABLE),
        Error::Credentials(_) => Some("log in again, or choose other credentials with --context or --token"),
        _ if error.is_unauthorized() => {
            Some("log in again, or choose other credentials with --context or --token")
        }
        _ if error.is_forbidden() => {
            Some("request the permission, or choose another user with --context or --token")
        }
        _ => None,
    }
}

/// Returns true if the server answered the TLS handshake with something else, as an HTTP server
/// does.
fn speaks_no_tls(error: &Error) -> bool {
    let error: &dyn std::error::Error = error;
    // The name of the variant of `rustls::Error`, which no type on the way keeps.
    std::iter::successors(Some(error), |it| it.source())
        .any(|it| it.to_string().contains("InvalidContentType"))
}

/// Returns the hint for an API server that did not start.
fn on_start(error: &StartError) -> Option<&'static str> {
    match error {
        StartError::Exposed { .. } => {
            Some("add --tls and --token-file FILE, or listen on this machine only: --bind 127.0.0.1:0")
        }
        StartError::Listen { .. } => Some("choose another address with --bind; port 0 selects a free one"),
        _ => None,
    }
}

/// Returns the hint for a proxy that did not start.
fn on_proxy(error: &ProxyError) -> Option<&'static str> {
    match error {
        ProxyError::Bind { .. } => Some("choose another address with --bind; port 0 selects a free one"),
        ProxyError::Exposed { .. } => {
            Some("remove --plain, or listen on this machine only with --bind 127.0.0.1:0")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::api::{Reason, Status};

    use super::*;

    /// The rest of a line of 100 columns after `hint: `.
    const WIDTH: usize = 94;

    #[test]
    fn a_missing_cluster_and_bad_rules_are_reported_in_terms_of_flags_and_files() {
        let hint = |contexts: &[&str]| {
            let mut searched = dogwatch::config::NoCluster::default();
            searched.contexts = contexts.iter().map(|it| (*it).to_owned()).collect();
            on(&anyhow::Error::new(Error::from(ConfigError::NoCluster(searched)))).expect("advice")
        };
        assert!(hint(&["a"]).contains("--context NAME") && hint(&["a"]).len() <= WIDTH, "{}", hint(&["a"]));
        assert!(hint(&[]).contains("`dogwatch demo`") && hint(&[]).len() <= WIDTH, "{}", hint(&[]));
        let mut searched = dogwatch::config::NoCluster::default();
        searched.looked_at = vec!["a (does not exist)".to_owned()];
        for (reason, expected) in [
            ("b is not set", "no cluster is configured: a (does not exist); not in a pod"),
            ("b is odd", "no cluster is configured: a (does not exist); not in a pod: b is odd"),
        ] {
            searched.no_pod = Some(reason.to_owned());
            let error = reported(Error::from(ConfigError::NoCluster(searched.clone())).into());
            assert_eq!(format!("{error:#}"), expected);
        }
        let rules = reported(ProxyError::Rules("rules.yaml: line 3: is odd".to_owned()).into());
        assert_eq!(format!("{rules:#}"), "cannot use the rules in rules.yaml: line 3: is odd");
    }

    #[test]
    fn every_kind_of_failure_has_a_hint_that_names_a_flag() {
        let unreachable =
            |source: std::io::Error| Error::Unreachable { server: "x".to_owned(), source: source.into() };
        for (error, flag) in [
            (unreachable(std::io::ErrorKind::ConnectionRefused.into()), "--server"),
            (Error::TimedOut(std::time::Duration::from_secs(1)), "--server"),
            (Status::failure(Reason::Unauthorized, "no").into(), "--token"),
            (Status::failure(Reason::Forbidden, "no").into(), "--context"),
        ] {
            let advice = on(&anyhow::Error::new(error)).expect("advice");
            assert!(advice.contains(flag) && advice.len() <= WIDTH, "{advice}");
        }
        let address = "192.0.2.1:1".parse().unwrap();
        let exposed = on(&anyhow::Error::new(StartError::Exposed { address })).expect("advice");
        assert!(exposed.contains("--tls") && exposed.contains("--token"), "{exposed}");
        assert!(exposed.len() <= WIDTH, "{exposed}");
        let source = std::io::ErrorKind::AddrInUse.into();
        let taken = on(&anyhow::Error::new(PortTaken(StartError::Listen { address, source })));
        assert!(taken.is_some_and(|it| it.contains("--port") && !it.contains("--bind")), "{taken:?}");
        let missing: Error = Status::failure(Reason::NotFound, "no").into();
        assert_eq!(on(&anyhow::Error::new(missing)), None);
    }
}

//! Hints for failures, in terms of this command's flags.
//!
//! The libraries report what happened and name the file or the field; only the command knows its
//! flags.

use dogwatch::Error;
use dogwatch::config::{ConfigError, NoCluster};
use dogwatch::discovery::MapError;
use dogwatch_apiserver::StartError;
use dogwatch_proxy::StartError as ProxyError;

use crate::failure::Reason;
use crate::new::NewError;

/// An error for a demo that cannot start its server.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the API server of the demo")]
pub(crate) struct PortTaken(#[source] pub(crate) StartError);

/// An error for a demo that cannot serve its live page.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve the live page of the demo on 127.0.0.1:{port}")]
pub(crate) struct PagePortTaken {
    pub(crate) port: u16,
    pub(crate) source: std::io::Error,
}

/// An error for a view that needs a terminal.
#[derive(Debug, thiserror::Error)]
#[error("cannot show the view")]
pub(crate) struct NoScreen(#[source] pub(crate) Reason);

/// An error of a server that does not offer fault injection, or has no such rule.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FaultApiError {
    /// Our server, without the flag.
    #[error("{server} does not accept faults")]
    NotEnabled { server: String, source: Reason },
    /// Another server, such as kube-apiserver.
    #[error("{server} does not accept faults")]
    OtherServer { server: String, source: Reason },
    #[error("there is no rule {id}")]
    NoRule { id: u64 },
}

/// The hint for a server that does not answer.
pub(crate) const UNREACHABLE: &str =
    "check that the server runs at this address, or choose another with --context or --server";

/// The hint for the name of a resource that the server does not have.
const UNKNOWN_RESOURCE: &str = "`kubectl api-resources` lists the resources of the server";

/// The hint for an HTTPS address of an HTTP server. That of the opposite mistake is [`NEEDS_TLS`].
const NO_TLS: &str = "the server does not speak TLS: use an address with http://";

const NEEDS_TLS: &str = "the server seems to expect TLS: use an address with https://";

/// The answer of Go's HTTPS servers to an HTTP request.
const HTTP_TO_HTTPS: &str = "Client sent an HTTP request to an HTTPS server";

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
    if error.is::<PagePortTaken>() {
        return Some("choose another port with --page-port, or omit it to use a free one");
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
            FaultApiError::NoRule { .. } => "`dogwatch fault list` shows the rules and their numbers",
        });
    }
    if let Some(error) = error.downcast_ref::<NewError>() {
        return Some(error.hint());
    }
    match error.downcast_ref::<MapError>() {
        Some(MapError::NoMatch(_)) => Some(UNKNOWN_RESOURCE),
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
            let reason = Reason::from(without_cluster(searched, is_kubeconfig_set()));
            anyhow::Error::new(reason).context("no cluster is configured")
        }
        _ => error,
    }
}

/// Returns true if the variable KUBECONFIG names files.
fn is_kubeconfig_set() -> bool {
    std::env::var_os("KUBECONFIG").is_some_and(|it| !it.is_empty())
}

/// Describes the search for a cluster. `is_listed` is true if KUBECONFIG names the files.
fn without_cluster(searched: &NoCluster, is_listed: bool) -> String {
    // Each is a path with the result in parentheses.
    let places = searched.looked_at.iter().map(|it| it.strip_suffix(')').unwrap_or(it));
    let places: Vec<(&str, &str)> = places.map(|it| it.rsplit_once(" (").unwrap_or((it, ""))).collect();
    let files = match (places.as_slice(), is_listed) {
        ([], _) => "there is no kubeconfig".to_owned(),
        ([(file, result)], true) => format!("KUBECONFIG names {file}, which {result}"),
        ([(file, "does not exist")], false) => format!("there is no kubeconfig {file}"),
        ([(file, result)], false) => format!("the kubeconfig {file} {result}"),
        (files, _) => {
            let files: Vec<_> = files.iter().map(|(file, result)| format!("{file} {result}")).collect();
            format!("of the files in KUBECONFIG, {}", files.join(", and "))
        }
    };
    match searched.no_pod.as_deref() {
        None => files,
        // The usual reason is a variable that is not set, which every pod has.
        Some(reason) if reason.ends_with(" is not set") => format!("{files}, and this is not a pod"),
        Some(reason) => format!("{files}, and this is not a pod: {reason}"),
    }
}

/// Returns the hint for a failed request.
fn on_request(error: &Error) -> Option<&'static str> {
    match error {
        Error::Config(ConfigError::NoCluster(searched)) if !searched.contexts.is_empty() => {
            Some("choose a context with --context NAME, or a server with --server URL")
        }
        Error::Config(ConfigError::NoCluster(_)) => Some(on_no_cluster(is_kubeconfig_set())),
        Error::Config(ConfigError::Files(_)) => {
            Some("correct the file, or choose another with --kubeconfig FILE or KUBECONFIG")
        }
        Error::Unreachable { .. } | Error::Unconnectable(_) | Error::AfterRetries(_)
            if error.transport().is_some() =>
        {
            Some(on_connection(&with_causes(error)))
        }
        Error::TimedOut(_) => Some(UNREACHABLE),
        Error::Credentials(_) => Some("log in again, or choose other credentials with --context or --token"),
        _ if error.is_bad_request() && error.to_string().contains(HTTP_TO_HTTPS) => Some(NEEDS_TLS),
        _ if error.is_unauthorized() => {
            Some("log in again, or choose other credentials with --context or --token")
        }
        _ if error.is_forbidden() => {
            Some("request the permission, or choose another user with --context or --token")
        }
        _ => None,
    }
}

/// Formats an error with its causes.
fn with_causes(error: &Error) -> String {
    let error: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(error), |it| it.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the hint for a configuration without a cluster.
fn on_no_cluster(is_listed: bool) -> &'static str {
    match is_listed {
        true => "correct KUBECONFIG, or unset it to use ~/.kube/config; or use --server URL",
        false => "use --kubeconfig FILE or --server URL; or start `dogwatch serve`, or try `dogwatch demo`",
    }
}

/// Returns the hint for a connection that failed, from the texts of the error and its causes: those
/// of the client name what is wrong, and no type on the way keeps it.
pub(crate) fn on_connection(error: &str) -> &'static str {
    let has = |part| error.contains(part);
    match () {
        () if has(" does not speak TLS") => NO_TLS,
        () if has(" at http://") && has("the response is not HTTP") => NEEDS_TLS,
        () if has(" client certificate") => {
            "choose a user with another certificate, with --context or --kubeconfig"
        }
        () if has("the certificate of ") || has("the TLS handshake with ") => {
            "set the cluster's authority in the kubeconfig, or use --insecure-skip-tls-verify"
        }
        () => UNREACHABLE,
    }
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
        ProxyError::Resource { reason, .. } if reason.contains("cannot reach the API server") => {
            Some(on_connection(reason))
        }
        ProxyError::Resource { reason, .. } if reason.contains("no resource type") => Some(UNKNOWN_RESOURCE),
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
        let listed = on_no_cluster(true);
        assert!(listed.contains("KUBECONFIG") && listed.len() <= WIDTH, "{listed}");
        let searched = dogwatch::config::NoCluster::default();
        let error = reported(Error::from(ConfigError::NoCluster(searched)).into());
        assert_eq!(format!("{error:#}"), "no cluster is configured: there is no kubeconfig");
        let rules = reported(ProxyError::Rules("rules.yaml: line 3: is odd".to_owned()).into());
        assert_eq!(format!("{rules:#}"), "cannot use the rules in rules.yaml: line 3: is odd");
    }

    #[test]
    fn the_search_for_a_cluster_is_described_with_its_files_and_the_variable() {
        let described = |looked_at: &[&str], no_pod: &str, is_listed| {
            let mut searched = dogwatch::config::NoCluster::default();
            searched.looked_at = looked_at.iter().map(|it| (*it).to_owned()).collect();
            searched.no_pod = Some(no_pod.to_owned());
            without_cluster(&searched, is_listed)
        };
        let missing = "/a (b)/c (does not exist)";
        assert_eq!(
            described(&[missing], "X is not set", false),
            "there is no kubeconfig /a (b)/c, and this is not a pod"
        );
        assert_eq!(
            described(&[missing], "X is odd", true),
            "KUBECONFIG names /a (b)/c, which does not exist, and this is not a pod: X is odd"
        );
        assert_eq!(
            described(&["d (names no cluster)"], "X is not set", false),
            "the kubeconfig d names no cluster, and this is not a pod"
        );
        assert_eq!(
            described(&["d (names no cluster)", "e (does not exist)"], "X is not set", true),
            "of the files in KUBECONFIG, d names no cluster, and e does not exist, and this is not a pod"
        );
    }

    #[test]
    fn the_hint_for_a_connection_depends_on_what_the_client_found() {
        let at = |scheme: &str, why: &str| format!("cannot reach the API server at {scheme}://a/: {why}");
        for (error, part) in [
            (at("https", "a does not speak TLS: corrupt"), "with http://"),
            (at("http", "the response is not HTTP: invalid"), "with https://"),
            (at("https", "the response is not HTTP: invalid"), "--server"),
            (at("https", "a rejected the client certificate"), "another certificate"),
            (at("https", "the certificate of a has expired"), "--insecure-skip-tls-verify"),
            (at("https", "cannot connect to a: Connection refused"), "--server"),
        ] {
            let hint = on_connection(&error);
            assert!(hint.contains(part) && hint.len() <= WIDTH, "{error}: {hint}");
        }
        let message = format!("the server rejected our request: {HTTP_TO_HTTPS:?}");
        let answered: Error = Status::failure(Reason::BadRequest, &message).into();
        assert_eq!(on(&anyhow::Error::new(answered)), Some(NEEDS_TLS));
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
        let source = std::io::ErrorKind::AddrInUse.into();
        let taken = on(&anyhow::Error::new(PagePortTaken { port: 1, source }));
        assert!(taken.is_some_and(|it| it.contains("--page-port")), "{taken:?}");
        let missing: Error = Status::failure(Reason::NotFound, "no").into();
        assert_eq!(on(&anyhow::Error::new(missing)), None);
    }
}

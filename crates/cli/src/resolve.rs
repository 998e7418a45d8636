//! `dogwatch resolve`: prints the endpoints of a gRPC target as a channel would see them, or the
//! reason why there are none.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use comfy_table::{Table, presets};
use dogwatch::grpc::{
    Endpoint, EndpointId, EndpointSet, EndpointWatch, Resolver, ResolverOptions, Target, TargetProblem,
    Topology, Unavailable,
};

use crate::advice::on_connection;
use crate::connection::Connection;
use crate::failure::Reason;
use crate::printer::Printer;
use crate::sanitize::without_controls;
use crate::{failure, signals};

const EXAMPLES: &str = "\
Targets name a Service, as for github.com/sercand/kuberesolver in Go:
  kubernetes:///service:port           in the namespace of kubeconfig or pod
  kubernetes:///service.namespace:port
  kubernetes://namespace/service:port
The port is a name or a number; without one, the first port of the Service is
used. A number is a port of the Service, which is mapped to the port of its
pods; with ?port=pod, or without permission to read Services, it is a port of
the pods. Channels take dns:///host:port, static:///address:port and
address:port too, for which there is nothing to resolve in a cluster.

Exits with 0 if there is an endpoint to call, and with 1 and the reason on
stderr if there is none.";

/// The time to wait for a server that neither responds nor rejects the request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The interval at which the health of the watch is checked.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

/// Print the endpoints of a Service as a gRPC client sees them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The Service to resolve, for example kubernetes:///web.shop:grpc
    #[arg(value_name = "TARGET", value_parser = target)]
    target: Target,
    /// Keep running and print each change, until Ctrl-C or SIGTERM.
    #[arg(short, long)]
    watch: bool,
    /// The namespace of a target without one, instead of the kubeconfig's.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Resolve for a client in this zone: endpoints with topology hints for other zones are not
    /// used.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    zone: String,
    /// Resolve for a client on this node.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    node: String,
    #[command(flatten)]
    connection: Connection,
}

/// An argument that names no Service.
#[derive(Debug, thiserror::Error)]
enum BadTarget {
    /// A target that a channel connects to without an API server.
    #[error(
        "it names no Service: channels connect to such a target without a cluster; name a Service, as in kubernetes:///web.shop:grpc"
    )]
    NotInCluster,
    #[error(transparent)]
    Target(TargetProblem),
}

fn target(text: &str) -> Result<Target, BadTarget> {
    let has_scheme =
        |it: &str| text.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case(it));
    if ["dns", "static"].into_iter().any(has_scheme) {
        return Err(BadTarget::NotInCluster);
    }
    text.parse::<Target>().map_err(|error| match error.problem() {
        TargetProblem::NotAService(_) => BadTarget::NotInCluster,
        problem => BadTarget::Target(problem.clone()),
    })
}

/// An error for a target without an endpoint to call.
#[derive(Debug, thiserror::Error)]
#[error("{target} has no endpoint to call")]
struct Unresolved {
    target: Target,
    source: Reason,
}

/// Prints the endpoints, once or as they change.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let client = options.connection.client()?;
    let given = options.namespace.as_deref().filter(|it| !it.is_empty());
    let namespace = given.unwrap_or(client.default_namespace());
    let target = options.target.clone().or_namespace(namespace);
    let topology = Topology::hints().zone(&options.zone).node(&options.node);
    let resolver = Resolver::with_options(client, ResolverOptions::default().topology(topology));
    let mut watch = resolver.watch(&target);
    if options.watch {
        return follow(watch, &target).await;
    }
    let set = tokio::time::timeout(RESPONSE_TIMEOUT, watch.known()).await;
    let set = set.with_context(|| {
        format!("no response from the API server about {target} within {RESPONSE_TIMEOUT:?}")
    })?;
    if !set.endpoints.is_empty() {
        writeln!(io::stdout(), "{}", table(&set)).context("cannot write to stdout")?;
    }
    match &set.unavailable {
        None => Ok(ExitCode::SUCCESS),
        Some(reason) => {
            let hint = hint(&target, reason);
            let error = Unresolved { target, source: source(reason) };
            Ok(failure::report(&anyhow::Error::new(error), Some(&hint)))
        }
    }
}

/// Prints changes until a shutdown signal arrives or the reader closes stdout.
async fn follow(mut watch: EndpointWatch, target: &Target) -> anyhow::Result<ExitCode> {
    let mut end = std::pin::pin!(signals::shutdown().context("cannot listen for signals")?);
    let mut printer = Printer::start().context("cannot start a thread to print")?;
    tokio::select! {
        done = print_changes(&mut watch, target, &mut printer) => done?,
        () = &mut end => return Ok(ExitCode::SUCCESS),
    }
    printer.finish().await?;
    Ok(ExitCode::SUCCESS)
}

async fn print_changes(
    watch: &mut EndpointWatch,
    target: &Target,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let mut known: Arc<EndpointSet> = Arc::default();
    let mut problem = None;
    let mut health_check = tokio::time::interval(HEALTH_INTERVAL);
    loop {
        tokio::select! {
            closed = printer.closed() => return closed,
            set = watch.changed() => {
                let Some(set) = set else { return Ok(()) };
                for line in change_lines(&known, &set, target) {
                    printer.print(without_controls(&line) + "\n").await?;
                }
                known = set;
            }
            // Before the first result, `unavailable` already gives the reason.
            _ = health_check.tick(), if known.unavailable.is_none() && known.is_known() => {
                let now = watch.problem();
                let line = match &now {
                    _ if now == problem => continue,
                    Some(problem) => format!("! the endpoints may be stale: {problem}"),
                    None => "! synced again".to_owned(),
                };
                printer.print(without_controls(&line) + "\n").await?;
                problem = now;
            }
        }
    }
}

/// Formats a change: added, changed and removed endpoints, and the reason if there is nothing to
/// call.
fn change_lines(known: &EndpointSet, set: &EndpointSet, target: &Target) -> Vec<String> {
    let by_id = |set: &EndpointSet| -> BTreeMap<EndpointId, Arc<Endpoint>> {
        set.endpoints.iter().map(|it| (it.id.clone(), Arc::clone(it))).collect()
    };
    let (old, new) = (by_id(known), by_id(set));
    let mut lines = Vec::new();
    for (id, endpoint) in &new {
        match old.get(id) {
            None => lines.push(format!("+ {}", line(endpoint))),
            Some(old) if old != endpoint => lines.push(format!("~ {}", line(endpoint))),
            Some(_) => {}
        }
    }
    let gone = old.iter().filter(|(id, _)| !new.contains_key(*id));
    lines.extend(gone.map(|(_, endpoint)| format!("- {}", addresses(endpoint))));
    if let Some(reason) = set.unavailable.as_ref().filter(|it| known.unavailable.as_ref() != Some(it)) {
        lines.push(format!("! {target} has no endpoint to call: {reason}; {}", hint(target, reason)));
    }
    lines
}

fn line(endpoint: &Endpoint) -> String {
    let mut line = format!("{}  {}", addresses(endpoint), state(endpoint));
    for (name, value) in [("zone", &endpoint.zone), ("node", &endpoint.node), ("pod", &endpoint.pod)] {
        if let Some(value) = value {
            line.push_str(&format!("  {name}={value}"));
        }
    }
    line
}

fn addresses(endpoint: &Endpoint) -> String {
    endpoint.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the state of an endpoint for the caller.
fn state(endpoint: &Endpoint) -> &'static str {
    match endpoint {
        Endpoint { usable: true, ready: true, .. } => "ready",
        Endpoint { usable: true, .. } => "terminating, used because none is ready",
        Endpoint { ready: true, .. } => "ready, hinted to other zones or nodes",
        Endpoint { terminating: true, .. } => "terminating",
        _ => "not ready",
    }
}

/// Formats a table like kubectl: no borders, two spaces between columns.
fn table(set: &EndpointSet) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["ADDRESS", "STATE", "ZONE", "NODE", "POD"]);
    for endpoint in &set.endpoints {
        let text = |it: &Option<Arc<str>>| it.as_deref().unwrap_or("-").to_owned();
        table.add_row([
            addresses(endpoint),
            state(endpoint).to_owned(),
            text(&endpoint.zone),
            text(&endpoint.node),
            text(&endpoint.pod),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Returns the reason as a cause. Of a server that could not be reached, only the first and the
/// last cause of the failure are left, which have the address and the root; or, instead of the
/// root, the explanation of it.
fn source(reason: &Unavailable) -> Reason {
    let Unavailable::ApiUnreachable(text) = reason else { return reason.to_string().into() };
    let causes: Vec<_> = text.split(": ").collect();
    let explained = causes.iter().find(|it| failure::is_explanation(it)).copied();
    match (causes.as_slice(), explained) {
        ([first, _, ..], Some(why)) => format!("{first}: {why}").into(),
        ([first, _, .., last], None) => format!("{first}: {last}").into(),
        _ => text.clone().into(),
    }
}

/// Returns a hint for a target without an endpoint to call.
fn hint(target: &Target, reason: &Unavailable) -> String {
    let (service, namespace) = (target.service(), target.namespace().unwrap_or("default"));
    match reason {
        Unavailable::ServiceNotFound => {
            format!("`kubectl get services --namespace {namespace}` lists those of this namespace")
        }
        Unavailable::Forbidden(_) => format!(
            "request list and watch on endpointslices in {namespace}, or use another --context or --token"
        ),
        Unavailable::NothingReady(_) => format!(
            "`kubectl describe endpointslices -n {namespace} -l kubernetes.io/service-name={service}` \
             shows them"
        ),
        Unavailable::NoSuchPort(_) => format!(
            "`kubectl describe service {service} -n {namespace}` shows its ports; \
             ?port=pod selects one of the pods"
        ),
        Unavailable::AmbiguousPort(names) => {
            let name = names.iter().find(|it| !it.is_empty()).map_or("PORT", String::as_str);
            format!("name one of them, as in kubernetes:///{service}.{namespace}:{name}")
        }
        Unavailable::NotOnNode(_) => {
            format!("`kubectl describe service {service} -n {namespace}` shows its internal traffic policy")
        }
        Unavailable::NotAddresses(_) | Unavailable::ExternalName(_) => "call that host directly".to_owned(),
        Unavailable::ApiUnreachable(why) => on_connection(why).to_owned(),
        _ => format!(
            "`kubectl describe service {service} -n {namespace}` shows its selector, which may match no pod"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(id: &str, ready: bool) -> Arc<Endpoint> {
        let mut endpoint = Endpoint::at(([10, 0, 0, 1], 80).into());
        endpoint.id = EndpointId::new(id);
        (endpoint.usable, endpoint.ready, endpoint.serving) = (ready, ready, ready);
        (endpoint.zone, endpoint.pod) = (Some("z1".into()), Some(id.into()));
        Arc::new(endpoint)
    }

    fn set(endpoints: &[Arc<Endpoint>], unavailable: Option<Unavailable>) -> EndpointSet {
        let mut set = EndpointSet::default();
        (set.generation, set.endpoints, set.unavailable) = (1, endpoints.to_vec(), unavailable);
        set
    }

    #[test]
    fn a_change_is_printed_in_lines() {
        let target: Target = "kubernetes:///web.shop:80".parse().unwrap();
        let nothing = EndpointSet::default();
        let one = set(&[endpoint("a", true)], None);
        assert_eq!(change_lines(&nothing, &one, &target), ["+ 10.0.0.1:80  ready  zone=z1  pod=a"]);
        let two = set(&[endpoint("a", false), endpoint("b", true)], None);
        let lines_of_change = change_lines(&one, &two, &target);
        assert_eq!(
            lines_of_change,
            ["~ 10.0.0.1:80  not ready  zone=z1  pod=a", "+ 10.0.0.1:80  ready  zone=z1  pod=b"]
        );
        let none = set(&[], Some(Unavailable::NoEndpoints));
        let lines_of_change = change_lines(&two, &none, &target);
        assert_eq!(lines_of_change[..2], ["- 10.0.0.1:80", "- 10.0.0.1:80"]);
        assert!(
            lines_of_change[2]
                .starts_with("! kubernetes://shop/web:80 has no endpoint to call: it has no endpoints; ")
        );
        assert_eq!(change_lines(&none, &none, &target), [""; 0]);
    }

    #[test]
    fn targets_outside_of_a_cluster_are_rejected_with_the_form_that_is_accepted() {
        for text in
            ["dns:///localhost:80", "DNS:web:80", "static:///10.0.0.1:1", "localhost:80", "10.0.0.1:80"]
        {
            let error = target(text).expect_err(text).to_string();
            assert!(
                error.contains("names no Service") && error.contains("kubernetes:///"),
                "{text}: {error}"
            );
        }
        assert!(target("dns:80").is_err(), "a Service called dns needs its scheme");
        assert_eq!(target("kubernetes:///dns:80").expect("a Service").service(), "dns");
        assert!(matches!(target("xds:///web"), Err(BadTarget::Target(_))));
    }

    #[test]
    fn every_reason_has_a_hint() {
        let target: Target = "kubernetes:///web.shop:80".parse().unwrap();
        for (reason, expected) in [
            (Unavailable::ServiceNotFound, "--namespace shop"),
            (Unavailable::Forbidden(String::new()), "--token"),
            (Unavailable::NothingReady(1), "service-name=web"),
            (Unavailable::NoEndpoints, "describe service web"),
            (Unavailable::NoSuchPort(String::new()), "?port=pod"),
            (Unavailable::ExternalName(String::new()), "call that host"),
            (Unavailable::ApiUnreachable(String::new()), "--server"),
        ] {
            let hint = hint(&target, &reason);
            assert!(hint.contains(expected) && hint.len() <= 94, "{hint}");
        }
    }

    #[test]
    fn an_unreachable_server_is_a_cause_with_its_address_and_the_root() {
        let text = "cannot reach https://a: cannot connect to a:443: connection refused";
        let shown = |it: &str| source(&Unavailable::ApiUnreachable(it.to_owned())).to_string();
        assert_eq!(shown(text), "cannot reach https://a: connection refused");
        assert_eq!(shown("no: way"), "no: way");
        let text = "cannot reach https://a: the certificate of a has expired: invalid: Expired";
        assert_eq!(shown(text), "cannot reach https://a: the certificate of a has expired");
        assert_eq!(source(&Unavailable::NoEndpoints).to_string(), "it has no endpoints");
    }

    #[test]
    fn the_state_of_an_endpoint_depends_on_its_conditions() {
        let mut it = Endpoint::clone(&endpoint("a", true));
        assert_eq!(state(&it), "ready");
        it.usable = false;
        assert_eq!(state(&it), "ready, hinted to other zones or nodes");
        (it.ready, it.terminating) = (false, true);
        assert_eq!(state(&it), "terminating");
        it.usable = true;
        assert_eq!(state(&it), "terminating, used because none is ready");
    }
}

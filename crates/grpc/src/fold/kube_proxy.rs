//! The cases of kube-proxy's test of endpoint selection (`pkg/proxy/topology_test.go` of Kubernetes
//! 1.36).
//!
//! Of cases about local endpoints, only the results for cluster traffic are here; local traffic is
//! in `tables.rs`.

use super::*;
use crate::slices::{Conditions, Named};

/// Parses an endpoint of the form `state zones nodes`, with commas between zones and nodes and `-`
/// for none. States: `+` ready, `!` not ready, `~` terminating and serving.
fn endpoint(index: usize, text: &str) -> SliceEndpoint {
    let mut words = text.split(' ');
    let (ready, serving, terminating) = match words.next() {
        Some("+") => (true, true, false),
        Some("~") => (false, true, true),
        _ => (false, false, false),
    };
    let mut named = || -> Vec<Named> {
        let names = words.next().unwrap_or("-").split(',').filter(|it| *it != "-");
        names.map(|it| Named { name: it.into() }).collect()
    };
    let (for_zones, for_nodes) = (named(), named());
    let hints = (!for_zones.is_empty() || !for_nodes.is_empty()).then_some(Hints { for_zones, for_nodes });
    SliceEndpoint {
        addresses: vec![format!("10.0.0.{index}").into()],
        conditions: Conditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) },
        hints,
        ..SliceEndpoint::default()
    }
}

/// Returns the indices of the endpoints that a caller in this zone and node calls.
fn called(zone: &str, node: &str, endpoints: &[&str]) -> Vec<usize> {
    let endpoints = endpoints.iter().enumerate().map(|(index, it)| endpoint(index, it)).collect();
    let slice = Slice { endpoints, address_type: "IPv4".into(), ..Slice::default() };
    let topology = Topology::hints().zone(zone).node(node);
    let (port, service) = (Port::PodNumber(80), ServiceInfo::Unreadable);
    let input = FoldInput { port: &port, service, topology: &topology, prefer_ipv6: false };
    let set = fold([&slice], &input);
    let number = |it: &Arc<Endpoint>| match it.addresses[0].ip() {
        IpAddr::V4(ip) => usize::from(ip.octets()[3]),
        IpAddr::V6(_) => usize::MAX,
    };
    set.usable().map(number).collect()
}

/// Four ready endpoints, in zones a, b, c and a, each for a different node.
const NODES: [&str; 4] = ["+ a n1", "+ b n2", "+ c n3", "+ a n4"];

#[test]
fn endpoints_are_selected_as_kube_proxy_selects_them() {
    let zones = &["+ a", "+ b", "+ c", "+ a"][..];
    for (story, zone, node, endpoints, expected) in [
        ("all have hints, some of them for the zone", "a", "", zones, &[0, 3][..]),
        ("external policy Local: hints still apply to cluster traffic", "a", "", zones, &[0, 3]),
        ("internal policy Local, external policy Cluster: hints apply", "a", "", zones, &[0, 3]),
        ("the node has no labels", "", "", &["+ a"], &[0]),
        ("its zone label is empty", "", "", &["+ a"], &[0]),
        ("it is in another zone", "b", "", &["+ a"], &[0]),
        ("one is not ready", "a", "", &["+ a", "+ b", "+ c", "! a"], &[0]),
        ("those in the zone are not ready", "a", "", &["! a", "+ b", "+ c", "! a"], &[1, 2]),
        ("one has no hint", "a", "", &["+ a", "+ b", "+", "+ a"], &[0, 1, 2, 3]),
        ("several zones in a hint", "c", "", &["+ a,b,c", "+ b,c", "+ b,d", "+ c"], &[0, 1, 3]),
        ("node hints, and the caller's node is unknown", "a", "", &NODES, &[0, 3]),
        ("node hints, one of them for our node", "a", "n1", &NODES, &[0]),
        ("one has no node hint", "a", "n1", &["+ a n1", "+", "+ c n3", "+ a n4"], &[0, 1, 2, 3]),
        ("no hint for our node: the zone decides", "a", "n0", &NODES, &[0, 3]),
        ("zone hints that differ from the actual zones", "a", "", &["+ a", "+ b", "+ a", "+ b"], &[0, 2]),
        ("none is ready", "", "", &["!", "!"], &[]),
        ("one is ready", "", "", &["!", "+"], &[1]),
        ("all are terminating", "", "", &["~", "~"], &[0, 1]),
        ("internal Local, external Cluster", "", "", &["+", "+"], &[0, 1]),
        ("internal Cluster, external Local", "", "", &["+", "+"], &[0, 1]),
        ("both Local, some are local", "", "", &["+", "+"], &[0, 1]),
        ("both Local, all are remote", "", "", &["+", "+"], &[0, 1]),
        ("both Local, all are remote and terminating", "", "", &["~", "~"], &[0, 1]),
        ("one is ready and others are terminating", "", "", &["+", "!", "~", "~"], &[0]),
        ("external policy Local without external traffic", "", "", &["+", "+"], &[0, 1]),
        ("there are none", "", "", &[], &[]),
        ("one that is neither ready nor serving nor terminating", "a", "", &["!"], &[]),
    ] {
        assert_eq!(called(zone, node, endpoints), expected, "{story}");
    }
}

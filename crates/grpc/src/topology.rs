//! The caller's location, and the endpoints that are meant for callers there, by the rules of
//! kube-proxy.
//!
//! A slice may name the nodes and zones that should use an endpoint. Such hints are followed for
//! all endpoints of a service or for none, so that a half-written set of hints never leaves a
//! caller without endpoints.

use std::sync::Arc;

use crate::slices::Hints;

/// The environment variables that may contain the name of the node, in order of precedence.
const NODE_VARIABLES: [&str; 3] = ["NODE_NAME", "K8S_NODE_NAME", "KUBE_NODE_NAME"];

/// The environment variables that may contain the zone, in order of precedence.
const ZONE_VARIABLES: [&str; 3] = ["NODE_ZONE", "K8S_ZONE", "TOPOLOGY_ZONE"];

/// The location of the caller: its node and its zone. Topology hints are followed as far as it is
/// known, and ignored without it.
///
/// If the node is known, `internalTrafficPolicy: Local` of a Service applies too: only endpoints on
/// that node are called.
///
/// A pod gets its node from the downward API (`spec.nodeName`), and its zone from the label
/// `topology.kubernetes.io/zone`, which Kubernetes 1.35 and later also set on pods.
///
/// ```
/// use dogwatch_grpc::Topology;
///
/// let topology = Topology::hints().node("node-7").zone("zone-a");
/// assert_ne!(topology, Topology::default()); // without a location, hints are ignored
/// assert_eq!(Topology::hints().zone(""), Topology::default());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    node: Option<Arc<str>>,
    zone: Option<Arc<str>>,
}

impl Topology {
    /// Creates an unknown location, to be completed with [`Self::node`] and [`Self::zone`].
    pub fn hints() -> Self {
        Self::default()
    }

    /// Reads the location from the environment, where the downward API puts it: the node from
    /// `NODE_NAME`, `K8S_NODE_NAME` or `KUBE_NODE_NAME`, the zone from `NODE_ZONE`, `K8S_ZONE` or
    /// `TOPOLOGY_ZONE`.
    ///
    /// [`channel`](fn@crate::channel) calls this. A variable that is empty or not set is ignored.
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&str; 3]| {
            let mut set = names.into_iter().filter_map(&variable).map(|it| it.trim().to_owned());
            set.find(|it| !it.is_empty()).unwrap_or_default()
        };
        Self::hints().node(&first(NODE_VARIABLES)).zone(&first(ZONE_VARIABLES))
    }

    /// Returns the name of the node, if it is known.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Sets the name of the node. An empty name, such as that of an empty variable, means unknown.
    #[must_use]
    pub fn node(mut self, node: &str) -> Self {
        self.node = (!node.is_empty()).then(|| node.into());
        self
    }

    /// Sets the zone. An empty name means unknown.
    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = (!zone.is_empty()).then(|| zone.into());
        self
    }

    /// Returns which of the ready endpoints are meant for this caller, given the hints of all of
    /// them.
    pub(crate) fn choice<'h>(&self, ready: impl Iterator<Item = Option<&'h Hints>> + Clone) -> Choice<'_> {
        let for_all = |chosen: Choice<'_>| {
            let mut ours = false;
            let all = ready.clone().all(|hints| {
                ours |= chosen.takes(hints);
                chosen.has_hint(hints)
            });
            all && ours
        };
        let node = self.node.as_deref().map(Choice::Node).filter(|it| for_all(*it));
        let zone = || self.zone.as_deref().map(Choice::Zone).filter(|it| for_all(*it));
        node.or_else(zone).unwrap_or(Choice::All)
    }
}

/// The endpoints that a caller uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice<'t> {
    All,
    /// Those with a hint for this node.
    Node(&'t str),
    /// Those with a hint for this zone.
    Zone(&'t str),
}

impl Choice<'_> {
    /// Returns true if an endpoint with these hints is used.
    pub(crate) fn takes(self, hints: Option<&Hints>) -> bool {
        match (self, hints) {
            (Self::All, _) => true,
            (_, None) => false,
            (Self::Node(node), Some(hints)) => hints.for_nodes.iter().any(|it| it.name == node),
            (Self::Zone(zone), Some(hints)) => hints.for_zones.iter().any(|it| it.name == zone),
        }
    }

    /// Returns true if the hints name any node, or any zone, respectively.
    fn has_hint(self, hints: Option<&Hints>) -> bool {
        match (self, hints) {
            (Self::All, _) => true,
            (_, None) => false,
            (Self::Node(_), Some(hints)) => !hints.for_nodes.is_empty(),
            (Self::Zone(_), Some(hints)) => !hints.for_zones.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slices::Named;

    /// Parses hints of the form `zones;nodes`, each with commas between; empty for an endpoint
    /// without hints.
    fn hints(text: &str) -> Option<Hints> {
        let (zones, nodes) = text.split_once(';').unwrap_or((text, ""));
        let named = |list: &str| {
            let names = list.split(',').filter(|it| !it.is_empty());
            names.map(|it| Named { name: it.into() }).collect()
        };
        (!text.is_empty()).then(|| Hints { for_zones: named(zones), for_nodes: named(nodes) })
    }

    /// Returns the indices of the endpoints that are used; all endpoints here are ready.
    fn taken(zone: &str, node: &str, endpoints: &[&str]) -> Vec<usize> {
        let endpoints: Vec<_> = endpoints.iter().map(|it| hints(it)).collect();
        let topology = Topology::hints().zone(zone).node(node);
        let choice = topology.choice(endpoints.iter().map(Option::as_ref));
        (0..endpoints.len()).filter(|it| choice.takes(endpoints[*it].as_ref())).collect()
    }

    #[test]
    fn the_location_of_a_pod_is_read_from_its_environment() {
        let read = |set: &'static [(&str, &str)]| {
            Topology::from_variables(|name| set.iter().find(|it| it.0 == name).map(|it| it.1.to_owned()))
        };
        assert_eq!(read(&[]), Topology::default());
        assert_eq!(
            read(&[("NODE_NAME", "n1"), ("K8S_NODE_NAME", "n2"), ("NODE_ZONE", " a\n")]),
            Topology::hints().node("n1").zone("a")
        );
        assert_eq!(read(&[("NODE_NAME", ""), ("KUBE_NODE_NAME", "n3")]), Topology::hints().node("n3"));
    }

    /// The cases of kube-proxy's own table about ready endpoints and cluster traffic.
    #[test]
    fn hints_are_followed_as_kube_proxy_follows_them() {
        for (story, zone, node, endpoints, expected) in [
            ("those in the zone", "a", "", &["a", "b", "c", "a"][..], &[0, 3][..]),
            ("the zone is unknown", "", "", &["a"], &[0]),
            ("no endpoint is for the zone", "b", "", &["a"], &[0]),
            ("one endpoint has no hint", "a", "", &["a", "b", "", "a"], &[0, 1, 2, 3]),
            ("hints for several zones", "c", "", &["a,b,c", "b,c", "b,d", "c"], &[0, 1, 3]),
            ("no hints at all", "a", "n1", &["", ""], &[0, 1]),
            ("those for the node, before those for the zone", "a", "n1", &["a;n1", "a;n2", "b;n3"], &[0]),
            ("no endpoint is for the node: the zone decides", "a", "n9", &["a;n1", "a;n2", "b;n3"], &[0, 1]),
            ("one endpoint has no node hint: the zone decides", "a", "n1", &["a;n1", "a", "b;n3"], &[0, 1]),
            ("hints for neither the node nor the zone", "z", "n9", &["a;n1", "b;n2"], &[0, 1]),
            ("node hints only", "a", "n2", &[";n1", ";n2"], &[1]),
            ("node hints only, none for our node", "a", "n9", &[";n1", ";n2"], &[0, 1]),
            ("the node is unknown", "b", "", &["a;n1", "b;n2"], &[1]),
            ("there are no endpoints", "a", "n1", &[], &[]),
        ] {
            assert_eq!(taken(zone, node, endpoints), expected, "{story}");
        }
    }
}

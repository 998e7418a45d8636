//! Where the caller is, and which endpoints are meant for callers there: the rules that kube-proxy follows.
//!
//! A slice may say of an endpoint which nodes and zones should use it. Such hints count for all of a service or not at all, so that a
//! half-written set never leaves a caller without endpoints.

use std::sync::Arc;

use crate::slices::Hints;

/// The variables that may have the name of the node, in the order in which they are asked.
const NODE_VARIABLES: [&str; 3] = ["NODE_NAME", "K8S_NODE_NAME", "KUBE_NODE_NAME"];

/// The variables that may have the zone.
const ZONE_VARIABLES: [&str; 3] = ["NODE_ZONE", "K8S_ZONE", "TOPOLOGY_ZONE"];

/// The place of the caller: its node and its zone. Hints are followed as far as it is known; without it, they are not followed at all.
///
/// With a node, `internalTrafficPolicy: Local` of a Service counts too: only endpoints on that node are called.
///
/// A pod learns its node from the downward API (`spec.nodeName`), and its zone from the label `topology.kubernetes.io/zone`, which
/// Kubernetes 1.35 and later put on pods too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    node: Option<Arc<str>>,
    zone: Option<Arc<str>>,
}

impl Topology {
    /// Nowhere in particular, to be said with [`Self::node`] and [`Self::zone`].
    pub fn hints() -> Self {
        Self::default()
    }

    /// Reads the place of the caller from the environment, where the downward API puts it: the node from `NODE_NAME`,
    /// `K8S_NODE_NAME` or `KUBE_NODE_NAME`, the zone from `NODE_ZONE`, `K8S_ZONE` or `TOPOLOGY_ZONE`.
    ///
    /// [`channel`](fn@crate::channel) does this. A variable that is empty or not set says nothing.
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&str; 3]| {
            let mut said = names.into_iter().filter_map(&variable).map(|it| it.trim().to_owned());
            said.find(|it| !it.is_empty()).unwrap_or_default()
        };
        Self::hints().node(&first(NODE_VARIABLES)).zone(&first(ZONE_VARIABLES))
    }

    /// The name of the node, where it is known.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// The name of the node. An empty one, such as that of a variable that is set to nothing, says nothing.
    #[must_use]
    pub fn node(mut self, node: &str) -> Self {
        self.node = (!node.is_empty()).then(|| node.into());
        self
    }

    /// The zone. An empty one says nothing.
    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = (!zone.is_empty()).then(|| zone.into());
        self
    }

    /// Which of the endpoints that are ready are for us, given the hints of all of them.
    pub(crate) fn choice<'h>(&self, ready: impl Iterator<Item = Option<&'h Hints>> + Clone) -> Choice<'_> {
        let for_all = |chosen: Choice<'_>| {
            let mut ours = false;
            let all = ready.clone().all(|hints| {
                ours |= chosen.takes(hints);
                chosen.is_said(hints)
            });
            all && ours
        };
        let node = self.node.as_deref().map(Choice::Node).filter(|it| for_all(*it));
        let zone = || self.zone.as_deref().map(Choice::Zone).filter(|it| for_all(*it));
        node.or_else(zone).unwrap_or(Choice::All)
    }
}

/// Which endpoints a caller takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice<'t> {
    All,
    /// Those that are meant for this node.
    Node(&'t str),
    /// Those that are meant for this zone.
    Zone(&'t str),
}

impl Choice<'_> {
    /// Whether an endpoint with these hints is taken.
    pub(crate) fn takes(self, hints: Option<&Hints>) -> bool {
        match (self, hints) {
            (Self::All, _) => true,
            (_, None) => false,
            (Self::Node(node), Some(hints)) => hints.for_nodes.iter().any(|it| it.name == node),
            (Self::Zone(zone), Some(hints)) => hints.for_zones.iter().any(|it| it.name == zone),
        }
    }

    /// Whether the hints say anything of the kind.
    fn is_said(self, hints: Option<&Hints>) -> bool {
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

    /// Hints as `zones;nodes`, each with commas between; nothing for an endpoint that has none.
    fn hints(text: &str) -> Option<Hints> {
        let (zones, nodes) = text.split_once(';').unwrap_or((text, ""));
        let named = |list: &str| {
            let names = list.split(',').filter(|it| !it.is_empty());
            names.map(|it| Named { name: it.into() }).collect()
        };
        (!text.is_empty()).then(|| Hints { for_zones: named(zones), for_nodes: named(nodes) })
    }

    /// Which of the endpoints are taken, by number; all that are here are ready.
    fn taken(zone: &str, node: &str, endpoints: &[&str]) -> Vec<usize> {
        let endpoints: Vec<_> = endpoints.iter().map(|it| hints(it)).collect();
        let topology = Topology::hints().zone(zone).node(node);
        let choice = topology.choice(endpoints.iter().map(Option::as_ref));
        (0..endpoints.len()).filter(|it| choice.takes(endpoints[*it].as_ref())).collect()
    }

    #[test]
    fn the_place_of_a_pod_is_read_from_its_environment() {
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

    /// What kube-proxy's own table asserts of endpoints that are ready, for traffic to the whole cluster.
    #[test]
    fn hints_are_followed_as_kube_proxy_follows_them() {
        for (story, zone, node, endpoints, expected) in [
            ("the zone's own", "a", "", &["a", "b", "c", "a"][..], &[0, 3][..]),
            ("the zone is not known", "", "", &["a"], &[0]),
            ("no endpoint is for the zone", "b", "", &["a"], &[0]),
            ("one endpoint has no hint", "a", "", &["a", "b", "", "a"], &[0, 1, 2, 3]),
            ("hints of several zones", "c", "", &["a,b,c", "b,c", "b,d", "c"], &[0, 1, 3]),
            ("nothing is said at all", "a", "n1", &["", ""], &[0, 1]),
            ("the node's own, before the zone's", "a", "n1", &["a;n1", "a;n2", "b;n3"], &[0]),
            (
                "no endpoint is for the node, so the zone decides",
                "a",
                "n9",
                &["a;n1", "a;n2", "b;n3"],
                &[0, 1],
            ),
            (
                "one endpoint has no hint of nodes, so the zone decides",
                "a",
                "n1",
                &["a;n1", "a", "b;n3"],
                &[0, 1],
            ),
            ("neither node nor zone is meant", "z", "n9", &["a;n1", "b;n2"], &[0, 1]),
            ("hints of nodes only", "a", "n2", &[";n1", ";n2"], &[1]),
            ("hints of nodes only, and none is for ours", "a", "n9", &[";n1", ";n2"], &[0, 1]),
            ("the node is not known", "b", "", &["a;n1", "b;n2"], &[1]),
            ("there is nobody", "a", "n1", &[], &[]),
        ] {
            assert_eq!(taken(zone, node, endpoints), expected, "{story}");
        }
    }
}

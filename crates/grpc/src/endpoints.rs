//! What a target stands for at one moment: the endpoints that may be called, or why there are none.
//!
//! A set is a value: the source makes a new one when something changed, and everything below (connections, policies, the
//! command line) compares it with the one before. It holds no connection and no counter.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Which endpoint, across sets: the same pod keeps its id when it moves from one slice to another.
///
/// It is the uid of the pod behind the endpoint where the slice names one, and its first address otherwise. A pod that has several
/// addresses of one family is several endpoints, as for kube-proxy; all but the first have the address behind the uid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(Arc<str>);

impl EndpointId {
    /// An id from its text.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One backend of a service: a pod, with an address of each family that it can be reached by.
///
/// [`Endpoint::at`] makes one; its fields are there to be changed afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Endpoint {
    /// Who it is, across sets.
    pub id: EndpointId,
    /// Where it can be reached, best first; never empty. A dual-stack pod has two, and is still one endpoint with one share.
    pub addresses: Vec<SocketAddr>,
    /// It may take new calls. One that may not is in the set so that its calls can end in peace.
    pub usable: bool,
    /// What the slice says of it.
    pub ready: bool,
    /// It still answers, ready or not.
    pub serving: bool,
    /// It is about to go.
    pub terminating: bool,
    /// The zone it is in, where that is known.
    pub zone: Option<Arc<str>>,
    /// The node it is on, where that is known.
    pub node: Option<Arc<str>>,
    /// The pod it is, where that is known.
    pub pod: Option<Arc<str>>,
    /// Its share beside the others', 1 unless said otherwise; never 0.
    pub weight: u32,
}

impl Endpoint {
    /// An endpoint at this address that is ready for calls, with the address as its id.
    ///
    /// ```
    /// use dogwatch_grpc::Endpoint;
    ///
    /// let mut canary = Endpoint::at(([10, 0, 0, 7], 50051).into());
    /// canary.weight = 5;
    /// assert_eq!(canary.id.as_str(), "10.0.0.7:50051");
    /// ```
    pub fn at(address: SocketAddr) -> Self {
        Self {
            id: EndpointId::new(address.to_string()),
            addresses: vec![address],
            usable: true,
            ready: true,
            serving: true,
            terminating: false,
            zone: None,
            node: None,
            pod: None,
            weight: 1,
        }
    }
}

/// All endpoints of a target at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointSet {
    /// Goes up by one with every set that differs from the one before.
    pub generation: u64,
    /// The endpoints, ordered by id, each id once.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Why no endpoint is usable; `None` if and only if one is, or if nobody knows yet (generation 0).
    pub unavailable: Option<Unavailable>,
}

impl EndpointSet {
    /// The set of endpoints that are ready at these addresses, each once.
    pub fn at(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut endpoints: Vec<_> = addresses.into_iter().map(|it| Arc::new(Endpoint::at(it))).collect();
        endpoints.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        endpoints.dedup_by(|one, other| one.id == other.id);
        let unavailable = endpoints.is_empty().then_some(Unavailable::NoEndpoints);
        Self { generation: 1, endpoints, unavailable }
    }

    /// Those that may take new calls.
    pub fn usable(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints.iter().filter(|it| it.usable)
    }

    /// This set as the one after `known`, where it differs from it. An endpoint that is as it was is the same `Arc`.
    pub(crate) fn after(mut self, known: &Self) -> Option<Self> {
        if known.is_known() && known.endpoints == self.endpoints && known.unavailable == self.unavailable {
            return None;
        }
        for endpoint in &mut self.endpoints {
            let at = known.endpoints.binary_search_by(|it| it.id.cmp(&endpoint.id));
            if let Some(same) = at.ok().map(|at| &known.endpoints[at]).filter(|it| *it == endpoint) {
                *endpoint = Arc::clone(same);
            }
        }
        self.generation = known.generation + 1;
        Some(self)
    }

    /// Whether anything is known yet: there are endpoints, or a reason why there are none.
    pub fn is_known(&self) -> bool {
        self.generation > 0
    }
}

/// Why a target has nothing to call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// There is no such Service, and no slice of it.
    ServiceNotFound,
    /// We may not read the slices; the text is the server's.
    Forbidden(String),
    /// The service has endpoints, and none is ready; how many there are.
    NothingReady(usize),
    /// The service has no endpoint at all.
    NoEndpoints,
    /// No endpoint has the port that the target names.
    NoSuchPort(String),
    /// The endpoints have several ports, and nothing says which one is meant: their names.
    AmbiguousPort(Vec<String>),
    /// The Service is for callers of its own node only (`internalTrafficPolicy: Local`), and there is no endpoint to call on this node.
    NotOnNode(String),
    /// All that the service has are names of hosts, which are not called; how many.
    NotAddresses(usize),
    /// The service is only another name for this host, and has no endpoints.
    ExternalName(String),
    /// The API server could not be reached, and never has been; why.
    ApiUnreachable(String),
    /// The name of the host was never found in DNS; why.
    HostNotFound(String),
}

impl Unavailable {
    /// Whether only a change of the cluster, the target or the permissions helps, so that waiting a little does not.
    ///
    /// While a channel has never had an endpoint, its calls fail with such a reason after a second instead of waiting for the whole
    /// `ready_timeout`.
    pub fn is_definite(&self) -> bool {
        match self {
            Self::ServiceNotFound
            | Self::Forbidden(_)
            | Self::NoSuchPort(_)
            | Self::AmbiguousPort(_)
            | Self::NotAddresses(_)
            | Self::ExternalName(_) => true,
            Self::NothingReady(_)
            | Self::NoEndpoints
            | Self::NotOnNode(_)
            | Self::ApiUnreachable(_)
            | Self::HostNotFound(_) => false,
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceNotFound => f.write_str("there is no such service"),
            Self::Forbidden(why) => write!(f, "its endpoints may not be read: {why}"),
            Self::NothingReady(count) => write!(f, "none of its {count} endpoints is ready"),
            Self::NoEndpoints => f.write_str("it has no endpoints"),
            Self::NoSuchPort(port) if port.is_empty() => f.write_str("none of its endpoints has a port"),
            Self::NoSuchPort(port) => write!(f, "none of its endpoints has a port {port:?}"),
            Self::AmbiguousPort(names) => {
                let names = names.iter().map(|it| if it.is_empty() { "(unnamed)" } else { it });
                let names = names.collect::<Vec<_>>().join(", ");
                write!(f, "it has several ports, {names}, and the target names none of them")
            }
            Self::NotOnNode(node) => {
                write!(f, "it is for callers of its own node only, and has no endpoint on {node}")
            }
            Self::NotAddresses(count) => write!(f, "its {count} endpoints are names of hosts, not addresses"),
            Self::ExternalName(host) => write!(f, "it is only another name for {host:?}"),
            Self::ApiUnreachable(why) => write!(f, "its endpoints could not be read yet: {why}"),
            Self::HostNotFound(why) => write!(f, "its name could not be resolved yet: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_addresses_keeps_the_promises_of_a_set() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let set = EndpointSet::at([at(2), at(10), at(2)]);
        let ids: Vec<_> = set.endpoints.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, ["127.0.0.1:10", "127.0.0.1:2"], "ordered by id, each once");
        assert!(set.is_known() && set.unavailable.is_none() && set.usable().count() == 2);
        assert_eq!(EndpointSet::at([]).unavailable, Some(Unavailable::NoEndpoints));
    }

    #[test]
    fn only_a_set_that_differs_is_published_and_what_stays_is_the_same() {
        let set = |ports: &[u16]| {
            let set = EndpointSet::at(ports.iter().map(|it| SocketAddr::from(([127, 0, 0, 1], *it))));
            EndpointSet { generation: 0, ..set }
        };
        let first = set(&[1, 2]).after(&EndpointSet::default()).expect("the first one");
        assert_eq!(first.generation, 1);
        assert_eq!(set(&[1, 2]).after(&first), None);
        let mut changed = set(&[1, 2, 3]);
        Arc::make_mut(&mut changed.endpoints[1]).ready = false;
        let second = changed.after(&first).expect("the second is not ready any more");
        assert_eq!(second.generation, 2);
        assert!(Arc::ptr_eq(&first.endpoints[0], &second.endpoints[0]));
        assert!(!Arc::ptr_eq(&first.endpoints[1], &second.endpoints[1]));
        assert_eq!(set(&[]).after(&second).map(|it| it.generation), Some(3));
        let first = set(&[]).after(&EndpointSet::default()).expect("that there is nothing is news");
        assert!(first.is_known());
    }

    #[test]
    fn names_of_ports_are_listed_where_none_is_chosen() {
        let why = Unavailable::AmbiguousPort(vec![String::new(), "metrics".to_owned()]);
        let said = "it has several ports, (unnamed), metrics, and the target names none of them";
        assert_eq!(why.to_string(), said);
    }
}

//! The endpoints of a target at one moment: those that may be called, or the reason why there are
//! none.
//!
//! A set is a value: the source publishes a new one after each change, and its consumers
//! (connections, policies, the command line) compare it with the previous one. It holds no
//! connections and no counters.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The identity of an endpoint across sets: a pod keeps its id when it moves from one slice to
/// another.
///
/// The id is the uid of the pod behind the endpoint if the slice names one, and the first address
/// otherwise. A pod with several addresses of one family is several endpoints, as in kube-proxy;
/// all but the first have the address appended to the uid.
///
/// ```
/// use dogwatch_grpc::{Endpoint, EndpointId};
///
/// let endpoint = Endpoint::at(([10, 0, 0, 7], 50051).into());
/// assert_eq!(endpoint.id, EndpointId::new("10.0.0.7:50051"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(Arc<str>);

impl EndpointId {
    /// Creates an id from its text.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One backend of a service: a pod, with one address per IP family that it can be reached by.
///
/// Created by [`Endpoint::at`]; the fields can be changed afterwards.
///
/// ```
/// use dogwatch_grpc::Endpoint;
///
/// let mut endpoint = Endpoint::at(([10, 0, 0, 7], 50051).into());
/// endpoint.zone = Some("zone-a".into());
/// assert!(endpoint.usable && endpoint.ready && !endpoint.terminating);
/// assert_eq!(endpoint.weight, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Endpoint {
    /// The identity across sets.
    pub id: EndpointId,
    /// The addresses, in order of preference; never empty. A dual-stack pod has two, and is still
    /// one endpoint with one share of the calls.
    pub addresses: Vec<SocketAddr>,
    /// True if the endpoint may get new calls. Others are in the set so that their open calls can
    /// finish.
    pub usable: bool,
    /// The `ready` condition of the slice.
    pub ready: bool,
    /// True if the endpoint still serves, ready or not.
    pub serving: bool,
    /// True if the endpoint is terminating.
    pub terminating: bool,
    /// The zone, if known.
    pub zone: Option<Arc<str>>,
    /// The node, if known.
    pub node: Option<Arc<str>>,
    /// The name of the pod, if known.
    pub pod: Option<Arc<str>>,
    /// The share of calls relative to the other endpoints; never 0. Defaults to 1.
    pub weight: u32,
}

impl Endpoint {
    /// Creates an endpoint at this address that is ready for calls, with the address as its id.
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
///
/// ```
/// use std::net::SocketAddr;
///
/// use dogwatch_grpc::EndpointSet;
///
/// let addresses = [7, 8, 8].map(|it| SocketAddr::from(([10, 0, 0, it], 50051)));
/// let set = EndpointSet::at(addresses);
/// assert_eq!(set.usable().count(), 2);
/// assert!(set.is_known() && set.unavailable.is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointSet {
    /// Increases by one with each set that differs from the previous one.
    pub generation: u64,
    /// The endpoints, ordered by id, without duplicates.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// The reason why no endpoint is usable. `None` if one is usable, or if nothing is known yet
    /// (generation 0).
    pub unavailable: Option<Unavailable>,
}

impl EndpointSet {
    /// Creates a set of ready endpoints at these addresses, without duplicates.
    pub fn at(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut endpoints: Vec<_> = addresses.into_iter().map(|it| Arc::new(Endpoint::at(it))).collect();
        endpoints.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        endpoints.dedup_by(|one, other| one.id == other.id);
        let unavailable = endpoints.is_empty().then_some(Unavailable::NoEndpoints);
        Self { generation: 1, endpoints, unavailable }
    }

    /// Returns the endpoints that may get new calls.
    pub fn usable(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints.iter().filter(|it| it.usable)
    }

    /// Returns this set as the successor of `known`, or `None` if they are equal. Unchanged
    /// endpoints keep their `Arc`.
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

    /// Returns true if the endpoints, or the reason for their absence, are known.
    pub fn is_known(&self) -> bool {
        self.generation > 0
    }
}

/// The reason why a target has no endpoint to call.
///
/// ```
/// use dogwatch_grpc::Unavailable;
///
/// fn remedy(reason: &Unavailable) -> &'static str {
///     match reason {
///         Unavailable::ServiceNotFound => "check the name and the namespace",
///         Unavailable::Forbidden(_) => "allow list and watch of endpointslices",
///         Unavailable::NoSuchPort(_) | Unavailable::AmbiguousPort(_) => "name another port",
///         _ => "wait for the pods",
///     }
/// }
/// assert_eq!(remedy(&Unavailable::NoEndpoints), "wait for the pods");
/// assert!(Unavailable::ServiceNotFound.is_definite());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The Service does not exist, and neither does a slice of it.
    ServiceNotFound,
    /// The slices may not be read; the text is the server's.
    Forbidden(String),
    /// The service has this number of endpoints, and none is ready.
    NothingReady(usize),
    /// The service has no endpoints.
    NoEndpoints,
    /// No endpoint has the port that the target names.
    NoSuchPort(String),
    /// The endpoints have several ports with these names, and the target does not say which one to
    /// use.
    AmbiguousPort(Vec<String>),
    /// The Service has `internalTrafficPolicy: Local`, and this node has no endpoint to call.
    NotOnNode(String),
    /// All endpoints of the service, of this number, are host names, which are not supported.
    NotAddresses(usize),
    /// The service is an `ExternalName` for this host, and has no endpoints.
    ExternalName(String),
    /// The API server has never been reached; the text is the error.
    ApiUnreachable(String),
    /// The host name has never been resolved; the text is the error.
    HostNotFound(String),
}

impl Unavailable {
    /// Returns true if only a change of the cluster, the target or the permissions helps, so that
    /// waiting a little does not.
    ///
    /// While a channel has never had an endpoint, its calls fail with such a reason after one
    /// second instead of waiting for the whole `ready_timeout`.
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
                write!(f, "it has several ports ({names}), and the target must name one")
            }
            Self::NotOnNode(node) => {
                write!(f, "its internalTrafficPolicy is Local, and node {node} has no endpoint")
            }
            Self::NotAddresses(count) => write!(f, "its {count} endpoints are host names, not addresses"),
            Self::ExternalName(host) => write!(f, "it is an ExternalName for {host:?}"),
            Self::ApiUnreachable(why) => write!(f, "its endpoints could not be read yet: {why}"),
            Self::HostNotFound(why) => write!(f, "its name could not be resolved yet: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_addresses_is_ordered_and_without_duplicates() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let set = EndpointSet::at([at(2), at(10), at(2)]);
        let ids: Vec<_> = set.endpoints.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, ["127.0.0.1:10", "127.0.0.1:2"], "ordered by id, each once");
        assert!(set.is_known() && set.unavailable.is_none() && set.usable().count() == 2);
        assert_eq!(EndpointSet::at([]).unavailable, Some(Unavailable::NoEndpoints));
    }

    #[test]
    fn only_a_set_that_differs_is_published_and_unchanged_endpoints_are_shared() {
        let set = |ports: &[u16]| {
            let set = EndpointSet::at(ports.iter().map(|it| SocketAddr::from(([127, 0, 0, 1], *it))));
            EndpointSet { generation: 0, ..set }
        };
        let first = set(&[1, 2]).after(&EndpointSet::default()).expect("the first one");
        assert_eq!(first.generation, 1);
        assert_eq!(set(&[1, 2]).after(&first), None);
        let mut changed = set(&[1, 2, 3]);
        Arc::make_mut(&mut changed.endpoints[1]).ready = false;
        let second = changed.after(&first).expect("the second endpoint is no longer ready");
        assert_eq!(second.generation, 2);
        assert!(Arc::ptr_eq(&first.endpoints[0], &second.endpoints[0]));
        assert!(!Arc::ptr_eq(&first.endpoints[1], &second.endpoints[1]));
        assert_eq!(set(&[]).after(&second).map(|it| it.generation), Some(3));
        let first = set(&[]).after(&EndpointSet::default()).expect("the first empty set is a change");
        assert!(first.is_known());
    }

    #[test]
    fn an_ambiguous_port_lists_the_port_names() {
        let why = Unavailable::AmbiguousPort(vec![String::new(), "metrics".to_owned()]);
        let text = "it has several ports ((unnamed), metrics), and the target must name one";
        assert_eq!(why.to_string(), text);
    }
}

//! The fold from slices to endpoints: a pure function of the target and the cluster's objects.
//!
//! ```text
//! slices ─► one candidate per endpoint, at the requested port ─► one per address ─► one endpoint per pod ─► usable?
//!                                                  the living win ┘    families join ┘   ready, hints, node ┘
//! ```
//!
//! The rules are kube-proxy's. Neither the order of slices, nor the order of their ports, nor which
//! slice a pod is in makes a difference: the EndpointSlice controller orders ports by a hash of
//! their content, and puts a pod into any slice with room.

#[cfg(test)]
mod kube_proxy;
#[cfg(test)]
mod tables;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::endpoints::{Endpoint, EndpointId, EndpointSet, Unavailable};
use crate::slices::{Hints, Service, Slice, SliceEndpoint};
use crate::target::Port;
use crate::topology::{Choice, Topology};

/// The inputs of a fold besides the slices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoldInput<'q> {
    pub(crate) port: &'q Port,
    pub(crate) service: ServiceInfo<'q>,
    pub(crate) topology: &'q Topology,
    /// Puts the IPv6 address of a dual-stack pod first.
    pub(crate) prefer_ipv6: bool,
}

/// The knowledge about the Service itself.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServiceInfo<'q> {
    /// The Service cannot be read.
    Unreadable,
    /// The Service does not exist.
    Missing,
    Found(&'q Service),
}

impl<'q> FoldInput<'q> {
    /// Returns the only node whose endpoints may be called, if the Service is restricted to local
    /// traffic and the caller's node is known.
    fn only_node(&self) -> Option<&'q str> {
        match self.service {
            ServiceInfo::Found(service) if service.is_local() => self.topology.node_name(),
            _ => None,
        }
    }
}

/// Folds all slices of a service into its endpoints at the requested port. The generation is left
/// at 0.
pub(crate) fn fold<'s>(slices: impl IntoIterator<Item = &'s Slice>, input: &FoldInput<'_>) -> EndpointSet {
    let slices: Vec<&Slice> = slices.into_iter().collect();
    let rule = PortRule::of(input, &slices);
    let mut candidates = Candidates::default();
    for slice in slices {
        candidates.take(slice, &rule);
    }
    let endpoints = endpoints(pods(std::mem::take(&mut candidates.candidates)), input);
    let unavailable = match endpoints.iter().any(|it| it.usable) {
        true => None,
        false => Some(candidates.reason(&endpoints, &rule, input)),
    };
    EndpointSet { generation: 0, endpoints: endpoints.into_iter().map(Arc::new).collect(), unavailable }
}

/// Returns true if the slices alone determine the first port of their Service: no port has a name,
/// and the ports of a Service with several ports must all have one.
pub(crate) fn has_one_port<'s>(slices: impl IntoIterator<Item = &'s Slice>) -> bool {
    slices.into_iter().flat_map(|it| &it.ports).all(|it| it.name.is_empty())
}

/// The rule that selects the port of a slice.
#[derive(Debug, Clone)]
enum PortRule<'q> {
    Named(&'q str),
    /// The port with this name, which is the target of this port number of the Service.
    Behind(&'q str, u16),
    /// This port number, if the slice has it.
    Listed(u16),
    /// This port number, whatever the slice says.
    Verbatim(u16),
    /// The slices have several ports, with these names, and nothing says which one is the first of
    /// the Service.
    Ambiguous(BTreeSet<&'q str>),
    /// No slice has a port.
    Nothing,
}

impl<'q> PortRule<'q> {
    fn of(input: &FoldInput<'q>, slices: &[&'q Slice]) -> Self {
        let service = match input.service {
            ServiceInfo::Found(service) => Some(service),
            ServiceInfo::Unreadable | ServiceInfo::Missing => None,
        };
        let mut ports = service.into_iter().flat_map(|it| &it.spec.ports).filter(|it| it.is_tcp()).peekable();
        match (input.port, service) {
            (Port::First, _) => match ports.next() {
                // kube-apiserver rejects Services with other numbers, so the fallback to 0 is never
                // used.
                Some(port) => Self::Behind(&port.name, u16::try_from(port.port).unwrap_or(0)),
                None => Self::first_of(slices),
            },
            (Port::Name(name), _) => Self::Named(name),
            (Port::PodNumber(number), _) | (Port::Number(number), None) => Self::Verbatim(*number),
            (Port::Number(number), Some(_)) => {
                match (ports.peek().is_some(), ports.find(|it| it.port == i64::from(*number))) {
                    // A Service without ports leaves the port to its callers.
                    (false, _) => Self::Verbatim(*number),
                    (true, Some(port)) => Self::Behind(&port.name, *number),
                    // Not a port of the Service, but perhaps of the pods: kuberesolver interprets
                    // it so.
                    (true, None) => Self::Listed(*number),
                }
            }
        }
    }

    /// Selects the port if the Service cannot say which one is its first: the one with
    /// `appProtocol: grpc`, the one named `grpc`, or the only one. The first port of each slice
    /// would be arbitrary and differ between slices: the controller orders ports by a hash
    /// (`portsInOrder` in k8s.io/endpointslice v0.36.4 `util/controller_utils.go`).
    fn first_of(slices: &[&'q Slice]) -> Self {
        let ports = slices.iter().flat_map(|it| &it.ports).filter(|it| it.is_callable() && it.port.is_some());
        let declared: BTreeSet<&str> =
            ports.clone().filter(|it| it.says_grpc()).map(|it| it.name.as_str()).collect();
        let names: BTreeSet<&str> = ports.map(|it| it.name.as_str()).collect();
        let only = |names: &BTreeSet<&'q str>| names.first().copied().filter(|_| names.len() == 1);
        let called = || {
            let among = if declared.is_empty() { &names } else { &declared };
            among.get("grpc").copied()
        };
        match only(&declared).or_else(called).or_else(|| only(&names)) {
            Some(name) => Self::Named(name),
            None if names.is_empty() => Self::Nothing,
            None => Self::Ambiguous(names),
        }
    }

    fn port_in(&self, slice: &Slice) -> Option<u16> {
        let mut ports = slice.ports.iter().filter(|it| it.is_callable());
        match self {
            Self::Named(name) => ports.find(|it| it.name == *name)?.number(),
            Self::Behind(name, number) => {
                Some(ports.find(|it| it.name == *name)?.number().unwrap_or(*number))
            }
            Self::Listed(number) => {
                ports.find(|it| it.number().is_none_or(|port| port == *number)).map(|_| *number)
            }
            Self::Verbatim(number) => Some(*number),
            Self::Ambiguous(_) | Self::Nothing => None,
        }
    }

    /// Returns true if the Service has no such port, so that no endpoint can have it.
    fn is_missing_in(&self, service: &Service) -> bool {
        let mut ports = service.spec.ports.iter().filter(|it| it.is_tcp()).peekable();
        let some = ports.peek().is_some();
        match self {
            Self::Named(name) => some && !ports.any(|it| it.name == *name),
            Self::Listed(_) => true,
            _ => false,
        }
    }

    /// Returns the reason why existing endpoints cannot be called at this port.
    fn unavailable(&self, port: &Port) -> Unavailable {
        match (self, port) {
            (Self::Ambiguous(names), _) => {
                Unavailable::AmbiguousPort(names.iter().map(|it| (*it).to_owned()).collect())
            }
            (Self::Behind(name, _), Port::First) => Unavailable::NoSuchPort((*name).to_owned()),
            (_, port) => Unavailable::NoSuchPort(port.to_string()),
        }
    }
}

/// One address of one endpoint, as listed by one slice.
#[derive(Debug, Clone)]
struct Candidate<'s> {
    /// The uid of the pod. Other kinds of objects may be behind any number of endpoints, so their
    /// uid identifies none.
    pod: Option<&'s str>,
    address: SocketAddr,
    entry: &'s SliceEndpoint,
    weight: u32,
}

impl<'s> Candidate<'s> {
    /// Returns `None` if the endpoint has no valid IP address.
    fn new(entry: &'s SliceEndpoint, port: u16, weight: u32) -> Option<Self> {
        let ip: IpAddr = entry.addresses.first()?.parse().ok()?;
        let pod = entry.target_ref.as_ref().filter(|it| it.is_pod() && !it.uid.is_empty());
        let pod = pod.map(|it| it.uid.as_str());
        Some(Self { pod, address: SocketAddr::new(ip, port), entry, weight })
    }

    /// Returns the precedence among contradicting entries, the greater one wins: not terminating
    /// first, then ready, then serving.
    fn rank(&self) -> (bool, bool, bool) {
        let conditions = self.entry.conditions;
        (!conditions.is_terminating(), conditions.is_ready(), conditions.is_serving())
    }

    /// Returns the precedence among entries that claim the same address, the greater one wins: by
    /// rank, then by an arbitrary but total order, so that the order of slices is irrelevant.
    fn claim(&self) -> impl Ord {
        let place = (self.entry.zone.clone(), self.entry.node_name.clone());
        (self.rank(), Reverse(self.pod), Reverse(self.weight), place)
    }
}

/// The candidates of all slices, and counts of the endpoints that were left out.
#[derive(Debug, Default)]
struct Candidates<'s> {
    candidates: Vec<Candidate<'s>>,
    slices: usize,
    /// Endpoints of slices that lack the port.
    without_port: usize,
    /// Endpoints that are host names, or otherwise not an IP address.
    names: usize,
}

impl<'s> Candidates<'s> {
    fn take(&mut self, slice: &'s Slice, rule: &PortRule<'_>) {
        self.slices += 1;
        if slice.address_type == "FQDN" {
            self.names += slice.endpoints.len();
            return;
        }
        match rule.port_in(slice) {
            None => self.without_port += slice.endpoints.len(),
            Some(port) => {
                let weight = slice.weight();
                for endpoint in &slice.endpoints {
                    match Candidate::new(endpoint, port, weight) {
                        Some(candidate) => self.candidates.push(candidate),
                        None => self.names += 1,
                    }
                }
            }
        }
    }

    /// Returns the reason why there is no endpoint to call.
    fn reason(&self, endpoints: &[Endpoint], rule: &PortRule<'_>, input: &FoldInput<'_>) -> Unavailable {
        let elsewhere = || endpoints.iter().any(|it| it.ready || (it.serving && it.terminating));
        match (input.service, input.only_node()) {
            (_, Some(node)) if elsewhere() => Unavailable::NotOnNode(node.to_owned()),
            _ if !endpoints.is_empty() => Unavailable::NothingReady(endpoints.len()),
            _ if self.without_port > 0 => rule.unavailable(input.port),
            _ if self.names > 0 => Unavailable::NotAddresses(self.names),
            (ServiceInfo::Missing, _) if self.slices == 0 => Unavailable::ServiceNotFound,
            (ServiceInfo::Found(service), _) => match service.external_name() {
                Some(host) => Unavailable::ExternalName(host.to_owned()),
                None if rule.is_missing_in(service) => rule.unavailable(input.port),
                None => Unavailable::NoEndpoints,
            },
            _ => Unavailable::NoEndpoints,
        }
    }
}

/// Groups the candidates by endpoint. Each address belongs to one of the entries that claim it: a
/// pod that is in two slices while it moves is one endpoint, and an address that moved from one pod
/// to another belongs to the living one. A pod's addresses of two families are one endpoint; of
/// several addresses of one family, the lowest joins it, and each other one is an endpoint of its
/// own, as in kube-proxy.
fn pods(candidates: Vec<Candidate<'_>>) -> BTreeMap<EndpointId, Vec<Candidate<'_>>> {
    let mut owners: BTreeMap<SocketAddr, Candidate<'_>> = BTreeMap::new();
    for candidate in candidates {
        match owners.get_mut(&candidate.address) {
            Some(owner) if candidate.claim() > owner.claim() => *owner = candidate,
            Some(_) => {}
            None => drop(owners.insert(candidate.address, candidate)),
        }
    }
    let mut pods: BTreeMap<EndpointId, Vec<Candidate<'_>>> = BTreeMap::new();
    // In address order, lowest first: the conditions of a pod's addresses must not decide which of
    // them gets the pod's id.
    for (address, candidate) in owners {
        let Some(uid) = candidate.pod else {
            pods.insert(EndpointId::new(address.to_string()), vec![candidate]);
            continue;
        };
        let joined = pods.entry(EndpointId::new(uid)).or_default();
        if joined.iter().all(|it| it.address.is_ipv4() != address.is_ipv4()) {
            joined.push(candidate);
        } else {
            pods.insert(EndpointId::new(format!("{uid}/{address}")), vec![candidate]);
        }
    }
    pods
}

/// Builds the endpoints and decides which ones are usable: those that are ready and meant for this
/// caller; if none is ready anywhere, those that still serve while terminating. For a Service
/// restricted to local traffic, the same among the endpoints of the caller's node, without hints
/// (`CategorizeEndpoints` in kubernetes v1.36.4 `pkg/proxy/topology.go`).
fn endpoints(pods: BTreeMap<EndpointId, Vec<Candidate<'_>>>, input: &FoldInput<'_>) -> Vec<Endpoint> {
    let mut endpoints: Vec<(Endpoint, Option<&Hints>)> = Vec::with_capacity(pods.len());
    for (id, mut addresses) in pods {
        addresses.sort_by_key(|it| it.address.is_ipv4() == input.prefer_ipv6);
        endpoints.push((endpoint(id, &addresses), addresses[0].entry.hints.as_ref()));
    }
    let node = input.only_node();
    let reachable = |it: &Endpoint| node.is_none_or(|node| it.node.as_deref() == Some(node));
    let ready = endpoints.iter().filter(|(it, _)| it.ready && reachable(it)).map(|(_, hints)| *hints);
    let choice = match node {
        Some(_) => Choice::All,
        None => input.topology.choice(ready.clone()),
    };
    let any_ready = ready.clone().next().is_some();
    let usable = |(mut endpoint, hints): (Endpoint, Option<&Hints>)| {
        endpoint.usable = reachable(&endpoint)
            && match any_ready {
                true => endpoint.ready && choice.takes(hints),
                false => endpoint.serving && endpoint.terminating,
            };
        endpoint
    };
    endpoints.into_iter().map(usable).collect()
}

/// Builds the endpoint of a pod from the entries of its addresses. The slices of two families are
/// written one after the other: the pod is ready only if both say so, and terminating as soon as
/// one says so.
fn endpoint(id: EndpointId, addresses: &[Candidate<'_>]) -> Endpoint {
    let conditions = || addresses.iter().map(|it| it.entry.conditions);
    let entry = |field: fn(&SliceEndpoint) -> Option<&str>| {
        addresses.iter().find_map(|it| field(it.entry)).filter(|it| !it.is_empty()).map(Arc::from)
    };
    Endpoint {
        id,
        addresses: addresses.iter().map(|it| it.address).collect(),
        usable: false,
        ready: conditions().all(|it| it.is_ready()),
        serving: conditions().all(|it| it.is_serving()),
        terminating: conditions().any(|it| it.is_terminating()),
        zone: entry(|it| it.zone.as_deref()),
        node: entry(|it| it.node_name.as_deref()),
        pod: entry(|it| it.target_ref.as_ref().filter(|it| it.is_pod()).map(|it| it.name.as_str())),
        weight: addresses.iter().map(|it| it.weight).max().unwrap_or(1),
    }
}

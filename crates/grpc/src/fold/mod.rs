//! From slices to endpoints: what a target stands for, given all that the cluster says. Pure.
//!
//! ```text
//! slices ─► one candidate per endpoint, at the port asked for ─► one per address ─► one endpoint per pod ─► usable?
//!                                                  the living win ┘    families join ┘   ready, hints, node ┘
//! ```
//!
//! The rules are kube-proxy's. The order of slices and of their ports, and in which of them a pod is, make no difference: the
//! EndpointSlice controller writes ports in the order of a hash of their content, and a pod to whichever slice has room.

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

/// What is asked of the slices of a service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'q> {
    pub(crate) port: &'q Port,
    pub(crate) service: Known<'q>,
    pub(crate) topology: &'q Topology,
    /// Of a pod with addresses of both families, the one of IPv6 comes first.
    pub(crate) prefer_ipv6: bool,
}

/// What is known of the Service itself.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Known<'q> {
    /// It cannot be read.
    Nothing,
    /// It does not exist.
    Missing,
    Found(&'q Service),
}

impl<'q> Question<'q> {
    /// The node whose endpoints alone may be called, where the Service wants that and the caller knows its node.
    fn only_node(&self) -> Option<&'q str> {
        match self.service {
            Known::Found(service) if service.is_local() => self.topology.node_name(),
            _ => None,
        }
    }
}

/// All endpoints that these slices, which are all of the service, have at the port asked for. The generation is left at 0.
pub(crate) fn fold<'s>(slices: impl IntoIterator<Item = &'s Slice>, question: &Question<'_>) -> EndpointSet {
    let slices: Vec<&Slice> = slices.into_iter().collect();
    let wanted = Wanted::of(question, &slices);
    let mut gathered = Gathered::default();
    for slice in slices {
        gathered.take(slice, &wanted);
    }
    let endpoints = endpoints(pods(std::mem::take(&mut gathered.candidates)), question);
    let unavailable = match endpoints.iter().any(|it| it.usable) {
        true => None,
        false => Some(gathered.reason(&endpoints, &wanted, question)),
    };
    EndpointSet { generation: 0, endpoints: endpoints.into_iter().map(Arc::new).collect(), unavailable }
}

/// Whether the slices alone say which port is the first of their Service: no port has a name, and a Service of several ports has a name
/// for each of them.
pub(crate) fn has_one_port<'s>(slices: impl IntoIterator<Item = &'s Slice>) -> bool {
    slices.into_iter().flat_map(|it| &it.ports).all(|it| it.name.is_empty())
}

/// The port of a slice that is meant.
#[derive(Debug, Clone)]
enum Wanted<'q> {
    Named(&'q str),
    /// The one of this name, which stands behind this number of the Service.
    Behind(&'q str, u16),
    /// This one, if the slice has it.
    Listed(u16),
    /// This one, whatever the slice says.
    Verbatim(u16),
    /// Slices have several ports, of these names, and nothing says which is the first of the Service.
    Ambiguous(BTreeSet<&'q str>),
    /// No slice has a port.
    Nothing,
}

impl<'q> Wanted<'q> {
    fn of(question: &Question<'q>, slices: &[&'q Slice]) -> Self {
        let service = match question.service {
            Known::Found(service) => Some(service),
            Known::Nothing | Known::Missing => None,
        };
        let mut ports = service.into_iter().flat_map(|it| &it.spec.ports).filter(|it| it.is_tcp()).peekable();
        match (question.port, service) {
            (Port::First, _) => match ports.next() {
                // kube-apiserver refuses Services with other numbers, so that none is ever replaced by 0.
                Some(port) => Self::Behind(&port.name, u16::try_from(port.port).unwrap_or(0)),
                None => Self::first_of(slices),
            },
            (Port::Name(name), _) => Self::Named(name),
            (Port::PodNumber(number), _) | (Port::Number(number), None) => Self::Verbatim(*number),
            (Port::Number(number), Some(_)) => {
                match (ports.peek().is_some(), ports.find(|it| it.port == i64::from(*number))) {
                    // One without ports leaves them to its callers.
                    (false, _) => Self::Verbatim(*number),
                    (true, Some(port)) => Self::Behind(&port.name, *number),
                    // Not a port of the Service, but perhaps one of the pods', as kuberesolver takes it.
                    (true, None) => Self::Listed(*number),
                }
            }
        }
    }

    /// The port to take where the Service cannot say which is its first: the one that is declared to be gRPC's, the one that is
    /// called so, or the only one. The first of each slice would be any of them, and another one per slice: the controller orders
    /// ports by a hash (`portsInOrder` in `k8s.io/endpointslice/util`).
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

    fn within(&self, slice: &Slice) -> Option<u16> {
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

    /// Whether the Service has no such port, so that no endpoint will ever have it.
    fn is_unknown_to(&self, service: &Service) -> bool {
        let mut ports = service.spec.ports.iter().filter(|it| it.is_tcp()).peekable();
        let some = ports.peek().is_some();
        match self {
            Self::Named(name) => some && !ports.any(|it| it.name == *name),
            Self::Listed(_) => true,
            _ => false,
        }
    }

    /// Why endpoints that are there cannot be called.
    fn missing(&self, port: &Port) -> Unavailable {
        match (self, port) {
            (Self::Ambiguous(names), _) => {
                Unavailable::AmbiguousPort(names.iter().map(|it| (*it).to_owned()).collect())
            }
            (Self::Behind(name, _), Port::First) => Unavailable::NoSuchPort((*name).to_owned()),
            (_, port) => Unavailable::NoSuchPort(port.to_string()),
        }
    }
}

/// One address of one endpoint, as one slice says it.
#[derive(Debug, Clone)]
struct Candidate<'s> {
    /// The uid of its pod. Objects of other kinds may stand behind any number of endpoints, so that theirs says nothing.
    pod: Option<&'s str>,
    address: SocketAddr,
    said: &'s SliceEndpoint,
    weight: u32,
}

impl<'s> Candidate<'s> {
    /// `None` where there is no address that can be called.
    fn new(said: &'s SliceEndpoint, port: u16, weight: u32) -> Option<Self> {
        let ip: IpAddr = said.addresses.first()?.parse().ok()?;
        let pod = said.target_ref.as_ref().filter(|it| it.is_pod() && !it.uid.is_empty());
        let pod = pod.map(|it| it.uid.as_str());
        Some(Self { pod, address: SocketAddr::new(ip, port), said, weight })
    }

    /// Of two that cannot both be true the greater is: the living before the dying, the ready before the others.
    fn rank(&self) -> (bool, bool, bool) {
        let conditions = self.said.conditions;
        (!conditions.is_terminating(), conditions.is_ready(), conditions.is_serving())
    }

    /// Which of two that claim the same address has it, the greater: first by rank, then by anything, so that the order of slices
    /// decides nothing.
    fn claim(&self) -> impl Ord {
        let place = (self.said.zone.clone(), self.said.node_name.clone());
        (self.rank(), Reverse(self.pod), Reverse(self.weight), place)
    }
}

/// What the slices have, and what had to be left out.
#[derive(Debug, Default)]
struct Gathered<'s> {
    candidates: Vec<Candidate<'s>>,
    slices: usize,
    /// Endpoints of slices that lack the port.
    without_port: usize,
    /// Endpoints that are names, or anything else that is no address.
    names: usize,
}

impl<'s> Gathered<'s> {
    fn take(&mut self, slice: &'s Slice, wanted: &Wanted<'_>) {
        self.slices += 1;
        if slice.address_type == "FQDN" {
            self.names += slice.endpoints.len();
            return;
        }
        match wanted.within(slice) {
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

    /// Why there is nothing to call.
    fn reason(&self, endpoints: &[Endpoint], wanted: &Wanted<'_>, question: &Question<'_>) -> Unavailable {
        let elsewhere = || endpoints.iter().any(|it| it.ready || (it.serving && it.terminating));
        match (question.service, question.only_node()) {
            (_, Some(node)) if elsewhere() => Unavailable::NotOnNode(node.to_owned()),
            _ if !endpoints.is_empty() => Unavailable::NothingReady(endpoints.len()),
            _ if self.without_port > 0 => wanted.missing(question.port),
            _ if self.names > 0 => Unavailable::NotAddresses(self.names),
            (Known::Missing, _) if self.slices == 0 => Unavailable::ServiceNotFound,
            (Known::Found(service), _) => match service.external_name() {
                Some(host) => Unavailable::ExternalName(host.to_owned()),
                None if wanted.is_unknown_to(service) => wanted.missing(question.port),
                None => Unavailable::NoEndpoints,
            },
            _ => Unavailable::NoEndpoints,
        }
    }
}

/// The candidates by endpoint. An address belongs to one of those that claim it: a pod that is in two slices while it moves is one
/// endpoint, and what was a pod's address and is another's now is the living one's. A pod's addresses of two families are one endpoint;
/// of several of one family, the lowest joins, and each other is an endpoint of its own, as for kube-proxy.
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
    // By address, the lowest first: the conditions of a pod's addresses must not decide which of them has its id.
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

/// Every pod as an endpoint, and whether it is one to call: those that are ready and meant for us, and where none is ready
/// anywhere, those that still serve while they terminate. Of a Service for local callers, the same among the endpoints of the
/// caller's node, without hints (`CategorizeEndpoints` in kube-proxy's `topology.go`).
fn endpoints(pods: BTreeMap<EndpointId, Vec<Candidate<'_>>>, question: &Question<'_>) -> Vec<Endpoint> {
    let mut endpoints: Vec<(Endpoint, Option<&Hints>)> = Vec::with_capacity(pods.len());
    for (id, mut addresses) in pods {
        addresses.sort_by_key(|it| it.address.is_ipv4() == question.prefer_ipv6);
        endpoints.push((endpoint(id, &addresses), addresses[0].said.hints.as_ref()));
    }
    let node = question.only_node();
    let reachable = |it: &Endpoint| node.is_none_or(|node| it.node.as_deref() == Some(node));
    let ready = endpoints.iter().filter(|(it, _)| it.ready && reachable(it)).map(|(_, hints)| *hints);
    let choice = match node {
        Some(_) => Choice::All,
        None => question.topology.choice(ready.clone()),
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

/// A pod from what is said of its addresses. Slices of two families are written one after the other: until both say that it is ready, it
/// is not, and as soon as one says that it goes, it does.
fn endpoint(id: EndpointId, addresses: &[Candidate<'_>]) -> Endpoint {
    let conditions = || addresses.iter().map(|it| it.said.conditions);
    let said = |field: fn(&SliceEndpoint) -> Option<&str>| {
        addresses.iter().find_map(|it| field(it.said)).filter(|it| !it.is_empty()).map(Arc::from)
    };
    Endpoint {
        id,
        addresses: addresses.iter().map(|it| it.address).collect(),
        usable: false,
        ready: conditions().all(|it| it.is_ready()),
        serving: conditions().all(|it| it.is_serving()),
        terminating: conditions().any(|it| it.is_terminating()),
        zone: said(|it| it.zone.as_deref()),
        node: said(|it| it.node_name.as_deref()),
        pod: said(|it| it.target_ref.as_ref().filter(|it| it.is_pod()).map(|it| it.name.as_str())),
        weight: addresses.iter().map(|it| it.weight).max().unwrap_or(1),
    }
}

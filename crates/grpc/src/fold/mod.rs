//! From slices to endpoints: what a target stands for, given all that the cluster says. Pure.
//!
//! ```text
//! slices ─► one candidate per address, at the port asked for ─► one per pod and family ─► one per address ─► one endpoint per pod
//!                                                   the living win ┘    the living win ┘      ready? hints? ─► usable
//! ```
//!
//! The rules are kube-proxy's. The order of slices, and in which of them a pod is, make no difference.

#[cfg(test)]
mod kube_proxy;
#[cfg(test)]
mod tables;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::endpoints::{Endpoint, EndpointId, EndpointSet, Unavailable};
use crate::slices::{Hints, Service, Slice, SliceEndpoint};
use crate::target::Port;
use crate::topology::Topology;

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

/// All endpoints that these slices, which are all of the service, have at the port asked for. The generation is left at 0.
pub(crate) fn fold<'s>(slices: impl IntoIterator<Item = &'s Slice>, question: &Question<'_>) -> EndpointSet {
    let wanted = Wanted::of(question);
    let mut gathered = Gathered::default();
    for slice in slices {
        gathered.take(slice, wanted);
    }
    let pods = one_per_address(one_per_family(std::mem::take(&mut gathered.candidates)));
    let endpoints = endpoints(pods, question);
    let unavailable = match endpoints.iter().any(|it| it.usable) {
        true => None,
        false => Some(gathered.reason(endpoints.len(), wanted, question)),
    };
    EndpointSet { generation: 0, endpoints: endpoints.into_iter().map(Arc::new).collect(), unavailable }
}

/// Which port of a slice is meant.
#[derive(Debug, Clone, Copy)]
enum Wanted<'q> {
    First,
    Named(&'q str),
    /// The one of this name, which stands behind this number of the Service.
    Behind(&'q str, u16),
    /// This one, if the slice has it.
    Listed(u16),
    /// This one, whatever the slice says.
    Verbatim(u16),
}

impl<'q> Wanted<'q> {
    fn of(question: &Question<'q>) -> Self {
        match (question.port, question.service) {
            (Port::First, _) => Self::First,
            (Port::Name(name), _) => Self::Named(name),
            (Port::PodNumber(number), _) => Self::Verbatim(*number),
            (Port::Number(number), Known::Found(service)) => {
                let mut ports = service.spec.ports.iter().filter(|it| it.is_tcp()).peekable();
                match (ports.peek().is_some(), ports.find(|it| it.port == *number)) {
                    // One without ports leaves them to its callers.
                    (false, _) => Self::Verbatim(*number),
                    (true, Some(port)) => Self::Behind(&port.name, *number),
                    // Not a port of the Service, but perhaps one of the pods', as kuberesolver takes it.
                    (true, None) => Self::Listed(*number),
                }
            }
            (Port::Number(number), _) => Self::Verbatim(*number),
        }
    }

    fn within(self, slice: &Slice) -> Option<u16> {
        let mut ports = slice.ports.iter().filter(|it| it.is_tcp());
        match self {
            Self::First => ports.find_map(|it| it.port),
            Self::Named(name) => ports.find(|it| it.name == name)?.port,
            Self::Behind(name, number) => Some(ports.find(|it| it.name == name)?.port.unwrap_or(number)),
            Self::Listed(number) => {
                ports.find(|it| it.port.is_none_or(|port| port == number)).map(|_| number)
            }
            Self::Verbatim(number) => Some(number),
        }
    }

    /// Whether the Service has no such port, so that no endpoint will ever have it.
    fn is_unknown_to(self, service: &Service) -> bool {
        let mut ports = service.spec.ports.iter().filter(|it| it.is_tcp()).peekable();
        let some = ports.peek().is_some();
        match self {
            Self::Named(name) => some && !ports.any(|it| it.name == name),
            Self::Listed(_) => true,
            _ => false,
        }
    }
}

/// One address of one endpoint, as one slice says it.
#[derive(Debug, Clone)]
struct Candidate<'s> {
    id: EndpointId,
    address: SocketAddr,
    said: &'s SliceEndpoint,
    weight: u32,
}

impl<'s> Candidate<'s> {
    /// `None` where there is no address that can be called.
    fn new(said: &'s SliceEndpoint, port: u16, weight: u32) -> Option<Self> {
        let ip: IpAddr = said.addresses.first()?.parse().ok()?;
        let address = SocketAddr::new(ip, port);
        let uid = said.target_ref.as_ref().map(|it| it.uid.as_str()).filter(|it| !it.is_empty());
        let id = uid.map_or_else(|| EndpointId::new(address.to_string()), EndpointId::new);
        Some(Self { id, address, said, weight })
    }

    /// Of two that cannot both be true the greater is: the living before the dying, the ready before the others.
    fn rank(&self) -> (bool, bool, bool) {
        let conditions = self.said.conditions;
        (!conditions.is_terminating(), conditions.is_ready(), conditions.is_serving())
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
    fn take(&mut self, slice: &'s Slice, wanted: Wanted<'_>) {
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
    fn reason(&self, endpoints: usize, wanted: Wanted<'_>, question: &Question<'_>) -> Unavailable {
        let port = || Unavailable::NoSuchPort(question.port.to_string());
        match question.service {
            _ if endpoints > 0 => Unavailable::NothingReady(endpoints),
            _ if self.without_port > 0 => port(),
            _ if self.names > 0 => Unavailable::NotAddresses(self.names),
            Known::Missing if self.slices == 0 => Unavailable::ServiceNotFound,
            Known::Found(service) => match service.external_name() {
                Some(host) => Unavailable::ExternalName(host.to_owned()),
                None if wanted.is_unknown_to(service) => port(),
                None => Unavailable::NoEndpoints,
            },
            _ => Unavailable::NoEndpoints,
        }
    }
}

/// The addresses of each pod, at most one of each family: a pod that is in two slices while it moves is still one.
fn one_per_family(candidates: Vec<Candidate<'_>>) -> BTreeMap<EndpointId, Vec<Candidate<'_>>> {
    let mut pods: BTreeMap<EndpointId, Vec<Candidate<'_>>> = BTreeMap::new();
    for candidate in candidates {
        let addresses = pods.entry(candidate.id.clone()).or_default();
        match addresses.iter_mut().find(|it| it.address.is_ipv4() == candidate.address.is_ipv4()) {
            None => addresses.push(candidate),
            Some(known) => {
                let key = |it: &Candidate<'_>| (it.rank(), Reverse(it.address), Reverse(it.weight));
                // What cannot be told apart by this is told apart by what it says of place, so that order decides nothing.
                let place = |it: &Candidate<'_>| (it.said.zone.clone(), it.said.node_name.clone());
                if (key(&candidate), place(&candidate)) > (key(known), place(known)) {
                    *known = candidate;
                }
            }
        }
    }
    pods
}

/// An address that was a pod's and is another's now belongs to the one that lives.
fn one_per_address<'s>(
    mut pods: BTreeMap<EndpointId, Vec<Candidate<'s>>>,
) -> BTreeMap<EndpointId, Vec<Candidate<'s>>> {
    let mut owners: BTreeMap<SocketAddr, ((bool, bool, bool), EndpointId)> = BTreeMap::new();
    for candidate in pods.values().flatten() {
        let claim = (candidate.rank(), candidate.id.clone());
        let owner = owners.entry(candidate.address).or_insert_with(|| claim.clone());
        // Pods come in the order of their ids, so of two that are alike the first stays.
        if claim.0 > owner.0 {
            *owner = claim;
        }
    }
    for (id, addresses) in &mut pods {
        addresses.retain(|it| owners.get(&it.address).is_some_and(|(_, owner)| owner == id));
    }
    pods.retain(|_, addresses| !addresses.is_empty());
    pods
}

/// Every pod as an endpoint, and whether it is one to call: those that are ready and meant for us, and where none is ready
/// anywhere, those that still serve while they go.
fn endpoints(pods: BTreeMap<EndpointId, Vec<Candidate<'_>>>, question: &Question<'_>) -> Vec<Endpoint> {
    let mut endpoints: Vec<(Endpoint, Option<&Hints>)> = Vec::with_capacity(pods.len());
    for (id, mut addresses) in pods {
        addresses.sort_by_key(|it| it.address.is_ipv4() == question.prefer_ipv6);
        endpoints.push((endpoint(id, &addresses), addresses[0].said.hints.as_ref()));
    }
    let ready = endpoints.iter().filter(|(it, _)| it.ready).map(|(_, hints)| *hints);
    let choice = question.topology.choice(ready.clone());
    let any_ready = ready.clone().next().is_some();
    let usable = |(mut endpoint, hints): (Endpoint, Option<&Hints>)| {
        endpoint.usable = match any_ready {
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

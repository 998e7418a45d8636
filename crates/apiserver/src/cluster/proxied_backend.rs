//! The backend of a proxied request: a port of a node, of a pod, or of an endpoint of a service.
//!
//! The name in the path may have a scheme and a port: `https:NAME:PORT`. The rules are those of
//! `ResourceLocation` in k8s.io/kubernetes v1.36.4 pkg/registry/core/{node,pod}/strategy.go and
//! pkg/registry/core/service/storage/storage.go.

use dogwatch_core::{ObjectKey, Reason};
use serde_json::Value;

use super::kubelet::KubeletRequest;
use super::{Cluster, ObjectRef};
use crate::ApiError;
use crate::kinds::json_access::{items, number, text};
use crate::kinds::{POD, SERVICE};
use crate::upstream::{Origin, Peer, Protocol, Reach};

/// The backend of a request for the subresource `proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxiedBackend {
    pub(crate) origin: Origin,
    pub(crate) peer: Peer,
}

/// The parts of a name in the path of a proxied request.
struct NamedPort<'a> {
    protocol: Protocol,
    name: &'a str,
    /// A number or the name of a port; empty for none.
    port: &'a str,
}

impl ProxiedBackend {
    /// Finds the backend of a request.
    ///
    /// # Errors
    /// 404 if there is no such object; 400 if the name in the path is not valid or the address not
    /// allowed; 503 if a service has no endpoint; 500 if a node has no kubelet.
    pub(crate) fn of(cluster: &Cluster, place: &ObjectRef<'_>, reach: Reach) -> Result<Self, ApiError> {
        let what = match place.kind {
            kind if kind.is(&POD) => "pod",
            kind if kind.is(&SERVICE) => "service",
            _ => "node",
        };
        let invalid = || ApiError::bad_request(format!("invalid {what} request {:?}", place.name));
        let named = NamedPort::parse(place.name).ok_or_else(invalid)?;
        match what {
            "node" => Self::of_node(cluster, place, &named, reach)?.ok_or_else(invalid),
            "pod" => Self::of_pod(cluster, place, &named, reach)?.ok_or_else(invalid),
            _ => Self::of_service(cluster, place, &named, reach),
        }
    }

    /// Returns `None` if the port is not valid, as the other functions.
    fn of_node(
        cluster: &Cluster,
        place: &ObjectRef<'_>,
        named: &NamedPort<'_>,
        reach: Reach,
    ) -> Result<Option<Self>, ApiError> {
        let kubelet = KubeletRequest::of(cluster, place).kubelet(named.name, reach)?;
        if named.port.is_empty() || named.port == kubelet.port.to_string() {
            return Ok(Some(Self { origin: kubelet, peer: Peer::Kubelet }));
        }
        let other =
            |port| Self { origin: Origin { protocol: named.protocol, port, ..kubelet }, peer: Peer::Program };
        Ok(named.port.parse().ok().map(other))
    }

    fn of_pod(
        cluster: &Cluster,
        place: &ObjectRef<'_>,
        named: &NamedPort<'_>,
        reach: Reach,
    ) -> Result<Option<Self>, ApiError> {
        let pod = object(cluster, place, named.name)?;
        let ports = items(&pod, "/spec/containers").iter().find_map(|it| items(it, "/ports").first());
        let port = match (named.port, ports) {
            ("", Some(first)) => number(first, "/containerPort").and_then(|it| u16::try_from(it).ok()),
            ("", None) => Some(named.protocol.default_port()),
            (port, _) => port.parse().ok(),
        };
        let ip = Some(text(&pod, "/status/podIPs/0/ip")).filter(|it| !it.is_empty());
        let ip = ip.unwrap_or_else(|| text(&pod, "/status/podIP"));
        if text(&pod, "/spec/nodeName").is_empty() && ip.is_empty() {
            let place = ObjectRef { name: named.name, ..*place };
            return Err(KubeletRequest::of(cluster, &place).unplaced());
        }
        Ok(match port {
            Some(port) => Some(program(named.protocol, ip, port, reach)?),
            None => None,
        })
    }

    fn of_service(
        cluster: &Cluster,
        place: &ObjectRef<'_>,
        named: &NamedPort<'_>,
        reach: Reach,
    ) -> Result<Self, ApiError> {
        let service = object(cluster, place, named.name)?;
        let port = match named.port.parse::<i64>() {
            Ok(wanted) => {
                let mut ports = items(&service, "/spec/ports").iter();
                let found = ports.find(|it| number(it, "/port") == Some(wanted));
                let missing =
                    || unavailable(format!("no service port {wanted} found for service {:?}", named.name));
                text(found.ok_or_else(missing)?, "/name")
            }
            Err(_) => named.port,
        };
        let namespace = place.namespace.unwrap_or_default();
        let found = endpoint_of_slices(cluster, namespace, named.name, port)
            .or_else(|| endpoint_of_subsets(cluster, namespace, named.name, port));
        let missing = || unavailable(format!("no endpoints available for service {:?}", place.name));
        let (address, port) = found.ok_or_else(missing)?;
        program(named.protocol, &address, port, reach)
    }
}

impl<'a> NamedPort<'a> {
    /// Splits `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT` (`SplitSchemeNamePort` in
    /// k8s.io/apimachinery v0.36.4 pkg/util/net/port_split.go).
    fn parse(id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match *parts.as_slice() {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        let protocol = Protocol::named(scheme).filter(|_| !name.is_empty())?;
        Some(Self { protocol, name, port })
    }
}

/// Returns a backend that is not a kubelet.
///
/// # Errors
/// 400 if the address is not allowed, or is not one.
fn program(protocol: Protocol, address: &str, port: u16, reach: Reach) -> Result<ProxiedBackend, ApiError> {
    let is_address = address.parse::<std::net::IpAddr>().is_ok();
    if !is_address {
        return Err(ApiError::bad_request("address not allowed: the pod has no address"));
    }
    if !reach.permits(address) {
        return Err(ApiError::bad_request(reach.refusal(address)));
    }
    let origin = Origin { protocol, host: address.to_owned(), port };
    Ok(ProxiedBackend { origin, peer: Peer::Program })
}

fn object(cluster: &Cluster, place: &ObjectRef<'_>, name: &str) -> Result<Value, ApiError> {
    let key = ObjectKey::from_parts(place.namespace, name).ok();
    let found = key.and_then(|it| cluster.store().get(&place.kind.collection, &it));
    found.map(|it| it.to_value()).ok_or_else(|| place.kind.not_found(name))
}

/// Returns an endpoint of a port in the EndpointSlices of a service. An endpoint that does not say
/// if it is ready is.
fn endpoint_of_slices(
    cluster: &Cluster,
    namespace: &str,
    service: &str,
    port: &str,
) -> Option<(String, u16)> {
    let slices = cluster.store().list(&"discovery.k8s.io/endpointslices".into(), Some(namespace));
    let of_service =
        slices.iter().filter(|it| it.labels().get("kubernetes.io/service-name") == Some(service));
    of_service.map(|it| it.to_value()).find_map(|slice| {
        let number = port_number(items(&slice, "/ports"), port)?;
        let ready = |it: &&Value| it["conditions"]["ready"] != false;
        let endpoint = items(&slice, "/endpoints").iter().find(ready)?;
        Some((text(endpoint, "/addresses/0").to_owned(), number))
    })
}

/// Returns an endpoint of a port in the Endpoints of a service, for those that have no slices.
fn endpoint_of_subsets(
    cluster: &Cluster,
    namespace: &str,
    service: &str,
    port: &str,
) -> Option<(String, u16)> {
    let key = ObjectKey::from_parts(Some(namespace), service).ok()?;
    let endpoints = cluster.store().get(&"/endpoints".into(), &key)?.to_value();
    items(&endpoints, "/subsets").iter().find_map(|subset| {
        let number = port_number(items(subset, "/ports"), port)?;
        let address = items(subset, "/addresses").first()?;
        Some((text(address, "/ip").to_owned(), number))
    })
}

fn port_number(ports: &[Value], name: &str) -> Option<u16> {
    let port = ports.iter().find(|it| text(it, "/name") == name)?;
    number(port, "/port").and_then(|it| u16::try_from(it).ok())
}

fn unavailable(message: String) -> ApiError {
    let mut refusal = ApiError::new(Reason::ServiceUnavailable, message);
    // `NewServiceUnavailable` of k8s.io/apimachinery v0.36.4 pkg/api/errors/errors.go sets none.
    refusal.0.details = None;
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_scheme_and_a_port() {
        let split = |id| NamedPort::parse(id).map(|it| (it.protocol, it.name, it.port));
        for (id, expected) in [
            ("a", Some((Protocol::Http, "a", ""))),
            ("a:80", Some((Protocol::Http, "a", "80"))),
            ("a:web", Some((Protocol::Http, "a", "web"))),
            ("https:a:", Some((Protocol::Https, "a", ""))),
            ("http:a:80", Some((Protocol::Http, "a", "80"))),
            (":a:80", Some((Protocol::Http, "a", "80"))),
            ("ftp:a:80", None),
            (":80", None),
            ("", None),
            ("https:a:80:1", None),
        ] {
            assert_eq!(split(id), expected, "{id}");
        }
    }
}

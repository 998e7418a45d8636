//! Requests that need the kubelet of a node: logs, and connections into pods. Finds the kubelet and
//! the path of the request there. The messages about pods are those of k8s.io/kubernetes v1.36.4
//! pkg/registry/core/pod.

use std::net::IpAddr;
use std::sync::Arc;

use dogwatch_core::{ObjectKey, Reason};
use serde_json::Value;

use super::{Cluster, ObjectRef};
use crate::ApiError;
use crate::authorization::{AccessRequest, AccessTarget, Decision};
use crate::kinds::POD;
use crate::kinds::json_access::{items, number, text};
use crate::store::Encoded;
use crate::upstream::{Location, Origin, Protocol, Reach};
use crate::user::User;

/// The port of a kubelet whose node names none: `KubeletPort` in k8s.io/kubernetes v1.36.4
/// pkg/cluster/ports/ports.go.
const KUBELET_PORT: u16 = 10250;

/// The types of addresses of a node, in order of preference: the default of
/// `--kubelet-preferred-address-types` (`NewServerRunOptions` in k8s.io/kubernetes v1.36.4
/// cmd/kube-apiserver/app/options/options.go).
const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// A request for something inside a pod, a service or a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KubeletRequest<'a> {
    cluster: &'a Cluster,
    place: &'a ObjectRef<'a>,
}

impl<'a> KubeletRequest<'a> {
    /// Returns the request for the subresource at a place.
    pub(crate) fn of(cluster: &'a Cluster, place: &'a ObjectRef<'a>) -> Self {
        Self { cluster, place }
    }
}

impl KubeletRequest<'_> {
    /// Rejects a connection to a pod by a user who may not create one, whatever the method of the
    /// request: browsers can open a WebSocket only with GET. Mirrors `ensureAuthorizedForVerb` in
    /// k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/rest/subresources.go.
    ///
    /// # Errors
    /// 403 if the user may not.
    pub(crate) fn check_permission(&self, user: &User) -> Result<(), ApiError> {
        let place = self.place;
        if !place.kind.is(&POD) || !matches!(place.part, "exec" | "attach" | "portforward") {
            return Ok(());
        }
        let target = AccessTarget::Resource {
            group: "",
            resource: "pods",
            subresource: place.part,
            namespace: place.namespace.unwrap_or_default(),
            name: place.name,
        };
        let request = AccessRequest { verb: "create".into(), target };
        match self.cluster.authorize(user, &request) {
            Decision { allowed: true, .. } => Ok(()),
            Decision { reason, .. } => Err(ApiError::forbidden("", "pods", place.name, &reason)),
        }
    }

    /// Returns the location of `exec`, `attach` or `portforward` on the kubelet of the pod.
    /// `container` is the one that the request names, and `query` that of the location.
    ///
    /// # Errors
    /// 404 if there is no such pod or node; 400 if there is no such container, if the pod is on no
    /// node, or if the address is not allowed; 500 if the node has no kubelet.
    pub(crate) fn stream_location(
        &self,
        container: Option<&str>,
        query: String,
        reach: Reach,
    ) -> Result<Location, ApiError> {
        let (place, pod) = (self.place, self.pod()?);
        let of_container = match place.part {
            "portforward" => String::new(),
            _ => format!("/{}", container_of(&pod, place.name, container)?),
        };
        let node = text(&pod, "/spec/nodeName");
        if node.is_empty() {
            return Err(self.unplaced());
        }
        let origin = self.kubelet(node, reach)?;
        // The kubelet's path differs from ours in one letter.
        let part = if place.part == "portforward" { "portForward" } else { place.part };
        let path = format!("/{part}/{}/{}{of_container}", place.namespace.unwrap_or_default(), place.name);
        Ok(Location { origin, path, query })
    }

    /// Returns the location of a log on the kubelet of the pod, or `None` if the pod is on no node
    /// yet: its log is empty (`LogLocation` in k8s.io/kubernetes v1.36.4
    /// pkg/registry/core/pod/strategy.go).
    ///
    /// # Errors
    /// Those of [`Self::stream_location`].
    pub(crate) fn log_location(
        &self,
        container: Option<&str>,
        query: String,
        reach: Reach,
    ) -> Result<Option<Location>, ApiError> {
        let (place, pod) = (self.place, self.pod()?);
        let container = container_of(&pod, place.name, container)?;
        let node = text(&pod, "/spec/nodeName");
        if node.is_empty() {
            return Ok(None);
        }
        let origin = self.kubelet(node, reach)?;
        let path =
            format!("/containerLogs/{}/{}/{container}", place.namespace.unwrap_or_default(), place.name);
        Ok(Some(Location { origin, path, query }))
    }

    /// Returns the error of a connection to a pod that is on no node.
    pub(super) fn unplaced(&self) -> ApiError {
        ApiError::bad_request(format!("pod {} does not have a host assigned", self.place.name))
    }

    /// Returns the address of the kubelet of a node: the first one on the loopback, in the order of
    /// [`ADDRESS_TYPES`], or else the first one that the server may connect to.
    ///
    /// kube-apiserver takes the first one of all (`GetPreferredNodeAddress` in k8s.io/kubernetes
    /// v1.36.4 pkg/util/node/node.go). That is the name of the node, which no resolver knows if its
    /// kubelet runs on this machine.
    ///
    /// # Errors
    /// 404 if there is no such node, 500 if it has no kubelet, 400 if its address is not allowed.
    pub(super) fn kubelet(&self, node: &str, reach: Reach) -> Result<Origin, ApiError> {
        let key = ObjectKey::from_parts(None, node).ok();
        let found = key.and_then(|key| self.cluster.store().get(&"/nodes".into(), &key));
        let found = found.ok_or_else(|| ApiError::not_found("", "nodes", node))?.to_value();
        let addresses = || {
            let known = items(&found, "/status/addresses");
            ADDRESS_TYPES
                .iter()
                .flat_map(move |kind| known.iter().filter(move |it| text(it, "/type") == *kind))
                .map(|it| text(it, "/address"))
        };
        let Some(preferred) = addresses().next() else {
            return Err(ApiError::internal(format!(
                "error dialing backend: node {node:?} has no kubelet: its status has no address, so {} is not available",
                self.place.part
            )));
        };
        let refused = || {
            let address = addresses().find(|it| it.parse::<IpAddr>().is_ok());
            let reason = reach.refusal(address.unwrap_or(preferred));
            ApiError::bad_request(format!("the kubelet of node {node} has an {reason}"))
        };
        let near = addresses().find(|it| Reach::Loopback.permits(it));
        let host = near.or_else(|| addresses().find(|it| reach.permits(it))).ok_or_else(refused)?;
        let port = number(&found, "/status/daemonEndpoints/kubeletEndpoint/Port");
        let port = port.and_then(|it| u16::try_from(it).ok()).filter(|it| *it > 0);
        Ok(Origin { protocol: Protocol::Https, host: host.to_owned(), port: port.unwrap_or(KUBELET_PORT) })
    }

    fn pod(&self) -> Result<Value, ApiError> {
        self.current().map(|it| it.to_value())
    }

    fn current(&self) -> Result<Arc<Encoded>, ApiError> {
        let (kind, name) = (self.place.kind, self.place.name);
        self.cluster.store().get(&kind.collection, &self.place.key()?).ok_or_else(|| kind.not_found(name))
    }

    /// Returns the error of a subresource that is neither stored nor a connection.
    pub(super) fn refuse(&self) -> ApiError {
        match self.current() {
            Ok(_) => ApiError::new(
                Reason::MethodNotAllowed,
                format!("the subresource {} cannot be read or written as an object", self.place.part),
            ),
            Err(refusal) => refusal,
        }
    }
}

/// Returns the name of the container of a request: the one that it names, or the only one.
///
/// # Errors
/// 400 if there is no such container, or none is named and the pod has several (`validateContainer`
/// in k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/strategy.go).
fn container_of<'a>(pod: &'a Value, name: &str, container: Option<&'a str>) -> Result<&'a str, ApiError> {
    let lists = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
    let names = || lists.iter().flat_map(|it| items(pod, it)).map(|it| text(it, "/name"));
    if let Some(container) = container.filter(|it| !it.is_empty()) {
        return match names().find(|it| *it == container) {
            Some(found) => Ok(found),
            None => Err(ApiError::bad_request(format!("container {container} is not valid for pod {name}"))),
        };
    }
    // Init containers do not make the choice ambiguous: kube-apiserver takes the only regular
    // container.
    match items(pod, "/spec/containers") {
        [only] => Ok(text(only, "/name")),
        [] => Err(ApiError::bad_request(format!("a container name must be specified for pod {name}"))),
        _ => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names().collect::<Vec<_>>().join(" ")
        ))),
    }
}

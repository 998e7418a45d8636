//! Requests that need the kubelet of a node: logs, and connections into pods. All are rejected,
//! since no kubelet runs containers for this server. The messages about pods are those of
//! k8s.io/kubernetes v1.36.4 pkg/registry/core/pod.

use std::sync::Arc;

use dogwatch_core::{ObjectKey, Reason};

use super::{Cluster, ObjectRef};
use crate::ApiError;
use crate::authorization::{AccessRequest, AccessTarget, Decision};
use crate::kinds::json_access::{items, text};
use crate::kinds::{POD, SERVICE};
use crate::store::Encoded;
use crate::user::User;

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

    /// Returns the error of a request that needs a connection: `exec`, `attach`, `portforward` or
    /// `proxy`.
    pub(crate) fn refuse_connection(&self, container: Option<&str>) -> ApiError {
        self.check_container(container).map_or_else(|refusal| refusal, |()| self.refuse())
    }

    /// Returns the error of a request that is about no container.
    pub(super) fn refuse(&self) -> ApiError {
        self.current().map_or_else(|refusal| refusal, |current| self.unreachable(&current))
    }

    /// Returns true for the log of a pod that is on no node yet: it is empty (`LogLocation` in
    /// k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/strategy.go).
    pub(crate) fn is_log_before_start(&self) -> bool {
        let has_no_node = |it: &Arc<Encoded>| it.field("spec.nodeName").unwrap_or_default().is_empty();
        self.place.part == "log"
            && self.place.kind.is(&POD)
            && self.current().is_ok_and(|it| has_no_node(&it))
    }

    /// Checks that the container of a request is one of the pod. Passes for subresources that are
    /// not about a container.
    ///
    /// # Errors
    /// 404 if there is no such pod; 400 if there is no such container, or none is named and the pod
    /// has several.
    pub(crate) fn check_container(&self, container: Option<&str>) -> Result<(), ApiError> {
        let place = self.place;
        if !matches!(place.part, "log" | "exec" | "attach") {
            return Ok(());
        }
        let pod = self.current()?.to_value();
        let lists = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
        let names: Vec<&str> =
            lists.iter().flat_map(|it| items(&pod, it)).map(|it| text(it, "/name")).collect();
        match container.filter(|it| !it.is_empty()) {
            Some(name) if !names.contains(&name) => {
                Err(ApiError::bad_request(format!("container {name} is not valid for pod {}", place.name)))
            }
            // Init containers do not make the choice ambiguous: kube-apiserver takes the only
            // regular container.
            None if items(&pod, "/spec/containers").len() > 1 => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                place.name,
                names.join(" ")
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the error of reading from inside a pod, a node or a service.
    pub(super) fn unreachable(&self, current: &Encoded) -> ApiError {
        let place = self.place;
        let node = if place.kind.is(&POD) {
            current.field("spec.nodeName").unwrap_or_default()
        } else {
            current.key().name()
        };
        if place.kind.is(&SERVICE) {
            let message = format!("no endpoints available for service {:?}", place.name);
            return ApiError::new(Reason::ServiceUnavailable, message);
        }
        if node.is_empty() {
            return ApiError::bad_request(format!("pod {} does not have a host assigned", place.name));
        }
        let found = ObjectKey::from_parts(None, node).ok();
        match found.and_then(|key| self.cluster.store().get(&"/nodes".into(), &key)) {
            None => ApiError::not_found("", "nodes", node),
            Some(_) => ApiError::internal(format!(
                "error dialing backend: node {node:?} has no kubelet: this server runs no containers, so {} is not available",
                place.part
            )),
        }
    }

    fn current(&self) -> Result<Arc<Encoded>, ApiError> {
        let (kind, name) = (self.place.kind, self.place.name);
        self.cluster.store().get(&kind.collection, &self.place.key()?).ok_or_else(|| kind.not_found(name))
    }
}

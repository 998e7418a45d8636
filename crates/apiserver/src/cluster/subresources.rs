//! Reads of subresources, and the creation of those with behaviour of their own: bindings, evictions,
//! tokens. The messages about pods are those of k8s.io/kubernetes v1.36.4 pkg/registry/core/pod.

use std::sync::Arc;

use dogwatch_core::Reason;
use serde_json::Value;

use super::{Cluster, ObjectRef, ResponseObject, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::json_access::{items, text};
use crate::kinds::{POD, SERVICE};
use crate::store::Encoded;

impl Cluster {
    /// Returns an object, or a subresource such as its Scale.
    ///
    /// # Errors
    /// 404 if there is no such object; the error of reading the subresource.
    pub async fn read_part(&self, place: &ObjectRef<'_>) -> Result<ResponseObject, ApiError> {
        let current = self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
        match place.part {
            "scale" => self.read_scale(place, &current).await.map(ResponseObject::Value),
            "log" => Err(self.unreachable(place, &current)),
            _ => self.conversion().ready_to_respond(place.kind, ResponseObject::Stored(current)).await,
        }
    }

    /// Returns the error of a request that needs a connection to a pod, a service or a node:
    /// `exec`, `attach`, `portforward` or `proxy`. There always is one, since no kubelet runs
    /// containers for this server.
    pub fn refuse_connection(&self, place: &ObjectRef<'_>, container: Option<&str>) -> ApiError {
        let refuse = || {
            self.check_container(place, container)?;
            self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))
        };
        refuse().map_or_else(|refusal| refusal, |current| self.unreachable(place, &current))
    }

    /// Checks that the container of a request is one of the pod. Passes for subresources that are
    /// not about a container.
    ///
    /// # Errors
    /// 404 if there is no such pod; 400 if there is no such container, or none is named and the pod
    /// has several.
    pub fn check_container(&self, place: &ObjectRef<'_>, container: Option<&str>) -> Result<(), ApiError> {
        if !matches!(place.part, "log" | "exec" | "attach") {
            return Ok(());
        }
        let pod =
            self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?.to_value();
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

    /// Returns the error of reading from inside a pod, a node or a service: no kubelet runs here.
    fn unreachable(&self, place: &ObjectRef<'_>, current: &Arc<Encoded>) -> ApiError {
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
        let found = dogwatch_core::ObjectKey::from_parts(None, node).ok();
        match found.and_then(|key| self.store().get(&"/nodes".into(), &key)) {
            None => ApiError::not_found("", "nodes", node),
            Some(_) => ApiError::internal(format!(
                "error dialing backend: node {node:?} has no kubelet: this server runs no containers, so {} is not available",
                place.part
            )),
        }
    }

    /// Executes the creation of a subresource.
    pub(super) async fn create_part(
        &self,
        place: &ObjectRef<'_>,
        object: Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let misnamed = text(&object, "/metadata/name") != place.name;
        let about =
            |what: &str| ApiError::bad_request(format!("name in URL does not match name in {what} object"));
        match place.part {
            "binding" if misnamed => Err(about("Binding")),
            "binding" => self.bind(place, place.name, &object, writer).await,
            "eviction" if misnamed => Err(about("Eviction")),
            "eviction" => self.evict(place, &object, writer).await,
            "token" => self.tokens().request(&place.key()?, &object).map(|it| WriteOutcome::value(it, true)),
            _ => Err(self.unreachable(
                place,
                &self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?,
            )),
        }
    }
}

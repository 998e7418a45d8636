//! The binding of a pod to a node. The messages are those of k8s.io/kubernetes v1.36.4
//! pkg/registry/core/pod/storage/storage.go.

use serde_json::{Value, json};

use super::admission_plugins::labels_of_node;
use super::commit::{ATTEMPTS, Attempt};
use super::conflict::check_stored;
use super::object_fields::{metadata_mut, object_mut, set_condition, success};
use super::write::{Owning, Write};
use super::{Cluster, ObjectRef, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::json_access::{at, entries, items, text};

impl Cluster {
    /// Assigns a pod to a node. The uid and the version of the binding, if any, must be those of
    /// the pod.
    pub(super) async fn bind(
        &self,
        place: &ObjectRef<'_>,
        pod: &str,
        binding: &Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let pods =
            self.catalog().kind("", "v1", "pods").ok_or_else(|| ApiError::internal("there are no pods"))?;
        let key = place.key_of(pod)?;
        let pod_place = ObjectRef::of(&pods, &key).part("binding");
        let node = text(binding, "/target/name");
        check_target(text(binding, "/target/kind"), node)?;
        let wanted = (text(binding, "/metadata/uid"), text(binding, "/metadata/resourceVersion"));
        for _ in 0..ATTEMPTS {
            let current = self.get(&pods, &key).ok_or_else(|| pods.not_found(pod))?;
            check_stored(&pods, &key, wanted, Some(&current))?;
            let old = current.to_value();
            let refused = |why: String| ApiError::conflict("", "pods/binding", pod, &why);
            if at(&old, "/metadata/deletionTimestamp").is_some() {
                return Err(refused(format!("pod {pod} is being deleted, cannot be assigned to a host")));
            }
            if !text(&old, "/spec/nodeName").is_empty() {
                let assigned = text(&old, "/spec/nodeName");
                return Err(refused(format!("pod {pod} is already assigned to node {assigned:?}")));
            }
            if !items(&old, "/spec/schedulingGates").is_empty() {
                return Err(refused(format!("pod {pod} has non-empty .spec.schedulingGates")));
            }
            let mut new = old.clone();
            object_mut(&mut new, "spec").insert("nodeName".to_owned(), node.into());
            object_mut(&mut new, "status").remove("nominatedNodeName");
            for (pointer, field) in [("/metadata/annotations", "annotations"), ("/metadata/labels", "labels")]
            {
                for (name, value) in entries(binding, pointer) {
                    let metadata = metadata_mut(&mut new);
                    crate::kinds::json_access::object(metadata, field).insert(name.to_owned(), value.clone());
                }
            }
            let topology = labels_of_node(self, node);
            if !topology.is_empty() {
                crate::kinds::json_access::object(metadata_mut(&mut new), "labels").extend(topology);
            }
            set_condition(
                &mut new,
                json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": self.source.stamp() }),
            );
            let write = Write::change(self, &pod_place, (&current, &old), new, writer);
            match write.owning(Owning::Settled).attempt().await? {
                Attempt::Done(_) => return Ok(WriteOutcome::value(success(), true)),
                Attempt::Again => {}
            }
        }
        Err(pods.modified(pod))
    }
}

/// Checks the target of a binding: `ValidatePodBinding` in k8s.io/kubernetes v1.36.4
/// pkg/apis/core/validation/validation.go.
fn check_target(kind: &str, name: &str) -> Result<(), ApiError> {
    let kind = (!matches!(kind, "" | "Node"))
        .then(|| format!(r#"target.kind: Unsupported value: {kind:?}: supported values: "Node", "<empty>""#));
    let name = name.is_empty().then(|| "target.name: Required value".to_owned());
    let problems: Vec<String> = kind.into_iter().chain(name).collect();
    match problems.as_slice() {
        [] => Ok(()),
        [problem] => Err(ApiError::unexplained(problem.clone())),
        several => Err(ApiError::unexplained(format!("[{}]", several.join(", ")))),
    }
}

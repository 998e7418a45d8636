//! Resources at the level of a pod, and the resources of its containers together.
//!
//! Mirrors k8s.io/component-helpers v0.36.4 resource/helpers.go.

use serde_json::Value;

use crate::kinds::json_access::text;
use crate::kinds::resource_list::ResourceList;

/// Returns the resources of the containers of a pod: their sum, or the largest of its init
/// containers if more. `of` returns the resources of one container.
pub(crate) fn of_containers(
    containers: &[Value],
    init: &[Value],
    of: impl Fn(&Value) -> ResourceList,
) -> ResourceList {
    let mut total = ResourceList::default();
    for container in containers {
        total.add(&of(container));
    }
    let (mut sidecars, mut first) = (ResourceList::default(), ResourceList::default());
    for container in init {
        let amounts = of(container);
        let is_sidecar = text(container, "/restartPolicy") == "Always";
        // Only the resources of this container: what the sidecars before it have of others is in
        // `first` already.
        for (name, amount) in amounts.iter() {
            let together = match sidecars.get(name) {
                Some(before) if is_sidecar => before.plus(amount),
                Some(before) => amount.plus(before),
                None => amount,
            };
            first.raise(name, together);
            if is_sidecar {
                sidecars.set(name, together);
            }
        }
        if is_sidecar {
            total.add(&amounts);
        }
    }
    total.raise_to(&first);
    total
}

/// Returns true if a resource can be set at the level of a pod.
pub(crate) fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// Returns true if a resource is memory in pages of a certain size.
pub(super) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Returns true if the limit of a resource may be more than its request.
pub(super) fn is_overcommitted(name: &str) -> bool {
    !is_huge_pages(name) && (!name.contains('/') || name.contains("kubernetes.io/"))
}

//! The resources that a pod requests as a whole, computed from those of its containers.

use std::collections::HashMap;

use serde_json::Value;

use super::ResourceList;
use crate::kinds::json_access::{at, items, text};

/// The side of the resources of a container: requests or limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Requests,
    Limits,
}

impl Side {
    fn field(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Returns the resources in the spec of a pod: the sum of its containers, or the largest of its
/// init containers if more.
pub(super) fn wanted(pod: &Value, side: Side) -> ResourceList {
    summed(pod, side, |container| ResourceList::at(container, &format!("/resources/{}", side.field())))
}

/// Returns the resources that a pod occupies: those in its spec or, while it is being resized,
/// those it still has where these are more.
pub(super) fn occupied(pod: &Value, side: Side) -> ResourceList {
    let infeasible = items(pod, "/status/conditions")
        .iter()
        .any(|it| text(it, "/type") == "PodResizePending" && text(it, "/reason") == "Infeasible");
    let statuses =
        items(pod, "/status/containerStatuses").iter().chain(items(pod, "/status/initContainerStatuses"));
    let mut by_name = HashMap::new();
    for status in statuses.filter(|it| at(it, "/resources").is_some()) {
        by_name.entry(text(status, "/name")).or_insert(status);
    }
    let mut total = summed(pod, side, |container| {
        let wanted = ResourceList::at(container, &format!("/resources/{}", side.field()));
        let Some(status) = by_name.get(text(container, "/name")) else { return wanted };
        let mut amounts = if infeasible { ResourceList::default() } else { wanted };
        amounts.raise_to(&ResourceList::at(status, &format!("/resources/{}", side.field())));
        if side == Side::Requests {
            amounts.raise_to(&ResourceList::at(status, "/allocatedResources"));
        }
        amounts
    });
    let overhead = ResourceList::at(pod, "/spec/overhead");
    total.add(&match side {
        Side::Requests => overhead,
        // The overhead does not add a limit to a resource that has none.
        Side::Limits => overhead.filter(|name, _| total.get(name).is_some_and(|it| !it.is_zero())),
    });
    total
}

fn summed(pod: &Value, side: Side, of: impl Fn(&Value) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::default();
    for container in items(pod, "/spec/containers") {
        total.add(&of(container));
    }
    let (mut sidecars, mut first) = (ResourceList::default(), ResourceList::default());
    for container in items(pod, "/spec/initContainers") {
        let amounts = of(container);
        let is_sidecar = text(container, "/restartPolicy") == "Always";
        if is_sidecar {
            total.add(&amounts);
            sidecars.add(&amounts);
        }
        // Only the names of this container are raised: `first` is at least the sum of the sidecars
        // for all others already, and visiting them would cost the product of containers and names.
        for (name, amount) in amounts.iter() {
            let with_sidecars = match sidecars.get(name) {
                Some(sum) if is_sidecar => sum,
                Some(sum) => amount.plus(sum),
                None => amount,
            };
            first.raise(name, with_sidecars);
        }
    }
    total.raise_to(&first);
    for (name, amount) in ResourceList::at(pod, &format!("/spec/resources/{}", side.field())).iter() {
        if is_of_pods(name) {
            total.set(name, amount);
        }
    }
    total
}

/// Returns true if a pod sets resources at the level of the pod.
pub(super) fn has_pod_level_resources(pod: &Value) -> bool {
    ["requests", "limits"]
        .iter()
        .any(|it| ResourceList::at(pod, &format!("/spec/resources/{it}")).names().any(is_of_pods))
}

fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns the sum as `PodRequests` of k8s.io/component-helpers v0.36.4 resource/helpers.go
    /// computes it, which raises all names for each init container.
    fn plainly_summed(pod: &Value) -> ResourceList {
        let of = |container: &Value| ResourceList::at(container, "/resources/requests");
        let mut total = ResourceList::default();
        items(pod, "/spec/containers").iter().for_each(|it| total.add(&of(it)));
        let (mut sidecars, mut first) = (ResourceList::default(), ResourceList::default());
        for container in items(pod, "/spec/initContainers") {
            let mut amounts = of(container);
            if text(container, "/restartPolicy") == "Always" {
                total.add(&amounts);
                sidecars.add(&amounts);
                first.raise_to(&sidecars);
            } else {
                amounts.add(&sidecars);
                first.raise_to(&amounts);
            }
        }
        total.raise_to(&first);
        total
    }

    fn any_container() -> impl Strategy<Value = Value> {
        let amount = prop_oneof![
            Just("0"),
            Just("1"),
            Just("500m"),
            Just("1000m"),
            Just("2"),
            Just("1Ki"),
            Just("-1")
        ];
        let amounts = prop::collection::btree_map("[a-d]", amount, 0..4);
        (amounts, any::<bool>()).prop_map(|(amounts, is_sidecar)| {
            let policy = if is_sidecar { "Always" } else { "" };
            json!({ "restartPolicy": policy, "resources": { "requests": amounts } })
        })
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_raising_all_names_for_each_init_container(
            containers in prop::collection::vec(any_container(), 0..3),
            first in prop::collection::vec(any_container(), 0..6),
        ) {
            let pod = json!({ "spec": { "containers": containers, "initContainers": first } });
            prop_assert_eq!(wanted(&pod, Side::Requests), plainly_summed(&pod));
        }
    }

    fn container(cpu: &str) -> Value {
        json!({ "name": cpu, "resources": { "requests": { "cpu": cpu } } })
    }

    #[test]
    fn containers_are_summed_and_init_containers_count_by_the_largest() {
        let mut side = container("3");
        side["restartPolicy"] = "Always".into();
        for (first, expected) in [
            (json!([]), "cpu=3"),
            (json!([container("5"), container("4")]), "cpu=5"),
            (json!([side.clone()]), "cpu=6"),
            (json!([side, container("4")]), "cpu=7"),
        ] {
            let spec = json!({ "containers": [container("1"), container("2")], "initContainers": first });
            let pod = json!({ "spec": spec });
            assert_eq!(wanted(&pod, Side::Requests).described(), expected, "{first}");
        }
    }

    #[test]
    fn pod_level_resources_replace_those_of_containers_and_overhead_is_added() {
        let mut pod = json!({ "spec": { "containers": [container("1")],
            "resources": { "requests": { "cpu": "2" } }, "overhead": { "cpu": "100m", "memory": "1Mi" } } });
        assert!(has_pod_level_resources(&pod));
        assert_eq!(occupied(&pod, Side::Requests).described(), "cpu=2100m,memory=1Mi");
        assert_eq!(occupied(&pod, Side::Limits).described(), "", "a resource without a limit gets none");
        pod["spec"]["resources"] = json!({});
        assert!(!has_pod_level_resources(&pod));
    }

    #[test]
    fn a_pod_that_is_being_resized_occupies_what_it_has_or_what_it_requests() {
        let status = json!({ "name": "1", "resources": { "requests": { "cpu": "4" } }, "allocatedResources": { "cpu": "5" } });
        let mut pod = json!({ "spec": { "containers": [container("1")] }, "status": { "containerStatuses": [status] } });
        assert_eq!(occupied(&pod, Side::Requests).described(), "cpu=5");
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9".into();
        assert_eq!(occupied(&pod, Side::Requests).described(), "cpu=9");
        pod["status"]["conditions"] = json!([{ "type": "PodResizePending", "reason": "Infeasible" }]);
        assert_eq!(occupied(&pod, Side::Requests).described(), "cpu=5");
    }
}

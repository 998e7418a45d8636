//! The resources that a pod requests as a whole, computed from those of its containers.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::ResourceList;
use crate::kinds::core::pod::resources::{is_of_pods, of_containers};
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
    // The status of an init container counts only if it is a sidecar, which runs with the pod
    // (`AggregateContainerRequests` in k8s.io/component-helpers v0.36.4 resource/helpers.go).
    let init = items(pod, "/spec/initContainers").iter();
    let ended: HashSet<&str> =
        init.filter(|it| text(it, "/restartPolicy") != "Always").map(|it| text(it, "/name")).collect();
    let mut by_name = HashMap::new();
    for status in statuses.filter(|it| at(it, "/resources").is_some() && !ended.contains(text(it, "/name"))) {
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
    let mut total = of_containers(items(pod, "/spec/containers"), items(pod, "/spec/initContainers"), of);
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

    #[test]
    fn the_status_of_an_init_container_counts_only_if_it_is_a_sidecar() {
        let status = |cpu: &str| json!({ "name": cpu, "resources": { "requests": { "cpu": "9" } } });
        let mut pod = json!({ "spec": { "containers": [container("1")], "initContainers": [container("2")] },
            "status": { "initContainerStatuses": [status("2")] } });
        assert_eq!(occupied(&pod, Side::Requests).described(), "cpu=2");
        pod["spec"]["initContainers"][0]["restartPolicy"] = "Always".into();
        assert_eq!(occupied(&pod, Side::Requests).described(), "cpu=10");
    }

    #[test]
    fn the_resources_of_a_pod_cost_in_proportion_to_its_containers() {
        let time = |count: usize, init: bool| {
            let resources = |it: usize| json!({ "requests": { (format!("example.com/r{it}")): "1" } });
            let one = |it: usize| json!({ "name": format!("c{it}"), "restartPolicy": "Always", "resources": resources(it) });
            let all: Vec<Value> = (0..count).map(one).collect();
            let list = if init { "initContainers" } else { "containers" };
            let pod = json!({ "spec": { list: all }, "status": { "containerStatuses": all } });
            let start = cpu_time::ThreadTime::now();
            assert_eq!(occupied(&pod, Side::Requests).names().count(), count);
            start.elapsed().as_secs_f64()
        };
        for init in [false, true] {
            let (small, large) = (time(1_000, init), time(8_000, init));
            assert!(large < 24.0 * small.max(0.002), "{small} s and {large} s");
        }
    }
}

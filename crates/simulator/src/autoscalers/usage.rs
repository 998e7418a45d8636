//! The use of resources by pods. There is no metrics API: the numbers come from annotations, or are
//! half of what a pod requests.

use serde_json::Value;

use crate::condition;
use crate::json_access::{at, items, text};
use crate::object::Pod;
use crate::quantity::parse;

/// The part of pods that a metric is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured<'a> {
    /// The name of the resource, such as `cpu`.
    pub(super) resource: &'a str,
    /// The name of the container; `None` for all of them.
    pub(super) container: Option<&'a str>,
}

/// The use of a resource by a pod.
#[derive(Debug)]
pub(super) struct PodUse<'a> {
    pub(super) pod: &'a Pod,
    /// In thousandths; `None` if the pod does not run.
    pub(super) amount: Option<i128>,
}

/// Returns the use of a resource by each of the pods of an autoscaler: what the annotation
/// `simulator.dogwatch.dev/RESOURCE-usage` of the pod names; or else an equal share of
/// `simulator.dogwatch.dev/RESOURCE-load` of the autoscaler; or else half of the pod's request.
pub(super) fn of_pods<'a>(
    autoscaler: &Value,
    pods: &'a [&'a Pod],
    measured: Measured<'_>,
) -> Result<Vec<PodUse<'a>>, String> {
    let Measured { resource, container } = measured;
    let load = annotated(autoscaler, &format!("{resource}-load"))?;
    // A service sends no requests to pods that are not ready.
    let serves = |pod: &Pod| runs(pod) && condition::is_true(pod, "Ready");
    let ready = i128::try_from(pods.iter().filter(|it| serves(it)).count()).unwrap_or(i128::MAX);
    let share = |pod: &Pod| match load {
        Some(load) if serves(pod) => load.checked_div(ready),
        Some(_) => Some(0),
        None => None,
    };
    let mut all = Vec::with_capacity(pods.len());
    for pod in pods {
        if !runs(pod) {
            all.push(PodUse { pod, amount: None });
            continue;
        }
        let requested = requested_by_all(pod, resource);
        let own = annotated(pod, &format!("{resource}-usage"))?.or_else(|| share(pod));
        let total = own.unwrap_or(requested / 2);
        let amount = match container {
            None => total,
            Some(name) => part_of_container(pod, resource, name, total, requested)?,
        };
        all.push(PodUse { pod, amount: Some(amount) });
    }
    Ok(all)
}

/// Returns the part of a pod's use that is that of a container: by its part of the request, or an
/// equal one if the pod requests nothing.
fn part_of_container(
    pod: &Pod,
    resource: &str,
    container: &str,
    total: i128,
    requested: i128,
) -> Result<i128, String> {
    let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
    let of_name = |it: &&Value| text(it, "/name") == container;
    let found = running_containers(pod).find(of_name);
    let missing = || format!("container {container} not present in metrics for pod {namespace}/{name}");
    let own = request_of(found.ok_or_else(missing)?, resource).unwrap_or(0);
    let count = i128::try_from(running_containers(pod).count()).unwrap_or(i128::MAX);
    let by_request = total.saturating_mul(own).checked_div(requested);
    Ok(by_request.or_else(|| total.checked_div(count)).unwrap_or(0))
}

/// Returns the request of a pod for a resource, in thousandths. All measured containers have to
/// have one: `calculatePodRequests` in k8s.io/kubernetes v1.36.4
/// pkg/controller/podautoscaler/replica_calculator.go.
pub(super) fn request(pod: &Pod, measured: Measured<'_>) -> Result<i128, String> {
    let Measured { resource, container } = measured;
    if let (Some(amount), None) = (request_of(&pod["spec"], resource), container) {
        return Ok(amount);
    }
    let counted = running_containers(pod).filter(|it| container.is_none_or(|name| text(it, "/name") == name));
    counted.into_iter().try_fold(0_i128, |sum, it| {
        let missing = || {
            let (container, pod) = (text(it, "/name"), text(pod, "/metadata/name"));
            format!("missing request for {resource} in container {container} of Pod {pod}")
        };
        Ok(sum.saturating_add(request_of(it, resource).ok_or_else(missing)?))
    })
}

fn requested_by_all(pod: &Pod, resource: &str) -> i128 {
    let of_containers = || {
        running_containers(pod).filter_map(|it| request_of(it, resource)).fold(0_i128, i128::saturating_add)
    };
    request_of(&pod["spec"], resource).unwrap_or_else(of_containers)
}

/// Returns the containers that run as long as the pod does.
fn running_containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let sidecars = items(pod, "/spec/initContainers").iter();
    let sidecars = sidecars.filter(|it| text(it, "/restartPolicy") == "Always");
    items(pod, "/spec/containers").iter().chain(sidecars)
}

fn request_of(of: &Value, resource: &str) -> Option<i128> {
    parse(at(of, "/resources/requests")?.get(resource)?.as_str()?)
}

fn runs(pod: &Pod) -> bool {
    text(pod, "/status/phase") == "Running"
}

/// Returns the amount in an annotation, in thousandths.
fn annotated(object: &Value, name: &str) -> Result<Option<i128>, String> {
    let name = format!("simulator.dogwatch.dev/{name}");
    let Some(written) = object["metadata"]["annotations"].get(&name).and_then(Value::as_str) else {
        return Ok(None);
    };
    let amount = parse(written).filter(|it| *it >= 0);
    let invalid = || {
        let of = text(object, "/metadata/name");
        format!("the annotation {name} of {of} has to be an amount such as 250m or 1Gi, not {written:?}")
    };
    amount.ok_or_else(invalid).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CPU: Measured<'static> = Measured { resource: "cpu", container: None };

    fn pod(annotations: Value, requests: &[Option<&str>], ready: bool) -> Pod {
        let containers: Vec<Value> = requests
            .iter()
            .enumerate()
            .map(|(at, cpu)| json!({ "name": format!("c{at}"), "resources": { "requests": { "cpu": cpu } } }))
            .collect();
        let ready = if ready { "True" } else { "False" };
        Pod::from(json!({ "metadata": { "name": "p", "namespace": "n", "annotations": annotations },
            "spec": { "containers": containers },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] } }))
    }

    fn uses(autoscaler: Value, pods: &[Pod], measured: Measured<'_>) -> Result<Vec<Option<i128>>, String> {
        let pods: Vec<&Pod> = pods.iter().collect();
        let autoscaler = json!({ "metadata": { "name": "web", "annotations": autoscaler } });
        Ok(of_pods(&autoscaler, &pods, measured)?.iter().map(|it| it.amount).collect())
    }

    #[test]
    fn a_pod_uses_what_its_annotation_says_or_a_share_of_the_load_or_half_of_its_request() {
        let own = || pod(json!({ "simulator.dogwatch.dev/cpu-usage": "80m" }), &[Some("1")], true);
        let plain = || pod(json!({}), &[Some("100m"), Some("300m")], true);
        let load = json!({ "simulator.dogwatch.dev/cpu-load": "2" });
        let pending = Pod::from(json!({ "status": { "phase": "Pending" } }));
        let unready = pod(json!({}), &[Some("1")], false);
        let pods = [own(), plain(), pending, unready, pod(json!({}), &[None], true)];
        assert_eq!(uses(json!({}), &pods, CPU), Ok(vec![Some(80), Some(200), None, Some(500), Some(0)]));
        assert_eq!(uses(load, &pods, CPU), Ok(vec![Some(80), Some(666), None, Some(0), Some(666)]));
    }

    #[test]
    fn a_container_uses_its_part_of_the_pod() {
        let of = |name: &'static str| Measured { resource: "cpu", container: Some(name) };
        let annotated = json!({ "simulator.dogwatch.dev/cpu-usage": "800m" });
        let pods = [pod(annotated.clone(), &[Some("100m"), Some("300m")], true)];
        assert_eq!(uses(json!({}), &pods, of("c0")), Ok(vec![Some(200)]));
        assert_eq!(uses(json!({}), &pods, of("c1")), Ok(vec![Some(600)]));
        assert_eq!(request(&pods[0], of("c1")), Ok(300));
        let message = "container c7 not present in metrics for pod n/p";
        assert_eq!(uses(json!({}), &pods, of("c7")), Err(message.to_owned()));
        assert_eq!(uses(json!({}), &[pod(annotated, &[None, None], true)], of("c0")), Ok(vec![Some(400)]));
    }

    #[test]
    fn a_request_needs_all_containers_and_a_missing_one_is_named() {
        assert_eq!(request(&pod(json!({}), &[Some("100m"), Some("1")], true), CPU), Ok(1100));
        let message = "missing request for cpu in container c1 of Pod p";
        assert_eq!(request(&pod(json!({}), &[Some("1"), None], true), CPU), Err(message.to_owned()));
        let whole = Pod::from(json!({ "spec": { "containers": [{ "name": "c" }],
            "resources": { "requests": { "cpu": "2" } } } }));
        assert_eq!(request(&whole, CPU), Ok(2000));
    }

    #[test]
    fn an_annotation_that_is_no_amount_is_an_error() {
        for written in ["much", "-1"] {
            let pods = [pod(json!({ "simulator.dogwatch.dev/cpu-usage": written }), &[Some("1")], true)];
            let error = uses(json!({}), &pods, CPU).expect_err("not an amount");
            assert!(error.contains("cpu-usage of p") && error.contains(written), "{error}");
        }
        assert!(uses(json!({ "simulator.dogwatch.dev/cpu-load": "x" }), &[], CPU).is_err());
    }
}

//! Limit ranges: defaults for containers without requests and limits, and bounds for pods and
//! claims.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/limitranger/admission.go.

use std::cell::OnceCell;
use std::collections::HashSet;

use serde_json::Value;

use super::ResourceList;
use super::pod::{self, Side};
use crate::kinds::json_access::{each, items, object, text};
use crate::kinds::quantity::Quantity;
use crate::kinds::rules::Accounting;

/// The annotation that records which defaults a pod was given.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The number of bytes that the annotations of an object may hold.
const MAX_ANNOTATION: usize = 256 * 1024;
/// The largest quantity that is compared in thousandths, `resource.MaxMilliValue`: an `i64` holds
/// no larger one.
const MAX_MILLI_VALUE: i128 = (i64::MAX / 1000) as i128;

/// The number of violations that are looked for. kube-apiserver finds all: one for each container
/// and each name of a range.
const MAX_FOUND: usize = 10_000;
/// The number of different violations that a message shows.
const MAX_SHOWN: usize = 1_000;
/// The size of the violations in a message, in bytes, from which on no more are added.
const MAX_BYTES: usize = 1024 * 1024;

/// Sets the requests and limits that the containers of a pod leave out to the defaults of the
/// ranges of its namespace.
///
/// Stops when the annotation about the defaults is too long: validation rejects the pod then.
pub fn fill(pod: &mut Value, ranges: &[Value]) {
    for range in ranges {
        // The next range would replace the annotation, and the pod would be stored half filled.
        if !fill_from(pod, range) {
            return;
        }
    }
}

/// Fills in the defaults of one range. Returns false if there are too many.
fn fill_from(pod: &mut Value, range: &Value) -> bool {
    let (mut requests, mut limits) = (ResourceList::default(), ResourceList::default());
    for limit in items(range, "/spec/limits").iter().filter(|it| text(it, "/type") == "Container") {
        ResourceList::at(limit, "/defaultRequest").iter().for_each(|(name, it)| requests.set(name, it));
        ResourceList::at(limit, "/default").iter().for_each(|(name, it)| limits.set(name, it));
    }
    let Some(map) = pod.as_object_mut() else { return true };
    let mut changes = Vec::new();
    let spec = object(map, "spec");
    let mut length = 0_usize;
    'all: for (list, container_kind) in [("containers", "container"), ("initContainers", "init container")] {
        for container in each(spec, list) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            for (side, amounts) in [("request", &requests), ("limit", &limits)] {
                let field = format!("{side}s");
                let absent = |it: &str, container: &serde_json::Map<String, Value>| {
                    container
                        .get("resources")
                        .and_then(|of| of.get(&field))
                        .is_none_or(|of| of.get(it).is_none())
                };
                let missing = amounts.filter(|it, _| absent(it, container));
                if missing.is_empty() {
                    continue;
                }
                let slot = object(object(container, "resources"), &field);
                for (resource, amount) in missing.iter() {
                    slot.insert(resource.to_owned(), amount.canonical().into());
                }
                let named = missing.names().collect::<Vec<_>>().join(", ");
                let change = format!("{named} {side} for {container_kind} {name}");
                length = change.len().saturating_add(length);
                changes.push(change);
                // Validation rejects a pod with such an annotation. Filling in the rest would cost
                // the product of defaults and containers.
                if length > MAX_ANNOTATION {
                    break 'all;
                }
            }
        }
    }
    if !changes.is_empty() {
        let message = format!("LimitRanger plugin set: {}", changes.join("; "));
        object(object(map, "metadata"), "annotations").insert(ANNOTATION.to_owned(), message.into());
    }
    length <= MAX_ANNOTATION
}

/// Returns the message if a range rejects an object of a kind. Only pods and claims are limited.
pub fn refuse(accounting: Accounting, value: &Value, ranges: &[Value]) -> Option<String> {
    let of_pod = OnceCell::new();
    for range in ranges {
        let mut violations = Violations::default();
        for limit in items(range, "/spec/limits") {
            match (accounting, text(limit, "/type")) {
                (Accounting::Pod, "Container") => {
                    let bounds = Bounds::read("Container", limit);
                    let containers = items(value, "/spec/containers").iter();
                    for it in containers.chain(items(value, "/spec/initContainers")) {
                        if violations.left_out {
                            break;
                        }
                        let requests = ResourceList::at(it, "/resources/requests");
                        let limits = ResourceList::at(it, "/resources/limits");
                        bounds.check(&requests, &limits, &mut violations);
                    }
                }
                (Accounting::Pod, "Pod") => {
                    let (requests, limits) = of_pod.get_or_init(|| {
                        (pod::wanted(value, Side::Requests), pod::wanted(value, Side::Limits))
                    });
                    Bounds::read("Pod", limit).check(requests, limits, &mut violations);
                }
                (Accounting::Claim, "PersistentVolumeClaim") => check_claim(limit, value, &mut violations),
                _ => {}
            }
        }
        if let Some(message) = violations.message() {
            return Some(message);
        }
    }
    None
}

/// The violations of a range. Equal ones are shown once.
#[derive(Default)]
struct Violations {
    shown: Vec<String>,
    known: HashSet<String>,
    found: usize,
    bytes: usize,
    /// True if there are more, so that the rest can be skipped.
    left_out: bool,
}

impl Violations {
    /// Adds violations until there are too many.
    fn extend(&mut self, violations: impl Iterator<Item = String>) {
        for one in violations {
            if self.found >= MAX_FOUND || self.shown.len() >= MAX_SHOWN || self.bytes >= MAX_BYTES {
                self.left_out = true;
                return;
            }
            self.found = self.found.saturating_add(1);
            if !self.known.contains(&one) {
                self.bytes = self.bytes.saturating_add(one.len());
                self.known.insert(one.clone());
                self.shown.push(one);
            }
        }
    }

    fn message(mut self) -> Option<String> {
        if self.left_out {
            self.shown.push("more violations are not shown".to_owned());
        }
        match self.shown.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        }
    }
}

/// The bounds in a limit of a range.
struct Bounds<'a> {
    /// The type of the limit.
    what: &'a str,
    least: ResourceList,
    most: ResourceList,
    ratio: ResourceList,
}

impl<'a> Bounds<'a> {
    fn read(what: &'a str, limit: &Value) -> Self {
        let at = |pointer: &str| ResourceList::at(limit, pointer);
        Self { what, least: at("/min"), most: at("/max"), ratio: at("/maxLimitRequestRatio") }
    }

    fn check(&self, requests: &ResourceList, limits: &ResourceList, violations: &mut Violations) {
        let usage = Usage { what: self.what, requests, limits };
        let least = self.least.iter().filter_map(|(name, it)| usage.below_minimum(name, it));
        let most = self.most.iter().filter_map(|(name, it)| usage.above_maximum(name, it));
        let apart = self.ratio.iter().filter_map(|(name, it)| usage.above_ratio(name, it));
        violations.extend(least.chain(most).chain(apart));
    }
}

fn check_claim(limit: &Value, claim: &Value, violations: &mut Violations) {
    let what = "PersistentVolumeClaim";
    let requests = ResourceList::at(claim, "/spec/resources/requests");
    let usage = Usage { what, requests: &requests, limits: &ResourceList::default() };
    let least = ResourceList::at(limit, "/min");
    let least = least.iter().filter_map(|(name, least)| usage.below_minimum(name, least));
    let most = ResourceList::at(limit, "/max");
    let most = most.iter().filter_map(|(name, most)| {
        let begin = format!("maximum {name} usage per {what} is {}", most.canonical());
        match requests.get(name) {
            None => Some(format!("{begin}.  No request is specified")),
            Some(it) if is_more(it, most) => Some(format!("{begin}, but request is {}", it.canonical())),
            Some(_) => None,
        }
    });
    violations.extend(least.chain(most));
}

/// The resources that a container, pod or claim asks for.
struct Usage<'a> {
    /// The type of the limit.
    what: &'a str,
    requests: &'a ResourceList,
    limits: &'a ResourceList,
}

/// Each function returns the message about a bound that is exceeded.
impl Usage<'_> {
    fn below_minimum(&self, name: &str, least: Quantity) -> Option<String> {
        let begin = format!("minimum {name} usage per {} is {}", self.what, least.canonical());
        match (self.requests.get(name), self.limits.get(name)) {
            (None, _) => Some(format!("{begin}.  No request is specified")),
            (Some(it), _) if is_more(least, it) => {
                Some(format!("{begin}, but request is {}", it.canonical()))
            }
            (_, Some(it)) if is_more(least, it) => Some(format!("{begin}, but limit is {}", it.canonical())),
            _ => None,
        }
    }

    fn above_maximum(&self, name: &str, most: Quantity) -> Option<String> {
        let begin = format!("maximum {name} usage per {} is {}", self.what, most.canonical());
        match (self.requests.get(name), self.limits.get(name)) {
            (_, None) => Some(format!("{begin}.  No limit is specified")),
            (_, Some(it)) if is_more(it, most) => Some(format!("{begin}, but limit is {}", it.canonical())),
            (Some(it), _) if is_more(it, most) => Some(format!("{begin}, but request is {}", it.canonical())),
            _ => None,
        }
    }

    fn above_ratio(&self, name: &str, most: Quantity) -> Option<String> {
        let begin =
            format!("{name} max limit to request ratio per {} is {}, but", self.what, most.canonical());
        let Some(request) = self.requests.get(name).filter(|it| !it.is_zero()) else {
            return Some(format!("{begin} no request is specified or request is 0"));
        };
        let Some(limit) = self.limits.get(name).filter(|it| !it.is_zero()) else {
            return Some(format!("{begin} no limit is specified or limit is 0"));
        };
        let ratio = limit.thousandths() as f64 / request.thousandths() as f64;
        let far = ratio * 1000.0 > most.thousandths() as f64;
        far.then(|| format!("{begin} provided ratio is {ratio:.6}"))
    }
}

/// Returns true if a quantity exceeds another, compared in thousandths unless one is too large for
/// that.
fn is_more(amount: Quantity, other: Quantity) -> bool {
    if amount.units() <= MAX_MILLI_VALUE && other.units() <= MAX_MILLI_VALUE {
        amount.thousandths() > other.thousandths()
    } else {
        amount.units() > other.units()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limit: Value) -> Vec<Value> {
        vec![json!({ "spec": { "limits": [limit] } })]
    }

    #[test]
    fn containers_without_resources_get_the_defaults_of_the_range_and_an_annotation() {
        let ranges = range(json!({ "type": "Container", "default": { "cpu": "500m", "memory": "500Mi" },
            "defaultRequest": { "cpu": "100m" } }));
        let mut pod = json!({ "metadata": { "name": "p" }, "spec": {
            "containers": [{ "name": "a" }, { "name": "b", "resources": { "limits": { "cpu": "1" }, "requests": { "cpu": "1" } } }],
            "initContainers": [{ "name": "i" }] } });
        fill(&mut pod, &ranges);
        let given = json!({ "limits": { "cpu": "500m", "memory": "500Mi" }, "requests": { "cpu": "100m" } });
        assert_eq!(pod["spec"]["containers"][0]["resources"], given);
        assert_eq!(pod["spec"]["initContainers"][0]["resources"], given);
        assert_eq!(
            pod["spec"]["containers"][1]["resources"]["limits"],
            json!({ "cpu": "1", "memory": "500Mi" })
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; \
             memory limit for container b; cpu request for init container i; cpu, memory limit for init container i"
        );
    }

    #[test]
    fn a_pod_that_would_get_too_many_defaults_is_left_with_a_rejected_annotation() {
        let names: serde_json::Map<String, Value> =
            (0..300).map(|it| (format!("example.com/r{it}"), "1".into())).collect();
        let ranges = [
            json!({ "type": "Container", "default": names }),
            json!({ "type": "Container", "default": { "cpu": "1" } }),
        ];
        let ranges = ranges.map(|it| json!({ "spec": { "limits": [it] } }));
        let containers: Vec<_> = (0..300).map(|it| json!({ "name": format!("c{it}") })).collect();
        let mut pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": containers } });
        fill(&mut pod, &ranges);
        assert!(
            pod["metadata"]["annotations"][ANNOTATION].as_str().is_some_and(|it| it.len() > MAX_ANNOTATION)
        );
        let filled =
            items(&pod, "/spec/containers").iter().filter(|it| it.get("resources").is_some()).count();
        assert!((1..100).contains(&filled), "{filled} containers were filled");
    }

    #[test]
    fn limit_range_rejections_have_the_messages_of_kube_apiserver() {
        let pod =
            |resources: Value| json!({ "spec": { "containers": [{ "name": "a", "resources": resources }] } });
        let limits = |cpu: &str| json!({ "limits": { "cpu": cpu }, "requests": { "cpu": cpu } });
        for (limit, resources, expected) in [
            (json!({ "type": "Container", "max": { "cpu": "1" } }), limits("1"), None),
            (
                json!({ "type": "Container", "max": { "cpu": "500m" } }),
                limits("600m"),
                Some("maximum cpu usage per Container is 500m, but limit is 600m"),
            ),
            (
                json!({ "type": "Container", "max": { "cpu": "1" } }),
                json!({}),
                Some("maximum cpu usage per Container is 1.  No limit is specified"),
            ),
            (
                json!({ "type": "Container", "min": { "cpu": "50m", "memory": "1Mi" } }),
                limits("10m"),
                Some(
                    "[minimum cpu usage per Container is 50m, but request is 10m, minimum memory usage per Container is 1Mi.  No request is specified]",
                ),
            ),
            (
                json!({ "type": "Pod", "maxLimitRequestRatio": { "cpu": "2" } }),
                json!({ "limits": { "cpu": "3" }, "requests": { "cpu": "1" } }),
                Some("cpu max limit to request ratio per Pod is 2, but provided ratio is 3.000000"),
            ),
        ] {
            assert_eq!(refuse(Accounting::Pod, &pod(resources), &range(limit)).as_deref(), expected);
        }
    }

    #[test]
    fn equal_violations_are_shown_once_and_only_the_first_thousand() {
        let containers: Vec<_> = (0..3).map(|i| json!({ "name": format!("c{i}") })).collect();
        let pod = json!({ "spec": { "containers": containers } });
        let limit = |names: usize| {
            let most: serde_json::Map<_, _> = (0..names).map(|i| (format!("r{i:04}"), json!(1))).collect();
            range(json!({ "type": "Container", "max": most }))
        };
        let message = |names: usize| refuse(Accounting::Pod, &pod, &limit(names)).unwrap();
        assert_eq!(message(1), "maximum r0000 usage per Container is 1.  No limit is specified");
        assert_eq!(message(MAX_SHOWN - 1).matches("r0007 usage").count(), 1);
        assert!(!message(MAX_SHOWN - 1).contains("more violations"));
        assert!(message(MAX_SHOWN + 1).ends_with("No limit is specified, more violations are not shown]"));
        assert!(!message(MAX_SHOWN + 1).contains("r1000"));
    }

    #[test]
    fn claims_are_limited_by_their_requests() {
        let limit = json!({ "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "2Gi" } });
        let claim = |amount: &str| json!({ "spec": { "resources": { "requests": { "storage": amount } } } });
        let rejected = |amount: &str| refuse(Accounting::Claim, &claim(amount), &range(limit.clone()));
        assert_eq!(rejected("1536Mi"), None);
        assert_eq!(
            rejected("3Gi").as_deref(),
            Some("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi")
        );
        assert!(rejected("1Mi").is_some_and(|it| it.starts_with("minimum storage usage")));
        assert_eq!(refuse(Accounting::CountedByName, &claim("9Gi"), &range(limit.clone())), None);
    }
}

//! Quotas: the resources that the objects of a namespace may use in total. Each write is charged
//! before it is stored.
//!
//! The usage that counts is the one in the status of a quota. A controller recalculates it after
//! objects are deleted. Mirrors k8s.io/apiserver v0.36.4
//! pkg/admission/plugin/resourcequota/controller.go.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::scope::{covers, is_terminating};
use super::{ResourceList, pod, usage};
use crate::kinds::json_access::{items, text};
use crate::kinds::quantity::Quantity;
use crate::kinds::rules::Accounting;

pub use super::usage::CountedKind;

/// An object that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its kind.
    pub kind: CountedKind<'a>,
    /// The subresource that is written; empty for the object itself.
    pub part: &'a str,
    /// The stored object, unless the write creates it.
    pub old: Option<&'a Value>,
    /// The object to be stored.
    pub new: &'a Value,
    /// The current time.
    pub now: Timestamp,
}

impl Arrival<'_> {
    /// Returns true if a quota could apply to the write.
    pub fn counts(&self) -> bool {
        match (self.kind.accounting, self.part, self.old) {
            (Accounting::Ignored, ..) => false,
            (_, "", None) => true,
            // An update can only change the scope of a pod; its resources change through `resize`
            // (`Handles` of k8s.io/kubernetes v1.36.4 pkg/quota/v1/evaluator/core/pods.go).
            (Accounting::Pod, "", Some(old)) => is_terminating(old) != is_terminating(self.new),
            (Accounting::Pod, "resize", Some(_)) => true,
            (Accounting::Service | Accounting::Claim | Accounting::Devices, "", Some(_)) => true,
            _ => false,
        }
    }

    fn usage_of(&self, object: &Value) -> ResourceList {
        usage::of(self.kind, object, self.now)
    }

    fn is_in(&self, quota: &Value, object: &Value) -> bool {
        ResourceList::at(quota, "/status/hard").names().any(|it| usage::concerns(self.kind, it))
            && covers(quota, self.kind, object)
    }
}

/// Returns the usage of a quota once an object is stored, or `None` if the write does not change
/// it.
///
/// # Errors
/// The message of the rejection, if the quota would be exceeded, its usage is unknown, or the
/// object lacks requests or limits that the quota counts.
pub fn charge(quota: &Value, arrival: &Arrival<'_>) -> Result<Option<ResourceList>, String> {
    if !arrival.is_in(quota, arrival.new) {
        return Ok(None);
    }
    let name = text(quota, "/metadata/name");
    let (hard, used) = (ResourceList::at(quota, "/status/hard"), ResourceList::at(quota, "/status/used"));
    let limited = hard.filter(|it, _| usage::concerns(arrival.kind, it));
    if let Some(missing) = missing_resources(arrival, &limited) {
        return Err(format!("failed quota: {name}: must specify {missing}"));
    }
    if limited.names().any(|it| used.get(it).is_none()) {
        let names = limited.names().collect::<Vec<_>>().join(",");
        return Err(format!("status unknown for quota: {name}, resources: {names}"));
    }
    let all = arrival.usage_of(arrival.new);
    let negative = all.filter(|_, it| it.is_negative());
    if !negative.is_empty() {
        let names = negative.names().collect::<Vec<_>>().join(",");
        return Err(format!("quota usage is negative for resource(s): {names}"));
    }
    // An update that brings the object into the scope of the quota is charged in full.
    let before = arrival.old.filter(|it| arrival.is_in(quota, it)).map(|it| arrival.usage_of(it));
    let more = before.map_or(all.clone(), |it| all.above(&it));
    let requested = more.filter(|name, it| !it.is_zero() && hard.get(name).is_some());
    if requested.is_empty() {
        return Ok(None);
    }
    let mut after = used.clone();
    after.add(&requested);
    let exceeds = |name: &str| match (after.get(name), hard.get(name)) {
        (Some(after), Some(hard)) => after.exceeds(hard),
        _ => false,
    };
    let over = requested.filter(|name, _| exceeds(name));
    if over.is_empty() {
        return Ok(Some(after));
    }
    let of = |amounts: &ResourceList| amounts.filter(|name, _| over.get(name).is_some()).described();
    Err(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        over.described(),
        of(&used),
        of(&hard)
    ))
}

/// Returns true if an entry of a quota applies to objects of a kind.
pub fn concerns(kind: CountedKind<'_>, name: &str) -> bool {
    // kube-apiserver ignores events, because they are created and expire too fast to be counted.
    kind.accounting != Accounting::Ignored && usage::concerns(kind, name)
}

/// Returns true if the spec of a quota limits anything that objects of a kind use.
pub fn limits(quota: &Value, kind: CountedKind<'_>) -> bool {
    ResourceList::at(quota, "/spec/hard").names().any(|it| concerns(kind, it))
}

/// Returns true if the usage of a kind depends on the content of its objects; objects of other
/// kinds are only counted.
pub fn reads(kind: CountedKind<'_>) -> bool {
    matches!(kind.accounting, Accounting::Pod | Accounting::Service | Accounting::Claim | Accounting::Devices)
}

/// Returns the usage of all objects of a kind, for the entries in the spec of a quota that apply to
/// the kind. Each such entry is at least zero.
pub fn used_by(
    quota: &Value,
    kind: CountedKind<'_>,
    objects: impl Iterator<Item = Value>,
    now: Timestamp,
) -> ResourceList {
    let limited = ResourceList::at(quota, "/spec/hard").filter(|it, _| concerns(kind, it));
    let mut used = ResourceList::default();
    limited.names().for_each(|it| used.set(it, Quantity::count(0)));
    for object in objects.filter(|it| covers(quota, kind, it)) {
        used.add(&usage::of(kind, &object, now).filter(|it, _| limited.get(it).is_some()));
    }
    used
}

/// Returns the requests and limits that a quota counts but containers of a pod lack, with the names
/// of the containers.
fn missing_resources(arrival: &Arrival<'_>, limited: &ResourceList) -> Option<String> {
    let pod = arrival.new;
    if arrival.kind.accounting != Accounting::Pod || pod::has_pod_level_resources(pod) {
        return None;
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for container in items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers")) {
        let declared = usage::computed(
            &ResourceList::at(container, "/resources/requests"),
            &ResourceList::at(container, "/resources/limits"),
        );
        for name in usage::REQUIRED_OF_CONTAINERS {
            if limited.get(name).is_some() && declared.get(name).is_none() {
                missing.entry(name).or_default().push(text(container, "/name"));
            }
        }
    }
    let parts = missing.into_iter().map(|(name, mut containers)| {
        containers.sort_unstable();
        containers.dedup();
        format!("{name} for: {}", containers.join(","))
    });
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quota(hard: Value, used: Value) -> Value {
        json!({ "metadata": { "name": "q" }, "status": { "hard": hard, "used": used } })
    }

    fn pod(cpu: &str) -> Value {
        json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] } })
    }

    fn arrival<'a>(plural: &'a str, old: Option<&'a Value>, new: &'a Value) -> Arrival<'a> {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Arrival { kind: CountedKind::of("", plural), part: "", old, new, now }
    }

    fn charged(quota: &Value, plural: &str, object: &Value) -> Result<String, String> {
        charge(quota, &arrival(plural, None, object)).map(|it| it.unwrap_or_default().described())
    }

    #[test]
    fn an_object_is_charged_for_what_the_quota_counts() {
        let quota = quota(json!({ "pods": "2", "cpu": "1" }), json!({ "pods": "1", "cpu": "300m" }));
        assert_eq!(charged(&quota, "pods", &pod("200m")), Ok("cpu=500m,pods=2".to_owned()));
        assert_eq!(charged(&quota, "secrets", &json!({})), Ok(String::new()));
    }

    #[test]
    fn quota_rejections_have_the_messages_of_kube_apiserver() {
        let full = quota(
            json!({ "pods": "1", "cpu": "1", "memory": "1Gi" }),
            json!({ "pods": "1", "cpu": "300m", "memory": "0" }),
        );
        let mut wanted = pod("800m");
        wanted["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Mi".into();
        assert_eq!(
            charged(&full, "pods", &wanted).unwrap_err(),
            "exceeded quota: q, requested: cpu=800m,pods=1, used: cpu=300m,pods=1, limited: cpu=1,pods=1"
        );
        assert_eq!(
            charged(&full, "pods", &pod("1m")).unwrap_err(),
            "failed quota: q: must specify memory for: c"
        );
        let new = quota(json!({ "pods": "1", "secrets": "1" }), json!({}));
        assert_eq!(
            charged(&new, "pods", &pod("1")).unwrap_err(),
            "status unknown for quota: q, resources: pods"
        );
    }

    #[test]
    fn an_update_is_charged_for_what_it_adds() {
        let quota = quota(
            json!({ "services.nodeports": "2", "services": "1" }),
            json!({ "services.nodeports": "1", "services": "1" }),
        );
        let service =
            |kind: &str, ports: usize| json!({ "spec": { "type": kind, "ports": vec![json!({}); ports] } });
        let (one, two, three) = (service("NodePort", 1), service("NodePort", 2), service("NodePort", 3));
        let change = |old, new| {
            charge(&quota, &arrival("services", Some(old), new)).map(|it| it.map(|it| it.described()))
        };
        assert_eq!(change(&one, &two), Ok(Some("services=1,services.nodeports=2".to_owned())));
        assert_eq!(change(&two, &one), Ok(None), "a controller recalculates released usage");
        assert!(
            change(&one, &three)
                .unwrap_err()
                .starts_with("exceeded quota: q, requested: services.nodeports=2")
        );
    }

    #[test]
    fn usage_is_counted_by_kind_and_scope() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let quota = |spec: Value| json!({ "spec": spec });
        let hard = json!({ "pods": "9", "cpu": "9", "memory": "9Gi", "count/configmaps": "9" });
        let mut done = pod("1");
        done["status"] = json!({ "phase": "Succeeded" });
        let pods = || [pod("200m"), pod("300m"), done.clone()].into_iter();
        let plain = quota(json!({ "hard": hard }));
        assert_eq!(
            used_by(&plain, CountedKind::of("", "pods"), pods(), now).described(),
            "cpu=500m,memory=0,pods=2"
        );
        let maps = || vec![Value::Null; 3].into_iter();
        assert_eq!(
            used_by(&plain, CountedKind::of("", "configmaps"), maps(), now).described(),
            "count/configmaps=3"
        );
        let scoped = quota(json!({ "hard": hard, "scopes": ["BestEffort"] }));
        assert_eq!(
            used_by(&scoped, CountedKind::of("", "pods"), pods(), now).described(),
            "cpu=0,memory=0,pods=0"
        );
        let of = |plural| CountedKind::of("", plural);
        assert!(limits(&plain, of("pods")) && !limits(&plain, of("secrets")));
        assert!(!limits(&quota(json!({ "hard": { "count/events": "1" } })), of("events")));
    }

    #[test]
    fn only_relevant_writes_are_charged() {
        let (short, long) = (json!({ "spec": { "activeDeadlineSeconds": 1 } }), json!({ "spec": {} }));
        assert!(arrival("pods", None, &long).counts() && arrival("secrets", None, &long).counts());
        assert!(
            arrival("pods", Some(&long), &short).counts() && !arrival("pods", Some(&long), &long).counts()
        );
        assert!(!arrival("events", None, &long).counts() && !arrival("secrets", Some(&long), &long).counts());
        assert!(!Arrival { part: "status", ..arrival("pods", Some(&long), &short) }.counts());
    }
}

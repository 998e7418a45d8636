//! The writes that turn the existing slices of a service into the desired ones, as few as possible.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::addresses::key;
use crate::json_access::{entries, items, text};
use crate::owner::{is_deleting, reference};

/// The largest number of endpoints in a slice: the default of `MaxEndpointsPerSlice` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/endpointslice/config/v1alpha1/defaults.go.
const FULL: usize = 100;
/// The label with the name of the service of a slice.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const HEADLESS: &str = "service.kubernetes.io/headless";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The slices to write.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Writes {
    pub(super) create: Vec<Value>,
    /// Slices with changed endpoints or labels.
    pub(super) update: Vec<Value>,
    /// The names of slices to delete.
    pub(super) delete: Vec<String>,
}

/// Returns the service of a slice, if this controller manages the slice.
pub(super) fn service_of(slice: &Value) -> Option<&str> {
    let label = |name: &str| slice["metadata"]["labels"].get(name).and_then(Value::as_str);
    label(SERVICE_NAME).filter(|_| label(MANAGED_BY) == Some(MANAGER))
}

/// Returns the writes after which the slices of a service list these endpoints, which are grouped
/// by their ports.
pub(super) fn writes(service: &Value, wanted: Vec<(Vec<Value>, Vec<Value>)>, slices: Vec<Value>) -> Writes {
    // The slices of the service that are not needed any more.
    let (mut writes, mut free) = (Writes::default(), Vec::new());
    // A service without endpoints has one empty slice.
    let wanted = if wanted.is_empty() { vec![(Vec::new(), Vec::new())] } else { wanted };
    let groups: HashMap<_, _> = wanted.iter().enumerate().map(|(at, (ports, _))| (key(ports), at)).collect();
    // The slices of each group.
    let mut kept: Vec<Vec<Slice>> = wanted.iter().map(|_| Vec::new()).collect();
    for slice in slices {
        let group = groups.get(&key(items(&slice, "/ports")));
        let is_ours = text(&slice, "/addressType") == "IPv4" && is_owned(&slice, service);
        match group.filter(|_| is_ours) {
            Some(group) => kept[*group].push(Slice { changed: false, slice }),
            None if is_ours => free.push(slice),
            None => writes.delete.push(text(&slice, "/metadata/name").to_owned()),
        }
    }
    for ((ports, endpoints), mine) in wanted.into_iter().zip(&mut kept) {
        let mine: Vec<&mut Slice> = mine.iter_mut().collect();
        let empty = endpoints.is_empty() && mine.is_empty();
        let rest = fill(mine, endpoints);
        let fresh = rest.chunks(FULL).map(<[Value]>::to_vec).chain(empty.then(Vec::new));
        writes.create.extend(fresh.map(|it| slice(service, &ports, it)));
    }
    let has_endpoints = |it: &Slice| !items(&it.slice, "/endpoints").is_empty();
    let nothing = writes.create.is_empty() && !kept.iter().flatten().any(has_endpoints);
    let labels = labels(service);
    for (index, Slice { mut slice, changed }) in kept.into_iter().flatten().enumerate() {
        if items(&slice, "/endpoints").is_empty() && !(nothing && index == 0) {
            free.push(slice);
            continue;
        }
        let relabeled = slice["metadata"]["labels"] != labels;
        slice["metadata"]["labels"] = labels.clone();
        if changed || relabeled {
            writes.update.push(slice);
        }
    }
    // Slices that would be deleted are used instead of new ones, which saves a write and leaves no
    // moment without endpoints (k8s.io/endpointslice v0.36.4 reconciler.go, `finalize`).
    for mut slice in free {
        let Some(mut fresh) = writes.create.pop() else {
            writes.delete.push(text(&slice, "/metadata/name").to_owned());
            continue;
        };
        for field in ["ports", "endpoints"] {
            slice[field] = fresh[field].take();
        }
        slice["metadata"]["labels"] = labels.clone();
        writes.update.push(slice);
    }
    // New slices would compete with the garbage collector.
    if is_deleting(service) {
        writes.create.clear();
    }
    writes
}

/// Returns true if a slice belongs to this service, not to a former one of the same name, with
/// which it would be garbage collected (`ownedBy` in k8s.io/endpointslice v0.36.4 utils.go).
fn is_owned(slice: &Value, service: &Value) -> bool {
    let mut owners = items(slice, "/metadata/ownerReferences").iter();
    owners.any(|it| text(it, "/uid") == text(service, "/metadata/uid") && text(it, "/kind") == "Service")
}

struct Slice {
    slice: Value,
    changed: bool,
}

/// Updates the endpoints of slices and adds new ones where there is room. Returns those that do not
/// fit.
fn fill(mut slices: Vec<&mut Slice>, endpoints: Vec<Value>) -> Vec<Value> {
    let order: Vec<String> = endpoints.iter().map(|it| identity(it).to_owned()).collect();
    let mut missing: BTreeMap<String, Value> =
        endpoints.into_iter().map(|it| (identity(&it).to_owned(), it)).collect();
    for it in &mut slices {
        let before = items(&it.slice, "/endpoints").to_vec();
        let after: Vec<Value> = before.iter().filter_map(|it| missing.remove(identity(it))).collect();
        it.changed = after != before;
        it.slice["endpoints"] = after.into();
    }
    let mut rest: Vec<Value> = order.iter().filter_map(|it| missing.remove(it)).collect();
    // Slices that are written anyway come first, then the fullest that has room for all.
    slices.sort_by_key(|it| (!it.changed, std::cmp::Reverse(items(&it.slice, "/endpoints").len())));
    for it in slices {
        let mut list = items(&it.slice, "/endpoints").to_vec();
        let room = FULL.saturating_sub(list.len());
        if rest.is_empty() || (!it.changed && room < rest.len()) {
            continue;
        }
        let later = rest.split_off(room.min(rest.len()));
        list.append(&mut rest);
        rest = later;
        it.slice["endpoints"] = list.into();
        it.changed = true;
    }
    rest
}

fn identity(endpoint: &Value) -> &str {
    text(endpoint, "/targetRef/uid")
}

fn slice(service: &Value, ports: &[Value], endpoints: Vec<Value>) -> Value {
    let name = text(service, "/metadata/name");
    json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "generateName": format!("{name}-"), "namespace": service["metadata"]["namespace"],
            "labels": labels(service), "ownerReferences": [reference(service)] },
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports })
}

/// Returns the labels of the slices of a service: its own, and those that name it.
fn labels(service: &Value) -> Value {
    let ours = [SERVICE_NAME, MANAGED_BY, HEADLESS];
    let own = entries(service, "/metadata/labels").filter(|(name, _)| !ours.contains(name));
    let mut labels: serde_json::Map<_, _> =
        own.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    if matches!(text(service, "/spec/clusterIP"), "" | "None") {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels.insert(SERVICE_NAME.to_owned(), service["metadata"]["name"].clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    labels.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Value {
        json!({ "apiVersion": "v1", "kind": "Service", "spec": { "clusterIP": "10.96.0.9" },
            "metadata": { "name": "web", "namespace": "n", "uid": "s", "labels": { "team": "a" } } })
    }

    fn endpoint(index: usize, ready: bool) -> Value {
        json!({ "addresses": [format!("10.0.0.{index}")], "conditions": { "ready": ready },
            "targetRef": { "uid": format!("u{index:04}") } })
    }

    fn ports() -> Vec<Value> {
        vec![json!({ "name": "", "port": 80, "protocol": "TCP" })]
    }

    /// Applies the writes. Returns the numbers of created, updated and deleted slices.
    fn apply(slices: &mut Vec<Value>, wanted: Vec<(Vec<Value>, Vec<Value>)>) -> (usize, usize, usize) {
        let writes = writes(&service(), wanted, slices.clone());
        let counts = (writes.create.len(), writes.update.len(), writes.delete.len());
        slices.retain(|it| !writes.delete.contains(&text(it, "/metadata/name").to_owned()));
        for update in writes.update {
            let same = |it: &&mut Value| it["metadata"]["name"] == update["metadata"]["name"];
            let known = slices.iter_mut().find(same).unwrap();
            known.clone_from(&update);
        }
        for mut created in writes.create {
            created["metadata"]["name"] = format!("web-{}", slices.len()).into();
            slices.push(created);
        }
        counts
    }

    fn sizes(slices: &[Value]) -> Vec<usize> {
        slices.iter().map(|it| items(it, "/endpoints").len()).collect()
    }

    #[test]
    fn a_slice_names_its_service_and_belongs_to_it() {
        let mut slices = Vec::new();
        assert_eq!(apply(&mut slices, vec![(ports(), vec![endpoint(1, true)])]), (1, 0, 0));
        assert_eq!(service_of(&slices[0]), Some("web"));
        assert_eq!(slices[0]["metadata"]["labels"]["team"], "a");
        assert_eq!(slices[0]["metadata"]["ownerReferences"][0]["uid"], "s");
        assert_eq!(
            apply(&mut slices, vec![(ports(), vec![endpoint(1, true)])]),
            (0, 0, 0),
            "nothing has changed"
        );
        assert_eq!(apply(&mut slices, vec![(ports(), vec![endpoint(1, false)])]), (0, 1, 0));
        assert_eq!(slices[0]["endpoints"][0]["conditions"]["ready"], false);
    }

    #[test]
    fn a_slice_lists_a_hundred_endpoints_and_changed_slices_are_filled_first() {
        let all =
            |range: std::ops::Range<usize>| vec![(ports(), range.map(|it| endpoint(it, true)).collect())];
        let mut slices = Vec::new();
        assert_eq!(apply(&mut slices, all(0..250)), (3, 0, 0));
        assert_eq!(sizes(&slices), [100, 100, 50]);
        assert_eq!(apply(&mut slices, all(0..260)), (0, 1, 0));
        assert_eq!(sizes(&slices), [100, 100, 60]);
        assert_eq!(
            apply(&mut slices, all(10..265)),
            (0, 1, 0),
            "new endpoints go into the slice that has lost some"
        );
        assert_eq!(sizes(&slices), [95, 100, 60]);
        assert_eq!(apply(&mut slices, all(100..200)), (0, 0, 2));
        assert_eq!(sizes(&slices), [100]);
    }

    #[test]
    fn a_service_without_endpoints_has_one_empty_slice() {
        let mut slices = Vec::new();
        assert_eq!(apply(&mut slices, vec![]), (1, 0, 0));
        assert_eq!(apply(&mut slices, vec![]), (0, 0, 0));
        assert_eq!(apply(&mut slices, vec![(ports(), vec![endpoint(1, true)])]), (0, 1, 0));
        assert_eq!((sizes(&slices), items(&slices[0], "/ports")), (vec![1], &*ports()));
        assert_eq!(apply(&mut slices, vec![]), (0, 1, 0));
        assert_eq!((sizes(&slices), items(&slices[0], "/ports").len()), (vec![0], 0));
    }

    #[test]
    fn a_service_that_is_deleted_keeps_its_slices_up_to_date_and_gets_no_new_ones() {
        let mut deleted = service();
        deleted["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        let wanted = || vec![(ports(), vec![endpoint(1, true)])];
        assert_eq!(writes(&deleted, wanted(), Vec::new()), Writes::default());
        let mut slices = Vec::new();
        apply(&mut slices, vec![]);
        let Writes { create, update, delete } = writes(&deleted, wanted(), slices);
        assert_eq!((create.len(), sizes(&update), delete.len()), (0, vec![1], 0));
    }

    #[test]
    fn slices_of_a_former_service_of_this_name_are_replaced() {
        let mut slices = Vec::new();
        apply(&mut slices, vec![(ports(), vec![endpoint(1, true)])]);
        slices[0]["metadata"]["ownerReferences"][0]["uid"] = "former".into();
        assert_eq!(apply(&mut slices, vec![(ports(), vec![endpoint(1, true)])]), (1, 0, 1));
        assert_eq!(slices[0]["metadata"]["ownerReferences"][0]["uid"], "s");
    }

    #[test]
    fn other_ports_are_listed_in_another_slice() {
        let other = vec![json!({ "name": "", "port": 81, "protocol": "TCP" })];
        let mut slices = Vec::new();
        let both = vec![(ports(), vec![endpoint(1, true)]), (other.clone(), vec![endpoint(2, true)])];
        assert_eq!(apply(&mut slices, both), (2, 0, 0));
        assert_eq!(apply(&mut slices, vec![(other, vec![endpoint(1, true), endpoint(2, true)])]), (0, 1, 1));
    }
}

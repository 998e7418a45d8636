//! The capacity of Endpoints: one object lists all pods of a service, so it is limited to a
//! thousand.
//!
//! kube-controller-manager does the same (`maxCapacity` in k8s.io/kubernetes v1.36.4
//! pkg/controller/endpoint/endpoints_controller.go). Without it the object of a service with 10,000
//! pods would have megabytes, and be written again whenever one of them changes.

use serde_json::Value;

use crate::json_access::items;

/// The largest number of addresses.
const CAPACITY: usize = 1000;

const READY: &str = "addresses";
const WAITING: &str = "notReadyAddresses";

/// Removes addresses beyond the capacity: first unready ones, then others, from each subset in
/// proportion. Returns true if there were too many.
pub(super) fn truncate(subsets: &mut Vec<Value>) -> bool {
    let count =
        |field: &str| -> usize { subsets.iter().map(|it| items(it, &format!("/{field}")).len()).sum() };
    let (ready, waiting) = (count(READY), count(WAITING));
    if ready + waiting <= CAPACITY {
        return false;
    }
    let (field, room, total) =
        if ready > CAPACITY { (READY, CAPACITY, ready) } else { (WAITING, CAPACITY - ready, waiting) };
    let mut left = room;
    for subset in subsets.iter_mut().filter_map(Value::as_object_mut) {
        if field == READY {
            subset.remove(WAITING);
        }
        let Some(list) = subset.get_mut(field).and_then(Value::as_array_mut) else { continue };
        // Rounded up, so that the last subsets may get less than their share.
        let share = (list.len() * room).div_ceil(total).min(left);
        list.truncate(share);
        left -= share;
        if list.is_empty() {
            subset.remove(field);
        }
    }
    subsets.retain(|it| it.get(READY).is_some() || it.get(WAITING).is_some());
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subset(ready: usize, waiting: usize) -> Value {
        let mut subset = json!({ "ports": [{ "port": 80 }] });
        for (field, count) in [(READY, ready), (WAITING, waiting)] {
            if count > 0 {
                subset[field] = (0..count).map(|it| json!({ "ip": it.to_string() })).collect();
            }
        }
        subset
    }

    #[test]
    fn a_thousand_addresses_are_listed_and_ready_ones_come_first() {
        for (before, truncated, after) in [
            (vec![(600, 400)], false, vec![(600, 400)]),
            (vec![(600, 401)], true, vec![(600, 400)]),
            (vec![(500, 300), (200, 900)], true, vec![(500, 75), (200, 225)]),
            (vec![(1000, 0), (0, 5)], true, vec![(1000, 0)]),
            (vec![(3000, 7), (1000, 0), (1, 0)], true, vec![(750, 0), (250, 0)]),
        ] {
            let mut subsets: Vec<Value> =
                before.iter().map(|(ready, waiting)| subset(*ready, *waiting)).collect();
            assert_eq!(truncate(&mut subsets), truncated, "{before:?}");
            let count = |it: &Value| (items(it, "/addresses").len(), items(it, "/notReadyAddresses").len());
            assert_eq!(subsets.iter().map(count).collect::<Vec<_>>(), after, "{before:?}");
        }
    }
}

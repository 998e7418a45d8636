//! The claims of the pods of a StatefulSet, and the owners that make them go with a pod or with the
//! set, as `persistentVolumeClaimRetentionPolicy` says.

use serde_json::Value;

use super::identity::{claim_name, ordinal_in, ordinals};
use crate::json_access::{entries, flag, items, text};
use crate::owner::reference;

/// Returns a new claim of a pod for a template.
pub(super) fn new_claim(set: &Value, template: &Value, ordinal: i64) -> Value {
    let mut claim = template.clone();
    claim["apiVersion"] = "v1".into();
    claim["kind"] = "PersistentVolumeClaim".into();
    claim["metadata"]["name"] = claim_name(set, template, ordinal).into();
    claim["metadata"]["namespace"] = set["metadata"]["namespace"].clone();
    for (name, value) in entries(set, "/spec/selector/matchLabels") {
        claim["metadata"]["labels"][name] = value.clone();
    }
    if let Some(claim) = claim.as_object_mut() {
        claim.remove("status");
    }
    claim
}

/// Returns true if a claim waits for its deletion with a former pod of this name, so that a new pod
/// cannot have it.
pub(super) fn is_stale(set: &Value, claim: &Value, pod: &str) -> bool {
    when(set, "whenScaled") == "Delete"
        && items(claim, "/metadata/ownerReferences").iter().any(|it| is_pod(it, pod))
}

/// Returns the owners that a claim should have, if it has others. `pod` is the pod of the claim,
/// which may be about to be created.
pub(super) fn owners(set: &Value, claim: &Value, pod: &Value) -> Option<Vec<Value>> {
    let references = items(claim, "/metadata/ownerReferences");
    let (name, set_uid, pod_uid) =
        (text(pod, "/metadata/name"), text(set, "/metadata/uid"), text(pod, "/metadata/uid"));
    let is_ours = |it: &Value| is_set(it, set) || is_pod(it, name);
    let is_former = |it: &&Value| {
        (is_set(it, set) && text(it, "/uid") != set_uid) || (is_pod(it, name) && text(it, "/uid") != pod_uid)
    };
    // A claim of a former set or pod is left to the garbage collector.
    if references.iter().any(|it| is_former(&it)) {
        return None;
    }
    let others: Vec<Value> = references.iter().filter(|it| !is_ours(it)).cloned().collect();
    let (scaled, deleted) = (when(set, "whenScaled") == "Delete", when(set, "whenDeleted") == "Delete");
    let mut wanted = others.clone();
    let is_foreign = (scaled || deleted) && others.iter().any(|it| flag(it, "/controller"));
    let is_member = ordinal_in(set, name).is_some_and(|it| ordinals(set).contains(&it));
    if !is_foreign {
        if scaled && !is_member {
            // Without a uid there is no pod that could own it.
            wanted.extend((!pod_uid.is_empty()).then(|| reference(pod)));
        } else if deleted {
            wanted.push(reference(set));
        }
    }
    let has = |list: &[Value], uid: &str| {
        list.iter().find(|it| text(it, "/uid") == uid).map(|it| flag(it, "/controller"))
    };
    let same = |uid: &str| uid.is_empty() || has(references, uid) == has(&wanted, uid);
    (!(same(set_uid) && same(pod_uid))).then_some(wanted)
}

fn when<'a>(set: &'a Value, field: &str) -> &'a str {
    text(set, &format!("/spec/persistentVolumeClaimRetentionPolicy/{field}"))
}

fn is_set(reference: &Value, set: &Value) -> bool {
    text(reference, "/apiVersion") == "apps/v1"
        && text(reference, "/kind") == "StatefulSet"
        && text(reference, "/name") == text(set, "/metadata/name")
}

fn is_pod(reference: &Value, name: &str) -> bool {
    text(reference, "/apiVersion") == "v1"
        && text(reference, "/kind") == "Pod"
        && text(reference, "/name") == name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(scaled: &str, deleted: &str) -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": "db", "namespace": "n", "uid": "s" },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "db" } },
                "persistentVolumeClaimRetentionPolicy": { "whenScaled": scaled, "whenDeleted": deleted } } })
    }

    fn pod(ordinal: i64) -> Value {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("db-{ordinal}"), "uid": "p" } })
    }

    #[test]
    fn a_claim_is_named_by_template_set_and_ordinal_and_selected_by_the_set() {
        let template =
            json!({ "metadata": { "name": "data", "labels": { "x": "y" } }, "spec": {}, "status": {} });
        let claim = new_claim(&set("Retain", "Retain"), &template, 3);
        assert_eq!(
            claim["metadata"],
            json!({ "name": "data-db-3", "namespace": "n", "labels": { "x": "y", "app": "db" } })
        );
        assert_eq!(claim.get("status"), None);
    }

    #[test]
    fn the_owners_of_a_claim_follow_from_the_retention_policy() {
        let uids = |list: Option<Vec<Value>>| {
            list.map(|it| it.iter().map(|it| text(it, "/uid").to_owned()).collect::<Vec<_>>().join(","))
        };
        let bare = json!({});
        for (scaled, deleted, ordinal, expected) in [
            ("Retain", "Retain", 0, None),
            ("Retain", "Delete", 0, Some("s")),
            ("Retain", "Delete", 5, Some("s")),
            ("Delete", "Retain", 0, None),
            ("Delete", "Retain", 5, Some("p")),
            ("Delete", "Delete", 0, Some("s")),
            ("Delete", "Delete", 5, Some("p")),
        ] {
            let (set, pod) = (set(scaled, deleted), pod(ordinal));
            let owners_now = owners(&set, &bare, &pod);
            assert_eq!(uids(owners_now.clone()).as_deref(), expected, "{scaled} {deleted} {ordinal}");
            let claim = json!({ "metadata": { "ownerReferences": owners_now.unwrap_or_default() } });
            assert_eq!(owners(&set, &claim, &pod), None, "{scaled} {deleted} {ordinal}: settled");
        }
        let owned = json!({ "metadata": { "ownerReferences": [reference(&set("", ""))] } });
        assert_eq!(uids(owners(&set("Retain", "Retain"), &owned, &pod(0))).as_deref(), Some(""));
        let foreign = json!({ "metadata": { "ownerReferences": [{ "uid": "x", "controller": true }] } });
        assert_eq!(owners(&set("Delete", "Delete"), &foreign, &pod(0)), None, "it has another controller");
    }

    #[test]
    fn a_claim_of_a_former_pod_is_stale() {
        let mut former = pod(0);
        former["metadata"]["uid"] = "former".into();
        let claim = json!({ "metadata": { "ownerReferences": [reference(&former)] } });
        assert!(is_stale(&set("Delete", "Retain"), &claim, "db-0"));
        assert!(!is_stale(&set("Retain", "Retain"), &claim, "db-0"));
        assert!(!is_stale(&set("Delete", "Retain"), &claim, "db-1"));
        assert_eq!(owners(&set("Delete", "Delete"), &claim, &pod(0)), None);
    }
}

//! The identity of the pods of a StatefulSet: ordinals, names, labels, and the volumes of claims.

use std::ops::Range;

use serde_json::{Value, json};

use crate::json_access::{items, number, text};
use crate::pod_template::{new_pod, set_name};
use crate::revisions::REVISION_LABEL;

/// The label with the name of the pod.
pub(super) const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the ordinal of the pod.
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Returns the ordinals of the pods that a set should have.
pub(super) fn ordinals(set: &Value) -> Range<i64> {
    let start = number(set, "/spec/ordinals/start").unwrap_or(0);
    let replicas = number(set, "/spec/replicas").unwrap_or(1).max(0);
    start..start.saturating_add(replicas)
}

/// Returns the name of the set that a pod belongs to by its own name, and its ordinal.
pub(super) fn parent_and_ordinal(pod: &str) -> Option<(&str, i64)> {
    let (parent, ordinal) = pod.rsplit_once('-')?;
    let digits = !ordinal.is_empty() && ordinal.bytes().all(|it| it.is_ascii_digit());
    Some((parent, ordinal.parse::<i32>().ok().filter(|_| digits)?.into()))
}

/// Returns the ordinal of a pod of a set; `None` if the pod is not a member of it by its name.
pub(super) fn ordinal_in(set: &Value, pod: &str) -> Option<i64> {
    let (parent, ordinal) = parent_and_ordinal(pod)?;
    (parent == text(set, "/metadata/name")).then_some(ordinal)
}

/// Returns the name of the pod with an ordinal.
pub(super) fn pod_name(set: &Value, ordinal: i64) -> String {
    format!("{}-{ordinal}", text(set, "/metadata/name"))
}

/// Returns the name of the claim of a pod for a template.
pub(super) fn claim_name(set: &Value, template: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", text(template, "/metadata/name"), text(set, "/metadata/name"))
}

/// Returns a new pod with an ordinal, of this revision and with its template.
pub(super) fn new_replica(set: &Value, template: &Value, revision: &str, ordinal: i64) -> Value {
    let (mut pod, name) = (new_pod(set, template), pod_name(set, ordinal));
    set_name(&mut pod, &name);
    set_identity(&mut pod, &name, ordinal);
    pod["metadata"]["labels"][REVISION_LABEL] = revision.into();
    pod["spec"]["hostname"] = name.into();
    pod["spec"]["subdomain"] = text(set, "/spec/serviceName").into();
    set_volumes(set, &mut pod, ordinal);
    pod
}

/// Returns true if a pod has the labels of its identity, and volumes for all claims.
pub(super) fn is_as_identified(set: &Value, pod: &Value, ordinal: i64) -> bool {
    let name = pod_name(set, ordinal);
    let claims = items(set, "/spec/volumeClaimTemplates").iter();
    let has_volume = |template: &Value| {
        let volume = items(pod, "/spec/volumes")
            .iter()
            .find(|it| text(it, "/name") == text(template, "/metadata/name"));
        let expected = claim_name(set, template, ordinal);
        volume.is_some_and(|it| text(it, "/persistentVolumeClaim/claimName") == expected)
    };
    pod["metadata"]["labels"][NAME_LABEL] == name && claims.into_iter().all(has_volume)
}

/// Restores the identity of a pod. Returns true if that changed anything.
pub(super) fn restore(set: &Value, pod: &mut Value, ordinal: i64) -> bool {
    if is_as_identified(set, pod, ordinal) {
        return false;
    }
    set_identity(pod, &pod_name(set, ordinal), ordinal);
    set_volumes(set, pod, ordinal);
    true
}

fn set_identity(pod: &mut Value, name: &str, ordinal: i64) {
    pod["metadata"]["labels"][NAME_LABEL] = name.into();
    pod["metadata"]["labels"][INDEX_LABEL] = ordinal.to_string().into();
}

fn set_volumes(set: &Value, pod: &mut Value, ordinal: i64) {
    let templates = items(set, "/spec/volumeClaimTemplates");
    if templates.is_empty() {
        return;
    }
    let claim = |template: &Value| {
        json!({ "name": template["metadata"]["name"],
            "persistentVolumeClaim": { "claimName": claim_name(set, template, ordinal) } })
    };
    let mut volumes: Vec<Value> = templates.iter().map(claim).collect();
    let is_other =
        |it: &&Value| !templates.iter().any(|template| text(template, "/metadata/name") == text(it, "/name"));
    volumes.extend(items(pod, "/spec/volumes").iter().filter(is_other).cloned());
    pod["spec"]["volumes"] = volumes.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": "db", "namespace": "n", "uid": "s" },
            "spec": { "replicas": 2, "serviceName": "dbs", "ordinals": { "start": 3 },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" } }] } })
    }

    #[test]
    fn names_and_ordinals_convert_both_ways() {
        assert_eq!(ordinals(&set()), 3..5);
        assert_eq!(pod_name(&set(), 4), "db-4");
        for (name, expected) in [
            ("db-4", Some(4)),
            ("db-1-4", None),
            ("web-4", None),
            ("db-", None),
            ("db-+4", None),
            ("db-99999999999", None),
        ] {
            assert_eq!(ordinal_in(&set(), name), expected, "{name}");
        }
    }

    #[test]
    fn a_replica_has_its_name_as_label_and_host_and_its_claims_as_volumes() {
        let template = json!({ "metadata": { "labels": { "app": "db" } },
            "spec": { "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "tmp", "emptyDir": {} }] } });
        let mut pod = new_replica(&set(), &template, "db-5d", 3);
        assert_eq!((&pod["metadata"]["name"], &pod["spec"]["hostname"]), (&json!("db-3"), &json!("db-3")));
        assert_eq!(pod["spec"]["subdomain"], "dbs");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({ "app": "db", NAME_LABEL: "db-3", INDEX_LABEL: "3", REVISION_LABEL: "db-5d" })
        );
        let claim = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data-db-3" } });
        assert_eq!(pod["spec"]["volumes"], json!([claim, { "name": "tmp", "emptyDir": {} }]));
        assert!(is_as_identified(&set(), &pod, 3) && !restore(&set(), &mut pod, 3));
        pod["metadata"]["labels"] = json!({});
        assert!(restore(&set(), &mut pod, 3) && is_as_identified(&set(), &pod, 3));
    }
}

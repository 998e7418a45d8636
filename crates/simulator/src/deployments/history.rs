//! Revisions: the ReplicaSet of the current template, its name, and its revision number.

use serde_json::{Value, json};

use super::model::{DESIRED, Desired, HASH, HISTORY, MAXIMUM, REVISION, ReplicaSetState, annotation};
use crate::json_access::{entries, number, text};
use crate::owner::reference;
use crate::template_hash::{hashed_name, short_hash};

/// The longest history of revisions, in characters: `maxRevHistoryLengthInChars` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/deployment/sync.go.
const LONGEST_HISTORY: usize = 2000;

/// Returns true if a ReplicaSet has the current template of a Deployment.
pub(super) fn is_current(deployment: &Value, set: &Value) -> bool {
    let bare = |object: &Value| {
        let mut template = object["spec"]["template"].clone();
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(HASH);
        }
        template
    };
    bare(deployment) == bare(set)
}

/// Returns the hash of the template of a Deployment.
pub(super) fn hash(deployment: &Value) -> String {
    let collisions = number(deployment, "/status/collisionCount").unwrap_or(0);
    short_hash(&format!("{}{collisions}", deployment["spec"]["template"]))
}

/// Returns a new ReplicaSet for the current template.
pub(super) fn new_set(deployment: &Value, replicas: i64, revision: i64) -> Value {
    let hash = hash(deployment);
    let name = hashed_name(text(deployment, "/metadata/name"), &hash, 252 - hash.len());
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"][HASH] = hash.as_str().into();
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH] = hash.as_str().into();
    let mut set = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": { "name": name, "namespace": deployment["metadata"]["namespace"],
            "labels": template["metadata"]["labels"], "ownerReferences": [reference(deployment)] },
        "spec": { "replicas": replicas, "selector": selector, "template": template } });
    if let Some(seconds) = number(deployment, "/spec/minReadySeconds").filter(|it| *it > 0) {
        set["spec"]["minReadySeconds"] = seconds.into();
    }
    annotate(deployment, &mut set, revision);
    set
}

/// Updates the annotations of the current ReplicaSet from its Deployment. Returns true if that
/// changed anything.
pub(super) fn annotate(deployment: &Value, set: &mut Value, revision: i64) -> bool {
    let before = set["metadata"].get("annotations").cloned();
    let fresh = before.is_none();
    let was = annotation(set, REVISION).to_owned();
    let ours = [REVISION, HISTORY, DESIRED, MAXIMUM, "kubectl.kubernetes.io/last-applied-configuration"];
    for (name, value) in entries(deployment, "/metadata/annotations").filter(|(it, _)| !ours.contains(it)) {
        set["metadata"]["annotations"][name] = value.clone();
    }
    if was.parse().unwrap_or(0) < revision {
        set["metadata"]["annotations"][REVISION] = revision.to_string().into();
        if !was.is_empty() {
            let history = longer_history(annotation(set, HISTORY), &was);
            set["metadata"]["annotations"][HISTORY] = history.into();
        }
    }
    let wanted = Desired::read(deployment);
    if fresh || annotation(set, DESIRED).is_empty() {
        set_size(set, number(set, "/spec/replicas").unwrap_or(0), &wanted);
    }
    set["metadata"].get("annotations").cloned() != before
}

/// Sets the size of a ReplicaSet, and the annotations about the desired size. Returns true if that
/// changed anything.
pub(super) fn set_size(set: &mut Value, size: i64, wanted: &Desired) -> bool {
    let before = (set["spec"]["replicas"].clone(), set["metadata"]["annotations"].clone());
    set["spec"]["replicas"] = size.into();
    set["metadata"]["annotations"][DESIRED] = wanted.replicas.to_string().into();
    set["metadata"]["annotations"][MAXIMUM] = wanted.maximum().to_string().into();
    before != (set["spec"]["replicas"].clone(), set["metadata"]["annotations"].clone())
}

/// Returns the revision of the current template: one more than all others have.
pub(super) fn next_revision(olds: &[ReplicaSetState]) -> i64 {
    olds.iter().map(|it| it.revision).max().unwrap_or(0).saturating_add(1)
}

fn longer_history(history: &str, revision: &str) -> String {
    let all: Vec<&str> = history.split(',').filter(|it| !it.is_empty()).chain([revision]).collect();
    let mut length = 0_usize;
    let fits = |it: &&&str| {
        length = length.saturating_add(it.len()).saturating_add(1);
        length <= LONGEST_HISTORY + 1
    };
    let kept = all.iter().rev().take_while(fits).count();
    all[all.len().saturating_sub(kept)..].join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "n", "uid": "u", "annotations": { "team": "a", REVISION: "1",
                "kubectl.kubernetes.io/last-applied-configuration": "{}" } },
            "spec": { "replicas": 3, "minReadySeconds": 5, "selector": { "matchLabels": { "app": "web" } },
                "strategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "image": "i:1" }] } } } })
    }

    #[test]
    fn a_new_set_is_named_and_labeled_by_its_template() {
        let set = new_set(&deployment(), 3, 1);
        let hash = hash(&deployment());
        assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
        for pointer in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            assert_eq!(set.pointer(pointer), Some(&json!({ "app": "web", HASH: hash })), "{pointer}");
        }
        assert_eq!(
            set["metadata"]["annotations"],
            json!({ "team": "a", REVISION: "1", DESIRED: "3", MAXIMUM: "4" })
        );
        assert_eq!(set["spec"]["minReadySeconds"], 5);
        assert!(is_current(&deployment(), &set));
    }

    #[test]
    fn another_template_has_another_hash_and_so_has_a_collision() {
        let (mut other, mut collided) = (deployment(), deployment());
        other["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2".into();
        collided["status"]["collisionCount"] = 1.into();
        let hashes = [deployment(), other.clone(), collided].map(|it| hash(&it));
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2]);
        assert!(!is_current(&other, &new_set(&deployment(), 3, 1)));
    }

    #[test]
    fn going_back_to_an_old_template_gives_it_a_new_revision_and_keeps_the_old_one_in_its_history() {
        let mut set = new_set(&deployment(), 3, 1);
        assert!(!annotate(&deployment(), &mut set, 1), "nothing has changed");
        assert!(annotate(&deployment(), &mut set, 3));
        assert!(annotate(&deployment(), &mut set, 5));
        assert_eq!((annotation(&set, REVISION), annotation(&set, HISTORY)), ("5", "1,3"));
        assert!(!annotate(&deployment(), &mut set, 4), "revisions never decrease");
        assert!(longer_history(&"9,".repeat(1500), "10").len() <= LONGEST_HISTORY);
        // A sum over all entries for each removed one is quadratic.
        let kept = longer_history(&"9,".repeat(100_000), "10");
        assert_eq!((kept.len(), kept.matches('9').count()), (LONGEST_HISTORY, 999));
        assert_eq!(longer_history("", &"1".repeat(LONGEST_HISTORY + 1)), "");
    }
}

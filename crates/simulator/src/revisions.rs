//! The revisions of the templates of a StatefulSet or a DaemonSet, as ControllerRevisions.

use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_core::{DeleteParams, Object, ObjectKey};
use serde_json::{Value, json};

use crate::collection::{Collection, Writer};
use crate::json_access::{entries, number, text};
use crate::object::JsonObject;
use crate::owner::reference;
use crate::template_hash::{hashed_name, short_hash};

/// The number of characters that the name of a workload contributes to that of a revision:
/// `ControllerRevisionName` in k8s.io/kubernetes v1.36.4
/// pkg/controller/history/controller_history.go.
const LONGEST_PREFIX: usize = 223;
/// The number of names that are tried for a revision.
const ATTEMPTS: usize = 10;

/// The label of pods that names their revision, and of the revisions of DaemonSets.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";

/// The revision of the current template.
#[derive(Clone, Debug)]
pub(crate) struct CurrentRevision {
    pub(crate) revision: Arc<JsonObject>,
    /// The number of names that revisions with other templates had already.
    pub(crate) collisions: i64,
}

/// Returns the revision of the current template of a workload. Creates it, or gives it the highest
/// number, if necessary. `known` are the revisions of the workload, `label` is the label for the
/// hash.
pub(crate) async fn current(
    revisions: &Collection<JsonObject>,
    workload: &Value,
    known: &[Arc<JsonObject>],
    label: &str,
    writer: Writer<'_>,
) -> Result<CurrentRevision, Error> {
    let mut collisions = number(workload, "/status/collisionCount").unwrap_or(0);
    let data = snapshot(workload);
    let latest = known.iter().map(|it| number_of(it)).max().unwrap_or(0);
    let equal = known.iter().filter(|it| it["data"] == data).max_by_key(|it| sort_key(it));
    if let Some(equal) = equal {
        let others = known.iter().filter(|it| it["data"] != data).map(|it| number_of(it)).max();
        let revision = match (others.is_some_and(|it| it >= number_of(equal)), equal.key()) {
            (true, Some(key)) => {
                let renumber = |it: &mut Value| {
                    it["revision"] = latest.saturating_add(1).into();
                    true
                };
                let changed = revisions.change(&key, "", writer, renumber).await?;
                changed.unwrap_or_else(|| Arc::clone(equal))
            }
            _ => Arc::clone(equal),
        };
        return Ok(CurrentRevision { revision, collisions });
    }
    let mut attempt = 0;
    loop {
        let new = new_revision(workload, &data, latest.saturating_add(1), collisions, label);
        let name = text(&new, "/metadata/name").to_owned();
        let error = match revisions.create(new, writer).await {
            Ok(revision) => return Ok(CurrentRevision { revision, collisions }),
            Err(error) => error,
        };
        attempt += 1;
        let key = ObjectKey::from_parts(Some(text(workload, "/metadata/namespace")), &name).ok();
        let Some(key) = key.filter(|_| error.is_already_exists() && attempt < ATTEMPTS) else {
            return Err(error);
        };
        match revisions.live(&key).await? {
            Some(revision) if revision["data"] == data => {
                return Ok(CurrentRevision { revision, collisions });
            }
            _ => collisions = collisions.saturating_add(1),
        }
    }
}

/// Deletes the oldest revisions that are not in use, so that no more of those remain than the
/// workload keeps.
pub(crate) async fn truncate(
    revisions: &Collection<JsonObject>,
    workload: &Value,
    known: &[Arc<JsonObject>],
    is_live: impl Fn(&JsonObject) -> bool,
    writer: Writer<'_>,
) -> Result<(), Error> {
    let limit = number(workload, "/spec/revisionHistoryLimit").unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return Ok(()) };
    let mut history: Vec<_> = known.iter().filter(|it| !is_live(it)).collect();
    history.sort_by_key(|it| sort_key(it));
    for old in history.iter().take(history.len().saturating_sub(limit)) {
        if let Some(key) = old.key() {
            revisions.delete(&key, &DeleteParams::default(), writer).await?;
        }
    }
    Ok(())
}

/// Returns the template that a revision holds.
pub(crate) fn template(revision: &Value) -> Value {
    let mut template = revision["data"]["spec"]["template"].clone();
    if let Some(template) = template.as_object_mut() {
        template.remove("$patch");
    }
    template
}

/// Returns the data of a revision: a strategic merge patch that restores the template.
fn snapshot(workload: &Value) -> Value {
    let mut template = workload["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    json!({ "spec": { "template": template } })
}

fn new_revision(workload: &Value, data: &Value, number: i64, collisions: i64, label: &str) -> Value {
    let hash = short_hash(&format!("{data}{collisions}"));
    let mut labels = json!({});
    for (name, value) in entries(workload, "/spec/template/metadata/labels") {
        labels[name] = value.clone();
    }
    labels[label] = hash.as_str().into();
    let mut metadata = json!({ "namespace": workload["metadata"]["namespace"], "labels": labels,
        "name": hashed_name(text(workload, "/metadata/name"), &hash, LONGEST_PREFIX),
        "ownerReferences": [reference(workload)] });
    if let Some(annotations) = workload["metadata"].get("annotations").filter(|it| !it.is_null()) {
        metadata["annotations"] = annotations.clone();
    }
    json!({ "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata,
        "data": data, "revision": number })
}

fn number_of(revision: &Value) -> i64 {
    number(revision, "/revision").unwrap_or(0)
}

/// Returns a key that sorts revisions from the oldest to the newest.
fn sort_key(revision: &Value) -> (i64, String, String) {
    let field = |pointer: &str| text(revision, pointer).to_owned();
    (number_of(revision), field("/metadata/creationTimestamp"), field("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_restores_the_template_it_was_made_from() {
        let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": "db", "namespace": "n", "uid": "u", "annotations": { "a": "b" } },
            "spec": { "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [] } } } });
        let data = snapshot(&set);
        assert_eq!(data["spec"]["template"]["$patch"], "replace");
        let revision = new_revision(&set, &data, 3, 0, "hash");
        assert_eq!(template(&revision), set["spec"]["template"]);
        assert_eq!(
            (&revision["revision"], &revision["metadata"]["labels"]["app"]),
            (&json!(3), &json!("db"))
        );
        let hash = text(&revision, "/metadata/labels/hash").to_owned();
        assert_eq!(revision["metadata"]["name"], format!("db-{hash}"));
        assert_eq!(revision["metadata"]["annotations"]["a"], "b");
        let collided = new_revision(&set, &data, 3, 1, "hash");
        assert_ne!(collided["metadata"]["name"], revision["metadata"]["name"]);
    }
}

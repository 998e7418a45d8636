//! Deleting all objects of a kind, in a namespace or everywhere, and telling what is left of them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{Cluster, DeleteOptions, Place, Propagation, Writer};
use crate::kinds::look::{at, items};
use crate::refusal::Refusal;
use crate::registry::Kind;

/// What is left of a kind after its objects were deleted: those that wait for their finalizers, or for their time to be up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// How many objects.
    pub(crate) objects: usize,
    /// How many of them have each finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
}

/// How long objects are deleted after one was refused. A webhook that does not answer takes up to half a minute for each, and
/// whoever waits for all of them waits for hours.
const PATIENCE: Duration = Duration::from_secs(10);

/// Deletes all objects of a kind, in one namespace or in all, and counts those that stay for now.
///
/// # Errors
/// The first refusal that is not about an object that is gone already. The others have been deleted nevertheless, as far as
/// that did not take long.
pub(crate) async fn purge(
    cluster: &Cluster,
    kind: &Kind,
    namespace: Option<&str>,
    writer: &Writer,
) -> Result<Left, Refusal> {
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let (mut refused, begun) = (None, Instant::now());
    for stored in cluster.list(kind, namespace) {
        if !needs_delete(&stored.to_value()) {
            continue;
        }
        let options = DeleteOptions { uid: Some(stored.uid().to_owned()), ..options.clone() };
        match cluster.delete(&Place::of(kind, stored.key()), &options, writer).await {
            Err(refusal) if !matches!(refusal.0.code, 404 | 409) => refused = refused.or(Some(refusal)),
            _ => {}
        }
        if refused.is_some() && begun.elapsed() >= PATIENCE {
            break;
        }
    }
    match refused {
        Some(refusal) => Err(refusal),
        None => Ok(left(cluster.list(kind, namespace).iter().map(|it| it.to_value()))),
    }
}

/// Whether to delete an object: once, and again while it waits for its dependents, for which nobody has to wait here.
fn needs_delete(object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_none()
        || items(object, "/metadata/finalizers").iter().any(|it| it == "foregroundDeletion" || it == "orphan")
}

fn left(objects: impl Iterator<Item = Value>) -> Left {
    let mut left = Left::default();
    for object in objects {
        left.objects += 1;
        for finalizer in items(&object, "/metadata/finalizers").iter().filter_map(Value::as_str) {
            *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_deleted_once_and_again_only_to_stop_waiting_for_dependents() {
        let object = |deleted: bool, finalizers: &[&str]| json!({ "metadata": { "deletionTimestamp": deleted.then_some("now"), "finalizers": finalizers } });
        for (deleted, finalizers, expected) in [
            (false, &[][..], true),
            (false, &["x"][..], true),
            (true, &["x"][..], false),
            (true, &["foregroundDeletion"][..], true),
            (true, &["x", "orphan"][..], true),
        ] {
            assert_eq!(needs_delete(&object(deleted, finalizers)), expected, "{deleted} {finalizers:?}");
        }
    }

    #[test]
    fn what_is_left_is_counted_by_finalizer() {
        let objects = [
            json!({ "metadata": { "finalizers": ["a", "b"] } }),
            json!({ "metadata": { "finalizers": ["b"] } }),
        ];
        let finalizers = [("a".to_owned(), 1), ("b".to_owned(), 2)].into();
        assert_eq!(left(objects.into_iter()), Left { objects: 2, finalizers });
    }
}

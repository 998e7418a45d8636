//! Deletion of all objects of a kind, in one namespace or in all, with a count of those that are
//! left.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::ApiError;
use crate::cluster::{Admission, Cluster, DeleteOptions, ObjectRef, Propagation, Writer};
use crate::kinds::json_access::{at, items};
use crate::registry::Kind;

/// The objects of a kind that are left after a deletion: they wait for their finalizers, or for
/// their grace period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// The number of objects.
    pub(crate) objects: usize,
    /// The number of them that have each finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
}

/// The time for which deletions continue after one has failed. A webhook that does not respond
/// takes up to 30 seconds for each object, so deleting all of them could take hours.
const TIME_LIMIT_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Deletes all objects of a kind, in one namespace or in all, and counts those that are left.
///
/// # Errors
/// The first error that is not about an object that is gone already. Other objects have been
/// deleted nevertheless, up to the time limit.
pub(crate) async fn purge(
    cluster: &Cluster,
    kind: &Kind,
    namespace: Option<&str>,
    writer: &Writer,
    admission: Admission,
) -> Result<Remaining, ApiError> {
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let (mut refused, begun) = (None, Instant::now());
    for stored in cluster.list(kind, namespace) {
        if !needs_delete(&stored.to_value()) {
            continue;
        }
        let options = DeleteOptions { uid: Some(stored.uid().to_owned()), ..options.clone() };
        let deleted =
            cluster.delete_as(&ObjectRef::of(kind, stored.key()), &options, writer, admission).await;
        // A webhook may deny a request with any code, so the code does not say whether the object is
        // gone.
        let exists = || cluster.get(kind, stored.key()).is_some_and(|it| it.uid() == stored.uid());
        if let Err(refusal) = deleted
            && exists()
        {
            refused = refused.or(Some(refusal));
        }
        if refused.is_some() && begun.elapsed() >= TIME_LIMIT_AFTER_FAILURE {
            break;
        }
    }
    match refused {
        Some(refusal) => Err(refusal),
        None => Ok(left(cluster.list(kind, namespace).iter().map(|it| it.to_value()))),
    }
}

/// Returns true if an object is to be deleted: once, and again if it waits for its dependents,
/// since the purge deletes those anyway.
fn needs_delete(object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_none()
        || items(object, "/metadata/finalizers").iter().any(|it| it == "foregroundDeletion" || it == "orphan")
}

fn left(objects: impl Iterator<Item = Value>) -> Remaining {
    let mut left = Remaining::default();
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
    fn remaining_objects_are_counted_by_finalizer() {
        let objects = [
            json!({ "metadata": { "finalizers": ["a", "b"] } }),
            json!({ "metadata": { "finalizers": ["b"] } }),
        ];
        let finalizers = [("a".to_owned(), 1), ("b".to_owned(), 2)].into();
        assert_eq!(left(objects.into_iter()), Remaining { objects: 2, finalizers });
    }
}

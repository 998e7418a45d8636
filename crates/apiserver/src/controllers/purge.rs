//! Deletion of all objects of a kind, with a count of those that are left.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::ApiError;
use crate::cluster::{Admission, Cluster, DeleteOptions, ObjectRef, Writer};
use crate::kinds::json_access::{at, items};
use crate::registry::Kind;

/// The time for which deletions continue after one has failed.
const TIME_LIMIT_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Deletes all objects of a kind, without webhooks, and without a propagation policy: the
/// finalizers of each object decide about its dependents. Returns the number of objects that are
/// left, which wait for their finalizers.
///
/// # Errors
/// The first error that is not about an object that is gone already. Other objects have been
/// deleted nevertheless, up to the time limit.
pub(crate) async fn purge(cluster: &Cluster, kind: &Kind, writer: &Writer) -> Result<usize, ApiError> {
    let (mut refused, begun) = (None, Instant::now());
    for stored in cluster.list(kind, None) {
        if !needs_delete(&stored.to_value()) {
            continue;
        }
        let options = DeleteOptions { uid: Some(stored.uid().to_owned()), ..DeleteOptions::default() };
        let place = ObjectRef::of(kind, stored.key());
        let deleted = cluster.delete_as(&place, &options, writer, Admission::Skip).await;
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
        None => Ok(cluster.list(kind, None).len()),
    }
}

/// Returns true if an object is to be deleted: once, and again if nothing but a grace period holds
/// it.
fn needs_delete(object: &Value) -> bool {
    // The second changes nothing for a kind with graceful deletion. Objects of other kinds have a
    // grace period only if a webhook has added it, and no kubelet ends it.
    at(object, "/metadata/deletionTimestamp").is_none() || items(object, "/metadata/finalizers").is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_deleted_once_and_again_only_if_no_finalizer_holds_it() {
        let object = |deleted: bool, finalizers: &[&str]| json!({ "metadata": { "deletionTimestamp": deleted.then_some("now"), "finalizers": finalizers } });
        for (deleted, finalizers, expected) in [
            (false, &[][..], true),
            (false, &["x"][..], true),
            (true, &[][..], true),
            (true, &["x"][..], false),
            (true, &["foregroundDeletion"][..], false),
            (true, &["x", "orphan"][..], false),
        ] {
            assert_eq!(needs_delete(&object(deleted, finalizers)), expected, "{deleted} {finalizers:?}");
        }
    }
}

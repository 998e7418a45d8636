//! The content of a namespace: lists it, and deletes it by uid.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_client::{Api, Error};
use dogwatch_core::{
    DeleteParams, ErrorChain, Header, Labels, ListParams, Object, Preconditions, ResourceVersion,
};
use futures_util::StreamExt;
use futures_util::stream;
use serde::Deserialize;
use tokio::time::Instant;

/// The number of objects of a namespace that are deleted at the same time.
const CONCURRENT_DELETIONS: usize = 8;
/// The time for which deletions continue after one has failed. A webhook that does not respond
/// takes up to 30 seconds for each object, so deleting all of them could take hours.
const TIME_LIMIT_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The metadata of an object, as far as its deletion is concerned.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content {
    metadata: ContentMeta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContentMeta {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
}

/// A pod, as far as its grace period is concerned.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodGrace {
    spec: PodGraceSpec,
    status: PodGraceStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodGraceSpec {
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodGraceStatus {
    phase: Option<String>,
}

/// The objects of a kind that are left after a deletion: they wait for their finalizers, or for
/// their grace period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Remaining {
    /// The number of objects.
    pub(super) objects: usize,
    /// The number of them that have each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// The version at which they were counted.
    pub(super) version: ResourceVersion,
    /// True if the time was up before all objects were deleted.
    pub(super) is_cut: bool,
}

/// Returns the objects of a collection. It is empty if it is not served, or cannot be listed.
///
/// # Errors
/// If the list fails for another reason.
pub(super) async fn list(api: &Api<Content>) -> Result<(Vec<Content>, ResourceVersion), Error> {
    match api.list_all(&ListParams::default()).await {
        Ok(list) => Ok((list.items, list.metadata.version)),
        // 405: the resource has no lists, as an aggregated API may have.
        Err(error) if error.is_not_found() || error.status().is_some_and(|it| it.code == 405) => {
            Ok((Vec::new(), ResourceVersion::UNSET))
        }
        Err(error) => Err(error),
    }
}

/// Deletes these objects, and counts those that are left. After the deadline no further deletion is
/// begun.
///
/// # Errors
/// The first error that is not about an object that is gone already. Other objects have been
/// deleted nevertheless, up to the time limit.
pub(super) async fn delete(
    api: &Api<Content>,
    objects: Vec<Content>,
    deadline: Instant,
) -> Result<Remaining, Error> {
    let begun = Instant::now();
    let mut doomed = objects.into_iter().filter(Content::needs_delete);
    let mut failed = None;
    let mut running = stream::FuturesUnordered::new();
    loop {
        let is_late =
            Instant::now() >= deadline || (failed.is_some() && begun.elapsed() >= TIME_LIMIT_AFTER_FAILURE);
        while !is_late
            && running.len() < CONCURRENT_DELETIONS
            && let Some(object) = doomed.next()
        {
            running.push(delete_one(api, object));
        }
        match running.next().await {
            Some(Ok(())) => {}
            Some(Err(error)) => drop(failed.get_or_insert(error)),
            None => break,
        }
    }
    match failed {
        Some(error) => Err(error),
        None => {
            let is_cut = doomed.next().is_some();
            let (left, version) = list(api).await?;
            Ok(Remaining { is_cut, ..Remaining::count(&left, version) })
        }
    }
}

async fn delete_one(api: &Api<Content>, object: Content) -> Result<(), Error> {
    let ContentMeta { name, uid, .. } = &object.metadata;
    let params = DeleteParams::background().preconditions(Preconditions::uid(uid));
    let Err(error) = api.delete(name, &params).await else { return Ok(()) };
    // A webhook may deny a request with any code, so the code does not say whether the object is
    // gone.
    match api.get_opt(name).await? {
        Some(found) if found.metadata.uid == *uid => Err(error),
        _ => Ok(()),
    }
}

/// Returns the text of an error for a condition.
pub(super) fn text_of(error: &Error) -> String {
    error.status().map_or_else(|| ErrorChain(error).to_string(), |it| it.message.clone())
}

/// Returns the longest grace period of these pods, in seconds.
pub(super) fn longest_grace(pods: &[PodGrace]) -> i64 {
    let ended = |pod: &&PodGrace| matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let running = pods.iter().filter(|it| !ended(it));
    running.filter_map(|it| it.spec.termination_grace_period_seconds).max().unwrap_or(0)
}

impl Object for Content {
    fn header(&self) -> Header<'_> {
        let ContentMeta { name, namespace, uid, resource_version, .. } = &self.metadata;
        Header {
            name,
            namespace: Some(namespace.as_str()).filter(|it| !it.is_empty()),
            uid,
            version: resource_version,
            labels: Labels::EMPTY,
        }
    }
}

impl Content {
    /// Returns true if an object is to be deleted: once, and again if it waits for its dependents,
    /// since those are deleted anyway.
    fn needs_delete(&self) -> bool {
        self.metadata.deletion_timestamp.is_none()
            || self.finalizers().any(|it| it == "foregroundDeletion" || it == "orphan")
    }

    fn finalizers(&self) -> impl Iterator<Item = &String> {
        self.metadata.finalizers.iter().flatten()
    }
}

impl Remaining {
    fn count(objects: &[Content], version: ResourceVersion) -> Self {
        let mut left = Self { objects: objects.len(), version, ..Self::default() };
        for finalizer in objects.iter().flat_map(Content::finalizers) {
            let count = left.finalizers.entry(finalizer.clone()).or_default();
            *count = count.saturating_add(1);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(deleted: bool, finalizers: &[&str]) -> Content {
        let metadata = json!({ "deletionTimestamp": deleted.then_some("now"), "finalizers": finalizers });
        Content::deserialize(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn an_object_is_deleted_once_and_again_only_to_stop_waiting_for_dependents() {
        for (deleted, finalizers, expected) in [
            (false, &[][..], true),
            (false, &["x"][..], true),
            (true, &["x"][..], false),
            (true, &["foregroundDeletion"][..], true),
            (true, &["x", "orphan"][..], true),
        ] {
            assert_eq!(content(deleted, finalizers).needs_delete(), expected, "{deleted} {finalizers:?}");
        }
    }

    #[test]
    fn remaining_objects_are_counted_by_finalizer() {
        let objects = [content(true, &["a", "b"]), content(true, &["b"])];
        let finalizers = [("a".to_owned(), 1), ("b".to_owned(), 2)].into();
        let version = ResourceVersion::new("7");
        let expected = Remaining { objects: 2, finalizers, version: version.clone(), is_cut: false };
        assert_eq!(Remaining::count(&objects, version), expected);
    }

    #[test]
    fn the_grace_period_of_pods_that_have_ended_does_not_count() {
        let pod = |phase: &str, grace: i64| {
            let pod =
                json!({ "spec": { "terminationGracePeriodSeconds": grace }, "status": { "phase": phase } });
            PodGrace::deserialize(pod).unwrap()
        };
        assert_eq!(longest_grace(&[pod("Running", 5), pod("Pending", 7), pod("Succeeded", 30)]), 7);
        assert_eq!(longest_grace(&[]), 0);
    }
}

//! Deletion of namespaces: their content is deleted, pods first, and then they are removed.
//!
//! ```text
//! deletionTimestamp ─► a pause ─► pods ─► everything else ─► conditions ─► /finalize without `kubernetes` ─► gone
//!                                  └───────────┴─ something is left: wait until it changes
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::background::{builtin, writer};
use super::finalizers;
use super::pauses::Pauses;
use super::purge::{Remaining, purge};
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::cluster::{Admission, Cluster, ObjectRef, Writer};
use crate::kinds::POD;
use crate::kinds::json_access::{at, items, number, text};
use crate::registry::Kind;
use crate::store::{CollectionName, Encoded};

/// The finalizer that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";
/// The time before the content of a namespace is deleted. Clients rely on such a pause: those that
/// finalize a namespace themselves delete it, read it and write it back. kube-controller-manager
/// waits 5 seconds (`namespaceDeletionGracePeriod` in k8s.io/kubernetes v1.36.4
/// pkg/controller/namespace/namespace_controller.go).
const PAUSE: Duration = Duration::from_secs(1);
/// The time until a rejected deletion is retried, such as after the denial of a webhook.
const RETRY: Duration = Duration::from_secs(15);

/// Deletes the content of namespaces that are being deleted, and then removes them.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    /// The namespaces that are being deleted.
    begun: Pauses,
}

/// The result of deleting all content of a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct DeletionPass {
    /// The number of objects left of each resource, as `plural.group`.
    remaining: BTreeMap<String, usize>,
    /// The number of them that have each finalizer.
    finalizers: BTreeMap<String, usize>,
    /// The errors of deletions that failed.
    failures: Vec<String>,
    /// The collections in which objects are left.
    collections: Vec<CollectionName>,
    /// The longest grace period of the objects left, in seconds.
    grace: Option<i64>,
}

impl Reconciler for Namespaces {
    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        vec![builtin(cluster, "", "v1", "namespaces").collection.clone()]
    }

    fn touched(
        &mut self,
        _: &Cluster,
        _: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        // A namespace that is gone is processed too: a client may have finalized it, and the pause
        // of the next one of its name begins again.
        after.or(before).map(|it| it.key().clone()).into_iter().collect()
    }

    fn concerns(&self, waiting: &ObjectKey, changed: &ObjectKey) -> bool {
        changed.namespace() == Some(waiting.name())
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let kind = builtin(cluster, "", "v1", "namespaces");
        let namespace = cluster.get(&kind, key).map(|it| it.to_value());
        let going = |it: &Value| at(it, "/metadata/deletionTimestamp").is_some();
        let Some(namespace) = namespace.filter(going) else {
            self.begun.end(key);
            return Ok(Next::touch());
        };
        if let Some(pause) = self.begun.left(key, PAUSE) {
            return Ok(Next::after(pause));
        }
        let place = ObjectRef::of(&kind, key);
        let uid = text(&namespace, "/metadata/uid").to_owned();
        let writer = writer("namespace-controller", "kube-controller-manager");
        if text(&namespace, "/status/phase") != "Terminating" {
            let mark = |it: &mut Value| {
                let is_same = finalizers::is_same(it, &uid);
                if is_same {
                    it["status"]["phase"] = "Terminating".into();
                }
                is_same
            };
            cluster.change(&place.part("status"), &writer, mark).await?;
        }
        if !items(&namespace, "/spec/finalizers").iter().any(|it| it == FINALIZER) {
            return Ok(Next::touch());
        }
        let since = cluster.store().revision();
        let elapsed = elapsed(&namespace, cluster.source().now());
        // A client may finalize the namespace and create another of its name at any time.
        let exists = || cluster.get(&kind, key).is_some_and(|it| it.uid() == uid);
        let pass = empty(cluster, key.name(), elapsed, &writer, exists).await;
        let now = cluster.source().stamp();
        let report = |it: &mut Value| finalizers::is_same(it, &uid) && report(it, &pass, &now);
        cluster.change(&place.part("status"), &writer, report).await?;
        if pass.remaining.is_empty() && pass.failures.is_empty() {
            let finalize = |it: &mut Value| {
                finalizers::is_same(it, &uid) && finalizers::remove(it, "/spec/finalizers", FINALIZER)
            };
            cluster.change(&place.part("finalize"), &writer, finalize).await?;
            self.begun.end(key);
            return Ok(Next::touch());
        }
        if pass.collections.is_empty() {
            return Err(ApiError::internal(pass.failures.join(", ")));
        }
        let rest = |it: i64| Duration::from_secs(it.saturating_sub(elapsed).max(1).unsigned_abs());
        // Failed deletions are retried, also if nothing changes in the collections.
        let wait = pass.grace.map(rest).or((!pass.failures.is_empty()).then_some(RETRY));
        Ok(Next { after: wait, waits_for: pass.collections, since })
    }
}

/// Deletes the content of a namespace: pods first, and nothing else while there are any. Stops when
/// `exists` returns false.
async fn empty(
    cluster: &Cluster,
    namespace: &str,
    elapsed: i64,
    writer: &Writer,
    exists: impl Fn() -> bool + Send,
) -> DeletionPass {
    let catalog = cluster.catalog();
    let deletable = |it: &Kind| it.def.namespaced && it.def.has_verb("delete");
    let mut kinds: Vec<_> = catalog.stored().into_iter().filter(|it| deletable(it)).collect();
    kinds.sort_by_key(|it| !it.is(&POD));
    let mut pass = DeletionPass::default();
    for kind in kinds {
        // The objects are listed at once after this check, and deleted by their uid: those of a later
        // namespace are not among them.
        if !exists() {
            break;
        }
        let pods = kind.is(&POD);
        let grace = if pods { longest_grace(cluster, &kind, namespace) } else { 0 };
        let left = purge(cluster, &kind, Some(namespace), writer, Admission::Review).await;
        let waits = pass.add(&kind, namespace, left, grace > elapsed);
        if waits && grace > elapsed {
            pass.grace = Some(grace);
        }
        if pods && waits {
            break;
        }
    }
    pass
}

impl DeletionPass {
    /// Adds the objects left of a kind. Returns true if there are any. With `in_time`, their grace
    /// period is not over yet.
    fn add(
        &mut self,
        kind: &Kind,
        namespace: &str,
        left: Result<Remaining, ApiError>,
        in_time: bool,
    ) -> bool {
        let left = match left {
            Ok(left) => left,
            Err(refusal) => {
                self.failures.push(refusal.to_string());
                return false;
            }
        };
        if left.objects == 0 {
            return false;
        }
        let def = &kind.def;
        if !in_time && left.finalizers.is_empty() {
            self.failures.push(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                def.group, def.version, def.plural
            ));
        }
        self.remaining.insert(format!("{}.{}", def.plural, def.group), left.objects);
        for (finalizer, count) in left.finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
        }
        self.collections.push(kind.collection.clone());
        true
    }
}

impl DeletionPass {
    /// Returns the reason and message of the condition about failed deletions.
    fn failed(&self) -> Option<(&'static str, String)> {
        let mut failures = self.failures.clone();
        failures.sort();
        let words = "Failed to delete all resource types";
        let message = || format!("{words}, {} remaining: {}", failures.len(), failures.join(", "));
        (!failures.is_empty()).then(|| ("ContentDeletionFailed", message()))
    }

    /// Returns the reason and message of the condition about remaining objects.
    fn content(&self) -> Option<(&'static str, String)> {
        let message = || format!("Some resources are remaining: {}", counted(&self.remaining, "has"));
        (!self.remaining.is_empty()).then(|| ("SomeResourcesRemain", message()))
    }

    /// Returns the reason and message of the condition about remaining finalizers.
    fn held(&self) -> Option<(&'static str, String)> {
        let words = "Some content in the namespace has finalizers remaining";
        let message = || format!("{words}: {}", counted(&self.finalizers, "in"));
        (!self.finalizers.is_empty()).then(|| ("SomeFinalizersRemain", message()))
    }
}

/// Formats counts in the words and the order of k8s.io/kubernetes v1.36.4
/// pkg/controller/namespace/deletion/status_condition_utils.go.
fn counted(counts: &BTreeMap<String, usize>, word: &str) -> String {
    let each = counts.iter().map(|(name, count)| format!("{name} {word} {count} resource instances"));
    let mut each: Vec<_> = each.collect();
    each.sort();
    each.join(", ")
}

/// Returns the longest grace period of the pods of the namespace, in seconds.
fn longest_grace(cluster: &Cluster, pods: &Kind, namespace: &str) -> i64 {
    let ended = |pod: &Value| matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    let all = cluster.list(pods, Some(namespace));
    let running = all.iter().map(|it| it.to_value()).filter(|it| !ended(it));
    running.filter_map(|it| number(&it, "/spec/terminationGracePeriodSeconds")).max().unwrap_or(0)
}

/// Returns the number of seconds since the deletion began.
fn elapsed(namespace: &Value, now: Timestamp) -> i64 {
    let began: Option<Timestamp> = text(namespace, "/metadata/deletionTimestamp").parse().ok();
    began.map_or(0, |it| now.as_second() - it.as_second())
}

/// Writes the result of a pass into the conditions of the namespace. Returns true if that changed
/// anything.
fn report(namespace: &mut Value, pass: &DeletionPass, now: &str) -> bool {
    if at(namespace, "/metadata/deletionTimestamp").is_none() {
        return false;
    }
    let conditions = [
        ("DiscoveryFailure", None, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "GroupVersionParsingFailure",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "ContentFailure",
            pass.failed(),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    ];
    let left = [
        ("ContentRemaining", pass.content(), "ContentRemoved", "All content successfully removed"),
        (
            "FinalizersRemaining",
            pass.held(),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let named = conditions.map(|it| ("NamespaceDeletion", it)).into_iter();
    let mut changed = false;
    for (prefix, (kind, bad, reason, message)) in named.chain(left.map(|it| ("Namespace", it))) {
        let (status, reason, message) = match &bad {
            Some((reason, message)) => ("True", *reason, message.as_str()),
            None => ("False", reason, message),
        };
        changed |= set_condition(namespace, &format!("{prefix}{kind}"), status, reason, message, now);
    }
    changed
}

/// Sets a condition. Its transition time changes only with its status.
fn set_condition(
    namespace: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) -> bool {
    let list = &mut namespace["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return false };
    let mut new = json!({
        "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match list.iter_mut().find(|it| it["type"] == kind) {
        None => list.push(new),
        Some(known) => {
            if known["status"] == status {
                new["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            if *known == new {
                return false;
            }
            *known = new;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Source;
    use crate::controllers::gated_storage::GatedStorage;

    /// Regression test: the finalizer was removed, and content deleted, by the name of the namespace
    /// alone.
    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_replaces_a_deleted_one_keeps_its_finalizer_and_its_content() {
        let source = Source::seeded(1, "2026-01-02T03:04:05Z".parse().unwrap());
        let mut gate = None;
        let cluster = Cluster::new(source).with_storage(|store| {
            let (storage, made) = GatedStorage::new(store);
            gate = Some(made);
            storage
        });
        let (gate, writer) = (gate.unwrap(), Writer::server("test"));
        let object = |kind: &str, name: &str, namespace: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": namespace } });
        cluster.add(object("Namespace", "a", ""), &writer).await.unwrap();
        cluster.add(object("ConfigMap", "held", "a"), &writer).await.unwrap();
        let (kind, key) = (builtin(&cluster, "", "v1", "namespaces"), ObjectKey::cluster("a"));
        let place = ObjectRef::of(&kind, &key);
        cluster.delete(&place, &crate::cluster::DeleteOptions::default(), &writer).await.unwrap();
        let mut controller = Namespaces::default();
        assert!(controller.sync(&cluster, &key).await.unwrap().after.is_some(), "a pause");
        tokio::time::advance(PAUSE).await;
        let replace = async {
            gate.arrived.acquire().await.unwrap().forget();
            let release = |it: &mut Value| finalizers::remove(it, "/spec/finalizers", FINALIZER);
            cluster.change(&place.part("finalize"), &writer, release).await.unwrap();
            assert!(cluster.get(&kind, &key).is_none());
            cluster.add(object("Namespace", "a", ""), &writer).await.unwrap();
            cluster.add(object("Secret", "new", "a"), &writer).await.unwrap();
            gate.open.add_permits(1);
        };
        let (synced, ()) = tokio::join!(controller.sync(&cluster, &key), replace);
        synced.unwrap();
        let namespace = cluster.get(&kind, &key).unwrap().to_value();
        assert_eq!(namespace["spec"]["finalizers"], json!([FINALIZER]));
        assert_eq!(namespace["status"], json!({ "phase": "Active" }));
        let secrets = builtin(&cluster, "", "v1", "secrets");
        assert_eq!(cluster.list(&secrets, Some("a")).len(), 1);
    }

    fn condition<'a>(namespace: &'a Value, kind: &str) -> &'a Value {
        items(namespace, "/status/conditions").iter().find(|it| it["type"] == kind).unwrap()
    }

    fn terminating() -> Value {
        json!({ "metadata": { "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z" } })
    }

    #[test]
    fn an_empty_namespace_has_five_conditions_without_a_problem() {
        let mut namespace = terminating();
        assert!(report(&mut namespace, &DeletionPass::default(), "t1"));
        assert_eq!(items(&namespace, "/status/conditions").len(), 5);
        assert!(items(&namespace, "/status/conditions").iter().all(|it| it["status"] == "False"));
        assert_eq!(
            condition(&namespace, "NamespaceContentRemaining")["message"],
            "All content successfully removed"
        );
        assert!(!report(&mut namespace, &DeletionPass::default(), "t2"), "nothing has changed");
    }

    #[test]
    fn remaining_content_is_reported_in_the_words_of_kube_controller_manager() {
        let mut namespace = terminating();
        let pass = DeletionPass {
            remaining: [("pods.".to_owned(), 2), ("foos.ex.io".to_owned(), 1)].into(),
            finalizers: [("ex.io/keep".to_owned(), 3)].into(),
            failures: vec!["b".to_owned(), "a".to_owned()],
            ..DeletionPass::default()
        };
        assert!(report(&mut namespace, &pass, "t1"));
        for (kind, reason, message) in [
            (
                "NamespaceContentRemaining",
                "SomeResourcesRemain",
                "Some resources are remaining: foos.ex.io has 1 resource instances, pods. has 2 resource instances",
            ),
            (
                "NamespaceFinalizersRemaining",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: ex.io/keep in 3 resource instances",
            ),
            (
                "NamespaceDeletionContentFailure",
                "ContentDeletionFailed",
                "Failed to delete all resource types, 2 remaining: a, b",
            ),
        ] {
            let found = condition(&namespace, kind);
            assert_eq!((&found["status"], &found["reason"]), (&json!("True"), &json!(reason)));
            assert_eq!(found["message"], message);
        }
        assert!(report(&mut namespace, &DeletionPass::default(), "t2"));
        let found = condition(&namespace, "NamespaceContentRemaining");
        assert_eq!((&found["status"], &found["lastTransitionTime"]), (&json!("False"), &json!("t2")));
        assert_eq!(condition(&namespace, "NamespaceDeletionDiscoveryFailure")["lastTransitionTime"], "t1");
    }

    #[test]
    fn a_namespace_that_is_not_being_deleted_gets_no_conditions() {
        let mut namespace = json!({ "metadata": { "name": "a" } });
        assert!(!report(&mut namespace, &DeletionPass::default(), "t1"));
    }
}

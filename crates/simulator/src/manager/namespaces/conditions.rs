//! The conditions of a namespace that is being deleted, in the words of kube-controller-manager.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::owner::is_deleting;

/// The result of deleting all content of a namespace, as far as its conditions report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeletionPass {
    /// The number of objects left of each resource, as `plural.group`.
    pub(super) remaining: BTreeMap<String, usize>,
    /// The number of them that have each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// The errors of deletions that failed.
    pub(super) failures: Vec<String>,
    /// The API versions whose resources are not known, with the reason.
    pub(super) undiscovered: BTreeMap<String, String>,
}

impl DeletionPass {
    /// Returns true if nothing is left that is known.
    pub(super) fn is_complete(&self) -> bool {
        self.remaining.is_empty() && self.failures.is_empty() && self.undiscovered.is_empty()
    }

    /// Returns the reason and message of the condition about discovery. The texts are those of
    /// `ErrGroupDiscoveryFailed` in client-go v0.36.4 discovery/discovery_client.go.
    fn not_discovered(&self) -> Option<(&'static str, String)> {
        let each = self.undiscovered.iter().map(|(version, reason)| format!("{version}: {reason}"));
        let message = || {
            let (count, each) = (self.undiscovered.len(), each.collect::<Vec<_>>().join(", "));
            format!(
                "Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server \
                 APIs: {each}"
            )
        };
        (!self.undiscovered.is_empty()).then(|| ("DiscoveryFailed", message()))
    }

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

/// Writes the result of a pass into the conditions of the namespace. Returns true if that changed
/// anything.
pub(super) fn report(namespace: &mut Value, pass: &DeletionPass, now: &str) -> bool {
    if !is_deleting(namespace) {
        return false;
    }
    let conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            pass.not_discovered(),
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            pass.failed(),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", pass.content(), "ContentRemoved", "All content successfully removed"),
        (
            "NamespaceFinalizersRemaining",
            pass.held(),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let mut changed = false;
    for (kind, bad, reason, message) in conditions {
        let (status, reason, message) = match &bad {
            Some((reason, message)) => ("True", *reason, message.as_str()),
            None => ("False", reason, message),
        };
        changed |= set(namespace, kind, status, reason, message, now);
    }
    changed
}

/// Sets a condition. Its transition time changes only with its status.
fn set(namespace: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: &str) -> bool {
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
    use crate::json_access::items;

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
            undiscovered: [("x.io/v1".to_owned(), "down".to_owned())].into(),
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
            (
                "NamespaceDeletionDiscoveryFailure",
                "DiscoveryFailed",
                "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                 x.io/v1: down",
            ),
        ] {
            let found = condition(&namespace, kind);
            assert_eq!((&found["status"], &found["reason"]), (&json!("True"), &json!(reason)));
            assert_eq!(found["message"], message);
        }
        assert!(report(&mut namespace, &DeletionPass::default(), "t2"));
        let found = condition(&namespace, "NamespaceContentRemaining");
        assert_eq!((&found["status"], &found["lastTransitionTime"]), (&json!("False"), &json!("t2")));
        assert_eq!(
            condition(&namespace, "NamespaceDeletionGroupVersionParsingFailure")["lastTransitionTime"],
            "t1"
        );
    }

    #[test]
    fn a_namespace_that_is_not_being_deleted_gets_no_conditions() {
        let mut namespace = json!({ "metadata": { "name": "a" } });
        assert!(!report(&mut namespace, &DeletionPass::default(), "t1"));
    }
}

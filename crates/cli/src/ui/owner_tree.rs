//! The tree of an object: its owners above it and its dependents below it, from the rows of the
//! kinds that are watched. Pure.
//!
//! Owners are named by the objects themselves. Dependents are found only among watched kinds, so
//! the kinds that controllers of Kubernetes create for a kind are watched as well; see [`needed`].

use std::collections::{HashMap, HashSet};

use dogwatch::{Object, ObjectKey};

use super::kinds::{Kinds, Target};
use crate::watch::rows::{Owner, Row};

/// The number of lines of a tree.
const MAX_NODES: usize = 1_000;
/// The number of levels above and below the object.
const MAX_DEPTH: usize = 16;

/// The group and name of a kind.
type KindName = (&'static str, &'static str);

/// The kinds whose objects the controllers of Kubernetes create for an owner.
const DEPENDENTS: [(KindName, &[KindName]); 8] = [
    (("apps", "Deployment"), &[("apps", "ReplicaSet")]),
    (("apps", "ReplicaSet"), &[("", "Pod")]),
    (("apps", "StatefulSet"), &[("", "Pod"), ("apps", "ControllerRevision")]),
    (("apps", "DaemonSet"), &[("", "Pod"), ("apps", "ControllerRevision")]),
    (("batch", "CronJob"), &[("batch", "Job")]),
    (("batch", "Job"), &[("", "Pod")]),
    (("", "ReplicationController"), &[("", "Pod")]),
    (("", "Service"), &[("discovery.k8s.io", "EndpointSlice")]),
];

/// A line of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) depth: usize,
    /// For example `Pod web-1`.
    pub(super) name: String,
    /// A remark such as `not found`, or the state of the object.
    pub(super) note: String,
    /// The object, if its kind is watched.
    pub(super) target: Option<Target>,
    /// True for the object whose tree it is.
    pub(super) is_root: bool,
}

/// A tree, and the kinds in which its objects were searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnerTree {
    pub(super) nodes: Vec<Node>,
    /// The names of the watched kinds.
    pub(super) covered: Vec<String>,
    /// True if there are more than can be shown.
    pub(super) is_truncated: bool,
}

/// Returns the kinds that the tree of an object needs and that are not watched: those of its
/// owners, and those of which controllers create objects for its kind.
pub(super) fn needed(kinds: &Kinds, root: &Target) -> Vec<usize> {
    let mut needed = Vec::new();
    let mut below = vec![root.kind];
    while let Some(at) = below.pop() {
        let Some(kind) = kinds.get(at) else { continue };
        let gvk = &kind.served.resource.gvk;
        let table = DEPENDENTS.iter().find(|((group, name), _)| gvk.group == *group && gvk.kind == *name);
        for (group, name) in table.map_or(&[][..], |it| it.1) {
            let found = kinds.by_kind(group, name).filter(|it| !needed.contains(it));
            needed.extend(found);
            below.extend(found);
        }
    }
    for (_, owner) in owners_of(kinds, root) {
        needed.extend(kind_of(kinds, &owner).filter(|it| !needed.contains(it)));
    }
    needed.retain(|at| kinds.pane(*at).is_none());
    needed
}

/// Builds the tree of an object.
pub(super) fn build(kinds: &Kinds, root: &Target) -> OwnerTree {
    let covered = kinds.watched().map(|(_, kind, _)| kind.served.group_resource()).collect();
    let mut builder = Builder { kinds, by_owner: HashMap::new(), seen: HashSet::new(), nodes: Vec::new() };
    for (at, _, pane) in kinds.watched() {
        for (key, row) in pane.table.rows().filter(|(key, _)| !pane.table.is_deleted(key)) {
            for owner in row.owners() {
                builder.by_owner.entry(owner.uid.as_str()).or_default().push((at, key));
            }
        }
    }
    let owners = owners_of(kinds, root);
    let height = owners.iter().map(|(level, _)| *level).max().unwrap_or(0);
    // The topmost owners first. Those on the same level are next to each other.
    for (level, owner) in owners.iter().rev() {
        let node = builder.owner(root, owner, height.saturating_sub(*level));
        builder.nodes.push(node);
    }
    builder.add(root, height, true);
    let is_truncated = builder.nodes.len() >= MAX_NODES;
    OwnerTree { nodes: builder.nodes, covered, is_truncated }
}

/// Returns the owners of an object and the owners of those, with their distance from it.
fn owners_of(kinds: &Kinds, root: &Target) -> Vec<(usize, Owner)> {
    let mut found: Vec<(usize, Owner)> = Vec::new();
    let mut next: Vec<Owner> = kinds.row(root).map(|it| it.owners().to_vec()).unwrap_or_default();
    for level in 1..=MAX_DEPTH {
        let mut above = Vec::new();
        for owner in next {
            if found.len() >= MAX_NODES || found.iter().any(|(_, it)| it.uid == owner.uid) {
                continue;
            }
            let row = target_of(kinds, root, &owner).and_then(|it| kinds.row(&it).cloned());
            above.extend(row.iter().flat_map(|it| it.owners().to_vec()));
            found.push((level, owner));
        }
        next = above;
    }
    found
}

fn kind_of(kinds: &Kinds, owner: &Owner) -> Option<usize> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    kinds.by_kind(group, &owner.kind)
}

/// Returns the owner as an object of its kind: in the namespace of the dependent, unless the kind
/// has none.
fn target_of(kinds: &Kinds, dependent: &Target, owner: &Owner) -> Option<Target> {
    let kind = kind_of(kinds, owner)?;
    let namespaced = kinds.get(kind)?.served.is_namespaced();
    let namespace = dependent.key.namespace().filter(|_| namespaced);
    Some(Target { kind, key: ObjectKey::from_parts(namespace, &owner.name).ok()? })
}

struct Builder<'a> {
    kinds: &'a Kinds,
    /// The dependents of each owner, by its uid.
    by_owner: HashMap<&'a str, Vec<(usize, &'a ObjectKey)>>,
    /// The uids of the objects in the tree: owner references may form a circle.
    seen: HashSet<&'a str>,
    nodes: Vec<Node>,
}

impl<'a> Builder<'a> {
    fn owner(&self, root: &Target, owner: &Owner, depth: usize) -> Node {
        let target = target_of(self.kinds, root, owner);
        let pane = target.as_ref().and_then(|it| self.kinds.pane(it.kind));
        let row = target.as_ref().and_then(|it| self.kinds.row(it));
        let note = match (&target, pane, row) {
            (None, ..) => "its kind is not served".to_owned(),
            (_, None, _) => "its kind is not watched".to_owned(),
            (_, Some(pane), None) if !pane.is_synced() => "not synced yet".to_owned(),
            (_, _, None) => "not found".to_owned(),
            (_, _, Some(row)) if row.header().uid != owner.uid => {
                "replaced by another of its name".to_owned()
            }
            (Some(target), _, Some(row)) => self.state(target, row),
        };
        let name = format!("{} {}", owner.kind, owner.name);
        Node { depth, name, note, target: target.filter(|_| row.is_some()), is_root: false }
    }

    /// Adds an object and its dependents.
    fn add(&mut self, target: &Target, depth: usize, is_root: bool) {
        if self.nodes.len() >= MAX_NODES || depth > 2 * MAX_DEPTH {
            return;
        }
        let kinds = self.kinds;
        let kind = kinds.get(target.kind).map_or("", |it| it.served.resource.gvk.kind.as_str());
        let name = format!("{kind} {}", target.key.name());
        let Some(row) = kinds.row(target) else {
            let note = "not found".to_owned();
            self.nodes.push(Node { depth, name, note, target: None, is_root });
            return;
        };
        if !self.seen.insert(row.header().uid) {
            return;
        }
        let note = self.state(target, row);
        self.nodes.push(Node { depth, name, note, target: Some(target.clone()), is_root });
        for (kind, key) in self.by_owner.get(row.header().uid).cloned().unwrap_or_default() {
            self.add(&Target { kind, key: key.clone() }, depth.saturating_add(1), false);
        }
    }

    /// Returns the cells that describe the state of an object.
    fn state(&self, target: &Target, row: &Row) -> String {
        let Some(pane) = self.kinds.pane(target.kind) else { return String::new() };
        let layout = pane.layout();
        let cells = layout.cells(row, jiff::Timestamp::UNIX_EPOCH);
        let state = layout.headings().into_iter().zip(cells);
        let state = state.filter(|(heading, cell)| {
            ["READY", "STATUS", "COMPLETIONS", "DESIRED"].contains(&heading.as_str()) && !cell.is_empty()
        });
        let state: Vec<_> =
            state.map(|(heading, cell)| format!("{}: {cell}", heading.to_lowercase())).collect();
        state.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dogwatch::informer::Change;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::super::kinds::tests::kinds;
    use super::*;

    fn put(kinds: &mut Kinds, kind: usize, name: &str, owners: &[(&str, &str, &str)]) {
        let owners: Vec<Value> = owners
            .iter()
            .map(|(version, kind, name)| {
                json!({ "apiVersion": version, "kind": kind, "name": name, "uid": format!("{kind}-{name}") })
            })
            .collect();
        let gvk = kinds.get(kind).expect("a kind").served.resource.gvk.kind.to_string();
        let metadata = json!({ "name": name, "namespace": "web", "uid": format!("{gvk}-{name}"), "ownerReferences": owners });
        let row = Row::of_table(json!({ "cells": [name, "1/1"], "object": { "metadata": metadata } }));
        let pane = kinds.pane_mut(kind).expect("watched");
        pane.columns.set(json!([{ "name": "Name" }, { "name": "Ready" }]));
        pane.change(&Change::Added { object: Arc::new(row), initial: true }, Instant::now());
    }

    fn target(kind: usize, name: &str) -> Target {
        Target { kind, key: ObjectKey::namespaced("web", name) }
    }

    fn lines(tree: &OwnerTree) -> Vec<String> {
        let line = |it: &Node| format!("{}{} ({})", "  ".repeat(it.depth), it.name, it.note);
        tree.nodes.iter().map(line).collect()
    }

    #[test]
    fn a_tree_has_the_owners_above_and_the_dependents_below() {
        let mut kinds = kinds(None);
        (1..4).for_each(|at| assert!(kinds.open(at).is_ok()));
        put(&mut kinds, 2, "web", &[]);
        put(&mut kinds, 3, "web-1", &[("apps/v1", "Deployment", "web")]);
        put(&mut kinds, 1, "web-1-a", &[("apps/v1", "ReplicaSet", "web-1")]);
        put(&mut kinds, 1, "web-1-b", &[("apps/v1", "ReplicaSet", "web-1")]);
        put(&mut kinds, 1, "other", &[]);
        let pod = build(&kinds, &target(1, "web-1-a"));
        assert_eq!(
            lines(&pod),
            [
                "Deployment web (ready: 1/1)",
                "  ReplicaSet web-1 (ready: 1/1)",
                "    Pod web-1-a (ready: 1/1)"
            ]
        );
        assert_eq!(pod.nodes.iter().position(|it| it.is_root), Some(2));
        let deployment = build(&kinds, &target(2, "web"));
        assert_eq!(lines(&deployment).len(), 4);
        assert_eq!(deployment.covered, ["pods", "deployments.apps", "replicasets.apps"]);
    }

    #[test]
    fn kinds_that_the_tree_needs_are_found_in_both_directions() {
        let mut kinds = kinds(None);
        assert!(kinds.open(1).is_ok());
        put(&mut kinds, 1, "a", &[("apps/v1", "ReplicaSet", "web-1"), ("example.com/v1", "Unknown", "x")]);
        assert_eq!(needed(&kinds, &target(1, "a")), [3]);
        assert_eq!(needed(&kinds, &target(2, "web")), [3], "pods are watched already");
        assert_eq!(
            lines(&build(&kinds, &target(1, "a"))),
            [
                "Unknown x (its kind is not served)",
                "ReplicaSet web-1 (its kind is not watched)",
                "  Pod a (ready: 1/1)"
            ]
        );
        assert!(kinds.open(3).is_ok());
        let tree = build(&kinds, &target(1, "a"));
        assert_eq!(tree.nodes[1].note, "not synced yet");
    }

    #[test]
    fn owners_that_form_a_circle_are_shown_once() {
        let mut kinds = kinds(None);
        assert!(kinds.open(1).is_ok());
        put(&mut kinds, 1, "a", &[("v1", "Pod", "b")]);
        put(&mut kinds, 1, "b", &[("v1", "Pod", "a")]);
        let tree = build(&kinds, &target(1, "a"));
        assert!(tree.nodes.len() <= 4, "{tree:?}");
    }
}

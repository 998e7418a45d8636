//! A cache of the admission policies that have bindings, compiled.
//!
//! Each lookup compares the positions of the logs of both collections with those of the cache, so a
//! policy is in effect as soon as it and its binding are stored. kube-apiserver takes up to a
//! second. A policy is compiled once for each version of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use dogwatch_core::ObjectKey;
use serde_json::Value;

use crate::admission_policy::{MutatingPolicy, ValidatingPolicy};
use crate::kinds::json_access::text;
use crate::store::{CollectionName, Encoded, Store};

/// The maximum number of bytes of the policies of one cache that are kept compiled, as JSON. Others
/// are compiled when a request matches them. A compiled policy takes up to 100 bytes for each.
const MAX_COMPILED: usize = 4 * 1024 * 1024;

/// The cached policies of a cluster.
#[derive(Debug, Default)]
pub(super) struct PolicyCaches {
    pub(super) validating: PolicyCache<ValidatingPolicy>,
    pub(super) mutating: PolicyCache<MutatingPolicy>,
}

/// A policy that can be compiled.
pub(super) trait Compiled: fmt::Debug {
    /// Compiles a stored policy.
    fn compile(policy: &Value) -> Self;
}

impl Compiled for ValidatingPolicy {
    fn compile(policy: &Value) -> Self {
        Self::compile(policy)
    }
}

impl Compiled for MutatingPolicy {
    fn compile(policy: &Value) -> Self {
        Self::compile(policy)
    }
}

/// The cached policies of one kind.
#[derive(Debug)]
pub(super) struct PolicyCache<P> {
    current: ArcSwap<BoundPolicies<P>>,
}

impl<P> Default for PolicyCache<P> {
    fn default() -> Self {
        Self { current: ArcSwap::default() }
    }
}

/// The policies that have bindings, at one position of the logs.
#[derive(Debug)]
pub(super) struct BoundPolicies<P> {
    /// The positions after the last changes of the policies and of the bindings.
    positions: (Option<u64>, Option<u64>),
    /// The policies in the order of their names.
    pub(super) policies: Vec<Arc<BoundPolicy<P>>>,
}

impl<P> Default for BoundPolicies<P> {
    fn default() -> Self {
        Self { positions: (None, None), policies: Vec::new() }
    }
}

/// A policy with its bindings.
#[derive(Debug)]
pub(super) struct BoundPolicy<P> {
    version: u64,
    /// The stored policy.
    pub(super) policy: Arc<Value>,
    compiled: Option<Arc<P>>,
    /// The bindings in the order of their names.
    pub(super) bindings: Vec<Value>,
}

impl<P: Compiled> BoundPolicy<P> {
    /// Returns the name of the policy.
    pub(super) fn name(&self) -> &str {
        text(&self.policy, "/metadata/name")
    }

    /// Returns the compiled policy.
    pub(super) fn compiled(&self) -> Arc<P> {
        self.compiled.clone().unwrap_or_else(|| Arc::new(P::compile(&self.policy)))
    }
}

impl<P: Compiled> PolicyCache<P> {
    /// Returns the policies that have bindings as they are stored now.
    pub(super) fn get(
        &self,
        store: &Store,
        policies: &CollectionName,
        bindings: &CollectionName,
    ) -> Arc<BoundPolicies<P>> {
        let known = self.current.load_full();
        let position = |collection: &CollectionName| {
            store.read(collection, |history, revision| history.position_after(revision).ok())
        };
        let is_known = |position: Option<u64>, known: Option<u64>| position.is_some() && position == known;
        if is_known(position(policies), known.positions.0) && is_known(position(bindings), known.positions.1)
        {
            return known;
        }
        // The position and the list of a collection are of one snapshot.
        let snapshot = |collection: &CollectionName| {
            store.read(collection, |history, revision| {
                let stored = history.list_at(revision, None).into_iter().flatten().cloned();
                (history.position_after(revision).ok(), stored.collect::<Vec<_>>())
            })
        };
        let ((first, bindings), (second, policies)) = (snapshot(bindings), snapshot(policies));
        let next = Arc::new(BoundPolicies {
            positions: (second, first),
            policies: known.updated(&policies, &bindings),
        });
        // A concurrent caller may store an older state afterwards. The next lookup then finds
        // another position.
        self.current.store(Arc::clone(&next));
        next
    }
}

impl<P: Compiled> BoundPolicies<P> {
    /// Returns the stored policies that have bindings. Only those that have changed are compiled.
    fn updated(&self, policies: &[Arc<Encoded>], bindings: &[Arc<Encoded>]) -> Vec<Arc<BoundPolicy<P>>> {
        let known: HashMap<&str, &Arc<BoundPolicy<P>>> =
            self.policies.iter().map(|it| (it.name(), it)).collect();
        let mut bound: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for binding in bindings {
            let binding = binding.to_value();
            bound.entry(text(&binding, "/spec/policyName").to_owned()).or_default().push(binding);
        }
        let by_name: HashMap<&str, &Arc<Encoded>> =
            policies.iter().map(|it| (ObjectKey::name(it.key()), it)).collect();
        let mut bytes = 0_usize;
        let found = bound.into_iter().filter_map(|(name, bindings)| {
            let stored = by_name.get(name.as_str())?;
            bytes = bytes.saturating_add(stored.length());
            let is_kept = bytes <= MAX_COMPILED;
            let before = known.get(name.as_str()).filter(|it| it.version == stored.version());
            let (policy, compiled) = match before {
                Some(before) => (Arc::clone(&before.policy), before.compiled.clone()),
                None => (Arc::new(stored.to_value()), None),
            };
            let compiled = is_kept.then(|| compiled.unwrap_or_else(|| Arc::new(P::compile(&policy))));
            Some(Arc::new(BoundPolicy { version: stored.version(), policy, compiled, bindings }))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Draft, Expect};

    const POLICIES: &str = "policies";
    const BINDINGS: &str = "bindings";

    fn write(
        store: &Store,
        collection: &str,
        name: &str,
        expect: Expect,
        spec: Option<Value>,
    ) -> Arc<Encoded> {
        let key = ObjectKey::from_parts(None, name).expect("a name");
        let draft = spec.map(|it| {
            Draft::new(&json!({ "metadata": { "name": name }, "spec": it }), Vec::new())
                .expect("it has a name")
        });
        store.commit(&collection.into(), &key, expect, draft).expect("it is expected")
    }

    #[test]
    fn a_policy_is_compiled_once_for_each_version_and_only_if_it_is_bound() {
        let (store, cache) = (Store::default(), PolicyCache::<ValidatingPolicy>::default());
        let seen = || cache.get(&store, &POLICIES.into(), &BINDINGS.into());
        let validation = |it: &str| Some(json!({ "validations": [{ "expression": it }] }));
        let bound = |it: &str| Some(json!({ "policyName": it }));
        write(&store, POLICIES, "a", Expect::Absent, validation("true"));
        let b = write(&store, POLICIES, "b", Expect::Absent, validation("true"));
        assert!(seen().policies.is_empty(), "they have no bindings");
        write(&store, BINDINGS, "b1", Expect::Absent, bound("b"));
        let first = seen();
        assert_eq!(first.policies.iter().map(|it| it.name()).collect::<Vec<_>>(), ["b"]);
        write(&store, BINDINGS, "b2", Expect::Absent, bound("b"));
        write(&store, BINDINGS, "missing", Expect::Absent, bound("c"));
        let second = seen();
        assert_eq!(second.policies[0].bindings.len(), 2);
        assert!(Arc::ptr_eq(&first.policies[0].compiled(), &second.policies[0].compiled()));
        assert!(Arc::ptr_eq(&second, &seen()), "nothing has changed");
        write(&store, POLICIES, "b", Expect::At(b.version()), validation("false"));
        assert!(!Arc::ptr_eq(&first.policies[0].compiled(), &seen().policies[0].compiled()));
    }
}

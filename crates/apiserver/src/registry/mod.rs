//! The served kinds: all built-in ones, and the custom ones that definitions add.
//!
//! A [`Kind`] is one resource in one version, with everything that reads and writes need; a
//! [`Catalog`] is a snapshot of all kinds. The [`Registry`] holds the current catalog and replaces
//! it when definitions change.
//!
//! The `mod` lines below are in layer order.

mod kind;
mod copied;
mod definition;
mod catalog;

use parking_lot::Mutex;
use std::sync::Arc;

use arc_swap::ArcSwap;

pub(crate) use catalog::Catalog;
pub(crate) use copied::{CopiedKind, ReceivedBytes};
pub(crate) use kind::{Family, Kind, Unconverted};

use crate::store::{CollectionName, Encoded};

/// The current catalog. A catalog obtained from it stays valid while definitions change.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    catalog: ArcSwap<Catalog>,
    /// Held while definitions are read and the new catalog is published, so that an older state
    /// never replaces a newer one. The position in the log of definitions that the catalog is of.
    defining: Mutex<Option<u64>>,
}

/// The stored definitions, and the position in their log after the last change.
pub(crate) type DefinitionsAt = (Option<u64>, Vec<Arc<Encoded>>);

impl Registry {
    /// Returns the current catalog.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Replaces the custom kinds with those of the definitions that `stored` returns. It gets the
    /// position of those that are served, and returns `None` if that is the newest.
    ///
    /// Calls are serialized, from reading the definitions to publishing the catalog. A caller that
    /// calls this after each change can therefore rely on the newest state being served in the end.
    ///
    /// Calls `begin` with the collection of each new definition before the kind can be written to,
    /// and `end` with those of the deleted definitions once their kinds can no longer be found.
    pub(crate) fn define(
        &self,
        stored: impl FnOnce(Option<u64>) -> Option<DefinitionsAt>,
        begin: impl Fn(&CollectionName),
        end: impl FnOnce(&[&CollectionName]),
    ) {
        let mut defined = self.defining.lock();
        let before = self.catalog();
        let Some((position, stored)) = stored(*defined) else { return };
        let Some(next) = before.updated_with(&stored) else {
            *defined = position;
            return;
        };
        next.collections_added_since(&before).for_each(begin);
        let next = Arc::new(next);
        self.catalog.store(Arc::clone(&next));
        *defined = position;
        let removed: Vec<_> = before.collections_removed_in(&next).collect();
        if !removed.is_empty() {
            end(&removed);
        }
    }

    /// Returns an independent registry that serves the same kinds, without compiling them again.
    #[must_use]
    pub(crate) fn fork(&self) -> Self {
        Self { catalog: ArcSwap::new(self.catalog()), defining: Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use serde_json::{Value, json};

    use super::*;
    use crate::store::Draft;

    fn definition(plural: &str, version: u64) -> Value {
        json!({ "metadata": { "name": format!("{plural}.example.com"), "uid": plural, "generation": 1,
            "resourceVersion": version.to_string() },
            "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": plural },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object" } } }] },
            "status": { "acceptedNames": { "plural": plural, "kind": plural, "singular": plural, "listKind": plural },
                "conditions": [{ "type": "Established", "status": "True" }, { "type": "NamesAccepted", "status": "True" }],
                "storedVersions": ["v1"] } })
    }

    fn stored(definition: &Value) -> Arc<Encoded> {
        let version = definition["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok());
        let draft = Draft::new(definition, Vec::new()).expect("it has a name");
        Arc::new(draft.at(version.expect("a number")))
    }

    fn define(registry: &Registry, definitions: &[Value]) -> Vec<String> {
        let calls = Mutex::new(Vec::new());
        let record = |what: &str, it: &CollectionName| calls.lock().push(format!("{what} {it}"));
        let all = |_| Some((None, definitions.iter().map(stored).collect()));
        registry.define(all, |it| record("begin", it), |all| all.iter().for_each(|it| record("end", it)));
        calls.into_inner()
    }

    /// Two requests created definitions concurrently. The one that had read first published last,
    /// and the other's kind was missing until something else changed.
    #[test]
    fn older_definitions_never_replace_newer_ones() {
        let registry = Registry::default();
        let (began, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let seen = |_| {
                let seen = vec![stored(&definition("as", 1))];
                scope.spawn(|| {
                    began.send(()).expect("the receiver is alive");
                    define(&registry, &[definition("as", 1), definition("bs", 2)]);
                });
                begun.recv().expect("the thread starts");
                Some((None, seen))
            };
            registry.define(seen, |_| {}, |_| {});
        });
        assert!(registry.catalog().kind("example.com", "v1", "bs").is_some());
    }

    /// Each change of any definition used to compile all of them, twice: 60 definitions took 45
    /// seconds.
    #[test]
    fn unchanged_definitions_are_not_compiled_again() {
        let registry = Registry::default();
        let mut all = Vec::new();
        for at in 0..20 {
            all.push(definition(&format!("p{at}"), at + 1));
            define(&registry, &all);
        }
        assert_eq!(registry.catalog().compiled(), 20);
        let kind = |registry: &Registry| registry.catalog().kind("example.com", "v1", "p7").expect("served");
        let before = kind(&registry);
        all[7]["metadata"]["labels"] = json!({ "a": "b" });
        all[7]["metadata"]["resourceVersion"] = "100".into();
        define(&registry, &all);
        assert_eq!(registry.catalog().compiled(), 20, "a change of labels compiles nothing");
        assert!(Arc::ptr_eq(&before, &kind(&registry)));
        all[7]["metadata"]["resourceVersion"] = "101".into();
        all[7]["metadata"]["generation"] = 2.into();
        define(&registry, &all);
        let fork = registry.fork();
        define(&fork, &all);
        assert_eq!(fork.catalog().compiled(), 21);
        assert!(!Arc::ptr_eq(&before, &kind(&fork)) && Arc::ptr_eq(&kind(&fork), &kind(&registry)));
    }

    #[test]
    fn collections_begin_and_end_with_their_definition_but_not_with_its_updates() {
        let registry = Registry::default();
        let mut pets = definition("pets", 1);
        assert_eq!(define(&registry, &[pets.clone()]), ["begin example.com/pets"]);
        pets["metadata"]["resourceVersion"] = "2".into();
        pets["metadata"]["generation"] = 2.into();
        assert!(define(&registry, &[pets.clone()]).is_empty());
        assert!(define(&registry.fork(), &[pets.clone()]).is_empty());
        pets["metadata"]["uid"] = "another".into();
        pets["metadata"]["resourceVersion"] = "9".into();
        assert_eq!(
            define(&registry, &[pets]),
            ["begin example.com/pets"],
            "the definition was deleted and created again"
        );
        assert_eq!(define(&registry, &[]), ["end example.com/pets"]);
        let mut pets = definition("pets", 20);
        assert_eq!(define(&registry, &[pets.clone()]), ["begin example.com/pets"]);
        for (version, status) in [(21, json!({})), (22, pets["status"].clone())] {
            pets["status"] = status;
            pets["metadata"]["resourceVersion"] = version.to_string().into();
            assert!(define(&registry, &[pets.clone()]).is_empty(), "the objects remain without the status");
        }
        assert_eq!(define(&registry, &[]), ["end example.com/pets"]);
        let mut unnamed = definition("unnamed", 10);
        unnamed["status"] = json!({});
        assert!(define(&registry, &[unnamed]).is_empty(), "it is not served yet");
    }
}

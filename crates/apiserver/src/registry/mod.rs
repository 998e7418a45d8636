//! What is served: every built-in kind, and the custom ones their definitions add.
//!
//! A [`Kind`] is one resource in one version, with all that reading and writing it needs; a [`Catalog`] is all kinds at
//! one moment. Definitions come and go, so the [`Registry`] holds the catalog of now.
//!
//! The `mod` lines below are in layer order.

mod kind;
mod defined;
mod catalog;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

pub use catalog::Catalog;
pub use defined::Defined;
pub use kind::{Family, Kind};

use crate::store::{CollectionName, Encoded};

/// The catalog of now. Clones of what it gives stay valid while definitions change.
#[derive(Debug, Default)]
pub struct Registry {
    catalog: ArcSwap<Catalog>,
    /// Held from reading definitions to serving them, so that older ones never replace newer ones.
    defining: Mutex<()>,
}

impl Registry {
    /// The kinds that are served now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Serves the kinds of the definitions that `stored` reads, and no other custom ones. Nobody else reads and serves
    /// meanwhile, so whoever calls this after each change finds the newest state served in the end.
    ///
    /// The collection of a definition that is new is passed to `begin` before anybody can write to it, and that of one
    /// that is gone to `end` when nobody can find it any more.
    pub fn define(
        &self,
        stored: impl FnOnce() -> Vec<Arc<Encoded>>,
        begin: impl Fn(&CollectionName),
        end: impl Fn(&CollectionName),
    ) {
        let _turn = self.defining.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.catalog();
        let Some(next) = before.followed_by(&stored()) else { return };
        next.begun_since(&before).for_each(begin);
        let next = Arc::new(next);
        self.catalog.store(Arc::clone(&next));
        before.ended_in(&next).for_each(end);
    }

    /// A registry that goes its own way: it serves the same, and compiles none of it again.
    #[must_use]
    pub fn fork(&self) -> Self {
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
        let did = Mutex::new(Vec::new());
        let note =
            |what: &str, it: &CollectionName| did.lock().expect("no panic").push(format!("{what} {it}"));
        let all = || definitions.iter().map(stored).collect();
        registry.define(all, |it| note("begin", it), |it| note("end", it));
        did.into_inner().expect("no panic")
    }

    /// Two requests made definitions at the same time. The one that had read first served last, and the other's kind was
    /// not there until something else changed.
    #[test]
    fn definitions_that_were_read_before_never_replace_newer_ones() {
        let registry = Registry::default();
        let (began, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let seen = || {
                let seen = vec![stored(&definition("as", 1))];
                scope.spawn(|| {
                    began.send(()).expect("somebody waits");
                    define(&registry, &[definition("as", 1), definition("bs", 2)]);
                });
                begun.recv().expect("it begins");
                seen
            };
            registry.define(seen, |_| {}, |_| {});
        });
        assert!(registry.catalog().kind("example.com", "v1", "bs").is_some());
    }

    /// Each change of any definition compiled all of them, twice: 60 definitions took 45 seconds.
    #[test]
    fn what_has_not_changed_is_not_compiled_again() {
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
        assert_eq!(registry.catalog().compiled(), 20, "labels compile to nothing");
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
    fn collections_begin_and_end_with_their_definition_and_not_with_its_changes() {
        let registry = Registry::default();
        let mut pets = definition("pets", 1);
        assert_eq!(define(&registry, &[pets.clone()]), ["begin example.com/pets"]);
        pets["metadata"]["resourceVersion"] = "2".into();
        pets["metadata"]["generation"] = 2.into();
        assert!(define(&registry, &[pets.clone()]).is_empty());
        assert!(define(&registry.fork(), &[pets.clone()]).is_empty());
        pets["metadata"]["uid"] = "another".into();
        pets["metadata"]["resourceVersion"] = "9".into();
        assert_eq!(define(&registry, &[pets]), ["begin example.com/pets"], "it was deleted and made again");
        assert_eq!(define(&registry, &[]), ["end example.com/pets"]);
        let mut unnamed = definition("unnamed", 10);
        unnamed["status"] = json!({});
        assert!(define(&registry, &[unnamed]).is_empty(), "it is not served yet");
    }
}

//! What is served: every built-in kind, and the custom ones their definitions add.
//!
//! A [`Kind`] is one resource in one version, with all that reading and writing it needs; a [`Catalog`] is all kinds at
//! one moment. Definitions come and go, so the [`Registry`] holds the catalog of now.
//!
//! The `mod` lines below are in layer order.

mod kind;
mod catalog;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde_json::Value;

pub use catalog::Catalog;
pub use kind::{Family, Kind};

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
    pub fn define(&self, stored: impl FnOnce() -> Vec<Value>) {
        let _turn = self.defining.lock().unwrap_or_else(PoisonError::into_inner);
        self.catalog.store(Arc::new(Catalog::new(&stored())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use serde_json::json;

    use super::*;

    fn definition(plural: &str) -> Value {
        json!({ "metadata": { "name": format!("{plural}.example.com") },
            "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": plural },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object" } } }] },
            "status": { "acceptedNames": { "plural": plural, "kind": plural, "singular": plural, "listKind": plural },
                "conditions": [{ "type": "Established", "status": "True" }, { "type": "NamesAccepted", "status": "True" }],
                "storedVersions": ["v1"] } })
    }

    /// Two requests made definitions at the same time. The one that had read first served last, and the other's kind was
    /// not there until something else changed.
    #[test]
    fn definitions_that_were_read_before_never_replace_newer_ones() {
        let registry = Registry::default();
        let (began, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            registry.define(|| {
                let seen = vec![definition("as")];
                scope.spawn(|| {
                    began.send(()).expect("somebody waits");
                    registry.define(|| vec![definition("as"), definition("bs")]);
                });
                begun.recv().expect("it begins");
                seen
            });
        });
        assert!(registry.catalog().kind("example.com", "v1", "bs").is_some());
    }
}

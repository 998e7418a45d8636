//! The objects that an informer can hold, as far as that is known without asking the server.

use dogwatch_core::{Labels, Object, ObjectKey, Selectors};

use crate::list_watch::{ListWatch, namespace_of};
use crate::reflector::ReflectorOptions;

/// The namespaces and selectors of an informer.
#[derive(Clone, Debug)]
pub(super) struct Coverage {
    /// Empty for all namespaces.
    namespaces: Vec<String>,
    /// Only the server can evaluate the one of a shard.
    selectors: Selectors,
}

impl Coverage {
    pub(super) fn new<T: Object>(
        sources: &[std::sync::Arc<dyn ListWatch<T>>],
        options: &ReflectorOptions<T>,
    ) -> Self {
        Self {
            namespaces: sources.iter().filter_map(|it| namespace_of(&**it)).map(str::to_owned).collect(),
            selectors: options.selectors.clone(),
        }
    }

    /// Returns whether an object can be held, or `None` if only the server knows.
    pub(super) fn admits(&self, key: &ObjectKey, labels: Option<Labels<'_>>) -> Option<bool> {
        let namespace = key.namespace().unwrap_or_default();
        if !self.namespaces.is_empty() && !self.namespaces.iter().any(|it| it == namespace) {
            return Some(false);
        }
        let selectors = &self.selectors;
        let mut known = selectors.shard.is_none();
        for (field, value, equal) in selectors.fields.terms() {
            let is = match field {
                "metadata.name" => key.name(),
                "metadata.namespace" => namespace,
                _ => {
                    known = false;
                    continue;
                }
            };
            if (is == value) != equal {
                return Some(false);
            }
        }
        match labels {
            Some(labels) if !selectors.labels.matches(labels) => return Some(false),
            None if !selectors.labels.is_everything() => known = false,
            _ => {}
        }
        known.then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn coverage(namespaces: &[&str], labels: &str, fields: &str, sharded: bool) -> Coverage {
        let mut selectors = Selectors::default()
            .labels(labels.parse().expect("a label selector"))
            .fields(fields.parse().expect("a field selector"));
        selectors.shard = sharded.then(|| "shardRange(object.metadata.uid,'0x0','0x8')".to_owned());
        Coverage { namespaces: namespaces.iter().map(|it| (*it).to_owned()).collect(), selectors }
    }

    #[test]
    fn an_object_is_admitted_excluded_or_left_to_the_server_to_decide() {
        let key = ObjectKey::namespaced("web", "a");
        let labels = BTreeMap::from([("app".to_owned(), "shop".to_owned())]);
        for (coverage, expected) in [
            (coverage(&[], "", "", false), Some(true)),
            (coverage(&["web", "db"], "", "", false), Some(true)),
            (coverage(&["db"], "", "", false), Some(false)),
            (coverage(&[], "app=shop", "", false), Some(true)),
            (coverage(&[], "app=other", "", false), Some(false)),
            (coverage(&[], "", "metadata.name=a", false), Some(true)),
            (coverage(&[], "", "metadata.name!=a", false), Some(false)),
            (coverage(&[], "", "metadata.namespace=web,spec.nodeName=n", false), None),
            (coverage(&[], "", "metadata.namespace=db,spec.nodeName=n", false), Some(false)),
            (coverage(&[], "", "", true), None),
        ] {
            assert_eq!(coverage.admits(&key, Some(Labels::from(&labels))), expected, "{coverage:?}");
        }
        assert_eq!(coverage(&[], "app=shop", "", false).admits(&key, None), None, "the labels are not known");
        assert_eq!(coverage(&[], "", "", false).admits(&key, None), Some(true), "and not needed");
    }
}

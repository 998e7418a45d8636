//! Object keys: a namespace and a name in one shared string.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The key of one object inside its collection: `namespace/name`, or `name` for cluster-scoped
/// objects.
///
/// Two words wide and cheap to clone (one reference count). Keys sort as the server sorts its
/// lists, by the bytes of `namespace/name`; note that this puts `a-b/x` before `a/x`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectKey {
    /// `namespace/name` or `name`. Invariant: at most one slash, and no empty part.
    text: Arc<str>,
}

/// The error of parsing text that is not an object key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an object key: expected `name` or `namespace/name`")]
pub struct ObjectKeyError {
    text: String,
}

impl ObjectKey {
    /// Creates the key of a namespaced object.
    ///
    /// # Panics
    /// Panics if a part is empty or contains a slash. For names from a request, a label or a file,
    /// use [`Self::from_parts`] or [`FromStr`], which return an error.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        assert!(is_part(namespace) && is_part(name), "not an object key: {namespace:?}/{name:?}");
        Self { text: format!("{namespace}/{name}").into() }
    }

    /// Creates the key of a cluster-scoped object.
    ///
    /// # Panics
    /// Panics if the name is empty or contains a slash. For names from a request, a label or a
    /// file, use [`Self::from_parts`] or [`FromStr`], which return an error.
    pub fn cluster(name: &str) -> Self {
        assert!(is_part(name), "not an object key: {name:?}");
        Self { text: name.into() }
    }

    /// Creates a key from the metadata of an object. An empty namespace is the same as none.
    ///
    /// # Errors
    /// Returns an error if the name is empty or a part contains a slash.
    pub fn from_parts(namespace: Option<&str>, name: &str) -> Result<Self, ObjectKeyError> {
        let namespace = namespace.filter(|it| !it.is_empty());
        let text = match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        if is_part(name) && namespace.is_none_or(is_part) {
            Ok(Self { text: text.into() })
        } else {
            Err(ObjectKeyError { text })
        }
    }

    /// Returns the namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.text.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Returns the name inside the namespace or the cluster.
    pub fn name(&self) -> &str {
        self.text.split_once('/').map_or(&*self.text, |(_, name)| name)
    }

    /// Returns the whole key as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn is_part(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

impl FromStr for ObjectKey {
    type Err = ObjectKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts_hold = match text.split_once('/') {
            Some((namespace, name)) => is_part(namespace) && is_part(name),
            None => is_part(text),
        };
        if parts_hold {
            Ok(Self { text: text.into() })
        } else {
            Err(ObjectKeyError { text: text.to_owned() })
        }
    }
}

impl TryFrom<String> for ObjectKey {
    type Error = ObjectKeyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ObjectKey> for String {
    fn from(key: ObjectKey) -> Self {
        key.text.as_ref().to_owned()
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_has_at_most_one_slash_and_no_empty_part() {
        for good in ["a", "default/a", "kube-system/a.b-c"] {
            assert_eq!(good.parse::<ObjectKey>().map(String::from).as_deref(), Ok(good));
        }
        for bad in ["", "/", "/a", "a/", "a/b/c", "//"] {
            assert!(bad.parse::<ObjectKey>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_empty_namespace_means_the_cluster() {
        let key = ObjectKey::from_parts(Some(""), "node-1").expect("a name is enough");
        assert_eq!((key.namespace(), key.name()), (None, "node-1"));
    }

    #[test]
    fn keys_order_as_the_server_orders_its_lists() {
        let mut keys = ["a/x", "a-b/x", "a/a"].map(|it| it.parse::<ObjectKey>().expect("valid"));
        keys.sort();
        assert_eq!(keys.map(String::from), ["a-b/x", "a/a", "a/x"]);
    }

    #[test]
    fn a_key_is_two_words() {
        assert_eq!(size_of::<ObjectKey>(), 2 * size_of::<usize>());
        assert_eq!(size_of::<Option<ObjectKey>>(), 2 * size_of::<usize>());
    }

    proptest! {
        #[test]
        fn parse_after_print_is_identity(namespace in proptest::option::of("[a-z0-9-]{1,63}"), name in "[a-z0-9.:-]{1,253}") {
            let key = ObjectKey::from_parts(namespace.as_deref(), &name).expect("valid parts");
            prop_assert_eq!(key.namespace(), namespace.as_deref());
            prop_assert_eq!(key.name(), name.as_str());
            prop_assert_eq!(key.to_string().parse::<ObjectKey>(), Ok(key));
        }
    }
}

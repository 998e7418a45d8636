//! The traits of objects: what a cache needs of them, and which resource a type is read from.

use kube_core::Resource;
use serde::de::DeserializeOwned;

use crate::key::ObjectKey;
use crate::meta::{Header, Labels};
use crate::version::ResourceVersion;

/// An object that can be kept in a cache: it has a key, a version, a uid and labels.
///
/// Implemented for every kube-core `Resource`: all of k8s-openapi, every
/// `#[derive(CustomResource)]`, `DynamicObject` and `PartialObjectMeta`. A view implements it by
/// returning the header of its [`crate::Meta`]; the `#[derive(View)]` of `dogwatch` writes these
/// two implementations:
///
/// ```
/// use dogwatch_core::{Header, Meta, Object, View};
/// use k8s_openapi::api::core::v1::Pod;
///
/// #[derive(serde::Deserialize)]
/// struct PodNode { metadata: Meta, spec: NodeName }
///
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct NodeName { node_name: Option<String> }
///
/// impl Object for PodNode { fn header(&self) -> Header<'_> { self.metadata.header() } }
/// impl View for PodNode { type Of = Pod; }
/// ```
pub trait Object: Send + Sync + 'static {
    /// Returns name, namespace, uid, version and labels, borrowed.
    fn header(&self) -> Header<'_>;

    /// Returns the key of the object, or `None` if it has no usable name yet.
    ///
    /// An object that was read from a server or a store has one. It is `None` for an object that is
    /// still to be created with `generateName`, and for text that no server would accept as a name.
    fn key(&self) -> Option<ObjectKey> {
        self.header().key()
    }

    /// Returns the version of the object.
    fn version(&self) -> ResourceVersion {
        ResourceVersion::new(self.header().version)
    }

    /// Returns the memory that the object takes, in bytes, if it is known. By default it is not; an
    /// informer can be given a function that measures it.
    fn memory(&self) -> Option<usize> {
        None
    }
}

/// A payload that knows the resource it is read from: the whole object, or some of its fields.
///
/// A kube-core type is a view of itself. A narrower view is a serde struct that names only some
/// fields; everything else is skipped while decoding, before it is allocated.
pub trait View: Object + DeserializeOwned {
    /// The resource whose objects it shows.
    type Of: Resource<DynamicType = ()>;
}

impl<K> Object for K
where
    K: Resource + Send + Sync + 'static,
{
    fn header(&self) -> Header<'_> {
        let meta = self.meta();
        Header {
            name: meta.name.as_deref().unwrap_or_default(),
            namespace: meta.namespace.as_deref().filter(|it| !it.is_empty()),
            uid: meta.uid.as_deref().unwrap_or_default(),
            version: meta.resource_version.as_deref().unwrap_or_default(),
            labels: meta.labels.as_ref().map_or(Labels::EMPTY, Labels::from),
        }
    }
}

impl<K> View for K
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
{
    type Of = K;
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use kube_core::DynamicObject;

    use super::*;

    #[test]
    fn typed_and_dynamic_objects_have_the_same_header() {
        let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"u",
                       "resourceVersion":"7","labels":{"k":"v"}}}"#;
        let typed: Pod = serde_json::from_str(text).expect("a pod");
        let dynamic: DynamicObject = serde_json::from_str(text).expect("an object");
        for header in [typed.header(), dynamic.header()] {
            assert_eq!(header.key().map(String::from).as_deref(), Some("b/a"));
            assert_eq!((header.uid, header.version, header.labels.get("k")), ("u", "7", Some("v")));
        }
        assert_eq!(typed.version(), ResourceVersion::new("7"));
    }

    #[test]
    fn an_object_that_was_never_stored_has_no_key() {
        assert_eq!(Node::default().key(), None);
    }
}

//! What a cache needs of an object, and which resource a type is read from.

use kube_core::Resource;
use serde::de::DeserializeOwned;

use crate::key::ObjectKey;
use crate::meta::{Header, Labels};
use crate::version::ResourceVersion;

/// An object that can be kept in a cache: it knows its key, version, uid and labels.
///
/// Every kube-core `Resource` is one: all of k8s-openapi, every `#[derive(CustomResource)]`, `DynamicObject`
/// and `PartialObjectMeta`. A view implements it with its [`crate::Meta`]; the `#[derive(View)]` of `dogwatch`
/// writes these two implementations:
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
    /// Name, namespace, uid, version and labels, borrowed.
    fn header(&self) -> Header<'_>;

    /// The key of the object, or `None` when it has no usable name yet.
    fn key(&self) -> Option<ObjectKey> {
        self.header().key()
    }

    /// The version of the object when it was read.
    fn version(&self) -> ResourceVersion {
        ResourceVersion::new(self.header().version)
    }
}

/// A payload that knows the resource it is read from: the whole object, or some of its fields.
///
/// A kube-core type is the widest view of itself. A narrow one is a serde struct with only the fields named;
/// everything else is skipped on the wire, before it is allocated.
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

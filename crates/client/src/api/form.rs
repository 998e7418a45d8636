//! The form of the objects that a handle requests, and the scope of a type.

use dogwatch_core::Scope;
use dogwatch_wire::Fields;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};

use crate::encoding::Encoding;

/// The form of the objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// The whole objects.
    Full,
    /// Only their metadata (rule DY-2).
    Metadata,
}

/// The parts of objects that a handle reads: all or the metadata, with or without managed fields.
///
/// Two handles on one collection with the same payload type read equal objects if their
/// representations are equal.
///
/// ```
/// use dogwatch_client::Api;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # let url = "http://localhost".parse()?;
/// # let client = dogwatch_client::Client::new(dogwatch_client::Config::new(url))?;
/// let maps = Api::<ConfigMap>::all(client);
/// assert_eq!(maps.representation(), maps.clone().in_namespace("default").representation());
/// assert_ne!(maps.representation(), maps.clone().with_managed_fields().representation());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Representation {
    pub(super) form: Form,
    pub(super) fields: Fields,
    pub(super) encoding: Encoding,
}

/// The kind of response that a handle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    List,
    /// A watch contains single objects, whatever their form.
    Watch,
}

/// The media types of each form: whole objects, lists of metadata, and metadata. Each has JSON as the
/// fallback, and whole objects as the fallback of metadata, which decode too.
const FULL: [&str; 2] = ["application/json", "application/vnd.kubernetes.protobuf,application/json"];
const METADATA_LIST: [&str; 2] = [
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
];
const METADATA: [&str; 2] = [
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
];

impl Form {
    /// Returns the `Accept` headers in JSON and in protobuf.
    pub(super) fn accept(self, shape: Shape) -> [&'static str; 2] {
        match (self, shape) {
            (Self::Full, _) => FULL,
            (Self::Metadata, Shape::List) => METADATA_LIST,
            (Self::Metadata, _) => METADATA,
        }
    }
}

/// A scope that is known at compile time.
///
/// ```
/// use dogwatch_client::api::StaticScope;
/// use dogwatch_core::Scope;
/// use k8s_openapi::api::core::v1::{Namespace, Pod};
/// use kube_core::Resource;
///
/// assert_eq!(<Pod as Resource>::Scope::SCOPE, Scope::Namespaced);
/// assert_eq!(<Namespace as Resource>::Scope::SCOPE, Scope::Cluster);
/// ```
pub trait StaticScope {
    /// The scope of the objects.
    const SCOPE: Scope;
}

impl StaticScope for NamespaceResourceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl StaticScope for ClusterResourceScope {
    const SCOPE: Scope = Scope::Cluster;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dy_2_metadata_is_requested_with_whole_objects_as_the_fallback() {
        for shape in [Shape::Object, Shape::List, Shape::Watch] {
            let [json, protobuf] = Form::Metadata.accept(shape);
            for accept in [json, protobuf] {
                assert!(
                    accept.contains(";as=PartialObjectMetadata") && accept.ends_with(",application/json"),
                    "{accept}"
                );
                assert_eq!(accept.contains("PartialObjectMetadataList"), shape == Shape::List, "{accept}");
            }
            assert!(json.starts_with("application/json;as="), "{json}");
            assert!(protobuf.starts_with("application/vnd.kubernetes.protobuf;as="), "{protobuf}");
            let full = ["application/json", "application/vnd.kubernetes.protobuf,application/json"];
            assert_eq!(Form::Full.accept(shape), full);
        }
    }
}

//! The form of the objects that a handle requests, and the scope of a type.

use dogwatch_core::Scope;
use dogwatch_wire::Fields;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};

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
}

/// The kind of response that a handle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    List,
    /// A watch contains single objects, whatever their form.
    Watch,
}

impl Form {
    /// Returns the `Accept` header. A server that does not support the metadata form returns whole
    /// objects, which decode too.
    pub(super) fn accept(self, shape: Shape) -> &'static str {
        match (self, shape) {
            (Self::Full, _) => "application/json",
            (Self::Metadata, Shape::List) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::Metadata, _) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
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
            let accept = Form::Metadata.accept(shape);
            assert!(
                accept.contains(";as=PartialObjectMetadata") && accept.ends_with(",application/json"),
                "{accept}"
            );
            assert_eq!(accept.contains("PartialObjectMetadataList"), shape == Shape::List, "{accept}");
            assert_eq!(Form::Full.accept(shape), "application/json");
        }
    }
}

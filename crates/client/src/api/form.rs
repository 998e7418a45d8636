//! Which form of its objects a handle asks for, and which scope a type has.

use dogwatch_core::Scope;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};

/// The form of the objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are stored.
    Full,
    /// Nothing but their metadata (rule DY-2).
    Metadata,
}

/// What a handle is about to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    List,
    /// A watch carries single objects, whatever form they have.
    Watch,
}

impl Form {
    /// The `Accept` header. A server that does not know the metadata form answers with whole objects, which decode too.
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
pub trait StaticScope {
    /// Whether objects live in namespaces.
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
    fn dy_2_metadata_is_asked_for_with_whole_objects_as_the_fallback() {
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

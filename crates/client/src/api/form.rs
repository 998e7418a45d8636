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

/// Expands to the `Accept` headers in JSON and in protobuf, with these parameters of their media
/// types. JSON without parameters is the last choice: a server that does not know a form sends
/// whole objects, which decode too, and one that compares parameters, as RFC 9110 has it, still has
/// an answer.
macro_rules! accept {
    ($($parameter:literal)+) => {
        [
            concat!("application/json", $($parameter,)+ ",application/json"),
            concat!(
                "application/vnd.kubernetes.protobuf", $($parameter,)+
                ",application/json", $($parameter,)+ ",application/json"
            ),
        ]
    };
}

/// The `Accept` headers of each form: whole objects, lists of metadata, and metadata.
const FULL: [&str; 2] = ["application/json", "application/vnd.kubernetes.protobuf,application/json"];
const METADATA_LIST: [&str; 2] = accept!(";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
const METADATA: [&str; 2] = accept!(";as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// The same without managed fields (KEP-5958). Servers up to Kubernetes 1.37 ignore the parameter:
/// `acceptMediaTypeOptions` in k8s.io/apiserver v0.36.4
/// pkg/endpoints/handlers/negotiation/negotiate.go.
const FULL_UNMANAGED: [&str; 2] = accept!(";drop=metadata.managedFields");
const METADATA_LIST_UNMANAGED: [&str; 2] =
    accept!(";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" ";drop=metadata.managedFields");
const METADATA_UNMANAGED: [&str; 2] =
    accept!(";as=PartialObjectMetadata;g=meta.k8s.io;v=v1" ";drop=metadata.managedFields");

impl Form {
    /// Returns the `Accept` headers in JSON and in protobuf. Managed fields that would be skipped
    /// while decoding are not requested.
    pub(super) fn accept(self, shape: Shape, fields: Fields) -> [&'static str; 2] {
        let keeps_managed_fields = fields == fields.keep_managed_fields();
        match (self, shape, keeps_managed_fields) {
            (Self::Full, _, true) => FULL,
            (Self::Full, _, false) => FULL_UNMANAGED,
            (Self::Metadata, Shape::List, true) => METADATA_LIST,
            (Self::Metadata, Shape::List, false) => METADATA_LIST_UNMANAGED,
            (Self::Metadata, _, true) => METADATA,
            (Self::Metadata, _, false) => METADATA_UNMANAGED,
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

    const DROP: &str = ";drop=metadata.managedFields";

    fn kept() -> Fields {
        Fields::default().keep_managed_fields()
    }

    #[test]
    fn dy_2_metadata_is_requested_with_whole_objects_as_the_fallback() {
        for (shape, fields) in [Shape::Object, Shape::List, Shape::Watch]
            .into_iter()
            .flat_map(|shape| [(shape, Fields::default()), (shape, kept())])
        {
            let [json, protobuf] = Form::Metadata.accept(shape, fields);
            for accept in [json, protobuf] {
                assert!(
                    accept.contains(";as=PartialObjectMetadata") && accept.ends_with(",application/json"),
                    "{accept}"
                );
                assert_eq!(accept.contains("PartialObjectMetadataList"), shape == Shape::List, "{accept}");
            }
            assert!(json.starts_with("application/json;as="), "{json}");
            assert!(protobuf.starts_with("application/vnd.kubernetes.protobuf;as="), "{protobuf}");
        }
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(Form::Metadata.accept(Shape::Watch, kept())[0], metadata);
    }

    #[test]
    fn managed_fields_are_not_requested_unless_they_are_kept() {
        for (form, shape) in [Form::Full, Form::Metadata]
            .into_iter()
            .flat_map(|form| [(form, Shape::Object), (form, Shape::List), (form, Shape::Watch)])
        {
            for (accept, kept) in
                form.accept(shape, Fields::default()).into_iter().zip(form.accept(shape, kept()))
            {
                // Every choice but the last, which is for servers that know no parameters.
                let mut choices: Vec<_> = accept.split(',').collect();
                assert_eq!(choices.pop(), Some("application/json"), "{accept}");
                assert!(choices.iter().all(|it| it.ends_with(DROP)), "{accept}");
                assert!(!kept.contains("drop="), "{kept}");
                assert!(kept.starts_with(&choices[0][..choices[0].len() - DROP.len()]), "{kept}");
            }
        }
        let full = ["application/json", "application/vnd.kubernetes.protobuf,application/json"];
        assert_eq!(Form::Full.accept(Shape::List, kept()), full);
        // Unknown fields have nothing to do with managed ones.
        let rejecting = Form::Full.accept(Shape::List, Fields::default().reject_unknown());
        assert_eq!(rejecting, Form::Full.accept(Shape::List, Fields::default()));
    }
}

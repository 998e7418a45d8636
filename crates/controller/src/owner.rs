//! Owner references: the owners of an object, and the single one that controls it.
//!
//! The server garbage-collects an object after its owners. It accepts references that cannot work,
//! for example across namespaces; this module rejects them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;

/// An object as the owner of others.
///
/// ```
/// use dogwatch_controller::Owner;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// let mut map = ConfigMap::default(); // as read from a server:
/// map.metadata.name = Some("settings".to_owned());
/// map.metadata.namespace = Some("shop".to_owned());
/// map.metadata.uid = Some("5f0c".to_owned());
///
/// let mut secret = Secret::default();
/// secret.metadata.namespace = Some("shop".to_owned());
/// let owner = Owner::of(&map)?;
/// assert!(owner.set_controller_reference(&mut secret)?, "the secret changed");
/// assert!(owner.controls(&secret));
/// # Ok::<(), dogwatch_controller::owner::OwnerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    reference: OwnerReference,
    /// `None` for a cluster-scoped object, which may own objects in any namespace.
    namespace: Option<String>,
}

/// An error for an object that cannot own another.
///
/// ```
/// use dogwatch_controller::Owner;
/// use dogwatch_controller::owner::OwnerError;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// match Owner::of(&ConfigMap::default()) {
///     Err(OwnerError::NotStored) => println!("create it first, and use the server's response"),
///     Err(OwnerError::AlreadyControlled { kind, name, .. }) => println!("see {kind} {name}"),
///     other => drop(other?),
/// }
/// # Ok::<(), OwnerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner has no name or no uid: it was not read from a server.
    #[error("the owner has no name or uid: create it on the server first")]
    NotStored,
    /// Another object already controls it, and there can be only one controller.
    #[error("the object is already controlled by {kind} {name}")]
    AlreadyControlled {
        /// The kind of the controller.
        kind: String,
        /// The name of the controller.
        name: String,
        /// The uid of the controller.
        uid: String,
    },
    /// The garbage collector would not find the owner and would delete the owned object.
    #[error("an owner in namespace {owner} cannot own an object in {owned}", owned = .owned.as_deref().unwrap_or("no namespace"))]
    OtherNamespace {
        /// The namespace of the owner.
        owner: String,
        /// The namespace of the object; `None` for a cluster-scoped object.
        owned: Option<String>,
    },
}

/// Returns the reference to the object that controls this one.
///
/// ```
/// use dogwatch_controller::owner::controller_of;
/// use k8s_openapi::api::core::v1::Pod;
///
/// assert_eq!(controller_of(&Pod::default()), None); // no reference has `controller: true`
/// ```
pub fn controller_of(object: &impl Resource) -> Option<&OwnerReference> {
    references(object).iter().find(|it| it.controller == Some(true))
}

impl Owner {
    /// Creates an owner from an object of a statically known type.
    ///
    /// # Errors
    /// Returns an error if it has no name or uid yet.
    pub fn of<O: Resource<DynamicType = ()>>(owner: &O) -> Result<Self, OwnerError> {
        Self::dynamic(owner, &())
    }

    /// Creates an owner from an object whose type is known only at run time.
    ///
    /// # Errors
    /// Returns an error if it has no name or uid yet.
    pub fn dynamic<O: Resource>(owner: &O, kind: &O::DynamicType) -> Result<Self, OwnerError> {
        let reference = owner.owner_ref(kind).filter(|it| !it.name.is_empty() && !it.uid.is_empty());
        let namespace = owner.meta().namespace.clone().filter(|it| !it.is_empty());
        Ok(Self { reference: reference.ok_or(OwnerError::NotStored)?, namespace })
    }

    /// Makes this owner the controller of an object, with `blockOwnerDeletion`: a foreground
    /// deletion of the owner waits for the object. Has no effect if it already is the controller.
    /// Returns true if the object changed.
    ///
    /// Owners are compared by uid: a reference to an earlier owner of the same name is left to the
    /// garbage collector.
    ///
    /// # Errors
    /// Returns an error if another object controls it, or if it is in another namespace than the
    /// owner; the object is then unchanged.
    pub fn set_controller_reference(&self, object: &mut impl Resource) -> Result<bool, OwnerError> {
        if let Some(other) = controller_of(object).filter(|it| it.uid != self.reference.uid) {
            let (kind, name, uid) = (other.kind.clone(), other.name.clone(), other.uid.clone());
            return Err(OwnerError::AlreadyControlled { kind, name, uid });
        }
        let reference = OwnerReference {
            controller: Some(true),
            block_owner_deletion: Some(true),
            ..self.reference.clone()
        };
        self.put(object, reference)
    }

    /// Makes this one of the owners of an object. If it already is the controller, it stays so.
    /// Returns true if the object changed.
    ///
    /// # Errors
    /// Returns an error if the object is in another namespace than the owner; the object is then
    /// unchanged.
    pub fn set_owner_reference(&self, object: &mut impl Resource) -> Result<bool, OwnerError> {
        if self.owns(object) {
            return Ok(false);
        }
        self.put(object, self.reference.clone())
    }

    /// Removes the reference to this owner, controlling or not. Returns true if there was one.
    pub fn remove_owner_reference(&self, object: &mut impl Resource) -> bool {
        let Some(references) = &mut object.meta_mut().owner_references else { return false };
        let before = references.len();
        references.retain(|it| it.uid != self.reference.uid);
        references.len() != before
    }

    /// Returns true if this is an owner of the object. Owners are compared by uid.
    pub fn owns(&self, object: &impl Resource) -> bool {
        references(object).iter().any(|it| it.uid == self.reference.uid)
    }

    /// Returns true if this is the controller of the object.
    pub fn controls(&self, object: &impl Resource) -> bool {
        controller_of(object).is_some_and(|it| it.uid == self.reference.uid)
    }

    fn put(&self, object: &mut impl Resource, reference: OwnerReference) -> Result<bool, OwnerError> {
        let meta = object.meta_mut();
        let owned = meta.namespace.as_deref().filter(|it| !it.is_empty());
        if let Some(owner) = &self.namespace
            && owned != Some(owner)
        {
            return Err(OwnerError::OtherNamespace { owner: owner.clone(), owned: owned.map(str::to_owned) });
        }
        let references = meta.owner_references.get_or_insert_default();
        match references.iter_mut().find(|it| it.uid == reference.uid) {
            Some(same) if *same == reference => Ok(false),
            Some(same) => {
                *same = reference;
                Ok(true)
            }
            None => {
                references.push(reference);
                Ok(true)
            }
        }
    }
}

fn references(object: &impl Resource) -> &[OwnerReference] {
    object.meta().owner_references.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
    use kube_core::{ApiResource, DynamicObject, ObjectMeta};

    use super::*;

    fn meta(namespace: Option<&str>, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            uid: Some(format!("uid-of-{name}")),
            ..ObjectMeta::default()
        }
    }

    fn map(name: &str) -> ConfigMap {
        ConfigMap { metadata: meta(Some("here"), name), ..ConfigMap::default() }
    }

    fn owner(name: &str) -> Owner {
        Owner::of(&map(name)).expect("it has a uid")
    }

    #[test]
    fn an_object_has_at_most_one_controller_and_it_may_be_set_again() {
        let mut object = map("owned");
        assert_eq!(owner("a").set_controller_reference(&mut object), Ok(true));
        assert_eq!(owner("a").set_controller_reference(&mut object), Ok(false));
        let refused = owner("b").set_controller_reference(&mut object).expect_err("a controls it");
        assert_eq!(refused.to_string(), "the object is already controlled by ConfigMap a");
        assert_eq!(
            owner("b").set_owner_reference(&mut object),
            Ok(true),
            "a second owner that does not control is allowed"
        );
        assert!(owner("a").controls(&object) && owner("b").owns(&object) && !owner("b").controls(&object));
        let reference = controller_of(&object).expect("a controller");
        assert_eq!((reference.api_version.as_str(), reference.block_owner_deletion), ("v1", Some(true)));
        assert_eq!(owner("a").set_owner_reference(&mut object), Ok(false));
        assert!(owner("a").controls(&object), "`own` leaves the controller in place");
    }

    #[test]
    fn an_owner_may_become_the_controller() {
        let mut object = map("owned");
        assert_eq!(owner("a").set_owner_reference(&mut object), Ok(true));
        assert_eq!(owner("a").set_controller_reference(&mut object), Ok(true));
        assert_eq!(object.metadata.owner_references.as_ref().map(Vec::len), Some(1));
    }

    #[test]
    fn an_owner_of_the_same_name_with_another_uid_is_a_different_owner() {
        let mut object = map("owned");
        owner("a").set_controller_reference(&mut object).expect("no controller yet");
        let mut again = map("a");
        again.metadata.uid = Some("other".to_owned());
        let again = Owner::of(&again).expect("it has a uid");
        assert!(!again.owns(&object));
        assert!(matches!(
            again.set_controller_reference(&mut object),
            Err(OwnerError::AlreadyControlled { .. })
        ));
    }

    #[test]
    fn owners_across_namespaces_are_rejected_and_cluster_scoped_owners_own_anywhere() {
        let mut elsewhere = ConfigMap { metadata: meta(Some("there"), "owned"), ..ConfigMap::default() };
        let refused = owner("a").set_controller_reference(&mut elsewhere).expect_err("another namespace");
        assert_eq!(refused.to_string(), "an owner in namespace here cannot own an object in there");
        let mut node = Node { metadata: meta(None, "node"), ..Node::default() };
        let refused = owner("a").set_owner_reference(&mut node).expect_err("no namespace");
        assert_eq!(refused.to_string(), "an owner in namespace here cannot own an object in no namespace");
        assert_eq!(
            Owner::of(&node).expect("it has a uid").set_controller_reference(&mut elsewhere),
            Ok(true)
        );
    }

    #[test]
    fn removing_an_owner_removes_one_reference_and_returns_true_if_it_existed() {
        let mut object = map("owned");
        assert!(!owner("a").remove_owner_reference(&mut object));
        owner("a").set_controller_reference(&mut object).expect("no controller yet");
        owner("b").set_owner_reference(&mut object).expect("no controller yet");
        assert!(owner("a").remove_owner_reference(&mut object));
        assert!(!owner("a").owns(&object) && owner("b").owns(&object));
    }

    #[test]
    fn an_unstored_object_cannot_own_and_a_dynamic_one_can() {
        assert_eq!(Owner::of(&Pod::default()), Err(OwnerError::NotStored));
        let kind = ApiResource::erase::<Pod>(&());
        let dynamic = DynamicObject { metadata: meta(Some("here"), "a"), ..DynamicObject::new("a", &kind) };
        let mut object = map("owned");
        assert_eq!(
            Owner::dynamic(&dynamic, &kind).expect("it has a uid").set_controller_reference(&mut object),
            Ok(true)
        );
        assert_eq!(controller_of(&object).map(|it| it.kind.as_str()), Some("Pod"));
    }
}

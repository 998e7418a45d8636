//! Owner references: which object another belongs to, and which single one controls it.
//!
//! The server deletes what is owned after its owners. It does not refuse references that cannot work, across namespaces for
//! example; this module does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;

/// An object as the owner of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    reference: OwnerReference,
    /// `None` for an object of the cluster, which may own objects anywhere.
    namespace: Option<String>,
}

/// Why an object cannot own another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner has no name or no uid: it was not read from a server.
    #[error("an owner needs a name and a uid, so it must be stored first")]
    NotStored,
    /// Another object controls it already, and there can be only one.
    #[error("it is controlled by {kind} {name} already")]
    AlreadyControlled {
        /// The kind of the controller.
        kind: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// The server would take the owner for gone and delete what it owns.
    #[error("an owner in the namespace {owner} cannot own an object in {owned}", owned = .owned.as_deref().unwrap_or("no namespace"))]
    OtherNamespace {
        /// The namespace of the owner.
        owner: String,
        /// The namespace of the object; `None` for an object of the cluster.
        owned: Option<String>,
    },
}

/// The reference to the object that controls this one.
pub fn controller_of(object: &impl Resource) -> Option<&OwnerReference> {
    references(object).iter().find(|it| it.controller == Some(true))
}

impl Owner {
    /// An object of a type that is known.
    ///
    /// # Errors
    /// When it has no uid yet.
    pub fn of<O: Resource<DynamicType = ()>>(owner: &O) -> Result<Self, OwnerError> {
        Self::dynamic(owner, &())
    }

    /// An object whose type is known only at run time.
    ///
    /// # Errors
    /// When it has no uid yet.
    pub fn dynamic<O: Resource>(owner: &O, kind: &O::DynamicType) -> Result<Self, OwnerError> {
        let reference = owner.owner_ref(kind).filter(|it| !it.name.is_empty() && !it.uid.is_empty());
        let namespace = owner.meta().namespace.clone().filter(|it| !it.is_empty());
        Ok(Self { reference: reference.ok_or(OwnerError::NotStored)?, namespace })
    }

    /// Makes this the controller of an object; the owner is then not deleted in the foreground before it. Changes nothing when it
    /// is the controller already. `true` when something changed.
    ///
    /// An earlier owner of the same name is another one: what it controlled is the garbage collector's.
    ///
    /// # Errors
    /// When another object controls it, or the namespaces forbid it; the object is then as it was.
    pub fn control(&self, object: &mut impl Resource) -> Result<bool, OwnerError> {
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

    /// Makes this one of the owners of an object, and leaves it its controller if it is. `true` when something changed.
    ///
    /// # Errors
    /// When the namespaces forbid it; the object is then as it was.
    pub fn own(&self, object: &mut impl Resource) -> Result<bool, OwnerError> {
        if self.owns(object) {
            return Ok(false);
        }
        self.put(object, self.reference.clone())
    }

    /// Takes the reference away, whether it controls or only owns. `true` when there was one.
    pub fn disown(&self, object: &mut impl Resource) -> bool {
        let Some(references) = &mut object.meta_mut().owner_references else { return false };
        let before = references.len();
        references.retain(|it| it.uid != self.reference.uid);
        references.len() != before
    }

    /// Whether this is an owner of the object. Owners are known by their uid.
    pub fn owns(&self, object: &impl Resource) -> bool {
        references(object).iter().any(|it| it.uid == self.reference.uid)
    }

    /// Whether this is the controller of the object.
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
        assert_eq!(owner("a").control(&mut object), Ok(true));
        assert_eq!(owner("a").control(&mut object), Ok(false));
        let refused = owner("b").control(&mut object).expect_err("a controls it");
        assert_eq!(refused.to_string(), "it is controlled by ConfigMap a already");
        assert_eq!(owner("b").own(&mut object), Ok(true), "it may own nevertheless");
        assert!(owner("a").controls(&object) && owner("b").owns(&object) && !owner("b").controls(&object));
        let reference = controller_of(&object).expect("a controller");
        assert_eq!((reference.api_version.as_str(), reference.block_owner_deletion), ("v1", Some(true)));
        assert_eq!(owner("a").own(&mut object), Ok(false));
        assert!(owner("a").controls(&object), "owning takes nothing away");
    }

    #[test]
    fn an_owner_may_become_the_controller() {
        let mut object = map("owned");
        assert_eq!(owner("a").own(&mut object), Ok(true));
        assert_eq!(owner("a").control(&mut object), Ok(true));
        assert_eq!(object.metadata.owner_references.as_ref().map(Vec::len), Some(1));
    }

    #[test]
    fn an_owner_of_the_same_name_with_another_uid_is_another() {
        let mut object = map("owned");
        owner("a").control(&mut object).expect("free");
        let mut again = map("a");
        again.metadata.uid = Some("other".to_owned());
        let again = Owner::of(&again).expect("it has a uid");
        assert!(!again.owns(&object));
        assert!(matches!(again.control(&mut object), Err(OwnerError::AlreadyControlled { .. })));
    }

    #[test]
    fn owners_across_namespaces_are_refused_and_those_of_the_cluster_own_anywhere() {
        let mut elsewhere = ConfigMap { metadata: meta(Some("there"), "owned"), ..ConfigMap::default() };
        let refused = owner("a").control(&mut elsewhere).expect_err("another namespace");
        assert_eq!(refused.to_string(), "an owner in the namespace here cannot own an object in there");
        let mut node = Node { metadata: meta(None, "node"), ..Node::default() };
        let refused = owner("a").own(&mut node).expect_err("no namespace");
        assert_eq!(
            refused.to_string(),
            "an owner in the namespace here cannot own an object in no namespace"
        );
        assert_eq!(Owner::of(&node).expect("it has a uid").control(&mut elsewhere), Ok(true));
    }

    #[test]
    fn removing_takes_the_one_reference_and_says_whether_it_was_there() {
        let mut object = map("owned");
        assert!(!owner("a").disown(&mut object));
        owner("a").control(&mut object).expect("free");
        owner("b").own(&mut object).expect("free");
        assert!(owner("a").disown(&mut object));
        assert!(!owner("a").owns(&object) && owner("b").owns(&object));
    }

    #[test]
    fn what_was_never_stored_owns_nothing_and_dynamic_objects_own_too() {
        assert_eq!(Owner::of(&Pod::default()), Err(OwnerError::NotStored));
        let kind = ApiResource::erase::<Pod>(&());
        let dynamic = DynamicObject { metadata: meta(Some("here"), "a"), ..DynamicObject::new("a", &kind) };
        let mut object = map("owned");
        assert_eq!(Owner::dynamic(&dynamic, &kind).expect("it has a uid").control(&mut object), Ok(true));
        assert_eq!(controller_of(&object).map(|it| it.kind.as_str()), Some("Pod"));
    }
}

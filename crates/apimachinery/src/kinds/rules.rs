//! Everything that the server knows about one built-in kind, as one value.
//!
//! Each kind has a static [`KindRules`] in a file of its name, for example `core/pod/mod.rs`; it
//! names what is special and takes the rest from `COMMON`. The [`index`](crate::kinds::index)
//! finds the rules of a kind, and each kind in the registry keeps a reference to its rules.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::allocate::ClusterResources;
use crate::kinds::cells;
use crate::kinds::fields::SelectableFields;
use crate::kinds::json_access::Object;
use crate::kinds::shape;
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::{ApiError, FieldErrors};

/// The rules of a built-in kind. Those of custom kinds come from their definitions.
pub struct KindRules {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The plural name.
    pub plural: &'static str,
    /// The rules for creating, updating and deleting its objects.
    pub traits: KindTraits,

    /// Sets the defaults of an object of this version. Must be idempotent, because it is applied to
    /// every object that is decoded.
    pub default: fn(&str, &mut Object),
    /// Returns an object in which no field is set, if that is not what its type declares.
    pub blank: Option<fn() -> Value>,

    /// Sets the fields of a new object that the server decides. The time is that of the creation.
    pub prepare_create: fn(&mut Value, &str, &mut dyn ClusterResources) -> Result<(), ApiError>,
    /// Sets the fields of the new state of an object that the server decides.
    pub prepare_update: fn(&mut Value, &Value, &mut dyn ClusterResources) -> Result<(), ApiError>,
    /// Sets the fields that the server decides in an object whose status was written.
    pub prepare_status: fn(&mut Value, &Value),
    /// True if a new object may have a status although there is a `/status`.
    pub creates_status: bool,
    /// True if updates change the generation although creation does not set it, or false the other
    /// way round. `None` if `has_generation` is right for both.
    pub counts_updates: Option<bool>,
    /// The metadata whose changes count as changes of the desired state, as JSON pointers.
    pub generation_metadata: &'static [&'static str],

    /// The number of times that the parts of its metadata are validated in an update.
    pub metadata_passes: MetadataPasses,
    /// True if finalizers must be standard ones or have a domain.
    pub finalizers_need_domain: bool,
    /// Validates a new object.
    pub validate_create: fn(&mut FieldErrors, &Value),
    /// Validates the new state of an object, given also its old state. `None` if it is validated
    /// like a new object.
    pub validate_update: Option<fn(&mut FieldErrors, &Value, &Value)>,
    /// Validates an object whose status has changed, given also its old state.
    pub validate_status: fn(&mut FieldErrors, &Value, &Value),
    /// Returns the warnings about an accepted object, given also its old state, if it has one.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// The pointer to the pod spec in its objects, for kinds that create pods.
    pub pod_spec: Option<&'static str>,
    /// The deprecation warning for requests to the resource.
    pub deprecation: Option<&'static str>,
    /// The warning for deletions that leave the fate of dependents to the default.
    pub deletion_warning: Option<&'static str>,
    /// The objects that a cluster needs and that cannot be deleted.
    pub undeletable: Option<Undeletable>,

    /// The selectable fields.
    pub fields: SelectableFields,
    /// Returns the table cells of an object.
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
    /// Returns the conditions of the table row of an object.
    pub row_conditions: fn(&Value) -> Option<Value>,
    /// The annotation that is a field inside kube-apiserver, and therefore missing from partial
    /// metadata.
    pub internal_annotation: Option<&'static str>,

    /// The conversion to the stored form, for kinds that are not stored as they are served.
    pub conversion: Option<Conversion>,
    /// False if its objects are computed and not stored.
    pub is_stored: bool,
    /// False if the garbage collector ignores its objects.
    pub is_collected: bool,
    /// The path in etcd below `/registry`, if it is not the plural (k8s.io/kubernetes v1.36.4
    /// pkg/kubeapiserver/default_storage_factory_builder.go).
    pub storage_path: Option<&'static str>,
    /// The version in which kube-apiserver stores it, if it is not the served one (for definitions,
    /// k8s.io/kubernetes v1.36.4 pkg/controlplane/apiserver/apiextensions.go).
    pub storage_version: Option<&'static str>,
    /// The way in which quotas and limit ranges count its objects.
    pub accounting: Accounting,
    /// The question that its objects ask, for kinds that are answered and never stored.
    pub review: Option<Review>,
}

/// The rules that most kinds have. Kinds without an entry in the index have exactly these.
pub(crate) const COMMON: KindRules = KindRules {
    group: "",
    kind: "",
    plural: "",
    traits: KindTraits::COMMON,
    default: |_, _| {},
    blank: None,
    prepare_create: |_, _, _| Ok(()),
    prepare_update: |_, _, _| Ok(()),
    prepare_status: |_, _| {},
    creates_status: false,
    counts_updates: None,
    generation_metadata: &[],
    metadata_passes: MetadataPasses { labels: 4, fixed: 2, finalizers: 2 },
    finalizers_need_domain: true,
    validate_create: |_, _| {},
    validate_update: None,
    validate_status: |_, _, _| {},
    warnings: |_, _| Vec::new(),
    pod_spec: None,
    deprecation: None,
    deletion_warning: None,
    undeletable: None,
    fields: SelectableFields::COMMON,
    cells: cells::name_and_age,
    row_conditions: |_| None,
    internal_annotation: None,
    conversion: None,
    is_stored: true,
    is_collected: true,
    storage_path: None,
    storage_version: None,
    accounting: Accounting::Counted,
    review: None,
};

/// The objects of a kind that cannot be deleted.
#[derive(Clone, Copy, Debug)]
pub struct Undeletable {
    /// The names of the objects.
    pub names: &'static [&'static str],
    /// The reason in the response.
    pub why: &'static str,
    /// True if they are kept also when all objects of the kind are deleted.
    pub in_collections: bool,
}

/// The conversion between the served and the stored form of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The served version that is converted; all versions if `None`.
    pub version: Option<&'static str>,
    /// The group under which objects are stored.
    pub stored_group: &'static str,
    /// Converts a served object to its stored form.
    pub to_stored: fn(&Value) -> Value,
    /// Converts a stored object to its served form.
    pub from_stored: fn(&Value) -> Value,
}

/// The way in which quotas and limit ranges count objects of a kind: the evaluators in
/// k8s.io/kubernetes v1.36.4 pkg/quota/v1/evaluator/core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Not at all: events are created and expire too fast.
    Ignored,
    /// By their number.
    Counted,
    /// By their number, which has an entry under the plain name too, without `count/`.
    CountedByName,
    /// By the resources of a pod.
    Pod,
    /// By the ports and load balancers of a service.
    Service,
    /// By the storage of a PersistentVolumeClaim.
    Claim,
    /// By the devices of a ResourceClaim.
    Devices,
}

/// The question that an object asks which is answered and never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// The user of the request.
    User,
    /// The user of a token.
    Token,
    /// Everything that the user of the request may do.
    Rules,
    /// A permission of any user.
    Access,
    /// A permission of the user of the request.
    OwnAccess,
}

impl KindRules {
    /// Returns true if both are the rules of one kind.
    pub fn is(&self, other: &'static Self) -> bool {
        std::ptr::eq(self, other)
    }

    /// Sets the defaults of an object of this version, and gives it the wire format of its type.
    pub fn apply_defaults(&self, version: &str, value: &mut Value) {
        let Some(map) = value.as_object_mut() else { return };
        shape::apply(self.group, version, self.kind, map);
        (self.default)(version, map);
    }
}

impl fmt::Debug for KindRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, plural, traits, .. } = self;
        f.debug_struct("KindRules")
            .field("group", group)
            .field("kind", kind)
            .field("plural", plural)
            .field("traits", traits)
            .finish_non_exhaustive()
    }
}

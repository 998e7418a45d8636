//! The rules for creating, updating and deleting objects, as far as kinds differ in them.
//!
//! The traits of a built-in kind are part of its [`crate::kinds::rules::KindRules`]; custom kinds
//! have traits of their own, see [`KindTraits::custom`].

use crate::kinds::names;

/// The rules by which kinds differ when they are written.
///
/// Unless stated otherwise, the values of built-in kinds are those of their strategies in
/// k8s.io/kubernetes v1.36.4 pkg/registry/*/*/strategy.go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindTraits {
    /// True if a PUT of a missing object creates it (`AllowCreateOnUpdate`).
    pub allow_create_on_update: bool,
    /// True if a PUT must carry a resource version (the opposite of `AllowUnconditionalUpdate`).
    pub requires_version_on_update: bool,
    /// True if a delete returns the object instead of a `Status` (`ReturnDeletedObject` in
    /// pkg/registry/*/*/storage/storage.go).
    pub returns_deleted_object: bool,
    /// True if `metadata.generation` counts the changes of the desired state.
    pub has_generation: bool,
    /// True if a delete gives the object time to shut down (pods).
    pub graceful_deletion: bool,
    /// True if a delete without a propagation policy orphans the dependents
    /// (`DefaultGarbageCollectionPolicy` is `OrphanDependents`, for backwards compatibility).
    pub orphans_by_default: bool,
    /// True if there is a `/status`: writes to the object keep the old status, writes to `/status`
    /// keep all but the status.
    pub has_status: bool,
    /// The part of `metadata` that a write to `/status` may change.
    pub status_metadata: StatusMetadata,
    /// The rule for names of its objects.
    pub name: NameRule,
}

/// The part of `metadata` that a write to `/status` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMetadata {
    /// All of it, as in a write to the object itself.
    All,
    /// All but owner references and deletion timestamp, as for pods.
    AllButOwners,
    /// All but labels.
    AllButLabels,
    /// Nothing but the managed fields.
    Nothing,
}

/// The rule for names of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain.
    Subdomain,
    /// A DNS label.
    Label,
    /// Any single segment of a path.
    PathSegment,
    /// An IP address.
    Address,
}

impl NameRule {
    /// Returns the reasons why a name is invalid; empty if it is valid. With `prefix`, the text is
    /// only the beginning of a name, so it may end with a hyphen.
    pub fn problems(self, name: &str, prefix: bool) -> Vec<String> {
        let mut name = name.to_owned();
        if prefix && self != Self::PathSegment && name.ends_with('-') {
            name.pop();
            name.push('a');
        }
        match self {
            Self::Subdomain => names::subdomain(&name),
            Self::Label => names::label(&name),
            Self::PathSegment => names::path_segment(&name),
            Self::Address => names::address(&name),
        }
    }
}

/// The number of times that kube-apiserver validates parts of the metadata of a kind in an update.
///
/// The generic update code (k8s.io/apiserver v0.36.4 pkg/registry/rest/update.go) and the
/// validation of the kind both do so, and each adds the same problems. The message shows equal
/// problems once, but each has a cause of its own.
#[derive(Clone, Copy, Debug)]
pub struct MetadataPasses {
    /// The passes over labels, annotations and owner references.
    pub labels: usize,
    /// The passes over immutable fields.
    pub fixed: usize,
    /// The passes over the names of finalizers.
    pub finalizers: usize,
}

impl KindTraits {
    /// The traits that most built-in kinds have.
    pub const COMMON: Self = Self {
        allow_create_on_update: false,
        requires_version_on_update: false,
        returns_deleted_object: false,
        has_generation: false,
        graceful_deletion: false,
        orphans_by_default: false,
        has_status: false,
        status_metadata: StatusMetadata::All,
        name: NameRule::Subdomain,
    };

    /// Returns the traits of a custom kind.
    pub fn custom(has_status: bool) -> Self {
        Self {
            allow_create_on_update: false,
            requires_version_on_update: true,
            returns_deleted_object: false,
            has_generation: true,
            graceful_deletion: false,
            orphans_by_default: false,
            has_status,
            status_metadata: StatusMetadata::Nothing,
            name: NameRule::Subdomain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::index::of_resource;

    #[test]
    fn kinds_differ_as_in_kube_apiserver() {
        let traits = |group: &str, plural: &str| of_resource(group, plural).traits;
        let lease = traits("coordination.k8s.io", "leases");
        assert!(lease.allow_create_on_update && lease.requires_version_on_update && !lease.has_generation);
        let config = traits("", "configmaps");
        assert!(
            !config.allow_create_on_update && !config.requires_version_on_update && !config.has_generation
        );
        let pod = traits("", "pods");
        assert!(pod.graceful_deletion && pod.returns_deleted_object && pod.has_generation && pod.has_status);
        assert!(traits("batch", "jobs").orphans_by_default);
        assert!(!traits("batch", "cronjobs").orphans_by_default);
        assert!(traits("resource.k8s.io", "resourceclaims").returns_deleted_object);
        let custom = KindTraits::custom(true);
        assert!(custom.requires_version_on_update && custom.has_generation && custom.has_status);
    }

    #[test]
    fn a_prefix_may_end_with_a_hyphen_and_a_name_may_not() {
        assert!(NameRule::Subdomain.problems("web-", true).is_empty());
        assert!(!NameRule::Subdomain.problems("web-", false).is_empty());
        assert!(!NameRule::Label.problems("a.b", false).is_empty());
        assert!(NameRule::PathSegment.problems("system:basic", false).is_empty());
    }
}

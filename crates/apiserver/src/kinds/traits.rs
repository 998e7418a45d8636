//! The rules for creating, updating and deleting objects, as far as kinds differ in them.
//!
//! Read by the write path, which looks kinds up by group and plural. Custom kinds have traits of
//! their own, see [`KindTraits::custom`].

use crate::kinds::names;

/// The rules by which kinds differ when they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindTraits {
    /// True if a PUT of a missing object creates it.
    pub allow_create_on_update: bool,
    /// True if a PUT must carry a resource version.
    pub requires_version_on_update: bool,
    /// True if a delete returns the object instead of a `Status`.
    pub returns_deleted_object: bool,
    /// True if `metadata.generation` counts the changes of the desired state.
    pub has_generation: bool,
    /// True if a delete gives the object time to shut down (pods).
    pub graceful_deletion: bool,
    /// True if a delete without a propagation policy orphans the dependents.
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
#[non_exhaustive]
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
#[non_exhaustive]
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
    /// Returns the rule of a built-in kind.
    pub fn of(group: &str, plural: &str) -> Self {
        match (group, plural) {
            (RBAC, _) | ("coordination.k8s.io", "leasecandidates") | ("policy", "poddisruptionbudgets") => {
                Self::PathSegment
            }
            ("", "namespaces" | "services") => Self::Label,
            ("networking.k8s.io", "ipaddresses") => Self::Address,
            _ => Self::Subdomain,
        }
    }

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

/// Kinds whose strategy returns true from `AllowCreateOnUpdate` (k8s.io/kubernetes v1.36.4
/// pkg/registry/*/*/strategy.go, as for the lists below).
const CREATE_ON_UPDATE: &[(&str, &str)] = &[
    ("", "endpoints"),
    ("", "events"),
    ("", "limitranges"),
    ("", "services"),
    ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("coordination.k8s.io", "leasecandidates"),
    ("node.k8s.io", "runtimeclasses"),
    (RBAC, "roles"),
    (RBAC, "rolebindings"),
    (RBAC, "clusterroles"),
    (RBAC, "clusterrolebindings"),
];

/// Kinds whose strategy returns false from `AllowUnconditionalUpdate`.
const VERSION_REQUIRED: &[(&str, &str)] = &[
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("coordination.k8s.io", "leases"),
    ("coordination.k8s.io", "leasecandidates"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("node.k8s.io", "runtimeclasses"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "resourcepoolstatusrequests"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("storage.k8s.io", "volumeattachments"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
];

/// Kinds whose store has `ReturnDeletedObject` set (pkg/registry/*/*/storage/storage.go).
const RETURNS_DELETED: &[(&str, &str)] = &[
    ("", "namespaces"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// Kinds whose strategy sets `metadata.generation`.
const GENERATION: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("discovery.k8s.io", "endpointslices"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
];

/// Kinds with the subresource `status`.
const STATUS: &[(&str, &str)] = &[
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
    ("", "services"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "servicecidrs"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourcepoolstatusrequests"),
    ("storage.k8s.io", "volumeattachments"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
];

const RBAC: &str = "rbac.authorization.k8s.io";

impl KindTraits {
    /// Returns the traits of a built-in kind. A kind that is not listed gets the common traits.
    pub fn of(group: &str, plural: &str) -> Self {
        let listed = |list: &[(&str, &str)]| list.contains(&(group, plural));
        let admission = group == "admissionregistration.k8s.io";
        let flow = group == "flowcontrol.apiserver.k8s.io";
        Self {
            allow_create_on_update: listed(CREATE_ON_UPDATE),
            requires_version_on_update: listed(VERSION_REQUIRED) || admission,
            returns_deleted_object: listed(RETURNS_DELETED) || group == "resource.k8s.io",
            has_generation: listed(GENERATION) || admission || flow,
            graceful_deletion: (group, plural) == ("", "pods"),
            // `DefaultGarbageCollectionPolicy` of both strategies: `OrphanDependents`, for
            // backwards compatibility.
            orphans_by_default: matches!((group, plural), ("", "replicationcontrollers") | ("batch", "jobs")),
            has_status: listed(STATUS),
            status_metadata: status_metadata(group, plural),
            name: NameRule::of(group, plural),
        }
    }

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

fn status_metadata(group: &str, plural: &str) -> StatusMetadata {
    match (group, plural) {
        ("", "pods") => StatusMetadata::AllButOwners,
        ("apps", "deployments") => StatusMetadata::AllButLabels,
        ("apiextensions.k8s.io", "customresourcedefinitions")
        | ("certificates.k8s.io", "podcertificaterequests")
        | ("flowcontrol.apiserver.k8s.io", _)
        | ("resource.k8s.io", _)
        | ("storage.k8s.io", "volumeattachments")
        | ("apiregistration.k8s.io", _)
        | ("admissionregistration.k8s.io", _)
        | ("storagemigration.k8s.io", _) => StatusMetadata::Nothing,
        _ => StatusMetadata::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_differ_as_in_kube_apiserver() {
        let lease = KindTraits::of("coordination.k8s.io", "leases");
        assert!(lease.allow_create_on_update && lease.requires_version_on_update && !lease.has_generation);
        let config = KindTraits::of("", "configmaps");
        assert!(
            !config.allow_create_on_update && !config.requires_version_on_update && !config.has_generation
        );
        let pod = KindTraits::of("", "pods");
        assert!(pod.graceful_deletion && pod.returns_deleted_object && pod.has_generation && pod.has_status);
        assert!(KindTraits::of("batch", "jobs").orphans_by_default);
        assert!(!KindTraits::of("batch", "cronjobs").orphans_by_default);
        assert!(KindTraits::of("resource.k8s.io", "resourceclaims").returns_deleted_object);
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

//! Leases.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{number, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, invalid, not_negative};

/// The rules of the kind Lease.
pub(crate) static RULES: KindRules = KindRules {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    traits: KindTraits {
        allow_create_on_update: true,
        requires_version_on_update: true,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 0 },
    finalizers_need_domain: false,
    prepare_create: |lease, _, _| {
        drop_election_fields(lease);
        Ok(())
    },
    prepare_update: |lease, _, _| {
        drop_election_fields(lease);
        Ok(())
    },
    validate_create: lease,
    cells: |object, now| {
        let holder = text(object, "/spec/holderIdentity").into();
        vec![cells::name(object), holder, age::since_creation(object, now)]
    },
    ..COMMON
};

/// Drops the fields for coordinated leader election, whose feature gate is off by default
/// (k8s.io/kubernetes v1.36.4 pkg/registry/coordination/lease/strategy.go).
fn drop_election_fields(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

/// Validates a lease.
fn lease(out: &mut FieldErrors, object: &Value) {
    if let Some(seconds) = number(object, "/spec/leaseDurationSeconds").filter(|it| *it <= 0) {
        invalid(out, "spec.leaseDurationSeconds", &seconds.into(), "must be greater than 0");
    }
    not_negative(out, object, "/spec/leaseTransitions", "spec.leaseTransitions");
}

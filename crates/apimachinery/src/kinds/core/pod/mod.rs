//! Pods: the entry of the kind. Defaults, preparation, validation and table columns have a file
//! each.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod resources;
mod container;
mod sysctl;
mod app_armor;
pub(in crate::kinds) mod spec;
pub(in crate::kinds) mod template;
pub(in crate::kinds) mod defaults;
mod prepare;
mod validation;
mod columns;

use serde_json::Value;

use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{items, text};
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};
use crate::kinds::validate::check::immutable;

pub use prepare::only_part;
pub(crate) use prepare::qos_class;
pub use validation::update_part;

/// The rules of the kind Pod.
pub static RULES: KindRules = KindRules {
    group: "",
    kind: "Pod",
    plural: "pods",
    traits: KindTraits {
        returns_deleted_object: true,
        has_generation: true,
        graceful_deletion: true,
        has_status: true,
        status_metadata: StatusMetadata::AllButOwners,
        ..KindTraits::COMMON
    },
    default: |_, map| defaults::pod(map),
    prepare_create: |pod, now, _| {
        prepare::new_pod(pod, now);
        Ok(())
    },
    prepare_status: prepare::keep_qos_class,
    validate_create: validation::create,
    validate_update: Some(validation::update),
    validate_status: |out, new, old| immutable(out, new, old, "/status/qosClass", "status.qosClass"),
    warnings: |pod, old| {
        let mut all = if old.is_none() { app_armor::warnings(pod) } else { Vec::new() };
        all.extend(warnings(pod));
        all
    },
    pod_spec: Some("/spec"),
    fields: SelectableFields {
        aliases: &[("spec.host", "spec.nodeName")],
        ..SelectableFields::of(&[
            Field::text("spec.nodeName", "/spec/nodeName"),
            Field::text("spec.restartPolicy", "/spec/restartPolicy"),
            Field::text("spec.schedulerName", "/spec/schedulerName"),
            Field::text("spec.serviceAccountName", "/spec/serviceAccountName"),
            Field::flag("spec.hostNetwork", "/spec/hostNetwork"),
            Field::text("status.phase", "/status/phase"),
            Field::computed("status.podIP", POD_IPS, |pod| {
                pod_ips(pod).into_iter().next().unwrap_or_default()
            }),
            Field::computed("status.podIPs", POD_IPS, |pod| pod_ips(pod).join(",")),
            Field::text("status.nominatedNodeName", "/status/nominatedNodeName"),
        ])
    },
    cells: columns::cells,
    row_conditions: columns::row_conditions,
    accounting: Accounting::Pod,
    ..COMMON
};

/// Returns the warnings of k8s.io/kubernetes v1.36.4 pkg/api/pod/warnings.go that are about pods
/// only.
fn warnings(pod: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, secret) in items(pod, "/spec/imagePullSecrets").iter().enumerate() {
        if text(secret, "/name").is_empty() {
            warnings.push(format!("spec.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    warnings
}

/// The values that [`pod_ips`] reads.
const POD_IPS: &[&str] = &["/status/podIPs", "/status/podIP"];

fn pod_ips(pod: &Value) -> Vec<String> {
    let listed: Vec<String> =
        items(pod, "/status/podIPs").iter().map(|ip| text(ip, "/ip").to_owned()).collect();
    match text(pod, "/status/podIP") {
        one if listed.is_empty() && !one.is_empty() => vec![one.to_owned()],
        _ => listed,
    }
}

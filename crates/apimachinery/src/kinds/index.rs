//! The rules of all built-in kinds, found by group and kind or by group and plural.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::kinds::json_access::text;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::{
    admissionregistration, apiextensions, apiregistration, apps, authentication, authorization, autoscaling,
    batch, certificates, coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac,
    resource, scheduling, storage,
};

/// The rules of all built-in kinds.
static ALL: &[&KindRules] = &[
    &core::config_map::RULES,
    &core::secret::RULES,
    &core::namespace::RULES,
    &core::service::RULES,
    &core::endpoints::RULES,
    &core::node::RULES,
    &core::persistent_volume_claim::RULES,
    &core::persistent_volume::RULES,
    &core::pod_template::RULES,
    &core::replication_controller::RULES,
    &core::limit_range::RULES,
    &core::resource_quota::RULES,
    &core::service_account::RULES,
    &core::binding::RULES,
    &core::component_status::RULES,
    &core::event::RULES,
    &core::pod::RULES,
    &events::RULES,
    &apps::deployment::RULES,
    &apps::replica_set::RULES,
    &apps::stateful_set::RULES,
    &apps::daemon_set::RULES,
    &apps::controller_revision::RULES,
    &batch::job::RULES,
    &batch::cron_job::RULES,
    &autoscaling::RULES,
    &networking::ingress::RULES,
    &networking::ingress_class::RULES,
    &networking::network_policy::RULES,
    &networking::service_cidr::RULES,
    &networking::ip_address::RULES,
    &discovery::endpoint_slice::RULES,
    &coordination::lease::RULES,
    &policy::pod_disruption_budget::RULES,
    &rbac::role::ROLE,
    &rbac::role::CLUSTER_ROLE,
    &rbac::role_binding::ROLE_BINDING,
    &rbac::role_binding::CLUSTER_ROLE_BINDING,
    &storage::storage_class::RULES,
    &storage::csi_driver::RULES,
    &storage::csi_node::RULES,
    &storage::volume_attachment::RULES,
    &storage::csi_storage_capacity::RULES,
    &storage::volume_attributes_class::RULES,
    &scheduling::priority_class::RULES,
    &node::runtime_class::RULES,
    &certificates::certificate_signing_request::RULES,
    &admissionregistration::webhook_configuration::VALIDATING,
    &admissionregistration::webhook_configuration::MUTATING,
    &admissionregistration::admission_policy::VALIDATING_POLICY,
    &admissionregistration::admission_policy::VALIDATING_BINDING,
    &admissionregistration::admission_policy::MUTATING_POLICY,
    &admissionregistration::admission_policy::MUTATING_BINDING,
    &apiextensions::custom_resource_definition::RULES,
    &apiregistration::api_service::RULES,
    &resource::resource_claim::CLAIM,
    &resource::resource_claim::TEMPLATE,
    &resource::resource_slice::RULES,
    &resource::device_class::RULES,
    &flowcontrol::flow_schema::RULES,
    &flowcontrol::priority_level_configuration::RULES,
    &authentication::SELF_SUBJECT_REVIEW,
    &authentication::TOKEN_REVIEW,
    &authorization::SUBJECT_ACCESS_REVIEW,
    &authorization::LOCAL_SUBJECT_ACCESS_REVIEW,
    &authorization::SELF_SUBJECT_ACCESS_REVIEW,
    &authorization::SELF_SUBJECT_RULES_REVIEW,
];

/// The rules of kinds without an entry, which are custom ones and those of subresources.
static OTHERS: KindRules = COMMON;

type Index = HashMap<(&'static str, &'static str), &'static KindRules>;

static BY_KIND: LazyLock<Index> = LazyLock::new(|| ALL.iter().map(|it| ((it.group, it.kind), *it)).collect());
static BY_PLURAL: LazyLock<Index> =
    LazyLock::new(|| ALL.iter().map(|it| ((it.group, it.plural), *it)).collect());

/// Returns the rules of a kind; the common ones if it has none of its own.
pub fn of_kind(group: &str, kind: &str) -> &'static KindRules {
    let index: &HashMap<(&str, &str), &'static KindRules> = &BY_KIND;
    index.get(&(group, kind)).copied().unwrap_or(&OTHERS)
}

/// Returns the rules of the kind with this plural; the common ones if it has none of its own.
pub fn of_resource(group: &str, plural: &str) -> &'static KindRules {
    let index: &HashMap<(&str, &str), &'static KindRules> = &BY_PLURAL;
    index.get(&(group, plural)).copied().unwrap_or(&OTHERS)
}

/// Returns the rules of the kind of an object.
pub(crate) fn of_object(object: &Value) -> &'static KindRules {
    let group = text(object, "/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    of_kind(group, text(object, "/kind"))
}

/// Returns the rules of custom kinds, as far as they are not in their definitions.
pub fn of_custom_kinds() -> &'static KindRules {
    &OTHERS
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::builtin;

    #[test]
    fn every_served_kind_has_one_entry_and_every_entry_names_a_served_kind() {
        let served: HashSet<_> = builtin::resources()
            .iter()
            .map(|it| (it.group.as_str(), it.kind.as_str(), it.plural.as_str()))
            .collect();
        let entries: HashSet<_> = ALL.iter().map(|it| (it.group, it.kind, it.plural)).collect();
        assert_eq!(served, entries);
        assert_eq!(ALL.len(), entries.len(), "no kind has two entries");
    }

    #[test]
    fn kinds_are_found_by_name_and_others_get_the_common_rules() {
        assert!(of_kind("", "Pod").is(&core::pod::RULES) && of_resource("", "pods").is(&core::pod::RULES));
        assert!(
            of_object(&serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment"}))
                .is(&apps::deployment::RULES)
        );
        assert!(of_kind("example.com", "Pod").is(&OTHERS) && of_resource("", "deployments").is(&OTHERS));
    }
}

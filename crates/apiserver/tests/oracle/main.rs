//! Replays the scenarios of `conformance/` and compares every response with the one recorded from
//! kube-apiserver.
//!
//! Each scenario is a test. If `DOGWATCH_ORACLE_SERVER` is set (and `DOGWATCH_ORACLE_TOKEN`), they
//! are sent to that server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod scenario;
mod paths;
mod compare;
mod selection;
mod symbols;
mod variables;
mod http_client;
mod events;
mod external_server;
mod own_server;
mod run;

use scenario::Scenario;

/// Replays the scenario of this name. Panics with all differences.
async fn replay(name: &str) {
    let scenario = Scenario::load(name);
    let client = match external_server::client() {
        // An external server runs in real time.
        Some(external) => {
            tokio::time::resume();
            external
        }
        None => own_server::client().await,
    };
    if scenario.requires.iter().any(|it| it == "auth") && !client.has_token() {
        return;
    }
    let differences = run::replay(&scenario, client).await;
    let (area, title) = (&scenario.area, &scenario.title);
    assert!(differences.is_empty(), "{name} [{area}] {title}:\n  {}", differences.join("\n  "));
}

/// Defines one test for each scenario, and one that compares the list with the scenario files.
macro_rules! scenarios {
    ($($name:ident,)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                replay(&stringify!($name).replace('_', "-")).await;
            }
        )*

        #[test]
        fn every_scenario_file_has_a_test() {
            let tests = [$(stringify!($name).replace('_', "-")),*];
            assert_eq!(scenario::all(), tests, "the list is sorted by file name");
        }
    };
}

scenarios! {
    apply_affinity,
    apply_after_updates,
    apply_conflict_force,
    apply_create_noop,
    apply_deployment_lists,
    apply_env,
    apply_errors,
    apply_forms,
    apply_host_aliases,
    apply_init_containers,
    apply_keyed_lists,
    apply_list_order,
    apply_list_types,
    apply_managedfields_edit,
    apply_managers,
    apply_mounts,
    apply_names,
    apply_network_policy,
    apply_ports,
    apply_remove_shared,
    apply_resources,
    apply_secret,
    apply_service,
    apply_service_account_lists,
    apply_spread,
    apply_status,
    apply_update_mix,
    apply_webhooks,
    apply_yaml_body,
    auth_reviews,
    auth_reviews_all,
    autoscaler_versions,
    crd_alternatives,
    crd_cluster_scoped_apply,
    crd_default_prune,
    crd_delete,
    crd_errors,
    crd_establish,
    crd_names_edges,
    crd_object_shapes,
    crd_printer_columns,
    crd_prune_and_default,
    crd_schema_defaults,
    crd_schema_edges,
    crd_scopes_and_names,
    crd_selectable_fields,
    crd_shown,
    crd_status_scale,
    crd_structural_edges,
    crd_update_rules,
    crd_validate,
    crd_validate_edges,
    crd_versions,
    crd_versions_differ,
    crd_writes,
    create_basic,
    create_configmap_rules,
    create_dry_run,
    create_errors,
    create_field_validation,
    create_generate_name,
    create_metadata_rules,
    create_pod_rules,
    create_system_fields,
    defaults_apf,
    defaults_clusterrole,
    defaults_controllerrevision,
    defaults_cronjob,
    defaults_csidriver,
    defaults_csinode,
    defaults_csr,
    defaults_daemonset,
    defaults_deployment,
    defaults_deployment_edges,
    defaults_endpoints,
    defaults_endpointslice,
    defaults_flowschema,
    defaults_hpa,
    defaults_ingress,
    defaults_ingressclass,
    defaults_job,
    defaults_lease,
    defaults_limitrange,
    defaults_networkpolicy,
    defaults_node,
    defaults_others,
    defaults_pdb,
    defaults_pod,
    defaults_pod_full,
    defaults_podtemplate,
    defaults_priorityclass,
    defaults_pv,
    defaults_pvc,
    defaults_rc,
    defaults_replicaset,
    defaults_resourcequota,
    defaults_role,
    defaults_rolebinding,
    defaults_runtimeclass,
    defaults_secret,
    defaults_service,
    defaults_service_edges,
    defaults_serviceaccount,
    defaults_statefulset,
    defaults_storageclass,
    defaults_volumeattachment,
    defaults_vwc,
    defaults_workloads,
    delete_basic,
    delete_collection,
    delete_collection_edges,
    delete_collection_kinds,
    delete_collection_options,
    delete_finalizer_edges,
    delete_finalizers,
    delete_options,
    delete_options_forms,
    delete_pod_grace,
    delete_pod_options,
    delete_preconditions,
    delete_propagation,
    delete_returns,
    discovery_aggregated,
    discovery_aggregated_apps,
    discovery_each_group,
    discovery_legacy,
    discovery_openapi_v3,
    dry_run_refused,
    events_edges,
    events_field_selectors,
    events_two_groups,
    get_resource_version,
    lease_conflict,
    list_basic,
    list_continue_errors,
    list_continue_rules,
    list_field_edges,
    list_field_kinds,
    list_field_selector_each,
    list_field_selector_syntax,
    list_field_selectors,
    list_field_selectors_kinds,
    list_label_edges,
    list_label_selectors,
    list_limit_continue,
    list_namespaces_scopes,
    list_resource_version,
    list_resource_version_errors,
    list_selector_syntax,
    list_version_matrix,
    namespace_bootstrap,
    namespace_edges,
    namespace_finalize,
    namespace_lifecycle,
    namespace_rules,
    namespace_writes,
    negotiation_accept,
    negotiation_body_edges,
    negotiation_body_too_large,
    negotiation_content_type,
    negotiation_gzip,
    negotiation_malformed_body,
    negotiation_yaml_bodies,
    partial_metadata,
    partial_metadata_verbs,
    patch_dry_run_and_parts,
    patch_errors,
    patch_json,
    patch_json_edges,
    patch_json_operations,
    patch_merge,
    patch_merge_edges,
    patch_strategic_edges,
    patch_strategic_lists,
    patch_strategic_maps,
    paths_common_headers,
    paths_health,
    paths_method_not_allowed,
    paths_methods,
    paths_not_found,
    paths_version,
    pod_binding,
    pod_ephemeral_containers,
    pod_eviction,
    pod_resize,
    pod_update_rules,
    scale_deployment,
    scale_others,
    service_account_token,
    service_rules,
    status_daemonset,
    status_deployment,
    status_others,
    status_pod,
    status_pod_edges,
    status_service,
    table_builtin,
    table_cluster_kinds,
    table_network_storage,
    table_pods,
    table_rare_kinds,
    table_small_kinds,
    table_workloads,
    update_conflict,
    update_create_on_update,
    update_edges,
    update_generation,
    update_immutable,
    update_noop,
    update_pod_rules,
    update_rules_kinds,
    validate_kinds,
    validate_metadata,
    watch_all_namespaces_cluster,
    watch_by_name,
    watch_cluster_wide,
    watch_combinations,
    watch_delete_collection,
    watch_delete_selector,
    watch_errors,
    watch_field_enter_leave,
    watch_from_version,
    watch_initial_none,
    watch_initial_selectors,
    watch_initial_state,
    watch_invalid_params,
    watch_label_enter_leave,
    watch_legacy_path,
    watch_list,
    watch_list_errors,
    watch_metadata_and_table,
    watch_pods_by_node,
    watch_pretty_legacy,
    watch_stream_list,
    watch_table_partial,
    watch_timeout_bookmark,
    watch_timeout_one,
    watch_too_old,
}

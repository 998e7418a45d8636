//! The collections that the simulated components use, each cached once for all of them.

use dogwatch_client::{Client, IgnoreWarnings};
use dogwatch_core::{FieldSelector, Gvk, ResourceType};

use crate::collection::CollectionSlot;
use crate::index::{
    by_class, by_controller, by_end, by_label, by_node, by_nomination, by_pending_class, by_selector,
    by_tracking_job, by_waiting_claim, orphans,
};
use crate::object::{JsonObject, Pod};
use crate::pod_terms::{by_constrained, by_kept_away};
use crate::selector::{of_budget, of_replication_controller, of_service, of_workload};

/// The name of the service account that each namespace has.
pub(crate) const ACCOUNT: &str = "default";
/// The name of the ConfigMap with the root certificate that each namespace has.
pub(crate) const CERTIFICATE: &str = "kube-root-ca.crt";

/// The collections that the simulated components use. An informer runs only if a component watches
/// or needs it.
#[derive(Debug)]
pub(crate) struct Caches {
    pub(crate) nodes: CollectionSlot<JsonObject>,
    pub(crate) leases: CollectionSlot<JsonObject>,
    pub(crate) pods: CollectionSlot<Pod>,
    pub(crate) replica_sets: CollectionSlot<JsonObject>,
    pub(crate) replication_controllers: CollectionSlot<JsonObject>,
    pub(crate) deployments: CollectionSlot<JsonObject>,
    pub(crate) stateful_sets: CollectionSlot<JsonObject>,
    pub(crate) daemon_sets: CollectionSlot<JsonObject>,
    pub(crate) jobs: CollectionSlot<JsonObject>,
    pub(crate) cron_jobs: CollectionSlot<JsonObject>,
    /// HorizontalPodAutoscalers.
    pub(crate) autoscalers: CollectionSlot<JsonObject>,
    /// PodDisruptionBudgets.
    pub(crate) budgets: CollectionSlot<JsonObject>,
    /// ControllerRevisions.
    pub(crate) revisions: CollectionSlot<JsonObject>,
    /// PersistentVolumes.
    pub(crate) volumes: CollectionSlot<JsonObject>,
    /// StorageClasses.
    pub(crate) classes: CollectionSlot<JsonObject>,
    /// PersistentVolumeClaims.
    pub(crate) claims: CollectionSlot<JsonObject>,
    pub(crate) services: CollectionSlot<JsonObject>,
    pub(crate) endpoints: CollectionSlot<JsonObject>,
    pub(crate) slices: CollectionSlot<JsonObject>,
    pub(crate) namespaces: CollectionSlot<JsonObject>,
    /// Only those called [`ACCOUNT`].
    pub(crate) accounts: CollectionSlot<JsonObject>,
    /// Only those called [`CERTIFICATE`].
    pub(crate) certificates: CollectionSlot<JsonObject>,
}

impl Caches {
    pub(crate) fn new(client: &Client) -> Self {
        let namespaced = |group: &str, kind: &str, plural: &str| {
            ResourceType::namespaced(Gvk::new(group, "v1", kind), plural)
        };
        let cluster = |kind: &str, plural: &str| ResourceType::cluster(Gvk::new("", "v1", kind), plural);
        // Every request about Endpoints is answered with a warning that they are deprecated, which
        // is of no use to the users of a simulated cluster.
        let quiet = client.with_warnings(IgnoreWarnings);
        Self {
            nodes: CollectionSlot::new(client, cluster("Node", "nodes"), |it| it),
            leases: CollectionSlot::new(client, namespaced("coordination.k8s.io", "Lease", "leases"), |it| {
                it
            }),
            pods: CollectionSlot::new(client, namespaced("", "Pod", "pods"), |it| {
                it.index(by_controller())
                    .index(orphans())
                    .index(by_label())
                    .index(by_node())
                    .index(by_end())
                    .index(by_nomination())
                    .index(by_tracking_job())
                    .index(by_waiting_claim())
                    .index(by_kept_away())
                    .index(by_constrained())
            }),
            replica_sets: CollectionSlot::new(
                client,
                namespaced("apps", "ReplicaSet", "replicasets"),
                |it| it.index(by_controller()).index(orphans()).index(by_selector(of_workload)),
            ),
            replication_controllers: CollectionSlot::new(
                client,
                namespaced("", "ReplicationController", "replicationcontrollers"),
                |it| it.index(by_selector(of_replication_controller)),
            ),
            deployments: CollectionSlot::new(client, namespaced("apps", "Deployment", "deployments"), |it| {
                it.index(by_selector(of_workload))
            }),
            stateful_sets: CollectionSlot::new(
                client,
                namespaced("apps", "StatefulSet", "statefulsets"),
                |it| it.index(by_selector(of_workload)),
            ),
            daemon_sets: CollectionSlot::new(client, namespaced("apps", "DaemonSet", "daemonsets"), |it| {
                it.index(by_selector(of_workload))
            }),
            jobs: CollectionSlot::new(client, namespaced("batch", "Job", "jobs"), |it| {
                it.index(by_selector(of_workload)).index(by_controller())
            }),
            cron_jobs: CollectionSlot::new(client, namespaced("batch", "CronJob", "cronjobs"), |it| it),
            autoscalers: CollectionSlot::new(
                client,
                ResourceType::namespaced(
                    Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"),
                    "horizontalpodautoscalers",
                ),
                |it| it,
            ),
            budgets: CollectionSlot::new(
                client,
                namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
                |it| it.index(by_selector(of_budget)),
            ),
            revisions: CollectionSlot::new(
                client,
                namespaced("apps", "ControllerRevision", "controllerrevisions"),
                |it| it.index(by_controller()).index(orphans()),
            ),
            volumes: CollectionSlot::new(client, cluster("PersistentVolume", "persistentvolumes"), |it| {
                it.index(by_class())
            }),
            classes: CollectionSlot::new(
                client,
                ResourceType::cluster(Gvk::new("storage.k8s.io", "v1", "StorageClass"), "storageclasses"),
                |it| it,
            ),
            claims: CollectionSlot::new(
                client,
                namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims"),
                |it| it.index(by_pending_class()),
            ),
            services: CollectionSlot::new(client, namespaced("", "Service", "services"), |it| {
                it.index(by_selector(of_service))
            }),
            endpoints: CollectionSlot::new(&quiet, namespaced("", "Endpoints", "endpoints"), |it| it),
            slices: CollectionSlot::new(
                client,
                namespaced("discovery.k8s.io", "EndpointSlice", "endpointslices"),
                |it| it.index(by_label()),
            ),
            namespaces: CollectionSlot::new(client, cluster("Namespace", "namespaces"), |it| it),
            accounts: CollectionSlot::new(
                client,
                namespaced("", "ServiceAccount", "serviceaccounts"),
                |it| it.fields(FieldSelector::name(ACCOUNT)),
            ),
            certificates: CollectionSlot::new(client, namespaced("", "ConfigMap", "configmaps"), |it| {
                it.fields(FieldSelector::name(CERTIFICATE))
            }),
        }
    }
}

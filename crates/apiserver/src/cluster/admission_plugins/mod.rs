//! The built-in admission plugins: what they need of the cluster, in a file for each. Their rules
//! are functions over values in `dogwatch-apimachinery`.
//!
//! ```text
//! own ─► plugins that change ─► webhooks ─► prepare, validate ─► plugins that check ─► webhooks ─► quotas
//! ```
//!
//! Quotas are charged last, in `admission.rs`. Two plugins are where the rest of their subject is:
//! NamespaceLifecycle in `namespaces.rs`, those of certificates in `signers.rs`.
//!
//! The `mod` lines below are in layer order.

mod cluster_objects;
mod limit_ranger;
mod service_account;
mod node_taint;
mod pod_security;
mod priority;
mod toleration_seconds;
mod default_class;
mod storage_protection;
mod claim_resize;
mod runtime_class;
mod external_ips;
mod topology_labels;
mod pod_resize;

use serde_json::Value;

use super::write::Write;
use crate::ApiError;
use crate::admission_plugin::AdmissionPlugin;

pub(super) use topology_labels::labels_of_node;

/// A step of a plugin. It returns at once for objects that do not concern the plugin.
type Step = fn(&mut Write<'_>) -> Result<(), ApiError>;

/// The plugins that change objects, in the order of kube-apiserver.
const CHANGES: &[(AdmissionPlugin, Step)] = &[
    (AdmissionPlugin::LimitRanger, limit_ranger::fill),
    (AdmissionPlugin::ServiceAccount, service_account::fill),
    (AdmissionPlugin::TaintNodesByCondition, node_taint::fill),
    (AdmissionPlugin::Priority, priority::fill),
    (AdmissionPlugin::DefaultTolerationSeconds, toleration_seconds::fill),
    (AdmissionPlugin::DefaultStorageClass, default_class::fill_claim),
    (AdmissionPlugin::StorageObjectInUseProtection, storage_protection::fill),
    (AdmissionPlugin::RuntimeClass, runtime_class::fill),
    (AdmissionPlugin::DefaultIngressClass, default_class::fill_ingress),
    (AdmissionPlugin::PodTopologyLabels, topology_labels::fill),
];

/// The plugins that only check objects, in the order of kube-apiserver.
const CHECKS: &[(AdmissionPlugin, Step)] = &[
    (AdmissionPlugin::LimitRanger, limit_ranger::check),
    (AdmissionPlugin::ServiceAccount, service_account::check),
    (AdmissionPlugin::PodSecurity, pod_security::check),
    (AdmissionPlugin::Priority, priority::check),
    (AdmissionPlugin::PersistentVolumeClaimResize, claim_resize::check),
    (AdmissionPlugin::RuntimeClass, runtime_class::check),
    (AdmissionPlugin::DenyServiceExternalIPs, external_ips::check),
    (AdmissionPlugin::PodResizeValidator, pod_resize::check),
];

impl Write<'_> {
    /// Lets the plugins change the object before the webhooks see it.
    ///
    /// # Errors
    /// The rejection of a plugin, mostly 403.
    pub(super) async fn apply_plugins(&mut self) -> Result<(), ApiError> {
        service_account::wait(self).await;
        self.run_plugins(CHANGES)
    }

    /// Lets the plugins complete what the webhooks have changed. A plugin leaves alone what it has
    /// set before.
    ///
    /// # Errors
    /// The rejection of a plugin, mostly 403.
    pub(super) fn reapply_plugins(&mut self) -> Result<(), ApiError> {
        if self.cluster.webhooks().are_configured() { self.run_plugins(CHANGES) } else { Ok(()) }
    }

    /// Lets the plugins check the object as it will be stored.
    ///
    /// # Errors
    /// The rejection of a plugin, mostly 403.
    pub(super) fn check_plugins(&mut self) -> Result<(), ApiError> {
        self.run_plugins(CHECKS)
    }

    fn run_plugins(&mut self, steps: &[(AdmissionPlugin, Step)]) -> Result<(), ApiError> {
        let enabled = self.cluster.plugins;
        steps.iter().filter(|(plugin, _)| enabled.has(*plugin)).try_for_each(|(_, step)| step(self))
    }

    /// Returns true if the write creates an object, and not a subresource.
    fn is_creation(&self) -> bool {
        self.base.is_none() && self.place.part.is_empty()
    }

    /// Returns the stored object if the write updates it itself, and not a subresource.
    fn updated(&self) -> Option<&Value> {
        self.base.filter(|_| self.place.part.is_empty()).map(|it| it.object)
    }
}

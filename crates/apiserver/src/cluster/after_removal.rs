//! The consequences of the removal of an object.

use dogwatch_core::ObjectKey;

use super::ip_addresses::follow_service;
use super::service_addresses::ServiceAddresses;
use super::{Admission, Cluster, DeleteOptions, ObjectRef, Writer};
use crate::kinds::SERVICE;
use crate::registry::Kind;
use crate::store::{Encoded, Pending};

/// Does what the removal of an object entails: releases the addresses of a service and deletes its
/// Endpoints. The caller updates the served kinds.
pub(super) async fn after_removal(cluster: &Cluster, kind: &Kind, last: &Encoded) {
    if kind.is(&SERVICE) {
        ServiceAddresses::of(cluster).settle(last.uid(), Some(last.key()));
        follow_service(cluster, Some(last), None).await;
        delete_endpoints(cluster, last.key()).await;
    }
}

/// Deletes the Endpoints of a service, so that a new service of its name does not begin with the
/// old addresses (`afterDelete` in k8s.io/kubernetes v1.36.4
/// pkg/registry/core/service/storage/storage.go).
fn delete_endpoints<'a>(cluster: &'a Cluster, service: &'a ObjectKey) -> Pending<'a, ()> {
    Box::pin(async move {
        let Some(kind) = cluster.catalog().kind("", "v1", "endpoints") else { return };
        let (place, options) = (ObjectRef::of(&kind, service), DeleteOptions::default());
        let writer = Writer::server("kube-apiserver");
        match cluster.delete_as(&place, &options, &writer, Admission::Skip).await {
            Err(refusal) if !refusal.0.is_not_found() => {
                tracing::warn!(%service, %refusal, "cannot delete the Endpoints of a service");
            }
            _ => {}
        }
    })
}

//! IPAddress objects: one for each address that a service has.
//!
//! In kube-apiserver they are the allocation itself (k8s.io/kubernetes v1.36.4
//! pkg/registry/core/service/ipallocator/ipallocator.go). Here they follow the stored services,
//! before the response to a write.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::{Admission, Cluster, DeleteOptions, ObjectRef, Writer};
use crate::kinds::json_access::{items, text};
use crate::store::{Encoded, Pending};

const GROUP: &str = "networking.k8s.io";

/// Creates the objects of the addresses that a service has got, and deletes those of the addresses
/// that it no longer has. `old` and `new` are its states before and after a write.
pub(super) fn follow_service<'a>(
    cluster: &'a Cluster,
    old: Option<&Encoded>,
    new: Option<&Encoded>,
) -> Pending<'a, ()> {
    let addresses =
        |service: Option<&Encoded>| service.map(|it| addresses(&it.to_value())).unwrap_or_default();
    let (before, after) = (addresses(old), addresses(new));
    let service = new.or(old).map(|it| it.key().clone());
    Box::pin(async move {
        let Some(service) = service else { return };
        for address in before.difference(&after) {
            release(cluster, *address, &service).await;
        }
        for address in after.difference(&before) {
            let added = cluster.add(object(*address, &service), &Writer::server("kube-apiserver")).await;
            if let Err(refusal) = added
                && !refusal.0.is_already_exists()
            {
                tracing::warn!(%service, %address, %refusal, "cannot create an IPAddress");
            }
        }
    })
}

fn addresses(service: &Value) -> BTreeSet<IpAddr> {
    items(service, "/spec/clusterIPs").iter().filter_map(|it| it.as_str()?.parse().ok()).collect()
}

fn object(address: IpAddr, service: &ObjectKey) -> Value {
    let labels = json!({
        "ipaddress.kubernetes.io/ip-family": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    });
    let parent = json!({ "group": "", "resource": "services", "namespace": service.namespace(), "name": service.name() });
    json!({ "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": { "name": address.to_string(), "labels": labels }, "spec": { "parentRef": parent } })
}

/// Deletes the object of an address, unless it belongs to something else.
async fn release(cluster: &Cluster, address: IpAddr, service: &ObjectKey) {
    let Some(kind) = cluster.catalog().kind(GROUP, "v1", "ipaddresses") else { return };
    let key = ObjectKey::cluster(&address.to_string());
    let parent = |it: &Value, field: &str| text(it, &format!("/spec/parentRef/{field}")).to_owned();
    let is_its = |it: &Value| {
        parent(it, "resource") == "services"
            && parent(it, "name") == service.name()
            && parent(it, "namespace") == service.namespace().unwrap_or_default()
    };
    if !cluster.get(&kind, &key).is_some_and(|it| is_its(&it.to_value())) {
        return;
    }
    let (place, options, writer) =
        (ObjectRef::of(&kind, &key), DeleteOptions::default(), Writer::server("kube-apiserver"));
    if let Err(refusal) = cluster.delete_as(&place, &options, &writer, Admission::Skip).await
        && !refusal.0.is_not_found()
    {
        tracing::warn!(%service, %address, %refusal, "cannot delete an IPAddress");
    }
}

//! What a service takes while it is being readied: given back unless it is stored, also when nobody waits any more.

use dogwatch_core::ObjectKey;

use super::Cluster;
use crate::registry::Kind;

/// A write of a service, which may take addresses and ports. When the last write of a service is dropped, the service has
/// what is stored of it, and nothing else.
///
/// Several writes of one service may be under way, each with another idea of what is stored. So none of them decides by
/// itself what to give back: the one that loses would give back what the other has just stored.
#[derive(Debug)]
#[must_use = "dropping it gives back what was taken and is not stored"]
pub(super) struct Claim<'a> {
    cluster: &'a Cluster,
    /// The uid and the key of the service; `None` for other kinds, which have no addresses.
    service: Option<(String, Option<ObjectKey>)>,
}

impl<'a> Claim<'a> {
    /// Begins a write of the object with this uid. `key` is where it is stored, or will be.
    pub(super) fn of(cluster: &'a Cluster, kind: &Kind, uid: &str, key: Option<ObjectKey>) -> Self {
        let service = kind.is("", "services").then(|| (uid.to_owned(), key));
        if let Some((uid, _)) = &service {
            cluster.addresses().begin_write(uid);
        }
        Self { cluster, service }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some((uid, key)) = self.service.take() {
            self.cluster.addresses().end_write(&uid);
            self.cluster.settle_addresses(&uid, key.as_ref());
        }
    }
}

//! A guard that releases the addresses and ports of a service that is not stored, even if the
//! request is cancelled.

use dogwatch_core::ObjectKey;

use super::Cluster;
use crate::kinds::SERVICE;
use crate::registry::Kind;

/// A write of a service that may allocate addresses and ports. When the last write of a service is
/// dropped, exactly the addresses and ports of its stored state stay allocated.
///
/// Several writes of one service may be in progress, each based on another stored state. So none of
/// them decides alone what to release: the write that loses the race would release what the winner
/// has just stored.
#[derive(Debug)]
#[must_use = "dropping it releases the addresses that are not stored"]
pub(super) struct AddressClaim<'a> {
    cluster: &'a Cluster,
    /// The uid and the key of the service; `None` for other kinds, which have no addresses.
    service: Option<(String, Option<ObjectKey>)>,
}

impl<'a> AddressClaim<'a> {
    /// Starts a write of the object with this uid. `key` is the key under which it is or will be
    /// stored.
    pub(super) fn of(cluster: &'a Cluster, kind: &Kind, uid: &str, key: Option<ObjectKey>) -> Self {
        let service = kind.is(&SERVICE).then(|| (uid.to_owned(), key));
        if let Some((uid, _)) = &service {
            cluster.addresses().begin_write(uid);
        }
        Self { cluster, service }
    }
}

impl Drop for AddressClaim<'_> {
    fn drop(&mut self) {
        if let Some((uid, key)) = self.service.take() {
            self.cluster.addresses().end_write(&uid);
            self.cluster.settle_addresses(&uid, key.as_ref());
        }
    }
}

impl Cluster {
    /// Allocates to a service exactly the addresses and ports of its stored state, unless a write
    /// of it is in progress.
    pub(super) fn settle_addresses(&self, uid: &str, key: Option<&ObjectKey>) {
        let mut addresses = self.addresses();
        if addresses.is_written(uid) {
            return;
        }
        // Read under the lock of the addresses, so that no write can begin and allocate more in
        // between.
        let stored = key.and_then(|it| self.store().get(&"/services".into(), it));
        let stored = stored.filter(|it| it.uid() == uid).map(|it| it.to_value());
        addresses.settle(uid, stored.as_ref());
    }
}

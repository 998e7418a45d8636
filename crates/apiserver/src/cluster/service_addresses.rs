//! The addresses and ports of services, allocated as the stored services use them.
//!
//! A write allocates addresses before its service is stored. An [`AddressClaim`] releases those
//! that are not stored in the end, even if the request is cancelled.

use parking_lot::Mutex;

use dogwatch_core::ObjectKey;

use super::Cluster;
use super::addresses::Addresses;
use crate::kinds::SERVICE;
use crate::registry::Kind;
use crate::store::Store;

/// The allocated addresses, and the stored services that they belong to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceAddresses<'a> {
    allocated: &'a Mutex<Addresses>,
    store: &'a Store,
}

/// A write of a service that may allocate addresses and ports. When the last write of a service is
/// dropped, exactly the addresses and ports of its stored state stay allocated.
///
/// Several writes of one service may be in progress, each based on another stored state. So none of
/// them decides alone what to release: the write that loses the race would release what the winner
/// has just stored.
#[derive(Debug)]
#[must_use = "dropping it releases the addresses that are not stored"]
pub(super) struct AddressClaim<'a> {
    addresses: ServiceAddresses<'a>,
    /// The uid and the key of the service; `None` for other kinds, which have no addresses.
    service: Option<(String, Option<ObjectKey>)>,
}

impl<'a> ServiceAddresses<'a> {
    /// Returns the addresses of the services of a cluster.
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self { allocated: &cluster.addresses, store: cluster.store() }
    }

    /// Starts a write of the object with this uid. `key` is the key under which it is or will be
    /// stored.
    pub(super) fn claim(self, kind: &Kind, uid: &str, key: Option<ObjectKey>) -> AddressClaim<'a> {
        let service = kind.is(&SERVICE).then(|| (uid.to_owned(), key));
        if let Some((uid, _)) = &service {
            self.allocated.lock().begin_write(uid);
        }
        AddressClaim { addresses: self, service }
    }

    /// Allocates to a service exactly the addresses and ports of its stored state, unless a write
    /// of it is in progress.
    pub(super) fn settle(self, uid: &str, key: Option<&ObjectKey>) {
        let mut allocated = self.allocated.lock();
        if allocated.is_written(uid) {
            return;
        }
        // Read under the lock of the addresses, so that no write can begin and allocate more in
        // between.
        let stored = key.and_then(|it| self.store.get(&"/services".into(), it));
        let stored = stored.filter(|it| it.uid() == uid).map(|it| it.to_value());
        allocated.settle(uid, stored.as_ref());
    }
}

impl Drop for AddressClaim<'_> {
    fn drop(&mut self) {
        if let Some((uid, key)) = self.service.take() {
            self.addresses.allocated.lock().end_write(&uid);
            self.addresses.settle(&uid, key.as_ref());
        }
    }
}

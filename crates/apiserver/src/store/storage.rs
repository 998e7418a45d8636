//! The storage interface: the boundary between this server and a storage that several servers may
//! share.
//!
//! Reads and watches are always served from a local copy, a [`Store`]; only commits, and the query
//! for the newest revision, go to the storage. For the in-memory storage, that is the local copy
//! itself.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use dogwatch_core::ObjectKey;

use super::{CollectionName, Draft, Encoded, Expect, Lost, Store};

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A storage of objects. Keys and versions are those of etcd: one revision for all, and
/// compare-and-set writes.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Writes or deletes an object if the precondition holds; as [`Store::commit`]. When the future
    /// resolves, the local copy has the change too.
    fn commit<'a>(
        &'a self,
        collection: &'a CollectionName,
        key: &'a ObjectKey,
        expect: Expect,
        draft: Option<Draft>,
    ) -> Pending<'a, Result<Arc<Encoded>, Lost>>;

    /// Returns the newest revision, once the local copy has reached it.
    fn newest(&self) -> Pending<'_, u64>;

    /// Returns the local copy.
    fn local(&self) -> &Store;
}

impl Storage for Store {
    fn commit<'a>(
        &'a self,
        collection: &'a CollectionName,
        key: &'a ObjectKey,
        expect: Expect,
        draft: Option<Draft>,
    ) -> Pending<'a, Result<Arc<Encoded>, Lost>> {
        Box::pin(std::future::ready(Store::commit(self, collection, key, expect, draft)))
    }

    fn newest(&self) -> Pending<'_, u64> {
        Box::pin(std::future::ready(self.revision()))
    }

    fn local(&self) -> &Store {
        self
    }
}

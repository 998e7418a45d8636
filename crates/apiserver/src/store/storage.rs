//! What keeps objects: the seam between this server and a storage that others may share.
//!
//! Reads and watches are always served from a copy at hand, a [`Store`]; only a commit, and the question how new the newest
//! state is, go to whoever decides. In memory, that is the copy itself.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use dogwatch_core::ObjectKey;

use super::{CollectionName, Draft, Encoded, Expect, Lost, Store};

/// A future that a storage gives.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What keeps objects. Keys and versions are those of etcd: one revision for all, compared on write.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Writes an object, or deletes it, if it still is what the caller thinks it is; as [`Store::commit`]. When it is done,
    /// the copy at hand has it too.
    fn commit<'a>(
        &'a self,
        collection: &'a CollectionName,
        key: &'a ObjectKey,
        expect: Expect,
        draft: Option<Draft>,
    ) -> Pending<'a, Result<Arc<Encoded>, Lost>>;

    /// The newest revision there is, once the copy at hand has reached it.
    fn newest(&self) -> Pending<'_, u64>;

    /// The copy at hand.
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

//! The readers' handle on a store, and waiting for a state.

use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use dogwatch_core::{Object, ObjectKey, ResourceVersion};
use tokio::sync::Notify;

use super::snapshot::Snapshot;
use super::state::{StoreState, object_key};
use crate::index::{Index, IndexError};
use crate::rewind_count::RewindCount;

/// A local cache of a collection that can be read from any task.
///
/// A clone is another handle on the same store. Every read sees the newest published state; it
/// takes no lock, never waits and never makes the writer wait. Two successive reads may see
/// different states: take a [`snapshot`](Self::snapshot) for reads that must be consistent. After
/// the writer is dropped, the last state stays readable.
///
/// A store that an informer returned keeps that informer running, so that it stays up to date: see
/// [`Self::detached`] for a handle that does not. After
/// [`SharedInformer::stop`](crate::SharedInformer::stop) the store shows the last known state, and
/// [`Self::is_closed`] returns true.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::{Object, ObjectKey, WriteParams};
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let api = Api::<ConfigMap>::default_namespaced(client);
/// let maps = SharedInformer::new(api.clone());
/// maps.start();
/// let store = maps.store();
/// store.wait_synced().await?;
///
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("settings".to_owned());
/// let written = api.create(&WriteParams::default(), &map).await?;
/// store.wait_until(&written.version()).await?; // reads its own write
/// assert!(store.contains(&ObjectKey::namespaced("default", "settings")));
/// # Ok(())
/// # }
/// ```
pub struct Store<T> {
    cell: Arc<StateCell<T>>,
    /// The informer that fills the store, if this handle keeps it running.
    filled_by: Option<Arc<dyn Any + Send + Sync>>,
}

/// The state that the writer and all handles share.
pub(super) struct StateCell<T> {
    state: ArcSwap<StoreState<T>>,
    /// Held while the next state is derived from the newest: by the writer, and while an index is
    /// added or removed. Readers never take it.
    write_lock: Mutex<()>,
    /// Notified at every new state.
    published: Notify,
    /// The number of rewinds of each partition that is known so far. The lists that follow them may
    /// not be in the state yet.
    pub(super) rewinds: Box<[RewindCount]>,
}

/// The progress of a store, or of one namespace of it, through the history of the server: see
/// [`Store::progress`].
///
/// ```
/// use dogwatch_core::ResourceVersion;
/// use dogwatch_informer::{Delta, StoreWriter};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let list = |version: &str| {
///     let version = ResourceVersion::new(version);
///     [Delta::Begin, Delta::End { version, undecodable: Vec::new() }]
/// };
/// let mut writer = StoreWriter::<ConfigMap>::new();
/// let store = writer.store();
/// writer.apply(list("1000"), &mut Vec::new());
/// // The server was restored from a backup, and counts from there.
/// writer.apply([Delta::Rewound], &mut Vec::new());
/// let progress = store.progress(None).expect("the store covers all namespaces");
/// assert!(progress.is_rewound && progress.version == ResourceVersion::new("1000"));
/// writer.apply(list("400"), &mut Vec::new());
/// let progress = store.progress(None).expect("the store covers all namespaces");
/// assert_eq!((progress.is_rewound, progress.rewinds), (false, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreProgress {
    /// The version up to which the contents are complete; unset until the initial list is.
    pub version: ResourceVersion,
    /// The number of times that the server's history was found to have been reset. Versions from
    /// before and after a reset cannot be compared.
    pub rewinds: u64,
    /// True if the contents and the version still belong to a history from before the last reset.
    /// False again from the end of the list that follows.
    pub is_rewound: bool,
}

/// An error of waiting for a state of the store.
///
/// ```
/// use dogwatch_core::ResourceVersion;
/// use dogwatch_informer::{StoreWriter, WaitError};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let writer = StoreWriter::<ConfigMap>::new();
/// let store = writer.store();
/// drop(writer); // as a stopped informer does
/// match store.wait_until(&ResourceVersion::new("7")).await {
///     Ok(()) => println!("the store shows the write"),
///     Err(WaitError::Closed) => println!("the informer has stopped"),
///     Err(WaitError::Undecodable) => println!("the written object could not be decoded"),
///     Err(other) => return Err(other.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The store is not written to any more.
    #[error("the store is closed")]
    Closed,
    /// The version or the store's version is not a number, so they cannot be ordered.
    #[error("the versions cannot be compared")]
    Incomparable,
    /// The version belongs to an object that could not be decoded: the store shows an older state
    /// of the object, or none.
    #[error("the object of this version could not be decoded")]
    Undecodable,
}

impl<T: Object> Store<T> {
    pub(super) fn new(cell: Arc<StateCell<T>>) -> Self {
        Self { cell, filled_by: None }
    }

    /// Returns a handle on the same store that also keeps the informer running.
    pub(crate) fn kept_by(&self, informer: Arc<dyn Any + Send + Sync>) -> Self {
        Self { cell: Arc::clone(&self.cell), filled_by: Some(informer) }
    }

    /// Returns a handle on the same store that does not keep the informer running.
    ///
    /// It is meant for handlers of that informer, which would otherwise keep the informer, and
    /// themselves, alive until [`SharedInformer::stop`](crate::SharedInformer::stop).
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { cell: Arc::clone(&self.cell), filled_by: None }
    }

    /// Returns true if the store is not filled any more; its contents may then be out of date.
    pub fn is_closed(&self) -> bool {
        self.cell.state.load().closed
    }

    /// Returns an immutable snapshot of the store. It costs one reference count.
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot::new(self.cell.state.load_full())
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.cell.state.load().get(key).cloned()
    }

    /// Returns the object with this name, without an allocation. An empty namespace is the same as
    /// none.
    pub fn get_named(&self, namespace: Option<&str>, name: &str) -> Option<Arc<T>> {
        self.cell.state.load().get_named(namespace, name).cloned()
    }

    /// Returns the memory of all objects in bytes, without keys and indexes; `None` if it is not
    /// known.
    ///
    /// It is known for packed objects, and for others if the informer measures them: see
    /// [`InformerBuilder::measure`](crate::InformerBuilder::measure). It is exported as the metric
    /// `informer_store_bytes`.
    pub fn memory(&self) -> Option<usize> {
        self.cell.state.load().memory
    }

    /// Returns true if there is an object with this key.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.cell.state.load().get(key).is_some()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.cell.state.load().objects.len()
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the version up to which the store is complete. It is unset until the initial list is
    /// complete, and never goes back, except after a list from a server whose history was reset.
    pub fn version(&self) -> ResourceVersion {
        self.cell.state.load().version.clone()
    }

    /// Returns the version up to which the store is complete for this key.
    ///
    /// If several namespaces are read separately, this is the version of the key's namespace, and
    /// otherwise [`Self::version`]. It is unset until the initial list is complete, and `None` for
    /// a namespace that the store does not cover.
    pub fn version_at(&self, key: &ObjectKey) -> Option<ResourceVersion> {
        self.progress(Some(key)).map(|it| it.version)
    }

    /// Returns the progress of the store for this key, or as a whole: its version, and whether that
    /// version can be compared with those that the server returns now.
    ///
    /// If several namespaces are read separately, the progress for a key is that of its namespace,
    /// and `None` for a namespace that the store does not cover. A reset of the server's history is
    /// known as soon as the reflector has noticed it, even while changes wait for a slow handler
    /// and the store still shows the old history.
    pub fn progress(&self, key: Option<&ObjectKey>) -> Option<StoreProgress> {
        // The state is read before the counts: if the reflector notices a reset in between, the
        // state does not pass for one of the new history.
        let state = self.cell.state.load();
        let (version, shown, rewinds) = match key {
            Some(key) if !state.parts.is_empty() => {
                let key = key.as_str().as_bytes();
                let index = state.parts.iter().position(|it| key.starts_with(&it.prefix))?;
                let part = &state.parts[index];
                (&part.version, part.rewinds, self.cell.rewinds[index].get())
            }
            _ => (&state.version, state.rewinds, self.cell.known_rewinds()),
        };
        Some(StoreProgress { version: version.clone(), rewinds, is_rewound: shown < rewinds })
    }

    /// Waits for the next state that is published after this call, not after the first poll: a
    /// caller that reads the store between the call and the await misses nothing. After the store
    /// is closed it waits for ever.
    pub fn published(&self) -> impl Future<Output = ()> + Send + '_ {
        self.cell.published.notified()
    }

    /// Returns true once the initial list is complete.
    pub fn is_synced(&self) -> bool {
        self.cell.state.load().synced
    }

    /// Returns the keys of the objects whose newest state could not be decoded, in order. These
    /// objects exist, and the store shows an older state of each of them, or none. Usually there
    /// are none.
    pub fn undecodable(&self) -> Vec<ObjectKey> {
        self.cell.state.load().undecodable.walk().map(|(key, _)| object_key(key)).collect()
    }

    /// Returns true if the newest state of the object with this key could not be decoded.
    pub fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.cell.state.load().undecodable.get(key.as_str().as_bytes()).is_some()
    }

    /// Returns the number of times that an index function has panicked. Each time, one object is
    /// missing from that index; the log says which.
    pub fn index_panics(&self) -> u64 {
        self.cell.state.load().index_panics
    }

    /// Returns the objects under a value of an index, ordered by key.
    /// [`NAMESPACE_INDEX`](crate::NAMESPACE_INDEX) always exists.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        self.cell.state.load().by_index(index, value)
    }

    /// Returns the keys under a value of an index, in order.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.cell.state.load().index_keys(index, value)
    }

    /// Returns the values of an index under which there are objects, in order.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn index_values(&self, index: &str) -> Result<Vec<String>, IndexError> {
        self.cell.state.load().index_values(index)
    }

    /// Adds an index. When it returns, the index contains every object, and changes keep it up to
    /// date.
    ///
    /// The writer waits meanwhile; readers do not. An index is kept until it is removed.
    ///
    /// # Errors
    /// Returns an error if an index of this name exists.
    pub fn add_index(&self, index: Index<T>) -> Result<(), IndexError> {
        self.cell.edit(|state| state.add_index(index))
    }

    /// Removes an index. Snapshots that are already taken keep it.
    ///
    /// # Errors
    /// Returns an error if there is no such index. The index by namespace cannot be removed.
    pub fn remove_index(&self, name: &str) -> Result<(), IndexError> {
        self.cell.edit(|state| state.remove_index(name))
    }

    /// Waits until the initial list is complete.
    ///
    /// # Errors
    /// Returns an error if the store is closed and was never synced.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn wait_synced(&self) -> Result<(), WaitError> {
        self.wait_for(|state| state.synced.then_some(Ok(()))).await
    }

    /// Waits until the store shows this version of its collection or a later one.
    ///
    /// With the version that a write returned, a caller reads its own writes. An unset version is
    /// reached by the initial list. Only versions of the store's own resource type may be passed.
    /// If the server's history is reset, no version counts as reached until the store shows the new
    /// history, and a version of the old one may not be reached for a long time: the wait continues
    /// until the server has passed it again, so set a deadline.
    ///
    /// # Errors
    /// Returns an error if the store is closed before that, if the versions cannot be compared
    /// because one of them is not a number, or if the version is that of an object that could not
    /// be decoded: the store has then passed the version without showing it.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn wait_until(&self, version: &ResourceVersion) -> Result<(), WaitError> {
        self.wait_for(|state| {
            if !state.synced {
                return None;
            }
            let reached = match version.compare(&state.version) {
                _ if version.is_unset() => return Some(Ok(())),
                // The store's version is of another history. The list of the new one wakes the
                // task.
                _ if state.rewinds < self.cell.known_rewinds() => return None,
                _ if *version == state.version => true,
                Some(order) => order.is_le(),
                None => return Some(Err(WaitError::Incomparable)),
            };
            let readable = || !state.undecodable.walk().any(|(_, it)| it == version);
            reached.then(|| if readable() { Ok(()) } else { Err(WaitError::Undecodable) })
        })
        .await
    }

    /// Applies `answer` to every published state until it returns something.
    async fn wait_for(
        &self,
        answer: impl Fn(&StoreState<T>) -> Option<Result<(), WaitError>>,
    ) -> Result<(), WaitError> {
        loop {
            // Registered before the state is read, so that a state published in between wakes the
            // task.
            let mut published = std::pin::pin!(self.cell.published.notified());
            published.as_mut().enable();
            let closed = {
                let state = self.cell.state.load();
                if let Some(answer) = answer(&state) {
                    return answer;
                }
                state.closed
            };
            if closed {
                return Err(WaitError::Closed);
            }
            published.await;
        }
    }
}

impl<T: Object> StateCell<T> {
    /// Creates the cell of a store with this many partitions.
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            state: ArcSwap::default(),
            write_lock: Mutex::default(),
            published: Notify::new(),
            rewinds: (0..partitions).map(|_| RewindCount::default()).collect(),
        }
    }

    /// Returns the number of rewinds that are known, over all partitions.
    fn known_rewinds(&self) -> u64 {
        self.rewinds.iter().map(RewindCount::get).sum()
    }

    /// Waits for the right to make the next state.
    pub(super) fn begin(&self) -> Transaction<'_, T> {
        // A poisoned lock is harmless: an edit that panicked has published nothing.
        let guard = self.write_lock.lock();
        Transaction { cell: self, _guard: guard, next: StoreState::clone(&self.state.load()) }
    }

    fn edit<E>(&self, change: impl FnOnce(&mut StoreState<T>) -> Result<(), E>) -> Result<(), E> {
        let mut transaction = self.begin();
        change(&mut transaction.next)?;
        transaction.publish();
        Ok(())
    }
}

/// The exclusive right to make the next state. Dropping it without publishing leaves the state as
/// it was.
pub(super) struct Transaction<'s, T> {
    cell: &'s StateCell<T>,
    _guard: MutexGuard<'s, ()>,
    /// A copy of the newest state, to be edited.
    pub(super) next: StoreState<T>,
}

impl<T: Object> Transaction<'_, T> {
    /// Publishes the next state to all readers atomically.
    pub(super) fn publish(self) {
        self.cell.state.store(Arc::new(self.next));
        self.cell.published.notify_waiters();
    }
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), filled_by: self.filled_by.clone() }
    }
}

impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.cell).finish()
    }
}

impl<T> fmt::Debug for StateCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load();
        let StoreState { objects, version, synced, closed, .. } = &**state;
        let mut shown = f.debug_struct("StateCell");
        shown
            .field("len", &objects.len())
            .field("version", version)
            .field("synced", synced)
            .field("closed", closed);
        shown.finish_non_exhaustive()
    }
}

//! The handle that readers have, and how they wait for what is not there yet.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use dogwatch_core::{Object, ObjectKey, ResourceVersion};
use tokio::sync::Notify;

use super::snapshot::Snapshot;
use super::state::State;
use crate::index::{Index, IndexError};

/// The local copy of a collection, to be read from anywhere.
///
/// A clone is another handle of the same store. Every read is of the newest published state; it takes no lock, never waits and
/// never makes the writer wait. Two reads in a row may be of two states: what has to fit together is read from one
/// [`snapshot`](Self::snapshot). When the writer is gone, the last state stays readable.
///
/// A store that an informer gave out keeps that informer running, so that what is read is kept up to date: see
/// [`Self::detached`] for a handle that does not. After [`SharedInformer::stop`](crate::SharedInformer::stop) it shows what was known
/// last, and [`Self::is_closed`] says so.
pub struct Store<T> {
    shared: Arc<Shared<T>>,
    /// What fills it, where this handle keeps it running.
    filled_by: Option<Arc<dyn Any + Send + Sync>>,
}

/// What the writer and all handles share.
pub(super) struct Shared<T> {
    state: ArcSwap<State<T>>,
    /// Held by whoever makes the next state out of the newest: the writer, or who adds or removes an index. Readers do not
    /// know it.
    turn: Mutex<()>,
    /// Rung at every new state.
    published: Notify,
}

/// Why waiting is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// Nobody writes to the store any more.
    #[error("the store is closed")]
    Closed,
    /// The version is not a number, or the store's is not: which is newer cannot be told.
    #[error("the versions cannot be compared")]
    Incomparable,
    /// The version is of an object that could not be decoded: the store shows an older state of it, or none.
    #[error("the object of this version could not be decoded")]
    Unreadable,
}

impl<T: Object> Store<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self { shared, filled_by: None }
    }

    /// A handle of the same store that keeps this running, too.
    pub(crate) fn kept_by(&self, informer: Arc<dyn Any + Send + Sync>) -> Self {
        Self { shared: Arc::clone(&self.shared), filled_by: Some(informer) }
    }

    /// Returns a handle of the same store that does not keep the informer running: for handlers of that informer, which would
    /// otherwise keep it, and themselves, until [`SharedInformer::stop`](crate::SharedInformer::stop).
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), filled_by: None }
    }

    /// Whether nothing fills the store any more: what it shows may be out of date.
    pub fn is_closed(&self) -> bool {
        self.shared.state.load().closed
    }

    /// The store as it is now, which stays as it is. It costs one reference count.
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot::new(self.shared.state.load_full())
    }

    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.shared.state.load().get(key).cloned()
    }

    /// The object with this name, found without an allocation; no namespace and an empty one are the same.
    pub fn get_named(&self, namespace: Option<&str>, name: &str) -> Option<Arc<T>> {
        self.shared.state.load().get_named(namespace, name).cloned()
    }

    /// Whether there is an object with this key.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.shared.state.load().get(key).is_some()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.shared.state.load().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version up to which the store knows everything: unset until the first list is whole, and never older than before,
    /// except after a list of a server that went back in time.
    pub fn version(&self) -> ResourceVersion {
        self.shared.state.load().version.clone()
    }

    /// The version up to which the store knows everything about this key: that of its namespace, where several namespaces are
    /// read each by itself, and else [`Self::version`]. Unset before the first list is whole; `None` for a namespace that the store
    /// does not cover.
    pub fn version_at(&self, key: &ObjectKey) -> Option<ResourceVersion> {
        let state = self.shared.state.load();
        if state.parts.is_empty() {
            return Some(state.version.clone());
        }
        let part = state.parts.iter().find(|(prefix, _)| key.as_str().as_bytes().starts_with(prefix));
        part.map(|(_, version)| version.clone())
    }

    /// Waits for the next state that is published after this call, not after the first poll: read the store in between, and
    /// nothing is missed. After the store is closed it waits for ever.
    pub fn published(&self) -> impl Future<Output = ()> + Send + '_ {
        self.shared.published.notified()
    }

    /// Whether the first list is whole.
    pub fn synced(&self) -> bool {
        self.shared.state.load().synced
    }

    /// Returns the keys of the objects whose newest state could not be decoded, in order. They exist, and the store shows an older
    /// state of each of them, or none. Usually there are none.
    pub fn unreadable(&self) -> Vec<ObjectKey> {
        self.shared.state.load().unreadable.keys().cloned().collect()
    }

    /// Whether the newest state of the object with this key could not be decoded.
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.shared.state.load().unreadable.contains_key(key)
    }

    /// How often an index function has panicked. Each time an object is missing in that index, and the log says which.
    pub fn index_panics(&self) -> u64 {
        self.shared.state.load().index_panics
    }

    /// The objects under a value of an index, ordered by key. [`NAMESPACE_INDEX`](crate::NAMESPACE_INDEX) is always there.
    ///
    /// # Errors
    /// When there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        self.shared.state.load().by_index(index, value)
    }

    /// The keys under a value of an index, in order.
    ///
    /// # Errors
    /// When there is no such index.
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.shared.state.load().index_keys(index, value)
    }

    /// The values of an index under which there are objects, in order.
    ///
    /// # Errors
    /// When there is no such index.
    pub fn index_values(&self, index: &str) -> Result<Vec<String>, IndexError> {
        self.shared.state.load().index_values(index)
    }

    /// Adds an index. When it returns, every object is found by it, and changes keep it up to date.
    ///
    /// The writer waits meanwhile; readers do not. An index is kept until it is removed.
    ///
    /// # Errors
    /// When there is an index of this name.
    pub fn add_index(&self, index: Index<T>) -> Result<(), IndexError> {
        self.shared.edit(|state| state.add_index(index))
    }

    /// Removes an index. Snapshots that are already taken keep it.
    ///
    /// # Errors
    /// When there is no such index. The one by namespace cannot be removed.
    pub fn remove_index(&self, name: &str) -> Result<(), IndexError> {
        self.shared.edit(|state| state.remove_index(name))
    }

    /// Waits until the first list is whole. It may be dropped at any time.
    ///
    /// # Errors
    /// When the store is closed and it will never be.
    pub async fn wait_synced(&self) -> Result<(), WaitError> {
        self.wait_for(|state| state.synced.then_some(Ok(()))).await
    }

    /// Waits until the store shows this version of its collection or a later one: with the version that a write returned, one
    /// reads one's own writes. It may be dropped at any time. An unset version is reached by the first list.
    ///
    /// Only versions of the store's own resource type may be given. A server that went back in time can take versions away; then
    /// the wait goes on until the server is that far again, so put a deadline around it.
    ///
    /// # Errors
    /// When the store is closed before that, when the versions cannot be compared because one of them is not a number, or when the
    /// version is that of an object that could not be decoded: the store then has come that far, and does not show it.
    pub async fn wait_until(&self, version: &ResourceVersion) -> Result<(), WaitError> {
        self.wait_for(|state| {
            if !state.synced {
                return None;
            }
            let reached = match version.compare(&state.version) {
                _ if version.is_unset() => return Some(Ok(())),
                _ if *version == state.version => true,
                Some(order) => order.is_le(),
                None => return Some(Err(WaitError::Incomparable)),
            };
            let readable = || !state.unreadable.values().any(|it| it == version);
            reached.then(|| if readable() { Ok(()) } else { Err(WaitError::Unreadable) })
        })
        .await
    }

    /// Asks every state until there is an answer.
    async fn wait_for(
        &self,
        answer: impl Fn(&State<T>) -> Option<Result<(), WaitError>>,
    ) -> Result<(), WaitError> {
        loop {
            // Enlisted before the state is read: what is published in between rings.
            let mut published = std::pin::pin!(self.shared.published.notified());
            published.as_mut().enable();
            let closed = {
                let state = self.shared.state.load();
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

impl<T: Object> Shared<T> {
    pub(super) fn new() -> Self {
        Self { state: ArcSwap::default(), turn: Mutex::default(), published: Notify::new() }
    }

    /// Waits for the turn to make the next state.
    pub(super) fn turn(&self) -> Turn<'_, T> {
        // What a turn that panicked was at is lost, and nothing of it was published.
        let guard = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Turn { shared: self, _guard: guard, next: State::clone(&self.state.load()) }
    }

    fn edit<E>(&self, change: impl FnOnce(&mut State<T>) -> Result<(), E>) -> Result<(), E> {
        let mut turn = self.turn();
        change(&mut turn.next)?;
        turn.publish();
        Ok(())
    }
}

/// The right to make the next state. Dropping it without publishing leaves the state as it was.
pub(super) struct Turn<'s, T> {
    shared: &'s Shared<T>,
    _guard: MutexGuard<'s, ()>,
    /// The newest state, to be changed.
    pub(super) next: State<T>,
}

impl<T: Object> Turn<'_, T> {
    /// Shows the next state to all readers, in one step.
    pub(super) fn publish(self) {
        self.shared.state.store(Arc::new(self.next));
        self.shared.published.notify_waiters();
    }
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), filled_by: self.filled_by.clone() }
    }
}

impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.shared).finish()
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load();
        let State { objects, version, synced, closed, .. } = &**state;
        let mut shown = f.debug_struct("Shared");
        shown
            .field("len", &objects.len())
            .field("version", version)
            .field("synced", synced)
            .field("closed", closed);
        shown.finish_non_exhaustive()
    }
}

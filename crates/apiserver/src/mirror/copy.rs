//! The copy of a collection of another server: its feed, and the service.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dogwatch_core::ObjectKey;
use http::{Request, Response};
use tokio::time::Instant;

use super::backend::CopyBackend;
use super::error::MirrorError;
use super::feed::Feed;
use super::object::{MirrorEvent, MirrorEventType, MirrorObject};
use super::resource::MirroredResource;
use super::settings::MirrorSettings;
use super::view::View;
use super::views::Views;
use crate::cluster::Source;
use crate::http::{CopyService, Freshness, ResponseBody};
use crate::reading::initializing;
use crate::registry::CopiedKind;
use crate::store::{BytesCompressor, CollectionName, CopiedChange, Encoded, EventType, Store};

/// A read-only copy of one collection of another API server, served at that server's resource
/// versions.
///
/// It has one writer, its owner, which calls [`Self::replace`], [`Self::apply`] and
/// [`Self::advance`] in the order of the other server; calls from several threads happen one after
/// the other. Readers never wait for the writer, nor the writer for readers. Clones are the same
/// mirror.
///
/// Memory is bounded by the collection and the limits in [`MirrorSettings`]. A watch is a position
/// in the history: one that falls behind gets 410, and its client lists again.
#[derive(Clone, Debug)]
pub struct Mirror {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The resource as errors name it.
    name: String,
    kind: Arc<CopiedKind>,
    collection: CollectionName,
    settings: MirrorSettings,
    /// Locked while the mirror is written. Never held across an await.
    feed: Mutex<Feed>,
    /// A copy of [`Feed::is_listed`], which readers check without the lock.
    is_listed: AtomicBool,
    /// Copies of [`Feed::bytes`] and [`Feed::length`], for readers.
    bytes: AtomicUsize,
    length: AtomicUsize,
    backend: CopyBackend,
    service: CopyService,
    views: Views,
    compressor: BytesCompressor,
}

/// The maximum number of objects of a list that are opened for watches, of the newest ones.
const MAX_OPENED: usize = 100;

/// The size of a mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MirrorUsage {
    /// The number of objects.
    pub objects: usize,
    /// The approximate size in bytes of the objects, without their history.
    pub bytes: usize,
    /// The length in bytes of the objects as they arrived. With compression, it is larger than
    /// their size.
    pub length: usize,
    /// The number of changes in the history.
    pub changes: usize,
    /// An upper bound in bytes of the states that the history keeps.
    pub history_bytes: usize,
    /// The number of open watches.
    pub watches: u64,
}

impl Mirror {
    /// Creates a mirror without a state: it rejects all requests with 429 until the first list is
    /// fed.
    pub fn new(resource: MirroredResource, settings: MirrorSettings) -> Self {
        let MirroredResource { def, columns, selectable } = resource;
        let name =
            if def.group.is_empty() { def.plural.clone() } else { format!("{}.{}", def.plural, def.group) };
        let kind = Arc::new(CopiedKind::new(def, &columns, &selectable));
        let collection = Arc::clone(&kind.kind().collection);
        let store = Store::beginning_at(0);
        store.close(&collection);
        let (source, view) = (Arc::new(Source::real()), None);
        let backend = CopyBackend { store, kind: Arc::clone(&kind), source, view };
        let offers_protobuf = settings.protobuf && kind.has_protobuf();
        let service = CopyService::new(
            Arc::clone(kind.kind()),
            Arc::new(backend.clone()),
            settings.http(),
            offers_protobuf,
        );
        let feed = Mutex::new(Feed::new(settings.history_age));
        let shared = Shared {
            name,
            kind,
            collection,
            settings,
            feed,
            is_listed: AtomicBool::new(false),
            bytes: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            backend,
            service,
            views: Views::default(),
            compressor: BytesCompressor::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns true if the kind has a protobuf encoding that is known here: only then may the
    /// mirror be fed in protobuf.
    pub fn has_protobuf(&self) -> bool {
        self.shared.kind.has_protobuf()
    }

    /// Applies an event. An addition of an object that exists is a change, and a change of one that
    /// does not is an addition.
    ///
    /// An event at the version of the mirror is applied if it is about an object that has not
    /// changed at this version: etcd deletes the objects of a lease at one version.
    ///
    /// # Errors
    ///
    /// Returns an error if the object cannot be stored, if its version is older than the mirror, or
    /// if no list was fed before.
    pub fn apply(&self, event: &MirrorEvent) -> Result<(), MirrorError> {
        let shared = &*self.shared;
        let object = shared.encode(event.event_type.into(), &event.object)?;
        let object = Arc::new(object.compressed(&shared.compressor, true));
        let (key, version) = (object.key().clone(), object.version());
        let mut feed = shared.feed.lock();
        let current = shared.current(&feed, version)?;
        let (before, changed_at) = shared
            .backend
            .store
            .read(&shared.collection, |history, _| (history.get(&key).cloned(), history.changed_at(&key)));
        if changed_at.is_some_and(|it| it >= version) {
            let is_repeated = before.as_ref().is_some_and(|it| it.version() == version);
            return if is_repeated { Ok(()) } else { Err(shared.backwards(version, current)) };
        }
        let is_deleted = event.event_type == MirrorEventType::Deleted;
        let changes = match (&before, is_deleted) {
            (None, true) => Vec::new(),
            (Some(_), true) => vec![CopiedChange { key, after: None, last: Some(object) }],
            (_, false) => vec![CopiedChange { key, after: Some(object), last: None }],
        };
        shared.write(&mut feed, version, changes, before.as_slice(), false);
        Ok(())
    }

    /// Records that nothing has changed up to a version, as a bookmark says.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is older than the mirror, or if no list was fed before.
    pub fn advance(&self, version: u64) -> Result<(), MirrorError> {
        let shared = &*self.shared;
        let mut feed = shared.feed.lock();
        shared.current(&feed, version)?;
        shared.write(&mut feed, version, Vec::new(), &[], false);
        Ok(())
    }

    /// Records that the server has the same objects at `version` as the mirror at its version `at`,
    /// as a comparison has shown. Ignored if the mirror has another version by now.
    ///
    /// Reads are at `version` then, until the mirror has a later one. Unlike after
    /// [`Self::advance`], changes up to it may still be fed: an object may have come and gone in
    /// between.
    pub fn confirm(&self, at: u64, version: u64) {
        let shared = &*self.shared;
        if shared.is_listed.load(Ordering::Acquire) {
            shared.backend.store.confirm(&shared.collection, at, version);
        }
    }

    /// Discards the state: all watches end with 410, and requests are rejected with 429 until the
    /// next list. For a server whose versions went backwards, or whose history was lost.
    pub fn reset(&self) {
        let shared = &*self.shared;
        let mut feed = shared.feed.lock();
        feed.reset();
        shared.is_listed.store(false, Ordering::Release);
        shared.publish_size(&feed);
        shared.backend.store.close(&shared.collection);
        shared.views.end_all();
    }

    /// Returns the version; `None` before the first list, and after a reset.
    pub fn version(&self) -> Option<u64> {
        self.if_listed(Store::revision)
    }

    /// Returns the version at which the state is known: [`Self::version`], or a later one that was
    /// confirmed. `None` before the first list, and after a reset.
    pub fn known_version(&self) -> Option<u64> {
        self.if_listed(Store::known)
    }

    fn if_listed<T>(&self, look: impl FnOnce(&Store) -> T) -> Option<T> {
        self.shared.is_listed.load(Ordering::Acquire).then(|| look(&self.shared.backend.store))
    }

    /// Runs a function while the mirror is being written.
    #[cfg(test)]
    pub(crate) fn while_written<T>(&self, run: impl FnOnce() -> T) -> T {
        let _feed = self.shared.feed.lock();
        run()
    }

    /// Waits until the state at a version is known; never returns if that does not happen.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn reach(&self, version: u64) {
        self.shared.backend.store.reach(version).await;
    }

    /// Waits until a watch can begin at a version: until it has arrived, or was confirmed. One
    /// between two that were confirmed does not suffice, although reads may begin there. Never
    /// returns if that does not happen.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn reach_for_watch(&self, version: u64) {
        let shared = &*self.shared;
        shared.backend.store.see(&shared.collection, version).await;
    }

    /// Ends the watches of a view with 410, because its rules have changed: their clients list
    /// again. The results of the view are dropped.
    pub fn end_watches_of(&self, view_identity: u64) {
        self.shared.views.end(view_identity);
    }

    /// Returns the size of the mirror. It costs little, and may be called often.
    pub fn usage(&self) -> MirrorUsage {
        let shared = &*self.shared;
        let (bytes, length) = (shared.bytes.load(Ordering::Relaxed), shared.length.load(Ordering::Relaxed));
        let (objects, changes, history_bytes) = shared
            .backend
            .store
            .read(&shared.collection, |history, _| (history.object_count(), history.len(), history.size()));
        MirrorUsage { objects, bytes, length, changes, history_bytes, watches: shared.service.watches() }
    }

    /// Answers a request that reads the resource: GET, LIST or WATCH, as kube-apiserver would.
    /// Access is not checked.
    ///
    /// A read without `resourceVersion` waits until the mirror has the version that `freshness`
    /// reports, and is rejected with 504 if that takes too long. Before the first list, and after a
    /// reset, requests are rejected with 429. Requests for other resources, and subresources,
    /// get 404.
    ///
    /// The body of a watch is pulled: what a client does not read is not produced.
    pub async fn respond(
        &self,
        request: Request<()>,
        view: View,
        freshness: &dyn Freshness,
    ) -> Response<ResponseBody> {
        let shared = &*self.shared;
        let (parts, ()) = request.into_parts();
        if !shared.is_listed.load(Ordering::Acquire) {
            return shared.service.refuse(&initializing(), &parts);
        }
        match shared.views.of(view, shared.settings.view_bytes) {
            None => shared.service.respond(&parts, freshness).await,
            Some(view) => {
                let backend = CopyBackend { view: Some(view), ..shared.backend.clone() };
                shared.service.of(Arc::new(backend)).respond(&parts, freshness).await
            }
        }
    }

    /// Encodes an object of a list; returns the stored one if that is the same.
    pub(super) fn encode_listed(&self, object: &MirrorObject) -> Result<Arc<Encoded>, MirrorError> {
        let shared = &*self.shared;
        let listed = shared.encode(EventType::Added, object)?;
        let known = shared.backend.store.get(&shared.collection, listed.key());
        // The same version of the same object, even if the server encodes it in another way now.
        let known = known.filter(|it| it.version() == listed.version() && it.uid() == listed.uid());
        Ok(known.unwrap_or_else(|| Arc::new(listed.compressed(&shared.compressor, false))))
    }

    /// Replaces the state by listed objects.
    pub(super) fn replace_by(
        &self,
        version: u64,
        mut listed: BTreeMap<ObjectKey, Arc<Encoded>>,
    ) -> Result<(), MirrorError> {
        let shared = &*self.shared;
        let mut feed = shared.feed.lock();
        if !feed.is_listed {
            feed.bytes = listed.values().map(|it| it.size()).sum();
            feed.length = listed.values().map(|it| it.length()).sum();
            feed.is_listed = true;
            shared.publish_size(&feed);
            shared.backend.store.begin_at(&shared.collection, version, listed.into_values());
            feed.reach(version, Instant::now());
            shared.is_listed.store(true, Ordering::Release);
            return Ok(());
        }
        let current = shared.current(&feed, version)?;
        let before = shared.backend.store.list(&shared.collection, None);
        let (mut gone, mut replaced) = (Vec::new(), Vec::new());
        for stored in &before {
            match listed.remove(stored.key()) {
                None => gone.push(Arc::clone(stored)),
                Some(same) if Arc::ptr_eq(&same, stored) || same.version() == stored.version() => {}
                Some(newer) => replaced.push((Some(Arc::clone(stored)), newer)),
            }
        }
        replaced.extend(listed.into_values().map(|it| (None, it)));
        replaced.sort_by_key(|(_, it)| it.version());
        replaced.iter().rev().take(MAX_OPENED).for_each(|(_, it)| it.open());
        if let Some((_, oldest)) = replaced.first()
            && oldest.version() <= current
        {
            return Err(shared.backwards(oldest.version(), current));
        }
        if !gone.is_empty() && version == current {
            return Err(shared.backwards(version, current));
        }
        let replaces: Vec<_> =
            gone.iter().cloned().chain(replaced.iter().filter_map(|(before, _)| before.clone())).collect();
        let mut changes = shared.deletions(&gone, current, version, replaced.is_empty());
        changes.extend(replaced.into_iter().map(|(_, after)| CopiedChange {
            key: after.key().clone(),
            after: Some(after),
            last: None,
        }));
        shared.write(&mut feed, version, changes, &replaces, true);
        Ok(())
    }
}

impl Shared {
    fn encode(&self, event_type: EventType, object: &MirrorObject) -> Result<Encoded, MirrorError> {
        let stored = self.kind.store(event_type, object.received());
        stored.map_err(|error| MirrorError::not_stored(&self.name, error))
    }

    fn publish_size(&self, feed: &Feed) {
        self.bytes.store(feed.bytes, Ordering::Relaxed);
        self.length.store(feed.length, Ordering::Relaxed);
    }

    /// Returns the version of the mirror, to which a version that is fed is compared.
    fn current(&self, feed: &Feed, fed: u64) -> Result<u64, MirrorError> {
        if !feed.is_listed {
            return Err(MirrorError::NotListed { resource: self.name.clone(), fed });
        }
        let current = self.backend.store.revision();
        if fed < current { Err(self.backwards(fed, current)) } else { Ok(current) }
    }

    fn backwards(&self, fed: u64, current: u64) -> MirrorError {
        MirrorError::Backwards { resource: self.name.clone(), fed, current }
    }

    /// Returns the deletions that a list at `version` shows, after `current`; `are_all` if it shows
    /// no other change.
    ///
    /// A client that has seen a part of the changes of a list, and resumes, must get the others. So
    /// an event carries a version from which it can resume: a deletion the one before the list, and
    /// the last change of all the one of the list. The changes of objects carry their own; resuming
    /// there gets 410.
    fn deletions(
        &self,
        gone: &[Arc<Encoded>],
        current: u64,
        version: u64,
        are_all: bool,
    ) -> Vec<CopiedChange> {
        let is_last = |at: usize| are_all && at.saturating_add(1) == gone.len();
        let deletion = |(at, object): (usize, &Arc<Encoded>)| {
            let shown = if is_last(at) { version } else { current };
            let last = object.with_version(shown).compressed(&self.compressor, false);
            CopiedChange { key: object.key().clone(), after: None, last: Some(Arc::new(last)) }
        };
        gone.iter().enumerate().map(deletion).collect()
    }

    /// Writes changes, of which `before` are the states that they replace, and drops old ones.
    fn write(
        &self,
        feed: &mut Feed,
        version: u64,
        changes: Vec<CopiedChange>,
        before: &[Arc<Encoded>],
        is_listed: bool,
    ) {
        for new in changes.iter().filter_map(|it| it.after.as_ref()) {
            feed.bytes = feed.bytes.saturating_add(new.size());
            feed.length = feed.length.saturating_add(new.length());
        }
        for replaced in before {
            feed.bytes = feed.bytes.saturating_sub(replaced.size());
            feed.length = feed.length.saturating_sub(replaced.length());
        }
        self.publish_size(feed);
        let now = Instant::now();
        let states = changes.iter().flat_map(|it| it.after.iter().chain(&it.last));
        states.for_each(|it| feed.open(it, now));
        let store = &self.backend.store;
        store.copy(&self.collection, version, changes, is_listed, self.settings.limits());
        feed.close_old(now);
        if let Some(old) = feed.reach(version, now) {
            store.trim(old);
        }
    }
}

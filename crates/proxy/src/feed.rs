//! The feed of a mirror: one list and watch of upstream, for any number of clients.
//!
//! A reflector lists, watches, resumes and lists again; this passes what it reports to the mirror
//! in order, in the encoding in which it arrived. If the mirror cannot take it, the mirror is
//! emptied and everything begins again with a list.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dogwatch_apiserver::mirror::{
    ListMemory, Mirror, MirrorError, MirrorEvent, MirrorEventType, MirrorObject, MirrorSettings,
    MirroredResource, Replacement,
};
use dogwatch_client::{Api, Client, Encoding};
use dogwatch_core::{Object, ObjectKey, ResourceType};
use dogwatch_informer::{
    BackoffOptions, Delta, DeltaQueue, Health, HealthWatch, Reflector, ReflectorOptions,
};
use dogwatch_wire::{Packed, PackedBytes};
use kube_core::DynamicObject;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::feed_pause::FeedPause;

/// A whole object as upstream sends it.
type Received = Packed<DynamicObject>;

/// The longest pause between two attempts to reach upstream. A proxy stands for many clients, so it
/// may try more often than each of them.
const LONGEST_BACKOFF: Duration = Duration::from_secs(3);

/// The number of changes that wait to be stored. Listed objects arrive faster than they are
/// compressed, and those that wait take many times the memory.
const QUEUE: usize = 64;

/// The number of bytes of listed objects that are stored in one go.
const STEP: usize = 64 * 1024;

/// The state of a collection at a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateAt {
    pub(crate) version: u64,
    /// A sum over the versions of all objects: two states of one sum are the same.
    pub(crate) fingerprint: u64,
}

/// The states of a collection here and upstream.
#[derive(Debug, Default)]
struct Progress {
    /// The number of times that the mirror was emptied.
    epoch: u64,
    /// The state that the mirror has reached; `None` before the first list.
    reached: Option<StateAt>,
    /// The newest state of upstream that was compared.
    compared: Option<StateAt>,
    /// Set if upstream has shown an earlier version than before.
    is_rolled_back: bool,
}

/// Hashes of objects at their versions, whose sum is the fingerprint of a collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprints(RandomState);

impl Fingerprints {
    /// Returns the part of one object.
    pub(crate) fn of(&self, key: &ObjectKey, version: &str) -> u64 {
        self.0.hash_one((key.as_str(), version))
    }
}

/// A feed of one collection.
pub(crate) struct Feed {
    client: Client,
    of: ResourceType,
    resource: MirroredResource,
    list_memory: ListMemory,
    mirror: ArcSwap<Mirror>,
    fingerprints: Fingerprints,
    progress: Mutex<Progress>,
    health: Mutex<Option<HealthWatch>>,
    /// Notified to begin again with a list.
    restart: Notify,
    /// Notified when the versions of upstream went back.
    rolled_back: Notify,
    /// The replacements in progress, which cannot be cancelled.
    replacing: TaskTracker,
}

/// The reason for which a feed begins again.
#[derive(Debug, thiserror::Error)]
enum Interrupted {
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error("an object cannot be read: {0}")]
    Unreadable(String),
    #[error("version {0:?} is not a number")]
    Version(String),
    #[error("objects without a readable name")]
    Nameless,
    #[error("the rules have changed")]
    Restarted,
    #[error("the versions of the API server went back, as after a restore from a backup")]
    RolledBack,
    #[error("the collection is not served any more")]
    Gone,
}

/// The list in progress, and the known objects.
#[derive(Default)]
struct Known {
    /// The objects are compressed as they arrive: all of them as they are would take many times the
    /// memory, which a process rarely gives back.
    list: Option<(Replacement, Hashes)>,
    hashes: Hashes,
    /// The bytes that were stored since other tasks had their turn.
    stored: usize,
}

/// The hashes of objects, and their sum.
#[derive(Default)]
struct Hashes {
    of: HashMap<ObjectKey, u64>,
    sum: u64,
}

impl Hashes {
    fn insert(&mut self, key: ObjectKey, hash: u64) {
        let before = self.of.insert(key, hash).unwrap_or_default();
        self.sum = self.sum.wrapping_add(hash).wrapping_sub(before);
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.sum = self.sum.wrapping_sub(self.of.remove(key).unwrap_or_default());
    }
}

impl Feed {
    /// Creates a feed of a collection into a mirror of it.
    pub(crate) fn new(
        client: Client,
        of: ResourceType,
        resource: MirroredResource,
        list_memory: ListMemory,
    ) -> Self {
        let mirror = Mirror::new(resource.clone(), settings(&list_memory));
        Self {
            client,
            of,
            resource,
            list_memory,
            mirror: ArcSwap::from_pointee(mirror),
            fingerprints: Fingerprints::default(),
            progress: Mutex::default(),
            health: Mutex::new(None),
            restart: Notify::new(),
            rolled_back: Notify::new(),
            replacing: TaskTracker::new(),
        }
    }

    /// Returns the mirror of now.
    pub(crate) fn mirror(&self) -> Arc<Mirror> {
        self.mirror.load_full()
    }

    /// Returns the hashes for comparisons with a list.
    pub(crate) fn fingerprints(&self) -> &Fingerprints {
        &self.fingerprints
    }

    /// Returns the number of times that the mirror was emptied.
    pub(crate) fn epoch(&self) -> u64 {
        self.progress.lock().epoch
    }

    /// Records a state of upstream. Once the mirror has its objects, at an earlier version, it
    /// knows this version too. Ignored if the mirror was emptied since `epoch`: upstream's versions
    /// may be others now.
    pub(crate) fn compared(&self, epoch: u64, state: StateAt) {
        let mut progress = self.progress.lock();
        if progress.epoch == epoch && progress.compared.is_none_or(|it| it.version < state.version) {
            progress.compared = Some(state);
            self.confirm(&progress);
        }
    }

    /// Confirms the state of upstream if the mirror has the same.
    fn confirm(&self, progress: &Progress) {
        if let (Some(reached), Some(compared)) = (progress.reached, progress.compared)
            && reached.fingerprint == compared.fingerprint
        {
            self.mirror.load().confirm(reached.version, compared.version);
        }
    }

    /// Returns the health of the connection to upstream; `None` before the first list began.
    pub(crate) fn health(&self) -> Option<Health> {
        self.health.lock().as_ref().map(HealthWatch::get)
    }

    /// Empties the mirror and begins again with a list: all watches end with 410.
    pub(crate) fn restart(&self) {
        self.restart.notify_one();
    }

    /// Empties the mirror and begins again with a list, because the versions of upstream went back.
    /// Ignored if the mirror was emptied since `epoch`.
    pub(crate) fn rolled_back(&self, epoch: u64) {
        let mut progress = self.progress.lock();
        if progress.epoch == epoch && !progress.is_rolled_back {
            progress.is_rolled_back = true;
            self.rolled_back.notify_one();
        }
    }

    /// Follows upstream.
    pub(crate) async fn run(&self) {
        let resource = self.of.plural.clone();
        let (mut encoding, mut pause) = (None, FeedPause::default());
        loop {
            let interrupted = self.follow(encoding).await;
            // Otherwise the state of an interrupted list would come back after the reset.
            self.replacing.close();
            self.replacing.wait().await;
            self.replacing.reopen();
            self.forget(&self.mirror.load());
            match &interrupted {
                Interrupted::Restarted => {
                    tracing::info!(%resource, "listing again: the rules have changed");
                    continue;
                }
                // Upstream is newer than the table of fields: JSON names them all.
                Interrupted::Mirror(error @ MirrorError::UnknownField { .. }) if encoding.is_none() => {
                    tracing::info!(%resource, %error, "listing again, in JSON");
                    encoding = Some(Encoding::Json);
                    let mut settings = settings(&self.list_memory);
                    settings.protobuf = false;
                    self.mirror.store(Arc::new(Mirror::new(self.resource.clone(), settings)));
                    continue;
                }
                other => tracing::warn!(%resource, error = %other, "listing again"),
            }
            tokio::time::sleep(pause.next(Instant::now())).await;
        }
    }

    fn api(&self, encoding: Option<Encoding>) -> Api<Received> {
        let api = Api::dynamic(self.client.clone(), self.of.clone()).with_managed_fields();
        match encoding {
            Some(encoding) => api.with_encoding(encoding),
            None => api,
        }
    }

    /// Follows upstream until the mirror has to begin again.
    async fn follow(&self, encoding: Option<Encoding>) -> Interrupted {
        let mirror = self.mirror();
        let (sender, mut deltas) = DeltaQueue::channel(QUEUE);
        let source = Arc::new(self.api(encoding));
        let mut backoff = BackoffOptions::default();
        backoff.cap = LONGEST_BACKOFF;
        let options = ReflectorOptions::default().backoff(backoff);
        let reflector = Reflector::new(source, options, sender);
        *self.health.lock() = Some(reflector.health());
        let following = async {
            let (mut known, mut batch) = (Known::default(), Vec::new());
            while deltas.recv_batch(&mut batch, QUEUE).await {
                for delta in batch.drain(..) {
                    if let Err(interrupted) = self.take(&mirror, delta, &mut known).await {
                        return interrupted;
                    }
                }
            }
            // The reflector has ended, which the other branch reports.
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = self.restart.notified() => Interrupted::Restarted,
            () = self.rolled_back.notified() => Interrupted::RolledBack,
            interrupted = following => interrupted,
            _ended = reflector.run() => Interrupted::Gone,
        }
    }

    async fn take(
        &self,
        mirror: &Arc<Mirror>,
        delta: Delta<Received>,
        known: &mut Known,
    ) -> Result<(), Interrupted> {
        match delta {
            Delta::Begin => known.list = Some((mirror.replacement(), Hashes::default())),
            Delta::Abort => known.list = None,
            Delta::Item(object) => {
                if let (Some((list, hashes)), Some(key)) = (&mut known.list, object.key()) {
                    let stored = mirrored(&object)?;
                    list.add(&stored)?;
                    hashes.insert(key.clone(), self.fingerprints.of(&key, object.header().version));
                    known.stored = known.stored.saturating_add(stored.bytes().len());
                    if known.stored >= STEP {
                        known.stored = 0;
                        tokio::task::yield_now().await;
                    }
                }
            }
            Delta::Dropped(key) => match &mut known.list {
                Some((list, hashes)) => {
                    list.remove(&key);
                    hashes.remove(&key);
                }
                // The last state of the object is not known: a list finds out.
                None => return Err(Interrupted::Unreadable(key.to_string())),
            },
            Delta::Undecodable { key, .. } => return Err(Interrupted::Unreadable(key.to_string())),
            Delta::Nameless => return Err(Interrupted::Nameless),
            Delta::End { version, undecodable } => {
                if let Some((key, _)) = undecodable.first() {
                    return Err(Interrupted::Unreadable(key.to_string()));
                }
                self.replace(number(version.as_str())?, known).await?;
            }
            Delta::Applied(object) => self.apply(mirror, MirrorEventType::Modified, &object, known)?,
            Delta::Deleted(object) => self.apply(mirror, MirrorEventType::Deleted, &object, known)?,
            Delta::Bookmark(version) => {
                let version = number(version.as_str())?;
                mirror.advance(version)?;
                self.reached(version, known.hashes.sum);
            }
            // Versions may name other states now: nothing that was seen counts.
            Delta::Rewound => {
                self.forget(mirror);
            }
            _ => {}
        }
        Ok(())
    }

    /// Replaces the state of the mirror by the list, on a thread for long work.
    async fn replace(&self, version: u64, known: &mut Known) -> Result<(), Interrupted> {
        let Some((list, hashes)) = known.list.take() else { return Ok(()) };
        known.hashes = hashes;
        let replacing = self.replacing.spawn_blocking(move || list.finish(version));
        replacing.await.map_err(|error| Interrupted::Unreadable(error.to_string()))??;
        self.reached(version, known.hashes.sum);
        Ok(())
    }

    fn apply(
        &self,
        mirror: &Mirror,
        event_type: MirrorEventType,
        object: &Received,
        known: &mut Known,
    ) -> Result<(), Interrupted> {
        let Some(key) = object.key() else { return Err(Interrupted::Nameless) };
        let version = object.header().version;
        mirror.apply(&MirrorEvent::new(event_type, mirrored(object)?))?;
        if event_type == MirrorEventType::Deleted {
            known.hashes.remove(&key);
        } else {
            let hash = self.fingerprints.of(&key, version);
            known.hashes.insert(key, hash);
        }
        self.reached(number(version)?, known.hashes.sum);
        Ok(())
    }

    fn reached(&self, version: u64, fingerprint: u64) {
        let mut progress = self.progress.lock();
        progress.reached = Some(StateAt { version, fingerprint });
        self.confirm(&progress);
    }

    /// Empties the mirror, and forgets the versions of upstream.
    fn forget(&self, mirror: &Mirror) {
        let mut progress = self.progress.lock();
        *progress = Progress { epoch: progress.epoch.wrapping_add(1), ..Progress::default() };
        mirror.reset();
    }
}

fn settings(list_memory: &ListMemory) -> MirrorSettings {
    let mut settings = MirrorSettings::default();
    settings.list_memory = Some(list_memory.clone());
    settings
}

/// Returns an object in the form of the mirror.
fn mirrored(object: &Received) -> Result<MirrorObject, Interrupted> {
    match object.encoded() {
        Ok(PackedBytes::Json(bytes)) => Ok(MirrorObject::json(bytes)),
        Ok(PackedBytes::Protobuf(bytes)) => Ok(MirrorObject::protobuf(bytes)),
        Ok(_) => Err(Interrupted::Unreadable("its encoding is not known".to_owned())),
        Err(error) => Err(Interrupted::Unreadable(error.to_string())),
    }
}

fn number(version: &str) -> Result<u64, Interrupted> {
    version.parse().map_err(|_| Interrupted::Version(version.to_owned()))
}

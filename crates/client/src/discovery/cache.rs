//! Discovery cached in memory until it is invalidated, and refreshed cheaply (rules DI-3, DI-4).
//!
//! One fetch at a time: callers that arrive during a fetch wait for the same one. It is cancelled
//! when the last of them is dropped; nothing runs in the background.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use tokio::time::Instant;

use super::disk::{CachedFiles, Disk, DiskCache, Versions};
use super::fetch::{self, DiscoveryFormat, FetchedDiscovery};
use super::http_cache::HttpCache;
use super::legacy;
use super::model::Discovery;
use super::source::DiscoverySource;
use crate::client::Client;
use crate::error::Error;

/// The time that known names are looked up without another request for the versions that failed.
const REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// The options of discovery and its caches.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::discovery::{CachedDiscovery, DiscoveryOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let fresh_for = Some(Duration::from_secs(60));
/// let options = DiscoveryOptions { fresh_for, ..DiscoveryOptions::default() };
/// let discovery = CachedDiscovery::with_options(client, options);
/// assert!(!discovery.is_fresh()); // nothing was requested yet
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryOptions {
    /// The documents to request.
    pub format: DiscoveryFormat,
    /// The cache on disk. Off by default.
    pub disk: Option<DiskCache>,
    /// The time that a result counts as fresh. Without a limit, a result from the server is fresh
    /// until it is invalidated, as in client-go; then a [`RestMapper`](super::RestMapper) does not
    /// notice resources that are added later. With one, an unknown name leads to another request,
    /// unless the last one was within this time.
    pub fresh_for: Option<Duration>,
}

/// Discovery with a cache. Cheap to clone; clones share everything.
///
/// ```
/// use dogwatch_client::discovery::CachedDiscovery;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let discovery = CachedDiscovery::new(client);
/// assert!(discovery.get().await?.serves("apps", "v1"));
/// assert!(discovery.is_fresh()); // the next call sends no request
/// discovery.invalidate(); // for example after a definition was installed
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CachedDiscovery {
    shared: Arc<Inner>,
}

struct Inner {
    source: DiscoverySource,
    options: DiscoveryOptions,
    disk: Option<Arc<Disk>>,
    /// Never held across an await.
    state: Mutex<State>,
}

type Outcome = Result<Arc<Discovery>, Arc<Error>>;
type Fetch = BoxFuture<'static, Outcome>;

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// The last result of aggregated documents; survives invalidation, for revalidation.
    known: Option<FetchedDiscovery>,
    /// The fetch in progress, kept alive by its waiters.
    running: Option<WeakShared<Fetch>>,
    /// The number of invalidations: a fetch that began before one stores nothing.
    generation: u64,
}

#[derive(Clone)]
struct Held {
    discovery: Arc<Discovery>,
    /// True if this process got it from the server; then the time of that and of its expiry.
    fresh: bool,
    since: Instant,
    expires: Option<Instant>,
    /// The time of the last request for the versions that failed.
    asked: Instant,
}

impl CachedDiscovery {
    /// Creates a cache in memory.
    pub fn new(client: Client) -> Self {
        Self::with_options(client, DiscoveryOptions::default())
    }

    /// Creates a cache in memory and in a directory; with [`DiskCache::http`], with an HTTP cache
    /// in another.
    pub fn on_disk(client: Client, disk: DiskCache) -> Self {
        Self::with_options(client, DiscoveryOptions { disk: Some(disk), ..DiscoveryOptions::default() })
    }

    /// Creates a cache with options. Nothing is requested yet.
    pub fn with_options(client: Client, options: DiscoveryOptions) -> Self {
        let http = options.disk.as_ref().and_then(|it| it.http_directory.clone());
        let source = match http {
            Some(directory) => DiscoverySource::with_cache(client, HttpCache::new(directory)),
            None => DiscoverySource::of(client),
        };
        let disk = options.disk.clone().map(|it| Arc::new(Disk::new(it)));
        Self { shared: Arc::new(Inner { source, options, disk, state: Mutex::default() }) }
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        self.shared.source.client()
    }

    /// Returns the server's resources, from the cache or from the server.
    ///
    /// Versions that failed temporarily are requested again each time. Dropping the future is safe;
    /// the fetch continues if another caller waits for it, and is cancelled otherwise.
    ///
    /// # Errors
    /// Returns an error if the groups cannot be read; nothing is cached then. All waiting callers
    /// get the same error.
    pub async fn get(&self) -> Result<Arc<Discovery>, Arc<Error>> {
        let fetch = {
            let mut state = self.shared.lock();
            match state.held.as_ref().filter(|it| it.is_valid()) {
                Some(held) if !held.has_transient_failures() => return Ok(Arc::clone(&held.discovery)),
                held => {
                    let held = held.map(|it| Arc::clone(&it.discovery));
                    state.join_or_start(|generation| Arc::clone(&self.shared).run(generation, held).boxed())
                }
            }
        };
        fetch.await
    }

    /// Returns the cached result, even if versions of it failed recently; otherwise like
    /// [`Self::get`].
    ///
    /// [`Self::get`] requests the failed versions each time, which takes up to the time limit of a
    /// request while an aggregated API server is down.
    pub(crate) async fn cached(&self) -> Result<Arc<Discovery>, Arc<Error>> {
        let kept = {
            let state = self.shared.lock();
            let held = state.held.as_ref().filter(|it| it.is_valid());
            let usable =
                held.filter(|it| !it.has_transient_failures() || it.asked.elapsed() < REPAIR_INTERVAL);
            usable.map(|it| Arc::clone(&it.discovery))
        };
        match kept {
            Some(kept) => Ok(kept),
            None => self.get().await,
        }
    }

    /// Discards the cached result; the next [`Self::get`] asks the server. Files of a directory are
    /// valid only once this process has written them again. A fetch in progress continues, but its
    /// result is not cached.
    pub fn invalidate(&self) {
        self.shared.lock().invalidate(self.shared.disk.as_deref());
    }

    /// Returns true if another request is pointless: the cached result is from the server, not from
    /// files of another process.
    pub fn is_fresh(&self) -> bool {
        let limit = self.shared.options.fresh_for;
        let state = self.shared.lock();
        let held = state.held.as_ref().filter(|it| it.is_valid());
        held.is_some_and(|it| it.fresh && limit.is_none_or(|limit| it.since.elapsed() <= limit))
    }

    /// Like [`Self::invalidate`], unless something newer than `seen` is cached already.
    pub(crate) fn invalidate_seen(&self, seen: &Arc<Discovery>) {
        let mut state = self.shared.lock();
        if state.held.as_ref().is_some_and(|it| Arc::ptr_eq(&it.discovery, seen)) {
            state.invalidate(self.shared.disk.as_deref());
        }
    }
}

impl State {
    fn invalidate(&mut self, disk: Option<&Disk>) {
        self.held = None;
        self.running = None;
        self.generation += 1;
        if let Some(disk) = disk {
            disk.invalidate();
        }
    }

    fn join_or_start(&mut self, start: impl FnOnce(u64) -> Fetch) -> Shared<Fetch> {
        if let Some(running) = self.running.as_ref().and_then(WeakShared::upgrade) {
            return running;
        }
        let fetch = start(self.generation).shared();
        self.running = fetch.downgrade();
        fetch
    }
}

impl Held {
    fn is_valid(&self) -> bool {
        self.expires.is_none_or(|it| Instant::now() < it)
    }

    fn has_transient_failures(&self) -> bool {
        self.discovery.failures.iter().any(|it| it.reason.is_transient())
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Runs one fetch, from the directory or the server, and caches its result.
    async fn run(self: Arc<Self>, generation: u64, held: Option<Arc<Discovery>>) -> Outcome {
        let outcome = match held {
            Some(held) => Ok(self.repair(generation, &held).await),
            None => match self.read_disk(generation).await {
                Some(kept) => Ok(kept),
                None => self.ask_server(generation).await.map_err(Arc::new),
            },
        };
        let mut state = self.lock();
        if state.generation == generation {
            state.running = None;
        }
        outcome
    }

    async fn ask_server(&self, generation: u64) -> Result<Arc<Discovery>, Error> {
        let known = self.lock().known.clone();
        let reading = fetch::read(&self.source, self.options.format, known.as_ref()).await?;
        let discovery = match reading.is_aggregated() {
            true => {
                self.lock().known = Some(reading.clone());
                reading.discovery
            }
            false => {
                let mut discovery = Arc::unwrap_or_clone(reading.discovery);
                discovery.mark_empty();
                Arc::new(discovery)
            }
        };
        self.keep(generation, &discovery, true, self.options.disk.as_ref().map(|it| it.ttl));
        self.write(generation, &discovery, None).await;
        Ok(discovery)
    }

    /// Reads the directory, and requests the versions it lacks.
    async fn read_disk(&self, generation: u64) -> Option<Arc<Discovery>> {
        let CachedFiles { discovery, missing, ours, left } = self.disk.as_ref()?.read().await?;
        discovery.resources().next()?;
        if missing.is_empty() {
            let discovery = Arc::new(discovery);
            self.keep(generation, &discovery, ours, Some(left));
            return Some(discovery);
        }
        let mut discovery = legacy::complete(&self.source, discovery, missing.clone()).await;
        discovery.mark_empty();
        let discovery = Arc::new(discovery);
        self.keep(generation, &discovery, ours, Some(left));
        self.write(generation, &discovery, Some(missing)).await;
        Some(discovery)
    }

    /// Requests the versions again that failed temporarily.
    async fn repair(&self, generation: u64, held: &Arc<Discovery>) -> Arc<Discovery> {
        let failures = held.failures.iter().filter(|it| it.reason.is_transient());
        let wanted: Vec<_> = failures.map(|it| (it.group.clone(), it.version.clone())).collect();
        let mut discovery = legacy::complete(&self.source, Discovery::clone(held), wanted).await;
        discovery.mark_empty();
        let discovery = Arc::new(discovery);
        let state = &mut *self.lock();
        if let Some(held) = state.held.as_mut().filter(|_| state.generation == generation) {
            held.discovery = Arc::clone(&discovery);
            held.asked = Instant::now();
        }
        discovery
    }

    fn keep(&self, generation: u64, discovery: &Arc<Discovery>, fresh: bool, ttl: Option<Duration>) {
        let mut state = self.lock();
        // A server without groups is not ready.
        if state.generation == generation && !discovery.groups.is_empty() {
            let since = Instant::now();
            // An expiry beyond the clock's range never comes.
            let expires = ttl.and_then(|it| since.checked_add(it));
            let discovery = Arc::clone(discovery);
            state.held = Some(Held { discovery, fresh, since, expires, asked: since });
        }
    }

    /// Writes everything, or only some versions: then the age and the owner of the other files must
    /// not change.
    async fn write(&self, generation: u64, discovery: &Arc<Discovery>, only: Option<Versions>) {
        let current = self.lock().generation == generation;
        if let Some(disk) = self.disk.as_ref().filter(|_| current) {
            disk.write(Arc::clone(discovery), only).await;
        }
    }
}

impl fmt::Debug for CachedDiscovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedDiscovery")
            .field("client", self.shared.source.client())
            .field("options", &self.shared.options)
            .field("fresh", &self.is_fresh())
            .finish_non_exhaustive()
    }
}

//! The services of one namespace: which collections are watched, which of them is authoritative,
//! and the endpoint set they fold into.
//!
//! ```text
//! EndpointSlices ── never read: not served, not allowed ──► Endpoints
//!        └──────────────┬───────────────────────────────────────┘
//! Services, when needed ┴─► fold ─► a set, or "not known yet"
//! ```
//!
//! A `Namespace` watches one service, filtered by selectors, or all of them: a program that calls
//! one or two services does not receive every event of a namespace with two thousand. Services are
//! watched only if a target's port or the caller's node requires it; to explain an empty set, a
//! single Service is read.

use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use dogwatch_client::{Api, Client};
use dogwatch_core::{FieldSelector, LabelSelector, Object, Selectors};
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::collection::{Collection, ReadError, ServiceIndex};
use crate::endpoints::{EndpointSet, Unavailable};
use crate::fold::{FoldInput, fold, has_one_port};
use crate::notifier::ChangeNotifier;
use crate::random;
use crate::service_lookup::{FIRST_REPEAT, FORBIDDEN_RETRY, LOOKUP_TIMEOUT, LookupResult, ServiceLookups};
use crate::slices::{LegacyEndpoints, SERVICE_NAME, Service, Slice};
use crate::target::{Port, Target};
use crate::time::{after, scaled};
use crate::topology::Topology;

/// The watched collections of one namespace, of all its services or of one. Dropping it ends the
/// watches.
#[derive(Debug)]
pub(crate) struct Namespace {
    client: Client,
    name: Arc<str>,
    /// The service that the watches are restricted to.
    only: Option<Arc<str>>,
    refresh_every: Option<Duration>,
    notifier: Arc<ChangeNotifier>,
    slices: Collection<Slice>,
    /// Set while EndpointSlices have never been read and cannot be.
    legacy: Mutex<Option<Arc<Collection<LegacyEndpoints>>>>,
    services: Mutex<ServicesWatch>,
    lookups: Arc<ServiceLookups>,
    /// Services that existed when they were looked up, until both they and their slices are gone.
    seen: Mutex<HashMap<CompactString, Arc<Service>>>,
}

/// The state of the watch on Services.
#[derive(Debug, Default)]
enum ServicesWatch {
    /// No target has needed Services yet.
    #[default]
    NotNeeded,
    /// With the delay of this attempt, if it follows a denial.
    Watching(Arc<Collection<Service>>, Option<Duration>),
    /// Services may not be read, and are not watched meanwhile.
    Forbidden(Denied),
}

/// An access that the server denied.
#[derive(Debug, Clone, Copy)]
struct Denied {
    since: Instant,
    /// The time of the next attempt. Every reader resolves again then: no event would make it.
    retry_at: Instant,
    /// The delay of that attempt, doubled with each denial.
    delay: Duration,
}

impl Denied {
    /// Records a denial, the first one or one after `previous`.
    fn after(previous: Option<Duration>, now: Instant) -> Self {
        // The first delays are short: a token may not be valid yet, and the role of a new program
        // is often bound moments after the program has started.
        let delay = previous.map_or(FIRST_REPEAT, |it| (it * 2).min(FORBIDDEN_RETRY));
        // Jitter, so that programs that were started together do not ask at the same time.
        let retry_at = after(now, scaled(delay, 1.0 + random::unit() / 5.0));
        Self { since: now, retry_at, delay }
    }
}

/// A reader's options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResolveOptions<'o> {
    pub(crate) topology: &'o Topology,
    pub(crate) prefer_ipv6: bool,
    /// Set if the reader has no set yet, and may wait a little for a better answer.
    pub(crate) first: bool,
}

/// The result of resolving a target.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// Everything that is known. Resolve again when notified, and at the given time.
    Set(EndpointSet, Option<Instant>),
    /// Nothing is known yet. Resolve again when notified, and at the given time.
    Wait(Option<Instant>),
}

impl Namespace {
    /// Starts watching the slices of this namespace, or of one service in it, on the current
    /// runtime.
    pub(crate) fn new(
        client: Client,
        name: &str,
        only: Option<&str>,
        refresh_every: Option<Duration>,
    ) -> Self {
        let notifier = Arc::new(ChangeNotifier::default());
        let index = ServiceIndex { service_of: Slice::service, label: Some(SERVICE_NAME) };
        let api = Api::namespaced(client.clone(), name);
        let by_label = |it: &str| LabelSelector::default().equals(SERVICE_NAME, it);
        // A name that cannot be a label value is not the name of a service; then everything is
        // watched, and nothing is found.
        let labels = only.and_then(|it| by_label(it).ok()).unwrap_or_default();
        let selectors = Selectors::default().labels(labels);
        let slices = Collection::start(&api, index, selectors, refresh_every, &notifier);
        let (legacy, services, seen) = (Mutex::default(), Mutex::default(), Mutex::default());
        let lookups = ServiceLookups::new(client.clone(), name, &notifier);
        let (name, only) = (name.into(), only.map(Into::into));
        Self { client, name, only, refresh_every, notifier, slices, legacy, services, lookups, seen }
    }

    /// Returns the selectors of the object with the service's name, or of all objects.
    fn by_name(&self) -> Selectors {
        Selectors::default().fields(self.only.as_deref().map(FieldSelector::name).unwrap_or_default())
    }

    /// Subscribes to changes that may affect this service.
    pub(crate) fn subscribe(&self, service: &str) -> Arc<Notify> {
        self.notifier.subscribe(service)
    }

    /// Returns the error that keeps the endpoints from being synced with the server.
    pub(crate) fn read_error(&self) -> Option<ReadError> {
        match &*self.legacy.lock() {
            Some(legacy) if legacy.store().is_some() => legacy.read_error(),
            _ => self.slices.read_error(),
        }
    }

    /// Returns the time at which the server last confirmed the endpoints, in seconds since 1970; 0
    /// before that.
    pub(crate) fn confirmed(&self) -> watch::Receiver<u64> {
        match &*self.legacy.lock() {
            Some(legacy) if legacy.store().is_some() => legacy.confirmed(),
            _ => self.slices.confirmed(),
        }
    }

    /// Asks the server for changes now.
    pub(crate) fn renew(&self) {
        self.slices.renew();
        self.lookups.renew();
        if let Some(legacy) = &*self.legacy.lock() {
            legacy.renew();
        }
        let mut services = self.services.lock();
        match &mut *services {
            ServicesWatch::NotNeeded => {}
            ServicesWatch::Watching(services, _) => services.renew(),
            // Connections to wrong pod ports fail again and again, and each time ask for a renewal.
            ServicesWatch::Forbidden(denied) if denied.since.elapsed() < FIRST_REPEAT => {}
            ServicesWatch::Forbidden(denied) => {
                denied.retry_at = Instant::now();
                drop(services);
                self.notifier.notify_all();
            }
        }
    }

    /// Resolves a target from the current state of the collections.
    pub(crate) fn resolve(&self, target: &Target, options: ResolveOptions<'_>) -> Resolution {
        let name = target.service();
        // If the Service is needed regardless of the slices, both are requested at the same time.
        let needed = matches!(target.port(), Port::Number(_)) || options.topology.node_name().is_some();
        let (mut service, mut again) =
            if needed { self.service(name) } else { (LookupResult::Unreadable, None) };
        let slices = match self.slices_of(name) {
            Ok(slices) => slices,
            Err(Some(reason)) => {
                let set = EndpointSet { unavailable: Some(reason), ..EndpointSet::default() };
                return Resolution::Set(set, None);
            }
            Err(None) => return Resolution::Wait(None),
        };
        let counts =
            needed || (*target.port() == Port::First && !has_one_port(slices.iter().map(|it| &**it)));
        if counts && !needed {
            (service, again) = self.service(name);
        }
        if let (true, LookupResult::Pending(until)) = (counts, &service) {
            return Resolution::Wait(Some(*until));
        }
        service = self.or_last_known(name, service, slices.is_empty());
        let folded = |service: &LookupResult| {
            let input = FoldInput {
                port: target.port(),
                service: service.info(),
                topology: options.topology,
                prefer_ipv6: options.prefer_ipv6,
            };
            fold(slices.iter().map(|it| &**it), &input)
        };
        let set = folded(&service);
        if !set.endpoints.is_empty() || counts {
            return Resolution::Set(set, again);
        }
        // The Service may explain why there are no endpoints.
        match self.lookups.find(name) {
            (LookupResult::Pending(until), _) if options.first => Resolution::Wait(Some(until)),
            (service, again) => Resolution::Set(folded(&service), again),
        }
    }

    /// Remembers Services that exist. A Service that is gone while its slices remain is being
    /// replaced, or its slices are about to be deleted too: until then its last known ports are
    /// used.
    fn or_last_known(&self, name: &str, found: LookupResult, empty: bool) -> LookupResult {
        let mut seen = self.seen.lock();
        match &found {
            LookupResult::Found(service) => drop(seen.insert(name.into(), Arc::clone(service))),
            LookupResult::Missing if empty => drop(seen.remove(name)),
            LookupResult::Missing => return seen.get(name).cloned().map_or(found, LookupResult::Found),
            LookupResult::Unreadable | LookupResult::Pending(_) => {}
        }
        found
    }

    /// Returns all slices of a service; otherwise the reason why they cannot be read, if it is
    /// known.
    fn slices_of(&self, service: &str) -> Result<Vec<Arc<Slice>>, Option<Unavailable>> {
        if let Some(store) = self.slices.store() {
            *self.legacy.lock() = None;
            return Ok(store.by_index(SERVICE_NAME, service).unwrap_or_default());
        }
        let known = self.legacy.lock().clone();
        let legacy = match (known, self.slices.read_error()) {
            (None, None) => return Err(None),
            (None, Some(ReadError::Unreachable(why))) => return Err(Some(Unavailable::ApiUnreachable(why))),
            (Some(legacy), _) => legacy,
            (None, Some(_)) => self.start_legacy(),
        };
        match (legacy.store(), legacy.read_error(), self.slices.read_error()) {
            (Some(store), ..) => {
                let found = store.get_named(Some(&self.name), service);
                Ok(found.iter().flat_map(|it| it.slices()).map(Arc::new).collect())
            }
            (None, None, _) => Err(None),
            // Report the missing permission on EndpointSlices: it is the one to grant.
            (None, Some(_), Some(ReadError::Forbidden(why))) => Err(Some(Unavailable::Forbidden(why))),
            (None, Some(ReadError::Forbidden(why)), _) => Err(Some(Unavailable::Forbidden(why))),
            (None, Some(read_error), _) => {
                Err(Some(Unavailable::ApiUnreachable(read_error.text().to_owned())))
            }
        }
    }

    fn start_legacy(&self) -> Arc<Collection<LegacyEndpoints>> {
        tracing::info!(namespace = %self.name, "cannot read EndpointSlices; reading Endpoints instead");
        let index = ServiceIndex { service_of: name_of::<LegacyEndpoints>, label: None };
        let api = Api::namespaced(self.client.clone(), &self.name);
        let legacy =
            Arc::new(Collection::start(&api, index, self.by_name(), self.refresh_every, &self.notifier));
        *self.legacy.lock() = Some(Arc::clone(&legacy));
        legacy
    }

    /// Returns the state of a Service, and when to ask again if no notification says so. The first
    /// call starts the watch on Services.
    fn service(&self, name: &str) -> (LookupResult, Option<Instant>) {
        let mut services = self.services.lock();
        let now = Instant::now();
        let start = || {
            let index = ServiceIndex { service_of: name_of::<Service>, label: None };
            let api = Api::namespaced(self.client.clone(), &self.name);
            Arc::new(Collection::start(&api, index, self.by_name(), self.refresh_every, &self.notifier))
        };
        let (collection, delay) = match &*services {
            ServicesWatch::Watching(collection, delay) => (Arc::clone(collection), *delay),
            ServicesWatch::Forbidden(denied) if denied.retry_at > now => {
                return (LookupResult::Unreadable, Some(denied.retry_at));
            }
            ServicesWatch::Forbidden(denied) => (start(), Some(denied.delay)),
            ServicesWatch::NotNeeded => (start(), None),
        };
        *services = ServicesWatch::Watching(Arc::clone(&collection), delay);
        if let Some(store) = collection.store() {
            let found = store.get_named(Some(&self.name), name);
            return (found.map_or(LookupResult::Missing, LookupResult::Found), None);
        }
        match collection.read_error() {
            Some(ReadError::Forbidden(why) | ReadError::NotServed(why)) => {
                tracing::info!(namespace = %self.name, why, "cannot read Services; using port numbers as pod ports and guessing the first port");
                let denied = Denied::after(delay, now);
                *services = ServicesWatch::Forbidden(denied);
                (LookupResult::Unreadable, Some(denied.retry_at))
            }
            _ if collection.since + LOOKUP_TIMEOUT > now => {
                (LookupResult::Pending(collection.since + LOOKUP_TIMEOUT), None)
            }
            // The collection goes on trying, and notifies when it has synced.
            _ => (LookupResult::Unreadable, None),
        }
    }
}

fn name_of<T: Object>(object: &T) -> Option<&str> {
    Some(object.header().name)
}

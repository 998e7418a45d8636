//! What one namespace says of its services: the collections that are read of it, which of them counts, and what they add up to.
//!
//! ```text
//! EndpointSlices ── never read: not served, not allowed ──► Endpoints
//!        └──────────────┬───────────────────────────────────────┘
//! Services, when needed ┴─► fold ─► a set, or "not known yet"
//! ```
//!
//! It is of one service, by selectors, or of all: a program that calls a service or two does not receive every event of a namespace
//! of two thousand. Services are watched only where a target's port or the caller's node needs them; an empty answer that wants a
//! reason has one read.

use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use dogwatch_client::{Api, Client};
use dogwatch_core::{FieldSelector, LabelSelector, Object};
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::bells::Bells;
use crate::collection::{Belongs, Collection, Selection, Trouble};
use crate::endpoints::{EndpointSet, Unavailable};
use crate::fold::{Question, fold, has_one_port};
use crate::service_lookup::{Found, PATIENCE, REFUSED_FOR, ServiceLookups};
use crate::slices::{Legacy, SERVICE_NAME, Service, Slice};
use crate::target::{Port, Target};
use crate::topology::Topology;

/// The collections of one namespace, whole or of one service. Dropping it ends the reading.
#[derive(Debug)]
pub(crate) struct Namespace {
    client: Client,
    name: Arc<str>,
    /// The service whose objects alone are read.
    only: Option<Arc<str>>,
    refresh_every: Option<Duration>,
    bells: Arc<Bells>,
    slices: Collection<Slice>,
    /// While slices have never been read and cannot be.
    legacy: Mutex<Option<Arc<Collection<Legacy>>>>,
    services: Mutex<Services>,
    lookups: Arc<ServiceLookups>,
    /// Services that were there when somebody asked, until they and their slices are gone.
    seen: Mutex<HashMap<CompactString, Arc<Service>>>,
}

/// Whether Services are read.
#[derive(Debug, Default)]
enum Services {
    /// Nobody needed them yet.
    #[default]
    Unasked,
    Read(Arc<Collection<Service>>),
    /// They may not be read; until then nobody asks again.
    Refused(Instant),
}

/// How a reader wants its set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes<'w> {
    pub(crate) topology: &'w Topology,
    pub(crate) prefer_ipv6: bool,
    /// Whether the reader knows nothing yet, and may wait a little for a better answer.
    pub(crate) first: bool,
}

/// What is known of a target.
#[derive(Debug)]
pub(crate) enum Look {
    /// All that is known. Look again when the bell rings, and at that time.
    Set(EndpointSet, Option<Instant>),
    /// Nothing yet. Look again when the bell rings, and at that time.
    Wait(Option<Instant>),
}

impl Namespace {
    /// Begins to read the slices of this namespace, or of one service of it, on the runtime this is called on.
    pub(crate) fn new(
        client: Client,
        name: &str,
        only: Option<&str>,
        refresh_every: Option<Duration>,
    ) -> Self {
        let bells = Arc::new(Bells::default());
        let belongs = Belongs { to: Slice::service, by_label: Some(SERVICE_NAME) };
        let api = Api::namespaced(client.clone(), name);
        let by_label = |it: &str| LabelSelector::default().equals(SERVICE_NAME, it);
        // A name that can be no label is no service's; then everything is read, and nothing found.
        let labels = only.and_then(|it| by_label(it).ok()).unwrap_or_default();
        let selection = Selection { labels, ..Selection::default() };
        let slices = Collection::start(&api, belongs, selection, refresh_every, &bells);
        let (legacy, services, seen) = (Mutex::default(), Mutex::default(), Mutex::default());
        let lookups = ServiceLookups::new(client.clone(), name, &bells);
        let (name, only) = (name.into(), only.map(Into::into));
        Self { client, name, only, refresh_every, bells, slices, legacy, services, lookups, seen }
    }

    /// The one object of the service's name, or all.
    fn by_name(&self) -> Selection {
        let fields = self.only.as_deref().map(FieldSelector::name).unwrap_or_default();
        Selection { fields, ..Selection::default() }
    }

    /// A bell that rings when what is known of this service may have changed.
    pub(crate) fn bell(&self, service: &str) -> Arc<Notify> {
        self.bells.hang(service)
    }

    /// What keeps the endpoints from being in step with the server.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        match &*self.legacy.lock() {
            Some(legacy) if legacy.store().is_some() => legacy.trouble(),
            _ => self.slices.trouble(),
        }
    }

    /// When the server last confirmed the endpoints, in seconds since 1970; 0 before that.
    pub(crate) fn confirmed(&self) -> watch::Receiver<u64> {
        match &*self.legacy.lock() {
            Some(legacy) if legacy.store().is_some() => legacy.confirmed(),
            _ => self.slices.confirmed(),
        }
    }

    /// Asks the server now whether there is something new.
    pub(crate) fn renew(&self) {
        self.slices.renew();
        self.lookups.renew();
        if let Some(legacy) = &*self.legacy.lock() {
            legacy.renew();
        }
        if let Services::Read(services) = &*self.services.lock() {
            services.renew();
        }
    }

    /// What is known of a target now.
    pub(crate) fn look(&self, target: &Target, wishes: Wishes<'_>) -> Look {
        let name = target.service();
        // Where the Service is needed whatever the slices say, both are read at the same time.
        let needed = matches!(target.port(), Port::Number(_)) || wishes.topology.node_name().is_some();
        let mut service = if needed { self.service(name) } else { Found::Unreadable };
        let slices = match self.slices_of(name) {
            Ok(slices) => slices,
            Err(Some(reason)) => {
                let set = EndpointSet { unavailable: Some(reason), ..EndpointSet::default() };
                return Look::Set(set, None);
            }
            Err(None) => return Look::Wait(None),
        };
        let counts =
            needed || (*target.port() == Port::First && !has_one_port(slices.iter().map(|it| &**it)));
        if counts && !needed {
            service = self.service(name);
        }
        if let (true, Found::NotYet(until)) = (counts, &service) {
            return Look::Wait(Some(*until));
        }
        service = self.recall(name, service, slices.is_empty());
        let folded = |service: &Found| {
            let question = Question {
                port: target.port(),
                service: service.known(),
                topology: wishes.topology,
                prefer_ipv6: wishes.prefer_ipv6,
            };
            fold(slices.iter().map(|it| &**it), &question)
        };
        let set = folded(&service);
        if !set.endpoints.is_empty() || counts {
            return Look::Set(set, None);
        }
        // The Service may know why there is nothing.
        match self.lookups.find(name) {
            (Found::NotYet(until), _) if wishes.first => Look::Wait(Some(until)),
            (service, again) => Look::Set(folded(&service), again),
        }
    }

    /// A Service that is gone while its slices are there is about to be replaced, or they are about to follow it: what a number stood for
    /// stays until they have.
    fn recall(&self, name: &str, found: Found, empty: bool) -> Found {
        let mut seen = self.seen.lock();
        match &found {
            Found::There(service) => drop(seen.insert(name.into(), Arc::clone(service))),
            Found::Missing if empty => drop(seen.remove(name)),
            Found::Missing => return seen.get(name).cloned().map_or(found, Found::There),
            Found::Unreadable | Found::NotYet(_) => {}
        }
        found
    }

    /// All slices of a service; or why they cannot be had, where that is known.
    fn slices_of(&self, service: &str) -> Result<Vec<Arc<Slice>>, Option<Unavailable>> {
        if let Some(store) = self.slices.store() {
            *self.legacy.lock() = None;
            return Ok(store.by_index(SERVICE_NAME, service).unwrap_or_default());
        }
        let known = self.legacy.lock().clone();
        let legacy = match (known, self.slices.trouble()) {
            (None, None) => return Err(None),
            (None, Some(Trouble::Unreachable(why))) => return Err(Some(Unavailable::ApiUnreachable(why))),
            (Some(legacy), _) => legacy,
            (None, Some(_)) => self.start_legacy(),
        };
        match (legacy.store(), legacy.trouble(), self.slices.trouble()) {
            (Some(store), ..) => {
                let found = store.get_named(Some(&self.name), service);
                Ok(found.iter().flat_map(|it| it.slices()).map(Arc::new).collect())
            }
            (None, None, _) => Err(None),
            // Slices are what one would want to be allowed to read.
            (None, Some(_), Some(Trouble::Forbidden(why))) => Err(Some(Unavailable::Forbidden(why))),
            (None, Some(Trouble::Forbidden(why)), _) => Err(Some(Unavailable::Forbidden(why))),
            (None, Some(trouble), _) => Err(Some(Unavailable::ApiUnreachable(trouble.text().to_owned()))),
        }
    }

    fn start_legacy(&self) -> Arc<Collection<Legacy>> {
        tracing::info!(namespace = %self.name, "EndpointSlices cannot be read; reading Endpoints instead");
        let belongs = Belongs { to: name_of::<Legacy>, by_label: None };
        let api = Api::namespaced(self.client.clone(), &self.name);
        let legacy =
            Arc::new(Collection::start(&api, belongs, self.by_name(), self.refresh_every, &self.bells));
        *self.legacy.lock() = Some(Arc::clone(&legacy));
        legacy
    }

    /// What is known of a Service. The first who asks has them read.
    fn service(&self, name: &str) -> Found {
        let mut services = self.services.lock();
        let now = Instant::now();
        let collection = match &*services {
            Services::Read(collection) => Arc::clone(collection),
            Services::Refused(until) if *until > now => return Found::Unreadable,
            _ => {
                let belongs = Belongs { to: name_of::<Service>, by_label: None };
                let api = Api::namespaced(self.client.clone(), &self.name);
                Arc::new(Collection::start(&api, belongs, self.by_name(), self.refresh_every, &self.bells))
            }
        };
        *services = Services::Read(Arc::clone(&collection));
        if let Some(store) = collection.store() {
            return store.get_named(Some(&self.name), name).map_or(Found::Missing, Found::There);
        }
        match collection.trouble() {
            Some(Trouble::Forbidden(why) | Trouble::NotServed(why)) => {
                tracing::info!(namespace = %self.name, why, "Services cannot be read; numbers are ports of pods, and the first port is guessed");
                *services = Services::Refused(now + REFUSED_FOR);
                Found::Unreadable
            }
            _ if collection.since + PATIENCE > now => Found::NotYet(collection.since + PATIENCE),
            _ => Found::Unreadable,
        }
    }
}

fn name_of<T: Object>(object: &T) -> Option<&str> {
    Some(object.header().name)
}

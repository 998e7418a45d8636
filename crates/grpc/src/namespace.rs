//! What one namespace says of its services: the collections that are read of it, which of them counts, and what they add up to.
//!
//! ```text
//! EndpointSlices ── never read: not served, not allowed ──► Endpoints
//!        └──────────────┬───────────────────────────────────────┘
//! Services, when asked ─┴─► fold ─► a set, or "not known yet"
//! ```
//!
//! All targets of a namespace share it. Services are read only where a target has a number for a port, or an empty answer wants a
//! reason.

use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use dogwatch_client::{Api, Client};
use dogwatch_core::Object;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bells::Bells;
use crate::collection::{Belongs, Collection, Trouble};
use crate::endpoints::{EndpointSet, Unavailable};
use crate::fold::{Known, Question, fold};
use crate::slices::{Legacy, SERVICE_NAME, Service, Slice};
use crate::target::{Port, Target};
use crate::topology::Topology;

/// For so long Services that are slow to be read are waited for; then a number is a port of the pods.
const PATIENCE: Duration = Duration::from_secs(5);

/// For so long nobody asks for Services again after they were refused.
const REFUSED_FOR: Duration = Duration::from_secs(300);

/// The collections of one namespace. Dropping it ends the reading.
#[derive(Debug)]
pub(crate) struct Namespace {
    client: Client,
    name: Arc<str>,
    refresh_every: Option<Duration>,
    bells: Arc<Bells>,
    slices: Collection<Slice>,
    /// While slices have never been read and cannot be.
    legacy: Mutex<Option<Arc<Collection<Legacy>>>>,
    services: Mutex<Services>,
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
    /// All that is known.
    Set(EndpointSet),
    /// Nothing yet. Look again when the bell rings, and at that time.
    Wait(Option<Instant>),
}

/// What is known of one Service.
enum Found {
    Unreadable,
    Missing,
    There(Arc<Service>),
    /// It is being read; so long it is worth waiting for.
    NotYet(Instant),
}

impl Found {
    fn known(&self) -> Known<'_> {
        match self {
            Self::Unreadable | Self::NotYet(_) => Known::Nothing,
            Self::Missing => Known::Missing,
            Self::There(service) => Known::Found(service),
        }
    }
}

impl Namespace {
    /// Begins to read the slices of this namespace, on the runtime this is called on.
    pub(crate) fn new(client: Client, name: &str, refresh_every: Option<Duration>) -> Self {
        let bells = Arc::new(Bells::default());
        let belongs = Belongs { to: Slice::service, by_label: Some(SERVICE_NAME) };
        let api = Api::namespaced(client.clone(), name);
        let slices = Collection::start(&api, belongs, refresh_every, &bells);
        let (legacy, services, seen) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { client, name: name.into(), refresh_every, bells, slices, legacy, services, seen }
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

    /// Asks the server now whether there is something new.
    pub(crate) fn renew(&self) {
        self.slices.renew();
        if let Some(legacy) = &*self.legacy.lock() {
            legacy.renew();
        }
        if let Services::Read(services) = &*self.services.lock() {
            services.renew();
        }
    }

    /// What is known of a target now.
    pub(crate) fn look(&self, target: &Target, wishes: Wishes<'_>) -> Look {
        let slices = match self.slices_of(target.service()) {
            Ok(slices) => slices,
            Err(Some(reason)) => {
                return Look::Set(EndpointSet { unavailable: Some(reason), ..EndpointSet::default() });
            }
            Err(None) => return Look::Wait(None),
        };
        let counts = matches!(target.port(), Port::Number(_));
        let mut service = if counts { self.service(target.service()) } else { Found::Unreadable };
        if let (true, Found::NotYet(until)) = (counts, &service) {
            return Look::Wait(Some(*until));
        }
        service = self.recall(target.service(), service, slices.is_empty());
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
            return Look::Set(set);
        }
        // The Service may know why there is nothing.
        service = self.service(target.service());
        match service {
            Found::NotYet(until) if wishes.first => Look::Wait(Some(until)),
            _ => Look::Set(folded(&service)),
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
        let legacy = Arc::new(Collection::start(&api, belongs, self.refresh_every, &self.bells));
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
                Arc::new(Collection::start(&api, belongs, self.refresh_every, &self.bells))
            }
        };
        *services = Services::Read(Arc::clone(&collection));
        if let Some(store) = collection.store() {
            return store.get_named(Some(&self.name), name).map_or(Found::Missing, Found::There);
        }
        match collection.trouble() {
            Some(Trouble::Forbidden(why) | Trouble::NotServed(why)) => {
                tracing::info!(namespace = %self.name, why, "Services cannot be read; numbers are ports of pods");
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

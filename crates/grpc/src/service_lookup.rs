//! Single reads of Services, to explain why a target has no endpoints.
//!
//! A watch would also follow the Service, but it would stay open as long as the target has no
//! endpoints, possibly forever, for example for a service that is scaled to zero. The read is a
//! list by name, so that the verb `list` suffices; kube-apiserver answers it from a single key. It
//! is repeated, less and less often, while the target has no endpoints.

use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use dogwatch_client::{Api, Client};
use dogwatch_core::{FieldSelector, ListParams};
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::collection::Trouble;
use crate::fold::Known;
use crate::notifier::Bells;
use crate::random;
use crate::slices::Service;
use crate::time::{from_now, scaled};

/// The time to wait for a slow read of Services before going on without them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The time before Services are requested again after access was denied.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(300);

/// The time until the first repetition of a read. Doubles each time the answer is unchanged.
const AGAIN: Duration = Duration::from_secs(10);

/// The state of one Service.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Unreadable,
    Missing,
    There(Arc<Service>),
    /// The read is in progress; it is worth waiting until this time.
    NotYet(Instant),
}

impl Found {
    pub(crate) fn known(&self) -> Known<'_> {
        match self {
            Self::Unreadable | Self::NotYet(_) => Known::Nothing,
            Self::Missing => Known::Missing,
            Self::There(service) => Known::Found(service),
        }
    }

    fn says_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::There(one), Self::There(other)) => one == other,
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
}

/// The Services of one namespace that were looked up.
#[derive(Debug)]
pub(crate) struct ServiceLookups {
    api: Api<Service>,
    bells: Arc<Bells>,
    asked: Mutex<HashMap<CompactString, Lookup>>,
}

/// One Service that was looked up.
#[derive(Debug)]
struct Lookup {
    answer: Found,
    /// The time of the next read; `None` while a read is in progress.
    due: Option<Instant>,
    /// The time for which the answer is valid.
    counts_for: Duration,
}

impl ServiceLookups {
    pub(crate) fn new(client: Client, namespace: &str, bells: &Arc<Bells>) -> Arc<Self> {
        let api = Api::namespaced(client, namespace);
        Arc::new(Self { api, bells: Arc::clone(bells), asked: Mutex::default() })
    }

    /// Returns the state of a Service, and when to ask again. The first call starts a read on the
    /// current runtime; readers of the service are notified when it completes.
    pub(crate) fn find(self: &Arc<Self>, name: &str) -> (Found, Option<Instant>) {
        let now = Instant::now();
        let mut asked = self.asked.lock();
        let lookup = asked.entry(name.into()).or_insert_with(|| Lookup {
            answer: Found::NotYet(now + PATIENCE),
            due: Some(now),
            counts_for: AGAIN,
        });
        if lookup.due.is_some_and(|due| due + AGAIN <= now) {
            // Nothing asked for it when it was due: the target has had endpoints since, and the
            // answer is outdated.
            lookup.answer = Found::NotYet(now + PATIENCE);
        }
        if lookup.due.is_some_and(|due| due <= now) {
            lookup.due = None;
            tokio::spawn(Arc::clone(self).read(name.into()));
        }
        match lookup.answer {
            Found::NotYet(until) if until <= now => (Found::Unreadable, lookup.due),
            _ => (lookup.answer.clone(), lookup.due),
        }
    }

    /// Marks all Services to be read again at the next lookup.
    pub(crate) fn renew(&self) {
        let now = Instant::now();
        for lookup in self.asked.lock().values_mut() {
            lookup.due = lookup.due.map(|due| due.min(now));
        }
    }

    async fn read(self: Arc<Self>, name: CompactString) {
        let only = ListParams::default().fields(FieldSelector::name(&name));
        let (answer, refused) = match timeout(PATIENCE, self.api.list(&only)).await {
            Ok(Ok(list)) => match list.items.into_iter().next() {
                Some(service) => (Found::There(Arc::new(service)), false),
                None => (Found::Missing, false),
            },
            Ok(Err(error)) => {
                let refused = matches!(Trouble::of(&error), Trouble::Forbidden(_) | Trouble::NotServed(_));
                (Found::Unreadable, refused)
            }
            Err(_) => (Found::Unreadable, false),
        };
        if let Some(lookup) = self.asked.lock().get_mut(&name) {
            lookup.counts_for = match lookup.answer.says_the_same(&answer) {
                _ if refused => REFUSED_FOR,
                true => (lookup.counts_for * 2).min(REFUSED_FOR),
                false => AGAIN,
            };
            lookup.answer = answer;
            lookup.due = Some(from_now(scaled(lookup.counts_for, 1.0 + random::unit() / 5.0)));
        }
        self.bells.ring(&name);
    }
}

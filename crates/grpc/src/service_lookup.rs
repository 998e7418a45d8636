//! Single reads of Services, for the reason why a target has nothing to call.
//!
//! A watch would follow the Service as well, but it would cost as long as the target is empty, which may be for ever: for a service
//! that is scaled to nothing, for one. A read is a list by name, so that the verb `list` is all that is needed; kube-apiserver
//! answers it from the one key. It is repeated while the target stays empty, less and less often.

use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use dogwatch_client::{Api, Client};
use dogwatch_core::{FieldSelector, ListParams};
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::bells::Bells;
use crate::chance;
use crate::collection::Trouble;
use crate::fold::Known;
use crate::slices::Service;
use crate::time::{from_now, scaled};

/// How long a caller waits for Services that are slow to be read; then it does without.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long nobody asks for Services again after they were refused.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(300);

/// How soon a Service is read again the first time; each time that it says the same, twice as late.
const AGAIN: Duration = Duration::from_secs(10);

/// What is known of one Service.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Unreadable,
    Missing,
    There(Arc<Service>),
    /// It is being read; so long it is worth waiting for.
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

/// The Services of one namespace that were asked for.
#[derive(Debug)]
pub(crate) struct ServiceLookups {
    api: Api<Service>,
    bells: Arc<Bells>,
    asked: Mutex<HashMap<CompactString, Lookup>>,
}

/// One Service that was asked for.
#[derive(Debug)]
struct Lookup {
    answer: Found,
    /// When it is read again; `None` while it is being read.
    due: Option<Instant>,
    /// How long the answer counts.
    counts_for: Duration,
}

impl ServiceLookups {
    pub(crate) fn new(client: Client, namespace: &str, bells: &Arc<Bells>) -> Arc<Self> {
        let api = Api::namespaced(client, namespace);
        Arc::new(Self { api, bells: Arc::clone(bells), asked: Mutex::default() })
    }

    /// What is known of a Service, and when to ask again. The first who asks has it read, on the runtime this is called on; the
    /// bell of the service rings when there is an answer.
    pub(crate) fn find(self: &Arc<Self>, name: &str) -> (Found, Option<Instant>) {
        let now = Instant::now();
        let mut asked = self.asked.lock();
        let lookup = asked.entry(name.into()).or_insert_with(|| Lookup {
            answer: Found::NotYet(now + PATIENCE),
            due: Some(now),
            counts_for: AGAIN,
        });
        if lookup.due.is_some_and(|due| due + AGAIN <= now) {
            // It was not asked for when it was due: the target had endpoints since, and the answer is of another time.
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

    /// Reads a Service again when it is next asked for.
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
            lookup.due = Some(from_now(scaled(lookup.counts_for, 1.0 + chance::unit() / 5.0)));
        }
        self.bells.ring(&name);
    }
}

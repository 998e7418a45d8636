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

use crate::collection::ReadError;
use crate::fold::ServiceInfo;
use crate::notifier::ChangeNotifier;
use crate::random;
use crate::slices::Service;
use crate::time::{from_now, scaled};

/// The time to wait for a slow read of Services before going on without them.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The time before Services are requested again after access was denied.
pub(crate) const FORBIDDEN_RETRY: Duration = Duration::from_secs(300);

/// The time until the first repetition of a read. Doubles each time the answer is unchanged.
pub(crate) const FIRST_REPEAT: Duration = Duration::from_secs(10);

/// The state of one Service.
#[derive(Debug, Clone)]
pub(crate) enum LookupResult {
    Unreadable,
    Missing,
    Found(Arc<Service>),
    /// The read is in progress; it is worth waiting until this time.
    Pending(Instant),
}

impl LookupResult {
    pub(crate) fn info(&self) -> ServiceInfo<'_> {
        match self {
            Self::Unreadable | Self::Pending(_) => ServiceInfo::Unreadable,
            Self::Missing => ServiceInfo::Missing,
            Self::Found(service) => ServiceInfo::Found(service),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Found(one), Self::Found(other)) => one == other,
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
}

/// The Services of one namespace that were looked up.
#[derive(Debug)]
pub(crate) struct ServiceLookups {
    api: Api<Service>,
    notifier: Arc<ChangeNotifier>,
    lookups: Mutex<HashMap<CompactString, Lookup>>,
}

/// One Service that was looked up.
#[derive(Debug)]
struct Lookup {
    answer: LookupResult,
    /// The time of the next read; `None` while a read is in progress.
    due: Option<Instant>,
    /// The time for which the answer is valid.
    valid_for: Duration,
}

impl ServiceLookups {
    pub(crate) fn new(client: Client, namespace: &str, notifier: &Arc<ChangeNotifier>) -> Arc<Self> {
        let api = Api::namespaced(client, namespace);
        Arc::new(Self { api, notifier: Arc::clone(notifier), lookups: Mutex::default() })
    }

    /// Returns the state of a Service, and when to ask again. The first call starts a read on the
    /// current runtime; readers of the service are notified when it completes.
    pub(crate) fn find(self: &Arc<Self>, name: &str) -> (LookupResult, Option<Instant>) {
        let now = Instant::now();
        let mut lookups = self.lookups.lock();
        let lookup = lookups.entry(name.into()).or_insert_with(|| Lookup {
            answer: LookupResult::Pending(now + LOOKUP_TIMEOUT),
            due: Some(now),
            valid_for: FIRST_REPEAT,
        });
        if lookup.due.is_some_and(|due| due + FIRST_REPEAT <= now) {
            // Nothing asked for it when it was due: the target has had endpoints since, and the
            // answer is outdated.
            lookup.answer = LookupResult::Pending(now + LOOKUP_TIMEOUT);
        }
        if lookup.due.is_some_and(|due| due <= now) {
            lookup.due = None;
            tokio::spawn(Arc::clone(self).read(name.into()));
        }
        match lookup.answer {
            LookupResult::Pending(until) if until <= now => (LookupResult::Unreadable, lookup.due),
            _ => (lookup.answer.clone(), lookup.due),
        }
    }

    /// Marks all Services to be read again at the next lookup.
    pub(crate) fn renew(&self) {
        let now = Instant::now();
        for lookup in self.lookups.lock().values_mut() {
            lookup.due = lookup.due.map(|due| due.min(now));
        }
    }

    async fn read(self: Arc<Self>, name: CompactString) {
        let only = ListParams::default().fields(FieldSelector::name(&name));
        let (answer, refused) = match timeout(LOOKUP_TIMEOUT, self.api.list(&only)).await {
            Ok(Ok(list)) => match list.items.into_iter().next() {
                Some(service) => (LookupResult::Found(Arc::new(service)), false),
                None => (LookupResult::Missing, false),
            },
            Ok(Err(error)) => {
                let refused =
                    matches!(ReadError::of(&error), ReadError::Forbidden(_) | ReadError::NotServed(_));
                (LookupResult::Unreadable, refused)
            }
            Err(_) => (LookupResult::Unreadable, false),
        };
        if let Some(lookup) = self.lookups.lock().get_mut(&name) {
            lookup.valid_for = match lookup.answer.is_same(&answer) {
                _ if refused => FORBIDDEN_RETRY,
                true => (lookup.valid_for * 2).min(FORBIDDEN_RETRY),
                false => FIRST_REPEAT,
            };
            lookup.answer = answer;
            lookup.due = Some(from_now(scaled(lookup.valid_for, 1.0 + random::unit() / 5.0)));
        }
        self.notifier.notify(&name);
    }
}

//! One watched collection of one namespace: an informer, and its read errors classified by how the
//! crate reacts to them.
//!
//! Sits between the reflector and the API server only to record the outcome of requests, and to end
//! a watch when a caller asks for fresh data or a refresh is due. It does not interpret the
//! objects.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dogwatch_client::{Api, Error};
use dogwatch_core::{ErrorChain, ListParams, Reason, ResourceType, Selectors, Status, View, WatchParams};
use dogwatch_informer::{
    Change, Index, InformerBuilder, ListEvent, ListWatch, Lists, NotFound, SharedInformer, Store, Watches,
};
use dogwatch_wire::WatchEvent;
use futures_core::future::BoxFuture;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::notifier::ChangeNotifier;
use crate::random;
use crate::time::{from_now, scaled};

/// A watch that is younger than this needs no renewal.
const RECENT: Duration = Duration::from_secs(5);

/// A watch that stays open for this long counts as working, even without an event. One that is cut
/// earlier indicates a server in trouble.
const PROVEN_AFTER: Duration = Duration::from_secs(1);

/// Readers of the confirmation time are woken at most this often: a busy namespace confirms many
/// times per second.
const CONFIRMED_EVERY: Duration = Duration::from_secs(10);

/// The reason why a collection cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The server denies access, or does not know the user.
    Forbidden(String),
    /// The server has no such collection.
    NotServed(String),
    /// The server cannot be reached, or returns another error.
    Unreachable(String),
}

impl ReadError {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            _ if error.is_forbidden() || error.is_unauthorized() => {
                Self::Forbidden(ErrorChain(error).to_string())
            }
            _ if error.is_not_found() => Self::NotServed(ErrorChain(error).to_string()),
            _ => Self::Unreachable(ErrorChain(error).to_string()),
        }
    }

    /// Returns the text of the server or of the connection error.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Forbidden(text) | Self::NotServed(text) | Self::Unreachable(text) => text,
        }
    }
}

/// The recorded state of a collection.
#[derive(Debug)]
struct ReadStatus {
    notifier: Arc<ChangeNotifier>,
    read_error: Mutex<Option<ReadError>>,
    /// Increases when a caller asks for a new watch.
    renewals: watch::Sender<u64>,
    /// The refresh interval.
    refresh_every: Option<Duration>,
    /// The time of the next refresh, which lists everything again.
    refresh_at: Mutex<Option<Instant>>,
    /// The time at which the server last confirmed the cache, in seconds since 1970; 0 before that.
    confirmed: watch::Sender<u64>,
    /// The time of the last update of `confirmed`.
    confirmed_at: Mutex<Option<Instant>>,
}

impl ReadStatus {
    /// Records the start of a full list.
    fn list_started(&self) {
        // Up to a fifth later, with fresh jitter each time: programs that were started together do
        // not list at the same time.
        let due = self.refresh_every.map(|it| from_now(scaled(it, 1.0 + random::unit() / 5.0)));
        *self.refresh_at.lock() = due;
    }

    /// Records the end of a list, an event or a bookmark: the cache is as new as the server's
    /// state.
    fn confirm(&self) {
        let now = Instant::now();
        let mut last = self.confirmed_at.lock();
        if last.is_none_or(|it| now - it >= CONFIRMED_EVERY) {
            *last = Some(now);
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.confirmed.send_replace(since.as_secs());
        }
    }

    fn failed(&self, error: &Error) {
        // The requested version has expired: the next request asks for another one.
        if !error.is_expired() {
            self.set_error(Some(ReadError::of(error)));
        }
    }

    fn succeeded(&self) {
        self.set_error(None);
    }

    fn set_error(&self, read_error: Option<ReadError>) {
        let changed = {
            let mut known = self.read_error.lock();
            let changed = *known != read_error;
            *known = read_error;
            changed
        };
        if changed {
            self.notifier.notify_all();
        }
    }

    async fn refresh_due(&self) {
        let due = *self.refresh_at.lock();
        match due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

/// A watched collection and its recorded state.
pub(crate) struct Collection<T: View> {
    informer: SharedInformer<T>,
    status: Arc<ReadStatus>,
    /// The time at which the watch was started.
    pub(crate) since: Instant,
}

/// The relation of a collection's objects to services.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServiceIndex<T> {
    /// Returns the name of the object's service, if it has one.
    pub(crate) service_of: fn(&T) -> Option<&str>,
    /// The label that contains it, if a service may have several objects.
    pub(crate) label: Option<&'static str>,
}

impl<T: View + fmt::Debug> Collection<T> {
    /// Starts reading, on the current runtime. Notifies the readers of a service when its objects
    /// change, and all readers when the first list is complete and when an error appears or
    /// disappears. Dropping the collection ends the reading.
    pub(crate) fn start(
        api: &Api<T>,
        index: ServiceIndex<T>,
        selectors: Selectors,
        refresh_every: Option<Duration>,
        notifier: &Arc<ChangeNotifier>,
    ) -> Self {
        let since = Instant::now();
        let status = Arc::new(ReadStatus {
            notifier: Arc::clone(notifier),
            read_error: Mutex::default(),
            renewals: watch::Sender::new(0),
            refresh_every,
            refresh_at: Mutex::default(),
            confirmed: watch::Sender::new(0),
            confirmed_at: Mutex::default(),
        });
        status.list_started();
        let name = format!("grpc/{}/{}", api.namespace().unwrap_or_default(), api.resource().plural);
        let mut builder: InformerBuilder<T> =
            SharedInformer::builder(ObservedListWatch { api: api.clone(), status: Arc::clone(&status) });
        builder = builder.name(name).reflector(|it| it.not_found(NotFound::KeepTrying).selectors(selectors));
        if let Some(label) = index.label {
            builder = builder.index(Index::label(label));
        }
        let informer = builder.build();
        let on_change = Arc::clone(notifier);
        let registration = informer.on_change(move |change| {
            if let Change::Updated { old, .. } = change {
                (index.service_of)(old).into_iter().for_each(|it| on_change.notify(it));
            }
            (index.service_of)(change.object()).into_iter().for_each(|it| on_change.notify(it));
        });
        informer.start();
        if let Ok(registration) = registration {
            let notifier = Arc::clone(notifier);
            // Ends with the informer at the latest.
            tokio::spawn(async move {
                if registration.synced().await.is_ok() {
                    notifier.notify_all();
                }
            });
        }
        Self { informer, status, since }
    }

    /// Returns the cache, once it has synced.
    pub(crate) fn store(&self) -> Option<Store<T>> {
        self.informer.is_synced().then(|| self.informer.store())
    }

    /// Returns the current error, if any. The cached objects stay available.
    pub(crate) fn read_error(&self) -> Option<ReadError> {
        self.status.read_error.lock().clone()
    }

    /// Returns the time at which the server last confirmed the cache, in seconds since 1970 and to
    /// within [`CONFIRMED_EVERY`]; 0 before that.
    pub(crate) fn confirmed(&self) -> watch::Receiver<u64> {
        self.status.confirmed.subscribe()
    }

    /// Asks the server for changes now, by a new watch from the last version.
    pub(crate) fn renew(&self) {
        self.status.renewals.send_modify(|it| *it += 1);
    }
}

impl<T: View> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection")
            .field("informer", &self.informer)
            .field("read_error", &*self.status.read_error.lock())
            .finish_non_exhaustive()
    }
}

/// A [`ListWatch`] that records the outcome of its requests.
struct ObservedListWatch<T> {
    api: Api<T>,
    status: Arc<ReadStatus>,
}

impl<T: DeserializeOwned + Send + 'static> ListWatch<T> for ObservedListWatch<T> {
    fn resource(&self) -> &ResourceType {
        Api::resource(&self.api)
    }

    fn namespace(&self) -> Option<&str> {
        Api::namespace(&self.api)
    }

    fn list(&self, params: ListParams) -> Lists<T> {
        let status = Arc::clone(&self.status);
        status.list_started();
        let listed = ListWatch::list(&self.api, params);
        Box::pin(listed.inspect(move |event| match event {
            Err(error) => status.failed(error),
            Ok(ListEvent::End { .. }) => {
                status.confirm();
                status.succeeded();
            }
            Ok(_) => {}
        }))
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<T>, Error>> {
        let status = Arc::clone(&self.status);
        let initial_list = params.send_initial_events == Some(true);
        if initial_list {
            status.list_started();
        }
        let opening = ListWatch::watch(&self.api, params);
        Box::pin(async move {
            match opening.await {
                Ok(events) => Ok(renewable(events, status)),
                Err(error) => {
                    // A rejected watch list is followed by a list, whose answer decides.
                    if !initial_list || error.status().is_none() || error.is_unauthorized() {
                        status.failed(&error);
                    }
                    Err(error)
                }
            }
        })
    }

    fn newest_version(
        &self,
        fields: dogwatch_core::FieldSelector,
    ) -> BoxFuture<'static, Result<Option<dogwatch_core::ResourceVersion>, Error>> {
        let status = Arc::clone(&self.status);
        let asked = ListWatch::newest_version(&self.api, fields);
        Box::pin(async move {
            let newest = asked.await;
            // While this fails, no watch is opened that could report the error.
            if let Err(error) = &newest {
                status.failed(error);
            }
            newest
        })
    }
}

struct ObservedWatch<T> {
    events: Watches<T>,
    status: Arc<ReadStatus>,
    renewals: watch::Receiver<u64>,
    opened: Instant,
    /// True once the watch counts as working.
    proven: bool,
}

impl<T> ObservedWatch<T> {
    fn prove(&mut self) {
        self.proven = true;
        self.status.succeeded();
    }

    /// Records an event, or the end, of the watch.
    fn observe(&mut self, event: Option<&Result<WatchEvent<T>, Error>>) {
        if matches!(event, Some(Ok(event)) if !matches!(event, WatchEvent::Error(_))) {
            self.status.confirm();
        }
        match event {
            _ if self.proven => {}
            Some(Ok(WatchEvent::Error(_))) => {}
            Some(Ok(_)) => self.prove(),
            Some(Err(error)) => self.status.failed(error),
            None => {
                let cut = "the API server, or a proxy in front of it, ends watches as soon as they are open";
                self.status.set_error(Some(ReadError::Unreachable(cut.to_owned())));
            }
        }
    }
}

/// Wraps the events of a watch so that it can be renewed: on request it ends, and the reflector
/// opens it again from the last version. When a refresh is due it ends as if its version had
/// expired, and the reflector lists again.
fn renewable<T: Send + 'static>(events: Watches<T>, status: Arc<ReadStatus>) -> Watches<T> {
    let renewals = status.renewals.subscribe();
    let observed = ObservedWatch { events, status, renewals, opened: Instant::now(), proven: false };
    let events = stream::unfold(Some(observed), |observed| async move {
        let mut it = observed?;
        loop {
            tokio::select! {
                biased;
                event = it.events.next() => {
                    it.observe(event.as_ref());
                    return event.map(|event| (event, Some(it)));
                }
                () = tokio::time::sleep_until(it.opened + PROVEN_AFTER), if !it.proven => it.prove(),
                () = it.status.refresh_due() => {
                    let status = Status::failure(Reason::Expired, "the periodic refresh is due");
                    return Some((Ok(WatchEvent::Error(status)), None));
                }
                Ok(()) = it.renewals.changed() => {
                    if it.opened.elapsed() >= RECENT {
                        return None;
                    }
                }
            }
        }
    });
    // Fused: an `unfold` panics if it is polled after its end.
    Box::pin(events.fuse())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn status(refresh_every: Duration) -> ReadStatus {
        ReadStatus {
            notifier: Arc::default(),
            read_error: Mutex::default(),
            renewals: watch::Sender::new(0),
            refresh_every: Some(refresh_every),
            refresh_at: Mutex::default(),
            confirmed: watch::Sender::new(0),
            confirmed_at: Mutex::default(),
        }
    }

    /// Programs that were started together drift apart.
    #[tokio::test(start_paused = true)]
    async fn refreshes_are_due_up_to_a_fifth_later_than_requested() {
        let period = Duration::from_secs(100);
        let status = status(period);
        let due = || {
            status.list_started();
            status.refresh_at.lock().expect("a refresh is scheduled") - Instant::now()
        };
        let all: Vec<_> = (0..50).map(|_| due()).collect();
        assert!(all.iter().all(|it| (period..=period.mul_f64(1.2)).contains(it)), "{all:?}");
        assert!(all.iter().any(|it| it.abs_diff(all[0]) > Duration::from_secs(2)), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_infinite_refresh_period_does_not_panic() {
        let status = status(Duration::MAX);
        status.list_started();
        let due = tokio::time::timeout(Duration::from_secs(3_600), status.refresh_due());
        assert!(due.await.is_err(), "the refresh is due within an hour");
    }

    #[test]
    fn errors_are_classified_by_the_reaction_to_them() {
        let refused = |reason| Error::from(Status::failure(reason, "no"));
        let gone = std::io::Error::from(ErrorKind::ConnectionRefused);
        let lost = Error::Unreachable { server: "https://a".to_owned(), source: gone.into() };
        let read_error = |error: &Error| match ReadError::of(error) {
            ReadError::Forbidden(text) => format!("forbidden {text}"),
            ReadError::NotServed(text) => format!("not served {text}"),
            ReadError::Unreachable(text) => format!("unreachable {text}"),
        };
        assert_eq!(read_error(&refused(Reason::Forbidden)), "forbidden no (Forbidden)");
        assert_eq!(read_error(&refused(Reason::Unauthorized)), "forbidden no (Unauthorized)");
        assert_eq!(read_error(&refused(Reason::NotFound)), "not served no (NotFound)");
        assert_eq!(read_error(&refused(Reason::InternalError)), "unreachable no (InternalError)");
        assert_eq!(
            read_error(&lost),
            "unreachable cannot reach the API server at https://a: connection refused"
        );
    }
}

//! One collection of one namespace: an informer, and what keeps it from being read, sorted by what is done about it.
//!
//! It stands between the reflector and the server only to take notes, and to end a watch when somebody wants to know now or when it is
//! time to read everything again. What the objects mean is not known here.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dogwatch_client::{Api, Error};
use dogwatch_core::{
    FieldSelector, LabelSelector, ListParams, Reason, ResourceType, Status, View, WatchParams,
};
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

use crate::bells::Bells;
use crate::chance;
use crate::time::{from_now, scaled};

/// A watch that is younger than this is as good as a new one.
const YOUNG: Duration = Duration::from_secs(5);

/// A watch that is open for so long is one, even if nothing came of it yet. One that is cut at once is a server in trouble.
const PROVEN: Duration = Duration::from_secs(1);

/// Readers of the time of the last confirmation are woken at most this often: a busy namespace confirms many times a second.
const CONFIRMED_EVERY: Duration = Duration::from_secs(10);

/// Why a collection cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// We are not allowed to, or not known.
    Forbidden(String),
    /// The server has no such collection.
    NotServed(String),
    /// No answer, or none that helps.
    Unreachable(String),
}

impl Trouble {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            _ if error.is_forbidden() || error.is_unauthorized() => Self::Forbidden(told(error)),
            _ if error.is_not_found() => Self::NotServed(told(error)),
            _ => Self::Unreachable(told(error)),
        }
    }

    /// What the server, or the connection, said.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Forbidden(text) | Self::NotServed(text) | Self::Unreachable(text) => text,
        }
    }
}

/// An error and its causes in one line; what was said already is not said again.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(it) = cause {
        let said = it.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = it.source();
    }
    text
}

/// What is noted of a collection while it is read.
#[derive(Debug)]
struct Notes {
    bells: Arc<Bells>,
    trouble: Mutex<Option<Trouble>>,
    /// Goes up when somebody wants the watch to begin anew.
    renewals: watch::Sender<u64>,
    /// How often everything is read again.
    refresh_every: Option<Duration>,
    /// When everything is to be read again.
    refresh_at: Mutex<Option<Instant>>,
    /// When the server last sent something that confirms the copy, in seconds since 1970; 0 before that.
    confirmed: watch::Sender<u64>,
    /// When that was last noted.
    confirmed_at: Mutex<Option<Instant>>,
}

impl Notes {
    /// Reading everything begins.
    fn reads_all(&self) {
        // Up to a fifth later, another time each: a fleet that was started together does not list together.
        let due = self.refresh_every.map(|it| from_now(scaled(it, 1.0 + chance::unit() / 5.0)));
        *self.refresh_at.lock() = due;
    }

    /// The server sent the end of a list, an event or a bookmark: what is known is what it has.
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
        // The version that was asked for is gone: the next request asks for another.
        if !error.is_expired() {
            self.note(Some(Trouble::of(error)));
        }
    }

    fn went_well(&self) {
        self.note(None);
    }

    fn note(&self, trouble: Option<Trouble>) {
        let changed = {
            let mut known = self.trouble.lock();
            let changed = *known != trouble;
            *known = trouble;
            changed
        };
        if changed {
            self.bells.ring_all();
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

/// A collection and the notes on it.
pub(crate) struct Collection<T: View> {
    informer: SharedInformer<T>,
    notes: Arc<Notes>,
    /// When it was first asked for.
    pub(crate) since: Instant,
}

/// How the objects of a collection are found: by the service they belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Belongs<T> {
    /// The name of the service, where there is one.
    pub(crate) to: fn(&T) -> Option<&str>,
    /// The label that has it, where there may be several objects of one service.
    pub(crate) by_label: Option<&'static str>,
}

/// The objects of a collection that are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl<T: View + fmt::Debug> Collection<T> {
    /// Begins to read, on the runtime this is called on. Bells ring when objects of their service change, and all of them when
    /// everything has been read for the first time and when trouble comes or goes. Dropping it ends the reading.
    pub(crate) fn start(
        api: &Api<T>,
        belongs: Belongs<T>,
        selection: Selection,
        refresh_every: Option<Duration>,
        bells: &Arc<Bells>,
    ) -> Self {
        let since = Instant::now();
        let notes = Arc::new(Notes {
            bells: Arc::clone(bells),
            trouble: Mutex::default(),
            renewals: watch::Sender::new(0),
            refresh_every,
            refresh_at: Mutex::default(),
            confirmed: watch::Sender::new(0),
            confirmed_at: Mutex::default(),
        });
        notes.reads_all();
        let name = format!("grpc/{}/{}", api.namespace().unwrap_or_default(), api.resource().plural);
        let mut builder: InformerBuilder<T> =
            SharedInformer::builder(Noted { api: api.clone(), notes: Arc::clone(&notes) });
        builder = builder.name(name).reflector(|it| it.not_found(NotFound::KeepTrying));
        builder = builder.labels(selection.labels).fields(selection.fields);
        if let Some(label) = belongs.by_label {
            builder = builder.index(Index::label(label));
        }
        let informer = builder.build();
        let ringing = Arc::clone(bells);
        let registration = informer.on_change(move |change| {
            if let Change::Updated { old, .. } = change {
                (belongs.to)(old).into_iter().for_each(|it| ringing.ring(it));
            }
            (belongs.to)(change.object()).into_iter().for_each(|it| ringing.ring(it));
        });
        informer.start();
        if let Ok(registration) = registration {
            let ringing = Arc::clone(bells);
            // It ends with the informer at the latest.
            tokio::spawn(async move {
                if registration.synced().await.is_ok() {
                    ringing.ring_all();
                }
            });
        }
        Self { informer, notes, since }
    }

    /// What was read, once everything has been.
    pub(crate) fn store(&self) -> Option<Store<T>> {
        self.informer.is_synced().then(|| self.informer.store())
    }

    /// What keeps it from being read, now. What was read before is still there.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.notes.trouble.lock().clone()
    }

    /// When the server last confirmed what was read, in seconds since 1970 and to within [`CONFIRMED_EVERY`]; 0 before that.
    pub(crate) fn confirmed(&self) -> watch::Receiver<u64> {
        self.notes.confirmed.subscribe()
    }

    /// Asks the server now whether there is something new, by a new watch from where the last one was.
    pub(crate) fn renew(&self) {
        self.notes.renewals.send_modify(|it| *it += 1);
    }
}

impl<T: View> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection")
            .field("informer", &self.informer)
            .field("trouble", &*self.notes.trouble.lock())
            .finish_non_exhaustive()
    }
}

/// A collection on the server, with notes taken of how its requests go.
struct Noted<T> {
    api: Api<T>,
    notes: Arc<Notes>,
}

impl<T: DeserializeOwned + Send + 'static> ListWatch<T> for Noted<T> {
    fn resource(&self) -> &ResourceType {
        Api::resource(&self.api)
    }

    fn namespace(&self) -> Option<&str> {
        Api::namespace(&self.api)
    }

    fn list(&self, params: ListParams) -> Lists<T> {
        let notes = Arc::clone(&self.notes);
        notes.reads_all();
        let listed = ListWatch::list(&self.api, params);
        Box::pin(listed.inspect(move |event| match event {
            Err(error) => notes.failed(error),
            Ok(ListEvent::End { .. }) => {
                notes.confirm();
                notes.went_well();
            }
            Ok(_) => {}
        }))
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<T>, Error>> {
        let notes = Arc::clone(&self.notes);
        let reads_all = params.send_initial_events == Some(true);
        if reads_all {
            notes.reads_all();
        }
        let opening = ListWatch::watch(&self.api, params);
        Box::pin(async move {
            match opening.await {
                Ok(events) => Ok(renewable(events, notes)),
                Err(error) => {
                    // One that is refused is followed by a list, whose answer is the one that counts.
                    if !reads_all || error.status().is_none() || error.is_unauthorized() {
                        notes.failed(&error);
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
        let notes = Arc::clone(&self.notes);
        let asked = ListWatch::newest_version(&self.api, fields);
        Box::pin(async move {
            let newest = asked.await;
            // While this fails, no watch is opened that could say so.
            if let Err(error) = &newest {
                notes.failed(error);
            }
            newest
        })
    }
}

struct Following<T> {
    events: Watches<T>,
    notes: Arc<Notes>,
    renewals: watch::Receiver<u64>,
    opened: Instant,
    /// Whether it is known to be good.
    proven: bool,
}

impl<T> Following<T> {
    fn prove(&mut self) {
        self.proven = true;
        self.notes.went_well();
    }

    /// Takes note of what came of the watch.
    fn came(&mut self, event: Option<&Result<WatchEvent<T>, Error>>) {
        if matches!(event, Some(Ok(event)) if !matches!(event, WatchEvent::Error(_))) {
            self.notes.confirm();
        }
        match event {
            _ if self.proven => {}
            Some(Ok(WatchEvent::Error(_))) => {}
            Some(Ok(_)) => self.prove(),
            Some(Err(error)) => self.notes.failed(error),
            None => {
                let cut = "the API server, or something before it, ends watches as soon as they are open";
                self.notes.note(Some(Trouble::Unreachable(cut.to_owned())));
            }
        }
    }
}

/// The events of a watch, until somebody wants a new one: then it just ends, and is opened again from the last version. When it is time
/// to read everything again it ends as if its version were too old.
fn renewable<T: Send + 'static>(events: Watches<T>, notes: Arc<Notes>) -> Watches<T> {
    let renewals = notes.renewals.subscribe();
    let following = Following { events, notes, renewals, opened: Instant::now(), proven: false };
    Box::pin(stream::unfold(Some(following), |following| async move {
        let mut it = following?;
        loop {
            tokio::select! {
                biased;
                event = it.events.next() => {
                    it.came(event.as_ref());
                    return event.map(|event| (event, Some(it)));
                }
                () = tokio::time::sleep_until(it.opened + PROVEN), if !it.proven => it.prove(),
                () = it.notes.refresh_due() => {
                    let status = Status::failure(Reason::Expired, "it is time to read everything again");
                    return Some((Ok(WatchEvent::Error(status)), None));
                }
                Ok(()) = it.renewals.changed() => {
                    if it.opened.elapsed() >= YOUNG {
                        return None;
                    }
                }
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn notes(refresh_every: Duration) -> Notes {
        Notes {
            bells: Arc::default(),
            trouble: Mutex::default(),
            renewals: watch::Sender::new(0),
            refresh_every: Some(refresh_every),
            refresh_at: Mutex::default(),
            confirmed: watch::Sender::new(0),
            confirmed_at: Mutex::default(),
        }
    }

    /// Programs that were started together drift apart.
    #[tokio::test(start_paused = true)]
    async fn refreshes_are_due_up_to_a_fifth_later_than_asked_for() {
        let period = Duration::from_secs(100);
        let notes = notes(period);
        let due = || {
            notes.reads_all();
            notes.refresh_at.lock().expect("it is due at some time") - Instant::now()
        };
        let all: Vec<_> = (0..50).map(|_| due()).collect();
        assert!(all.iter().all(|it| (period..=period.mul_f64(1.2)).contains(it)), "{all:?}");
        assert!(all.iter().any(|it| it.abs_diff(all[0]) > Duration::from_secs(2)), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_period_without_end_is_no_panic() {
        let notes = notes(Duration::MAX);
        notes.reads_all();
        let due = tokio::time::timeout(Duration::from_secs(3_600), notes.refresh_due());
        assert!(due.await.is_err(), "it is not due within an hour");
    }

    #[test]
    fn failures_are_sorted_by_what_is_done_about_them() {
        let refused = |reason| Error::from(Status::failure(reason, "no"));
        let gone = std::io::Error::from(ErrorKind::ConnectionRefused);
        let lost = Error::Unreachable { server: "https://a".to_owned(), source: gone.into() };
        let trouble = |error: &Error| match Trouble::of(error) {
            Trouble::Forbidden(text) => format!("forbidden {text}"),
            Trouble::NotServed(text) => format!("not served {text}"),
            Trouble::Unreachable(text) => format!("unreachable {text}"),
        };
        assert_eq!(trouble(&refused(Reason::Forbidden)), "forbidden no (Forbidden)");
        assert_eq!(trouble(&refused(Reason::Unauthorized)), "forbidden no (Unauthorized)");
        assert_eq!(trouble(&refused(Reason::NotFound)), "not served no (NotFound)");
        assert_eq!(trouble(&refused(Reason::InternalError)), "unreachable no (InternalError)");
        assert_eq!(
            trouble(&lost),
            "unreachable cannot reach the API server at https://a: connection refused"
        );
    }
}

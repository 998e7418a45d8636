//! A collection that a test changes while an informer follows it: lists return its contents, and
//! watches send its changes.

use std::sync::{Arc, Mutex};

use dogwatch_client::Error;
use dogwatch_core::{
    Cause, Details, FieldSelector, ListParams, Object, Reason, ResourceType, ResourceVersion, Status,
    WatchParams,
};
use dogwatch_informer::{Change, Deleted, ListEvent, ListWatch, Lists, Watches};
use dogwatch_wire::{Bookmark, WatchEvent};
use futures_core::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::mpsc;

use crate::script::{Thing, thing, things};

type Event = Result<WatchEvent<Thing>, Error>;

/// A collection that the test controls.
#[derive(Clone, Debug)]
pub(crate) struct Live(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    resource: ResourceType,
    namespace: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The contents, as texts such as `a@5`.
    items: Vec<String>,
    version: u64,
    /// The status with which requests are rejected, if they are.
    refusal: Option<Status>,
    /// The history by version, so that a watch receives the events after its version.
    log: Vec<(u64, Recorded)>,
    watches: Vec<mpsc::UnboundedSender<Event>>,
    lists: usize,
    /// The requested versions of lists.
    listed_at: Vec<String>,
    /// The number of requests for the newest version.
    compared: usize,
}

/// An event of the history.
#[derive(Clone, Debug)]
enum Recorded {
    Added(String),
    Modified(String),
    Deleted(String),
}

impl Live {
    /// Creates a collection with these things; its version is the highest of theirs.
    pub(crate) fn new(items: &[&str]) -> Self {
        Self::within(None, items)
    }

    /// Creates one namespace of a collection.
    pub(crate) fn within(namespace: Option<&str>, items: &[&str]) -> Self {
        let mut resource = things();
        if namespace.is_some() {
            resource.scope = dogwatch_core::Scope::Namespaced;
        }
        let live = Self(Arc::new(Inner {
            resource,
            namespace: namespace.map(str::to_owned),
            state: Mutex::new(State {
                items: Vec::new(),
                version: 1,
                refusal: None,
                log: Vec::new(),
                watches: Vec::new(),
                lists: 0,
                listed_at: Vec::new(),
                compared: 0,
            }),
        }));
        live.set(items);
        live
    }

    /// Creates a collection of a custom resource.
    pub(crate) fn defined(items: &[&str]) -> Self {
        let mut live = Self::within(None, items);
        let inner = Arc::get_mut(&mut live.0).expect("no other handle exists yet");
        inner.resource.gvk.group = "example.org".into();
        live
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    fn thing(&self, text: &str) -> Thing {
        let mut thing = thing(text);
        if let Some(namespace) = &self.0.namespace {
            thing.metadata.namespace = namespace.as_str().into();
        }
        thing
    }

    /// Replaces the contents without sending events.
    pub(crate) fn set(&self, items: &[&str]) {
        let mut state = self.state();
        state.items = items.iter().map(|it| (*it).to_owned()).collect();
        let newest = items.iter().filter_map(|it| version(it)).max();
        state.version = state.version.max(newest.unwrap_or(0));
    }

    /// Creates or changes a thing, and sends the event.
    pub(crate) fn put(&self, text: &str) {
        let mut state = self.state();
        let known = state.items.iter().position(|it| name(it) == name(text));
        state.version = state.version.max(version(text).unwrap_or(0));
        match known {
            Some(at) => {
                state.items[at] = text.to_owned();
                self.publish(&mut state, Recorded::Modified(text.to_owned()));
            }
            None => {
                state.items.push(text.to_owned());
                self.publish(&mut state, Recorded::Added(text.to_owned()));
            }
        }
    }

    /// Deletes a thing, and sends the event with this last state.
    pub(crate) fn delete(&self, text: &str) {
        let mut state = self.state();
        state.items.retain(|it| name(it) != name(text));
        state.version = state.version.max(version(text).unwrap_or(0));
        self.publish(&mut state, Recorded::Deleted(text.to_owned()));
    }

    fn publish(&self, state: &mut State, what: Recorded) {
        let version = state.version;
        state.send(|| self.event(&what));
        state.log.push((version, what));
    }

    fn event(&self, what: &Recorded) -> Event {
        Ok(match what {
            Recorded::Added(text) => WatchEvent::Added(self.thing(text)),
            Recorded::Modified(text) => WatchEvent::Modified(self.thing(text)),
            Recorded::Deleted(text) => WatchEvent::Deleted(self.thing(text)),
        })
    }

    pub(crate) fn bookmark(&self, version: u64) {
        let mut state = self.state();
        state.version = version;
        let version = ResourceVersion::from(version.to_string());
        state.send(|| Ok(WatchEvent::Bookmark(Bookmark { version: version.clone(), ..Bookmark::default() })));
    }

    /// Ends the watches with an expired version: clients have to list again.
    pub(crate) fn expire(&self) {
        let mut state = self.state();
        state.send(|| Ok(WatchEvent::Error(Status::failure(Reason::Expired, "too old"))));
        state.watches.clear();
    }

    /// Rejects every request from now on, and ends the watches; `None` ends this.
    pub(crate) fn refuse(&self, reason: Option<Reason>) {
        self.refuse_by(reason.map(|it| Status::failure(it, "Access Denied")));
    }

    /// Answers 404 without a `Status`, as a proxy does; this is the status that the client makes of
    /// it.
    pub(crate) fn answer_with_a_page(&self) {
        let cause = Cause { reason: "UnexpectedServerResponse".to_owned(), ..Cause::default() };
        let details = Some(Details { causes: vec![cause], ..Details::default() });
        self.refuse_by(Some(Status { details, ..Status::failure(Reason::NotFound, "404 page not found") }));
    }

    fn refuse_by(&self, refusal: Option<Status>) {
        let mut state = self.state();
        state.refusal = refusal;
        if state.refusal.is_some() {
            state.send(|| Ok(WatchEvent::Error(Status::failure(Reason::Expired, "too old"))));
            state.watches.clear();
        }
    }

    /// Breaks the connections; the contents stay.
    pub(crate) fn cut(&self) {
        let mut state = self.state();
        state.send(|| Err(crate::script::unreachable(std::io::ErrorKind::ConnectionReset)));
        state.watches.clear();
    }

    /// Goes back to an older state, without ending the watches.
    pub(crate) fn reset_to(&self, items: &[&str]) {
        let mut state = self.state();
        (state.version, state.items) = (1, Vec::new());
        state.log.clear();
        drop(state);
        self.set(items);
    }

    /// Returns the number of requests for the newest version.
    pub(crate) fn compared(&self) -> usize {
        self.state().compared
    }

    /// Returns the requested versions of lists so far.
    pub(crate) fn listed_at(&self) -> Vec<String> {
        self.state().listed_at.clone()
    }

    /// Returns the number of open watches.
    pub(crate) fn watches(&self) -> usize {
        self.state().watches.iter().filter(|it| !it.is_closed()).count()
    }

    /// Returns the number of lists.
    pub(crate) fn lists(&self) -> usize {
        self.state().lists
    }
}

impl State {
    fn send(&mut self, event: impl Fn() -> Event) {
        self.watches.retain(|it| it.send(event()).is_ok());
    }
}

fn name(text: &str) -> &str {
    text.split_once('@').expect("name@version").0
}

fn version(text: &str) -> Option<u64> {
    text.split_once('@')?.1.parse().ok()
}

impl ListWatch<Thing> for Live {
    fn resource(&self) -> &ResourceType {
        &self.0.resource
    }

    fn namespace(&self) -> Option<&str> {
        self.0.namespace.as_deref()
    }

    fn list(&self, params: ListParams) -> Lists<Thing> {
        let mut state = self.state();
        state.lists += 1;
        state.listed_at.push(params.version.to_string());
        if let Some(refused) = state.refusal.clone() {
            return stream::iter([Err(refused.into())]).boxed();
        }
        let mut events: Vec<_> = state.items.iter().map(|it| Ok(ListEvent::Item(self.thing(it)))).collect();
        events.push(Ok(ListEvent::End { version: state.version.to_string().into(), paginated: false }));
        stream::iter(events).boxed()
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<Thing>, Error>> {
        let mut state = self.state();
        if let Some(refused) = state.refusal.clone() {
            return async move { Err(refused.into()) }.boxed();
        }
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let from: u64 = params.version.as_str().parse().expect("a version to watch from");
        for (_, what) in state.log.iter().filter(|(version, _)| *version > from) {
            sender.send(self.event(what)).expect("the receiver is here");
        }
        state.watches.push(sender);
        let events = stream::poll_fn(move |cx| receiver.poll_recv(cx)).boxed();
        async move { Ok(events) }.boxed()
    }

    fn lacks_initial_events(&self) -> bool {
        true
    }

    fn newest_version(&self, _: FieldSelector) -> BoxFuture<'static, Result<Option<ResourceVersion>, Error>> {
        let mut state = self.state();
        state.compared += 1;
        let answer = match state.refusal.clone() {
            Some(refused) => Err(refused.into()),
            None => Ok(Some(state.version.to_string().into())),
        };
        async move { answer }.boxed()
    }
}

/// Formats a change as a short text: `+a@1` an addition, `!a@1` an initial one, `a@1>2` an update,
/// `-a@2` a deletion, `~a@2` a missed one.
pub(crate) fn text(change: &Change<Thing>) -> String {
    let at = |it: &Arc<Thing>| match it.header().namespace {
        Some(namespace) => format!("{namespace}/{}@{}", it.metadata.name, it.metadata.resource_version),
        None => format!("{}@{}", it.metadata.name, it.metadata.resource_version),
    };
    match change {
        Change::Added { object, initial: true } => format!("!{}", at(object)),
        Change::Added { object, .. } => format!("+{}", at(object)),
        Change::Updated { old, new } => format!("{}>{}", at(old), new.metadata.resource_version),
        Change::Deleted(Deleted::Seen(last)) => format!("-{}", at(last)),
        Change::Deleted(Deleted::Missed(last)) => format!("~{}", at(last)),
        _ => panic!("unknown change: {change:?}"),
    }
}

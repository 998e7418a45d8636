//! A scripted collection: the source of a reflector under test, on a paused clock.
//!
//! Things, deltas and requests are written as short texts, so that a test reads like a protocol:
//! `a@5` is the thing `a` at version 5, `applied a@5` a delta, `watch 5` a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::{
    Gvk, Header, ListParams, Meta, Object, Reason, ResourceType, ResourceVersion, Scope, Status, WatchParams,
};
use dogwatch_informer::{
    BackoffOptions, Delta, DeltaQueue, DeltaReceiver, Health, HealthWatch, ListEvent, ListWatch, Lists,
    Reflector, ReflectorEnded, ReflectorOptions, Watches,
};
use dogwatch_wire::{Bookmark, EventKind, UndecodableItem, WatchEvent};
use futures_core::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// An object with nothing but a key and a version. It is not `Clone`, as reflectors do not need to
/// clone.
#[derive(Debug, PartialEq)]
pub(crate) struct Thing {
    pub(crate) metadata: Meta,
}

impl Object for Thing {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

/// Parses a thing such as `a@5`.
pub(crate) fn thing(text: &str) -> Thing {
    let (name, version) = text.split_once('@').expect("name@version");
    let mut metadata = Meta::default();
    metadata.name = name.into();
    metadata.resource_version = version.into();
    Thing { metadata }
}

pub(crate) fn things() -> ResourceType {
    ResourceType { gvk: Gvk::new("", "v1", "Thing"), plural: "things".into(), scope: Scope::Cluster }
}

/// Formats a delta as a short text.
pub(crate) fn shown(delta: &Delta<Thing>) -> String {
    let text = |it: &Thing| format!("{}@{}", it.metadata.name, it.metadata.resource_version);
    match delta {
        Delta::Begin => "begin".to_owned(),
        Delta::Item(it) => format!("item {}", text(it)),
        Delta::Dropped(key) => format!("dropped {key}"),
        Delta::End { version, undecodable } if undecodable.is_empty() => format!("end {version}"),
        Delta::End { version, undecodable } => {
            let keys: Vec<_> = undecodable.iter().map(|(key, _)| key.as_str()).collect();
            format!("end {version} but for {}", keys.join(","))
        }
        Delta::Abort => "abort".to_owned(),
        Delta::Applied(it) => format!("applied {}", text(it)),
        Delta::Deleted(it) => format!("deleted {}", text(it)),
        Delta::Bookmark(version) => format!("bookmark {version}"),
        Delta::Rewound => "rewound".to_owned(),
        Delta::Resync => "resync".to_owned(),
        Delta::Undecodable { key, version } => format!("undecodable {key}@{version}"),
        Delta::Nameless => "nameless".to_owned(),
        _ => panic!("unknown delta: {delta:?}"),
    }
}

/// One step of an answer.
#[derive(Debug)]
pub(crate) enum Step {
    Listed(ListEvent<Thing>),
    Event(WatchEvent<Thing>),
    Fails(Error),
    /// Nothing happens for this long.
    Pause(Duration),
    /// The answer ends; without this, it stays open and silent.
    Close,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A list, or the events of a watch.
    Steps(Vec<Step>),
    /// The watch is rejected.
    Refused(Error),
    /// No answer, ever.
    Silence,
}

/// A received request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) text: String,
    pub(crate) watch: Option<WatchParams>,
}

/// A scripted collection: answers requests in order, and is silent when it has no answer left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    resource: &'static ResourceType,
    lacks_initial_events: bool,
    answers: VecDeque<Answer>,
    requests: Vec<Request>,
    open: usize,
}

impl Default for Inner {
    fn default() -> Self {
        static THINGS: std::sync::LazyLock<ResourceType> = std::sync::LazyLock::new(things);
        Self {
            resource: &THINGS,
            lacks_initial_events: false,
            answers: VecDeque::new(),
            requests: Vec::new(),
            open: 0,
        }
    }
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Self::default();
        script.0.lock().expect("not poisoned").answers.extend(answers);
        script
    }

    pub(crate) fn lacking_initial_events(self) -> Self {
        self.0.lock().expect("not poisoned").lacks_initial_events = true;
        self
    }

    /// Returns the requests so far, as short texts.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").requests.iter().map(|it| it.text.clone()).collect()
    }

    /// Returns the times of the requests, in milliseconds since the first one.
    pub(crate) fn times(&self) -> Vec<u128> {
        let inner = self.0.lock().expect("not poisoned");
        let first = inner.requests.first().map(|it| it.at);
        inner.requests.iter().map(|it| first.map_or(0, |first| (it.at - first).as_millis())).collect()
    }

    /// Returns the parameters of all watches so far.
    pub(crate) fn watches(&self) -> Vec<WatchParams> {
        let inner = self.0.lock().expect("not poisoned");
        inner.requests.iter().filter_map(|it| it.watch.clone()).collect()
    }

    /// Returns the number of answers that are still being read.
    pub(crate) fn open(&self) -> usize {
        self.0.lock().expect("not poisoned").open
    }

    fn answer(&self, text: String, watch: Option<WatchParams>) -> Answer {
        let mut inner = self.0.lock().expect("not poisoned");
        inner.requests.push(Request { at: Instant::now(), text, watch });
        inner.answers.pop_front().unwrap_or(Answer::Silence)
    }

    fn hold(&self) -> Held {
        self.0.lock().expect("not poisoned").open += 1;
        Held(self.clone())
    }
}

/// Counts an answer as open until it is dropped.
struct Held(Script);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.lock().expect("not poisoned").open -= 1;
    }
}

/// Plays the steps one after another; an answer without a `Close` never ends.
fn played<E: Send + 'static>(
    held: Held,
    steps: Vec<Step>,
    take: fn(Step) -> E,
) -> futures_core::stream::BoxStream<'static, Result<E, Error>> {
    let steps = VecDeque::from(steps);
    let stream = futures_util::stream::unfold((held, steps, take), async |(held, mut steps, take)| {
        loop {
            match steps.pop_front() {
                Some(Step::Pause(pause)) => tokio::time::sleep(pause).await,
                Some(Step::Close) => return None,
                Some(Step::Fails(error)) => return Some((Err(error), (held, steps, take))),
                Some(step) => return Some((Ok(take(step)), (held, steps, take))),
                None => std::future::pending().await,
            }
        }
    });
    stream.boxed()
}

impl ListWatch<Thing> for Script {
    fn resource(&self) -> &ResourceType {
        self.0.lock().expect("not poisoned").resource
    }

    fn list(&self, params: ListParams) -> Lists<Thing> {
        let limit = params.limit.map(|it| format!(" limit {it}")).unwrap_or_default();
        let answer = self.answer(format!("list {:?}{limit}", params.version), None);
        let steps = match answer {
            Answer::Steps(steps) => steps,
            Answer::Refused(error) => vec![Step::Fails(error)],
            Answer::Silence => Vec::new(),
        };
        played(self.hold(), steps, |step| match step {
            Step::Listed(event) => event,
            other => panic!("not a step of a list: {other:?}"),
        })
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<Thing>, Error>> {
        let initial = if params.send_initial_events == Some(true) { "initial" } else { "watch" };
        let answer = self.answer(format!("{initial} {:?}", params.version), Some(params));
        let held = self.hold();
        Box::pin(async move {
            match answer {
                Answer::Steps(steps) => Ok(played(held, steps, |step| match step {
                    Step::Event(event) => event,
                    other => panic!("not a step of a watch: {other:?}"),
                })),
                Answer::Refused(error) => Err(error),
                Answer::Silence => std::future::pending().await,
            }
        })
    }

    fn lacks_initial_events(&self) -> bool {
        self.0.lock().expect("not poisoned").lacks_initial_events
    }
}

/// Returns a complete list in one page.
pub(crate) fn list(items: &[&str], version: &str) -> Answer {
    pages(items, version, false)
}

/// Returns a complete list, in one page or in several.
pub(crate) fn pages(items: &[&str], version: &str, paginated: bool) -> Answer {
    let mut steps: Vec<_> = items.iter().map(|it| Step::Listed(ListEvent::Item(thing(it)))).collect();
    steps.push(Step::Listed(ListEvent::End { version: version.into(), paginated }));
    Answer::Steps(steps)
}

/// Returns a watch that sends these events and stays open.
pub(crate) fn watch(events: Vec<Step>) -> Answer {
    Answer::Steps(events)
}

/// Returns a watch that sends these events and ends.
pub(crate) fn watch_closed(mut events: Vec<Step>) -> Answer {
    events.push(Step::Close);
    Answer::Steps(events)
}

pub(crate) fn added(text: &str) -> Step {
    Step::Event(WatchEvent::Added(thing(text)))
}

pub(crate) fn modified(text: &str) -> Step {
    Step::Event(WatchEvent::Modified(thing(text)))
}

pub(crate) fn deleted(text: &str) -> Step {
    Step::Event(WatchEvent::Deleted(thing(text)))
}

pub(crate) fn bookmark(version: &str) -> Step {
    Step::Event(WatchEvent::Bookmark(Bookmark { version: version.into(), ..Bookmark::default() }))
}

/// Returns the bookmark that ends initial events.
pub(crate) fn end(version: &str) -> Step {
    annotated(version, "true")
}

/// Returns a bookmark with the initial-events-end annotation.
pub(crate) fn annotated(version: &str, value: &str) -> Step {
    let annotations = [("k8s.io/initial-events-end".to_owned(), value.to_owned())].into();
    Step::Event(WatchEvent::Bookmark(Bookmark { version: version.into(), annotations }))
}

/// Returns an `ERROR` event.
pub(crate) fn error(reason: Reason) -> Step {
    Step::Event(WatchEvent::Error(Status::failure(reason, "no")))
}

/// Returns an undecodable object of a watch, or of a list if `event` is `None`.
pub(crate) fn bad(text: &str, event: Option<EventKind>) -> UndecodableItem {
    let (name, version) = text.split_once('@').expect("name@version");
    let key = (!name.is_empty()).then(|| name.parse().expect("a key"));
    let version = ResourceVersion::new(version);
    UndecodableItem { key, version, event, path: "spec.size".to_owned(), reason: "not a number".to_owned() }
}

pub(crate) fn refused(reason: Reason) -> Error {
    Status::failure(reason, "no").into()
}

pub(crate) fn unreachable(kind: std::io::ErrorKind) -> Error {
    Error::Unreachable { server: "https://server.test".to_owned(), source: std::io::Error::from(kind).into() }
}

/// Returns options without jitter.
pub(crate) fn options() -> ReflectorOptions<Thing> {
    ReflectorOptions::default().backoff(BackoffOptions::default().jitter(0.0))
}

/// A running reflector with a scripted source, and its output.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) script: Script,
    pub(crate) task: JoinHandle<ReflectorEnded>,
    receiver: DeltaReceiver<Thing>,
    health: HealthWatch,
}

impl Run {
    pub(crate) fn start(script: Script, options: ReflectorOptions<Thing>) -> Self {
        let (sender, receiver) = DeltaQueue::channel(DeltaQueue::CAPACITY);
        let reflector = Reflector::new(Arc::new(script.clone()), options, sender);
        let health = reflector.health();
        Self { script, task: tokio::spawn(reflector.run()), receiver, health }
    }

    /// Returns the deltas until nothing more happens for now, and in the given time from then on.
    pub(crate) async fn after(&mut self, time: Duration) -> Vec<String> {
        // The clock is paused: it advances only when all tasks are idle.
        tokio::time::sleep(time + Duration::from_nanos(1)).await;
        let mut batch = Vec::new();
        while self.receiver.recv_batch(&mut batch, 1000).now_or_never() == Some(true) {}
        batch.iter().map(shown).collect()
    }

    pub(crate) async fn now(&mut self) -> Vec<String> {
        self.after(Duration::ZERO).await
    }

    pub(crate) fn health(&self) -> Health {
        self.health.get()
    }

    /// Drops the receiver, and returns how the reflector ended.
    pub(crate) async fn stop_reading(self) -> ReflectorEnded {
        drop(self.receiver);
        self.task.await.expect("the reflector does not panic")
    }
}

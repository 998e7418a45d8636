//! A reflector with a server that randomly changes, expires history, fails and is restored: its
//! deltas always add up to the server's state.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::{ListParams, ObjectKey, Reason, ResourceType, ResourceVersion, Status, WatchParams};
use dogwatch_informer::{Delta, DeltaQueue, ListEvent, ListWatch, Lists, Reflector, Watches};
use dogwatch_wire::{Bookmark, EventKind, UndecodableItem, WatchEvent};
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::Notify;

use crate::script::{MINUTE, Thing, bad, options, refused, thing, things, unreachable};

/// Objects whose version is a multiple of this cannot be decoded.
const POISON: u64 = 11;

/// A server with a history. Its faults are random with a seed.
#[derive(Clone)]
struct Server {
    resource: ResourceType,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

struct State {
    version: u64,
    objects: BTreeMap<String, u64>,
    log: Vec<(u64, EventKind, String)>,
    /// The history before this version has expired.
    oldest: u64,
    /// Incremented when the history is reset: open watches end.
    age: u32,
    saved: Option<(u64, BTreeMap<String, u64>, usize)>,
    faulty: bool,
    dice: StdRng,
}

#[derive(Clone, Debug)]
enum Op {
    Write(u8),
    Delete(u8),
    Forget,
    Wait(u16),
    Save,
    Restore,
}

type EventResult = Result<WatchEvent<Thing>, Error>;

impl Server {
    fn new(seed: u64) -> Self {
        let state = State {
            version: 100,
            objects: BTreeMap::new(),
            log: Vec::new(),
            oldest: 0,
            age: 0,
            saved: None,
            faulty: true,
            dice: StdRng::seed_from_u64(seed),
        };
        Self { resource: things(), state: Arc::new(Mutex::new(state)), changed: Arc::new(Notify::new()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    fn perform(&self, op: &Op) {
        self.state().perform(op);
        self.changed.notify_waiters();
    }
}

impl State {
    fn perform(&mut self, op: &Op) {
        match op {
            Op::Write(name) => {
                let name = format!("o{name}");
                self.version += 1;
                let before = self.objects.insert(name.clone(), self.version);
                let kind = if before.is_some() { EventKind::Modified } else { EventKind::Added };
                self.log.push((self.version, kind, name));
            }
            Op::Delete(name) => {
                let name = format!("o{name}");
                if self.objects.remove(&name).is_some() {
                    self.version += 1;
                    self.log.push((self.version, EventKind::Deleted, name));
                }
            }
            Op::Forget => self.oldest = self.version,
            Op::Save => self.saved = Some((self.version, self.objects.clone(), self.log.len())),
            Op::Restore => {
                if let Some((version, objects, length)) = self.saved.clone() {
                    (self.version, self.objects) = (version, objects);
                    self.log.truncate(length);
                    self.oldest = self.oldest.min(version);
                    self.age += 1;
                }
            }
            Op::Wait(_) => {}
        }
    }

    /// Returns true once in so many times, while faults are on.
    fn unlucky(&mut self, times: u32) -> bool {
        self.faulty && self.dice.random_ratio(1, times)
    }

    fn refusal(&mut self) -> Error {
        match self.dice.random_range(0..8) {
            0 => unreachable(ErrorKind::ConnectionRefused),
            1 => unreachable(ErrorKind::ConnectionReset),
            2 => refused(Reason::ServiceUnavailable),
            3 => refused(Reason::InternalError),
            4 => refused(Reason::TooManyRequests),
            5 => refused(Reason::Forbidden),
            6 => refused(Reason::Expired),
            _ => refused(Reason::Invalid),
        }
    }

    /// Returns the error for a version that cannot be served.
    fn objection(&self, version: &ResourceVersion) -> Option<Error> {
        let asked: u64 = version.as_str().parse().unwrap_or(0);
        if asked > self.version {
            Some(Status::failure(Reason::Timeout, "Too large resource version").into())
        } else if version.is_exact() && asked < self.oldest {
            Some(refused(Reason::Expired))
        } else {
            None
        }
    }

    /// Returns the current list, with random faults.
    fn list(&mut self, params: &ListParams) -> Vec<Result<ListEvent<Thing>, Error>> {
        if let Some(error) = self.objection(&params.version).filter(|_| params.version.is_exact()) {
            return vec![Err(error)];
        }
        if self.unlucky(4) {
            return vec![Err(self.refusal())];
        }
        let mut events = Vec::new();
        for (name, version) in self.objects.clone() {
            if self.unlucky(12) {
                events.push(Err(unreachable(ErrorKind::UnexpectedEof)));
            }
            if self.unlucky(12) {
                events.push(Ok(ListEvent::Item(thing("phantom@1"))));
                events.push(Ok(ListEvent::Restarted));
                return [events, self.whole_list()].into_iter().flatten().collect();
            }
            events.push(Ok(listed(&name, version)));
        }
        if !self.unlucky(12) {
            events.push(Ok(ListEvent::End {
                version: self.version.to_string().into(),
                paginated: self.unlucky(2),
            }));
        }
        events
    }

    fn whole_list(&self) -> Vec<Result<ListEvent<Thing>, Error>> {
        let items = self.objects.iter().map(|(name, version)| Ok(listed(name, *version)));
        let end = ListEvent::End { version: self.version.to_string().into(), paginated: false };
        items.chain([Ok(end)]).collect()
    }
}

fn listed(name: &str, version: u64) -> ListEvent<Thing> {
    match event(EventKind::Added, name, version) {
        Ok(WatchEvent::Added(it)) => ListEvent::Item(it),
        Err(Error::Undecodable(bad)) => ListEvent::Bad(UndecodableItem { event: None, ..bad }),
        other => panic!("not an event of a list: {other:?}"),
    }
}

fn event(kind: EventKind, name: &str, version: u64) -> EventResult {
    let text = format!("{name}@{version}");
    if version.is_multiple_of(POISON) {
        return Err(bad(&text, Some(kind)).into());
    }
    Ok(match kind {
        EventKind::Added => WatchEvent::Added(thing(&text)),
        EventKind::Modified => WatchEvent::Modified(thing(&text)),
        _ => WatchEvent::Deleted(thing(&text)),
    })
}

fn mark(version: u64, end: bool) -> EventResult {
    let annotations = end.then(|| ("k8s.io/initial-events-end".to_owned(), "true".to_owned()));
    let version = version.to_string().into();
    Ok(WatchEvent::Bookmark(Bookmark { version, annotations: annotations.into_iter().collect() }))
}

/// The position of an open watch.
struct Cursor {
    server: Server,
    ready: VecDeque<EventResult>,
    at: u64,
    age: u32,
    /// Set until the bookmark after the initial events was sent.
    initial: bool,
    over: bool,
}

impl Cursor {
    async fn next(mut self) -> Option<(EventResult, Self)> {
        loop {
            if self.over {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                return self.maybe_fail(event).map(|it| (it, self));
            }
            let changed = self.server.changed.clone();
            let changed = changed.notified();
            self.refill()?;
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(MINUTE) => {
                    // A server that has not reached the requested version sends nothing, and no
                    // bookmark overtakes an event.
                    let reached = self.server.state().version >= self.at;
                    self.ready.extend(reached.then(|| mark(self.at, false)));
                }
            }
        }
    }

    fn maybe_fail(&mut self, event: EventResult) -> Option<EventResult> {
        let mut state = self.server.state();
        if state.unlucky(20) {
            return None;
        }
        if state.unlucky(20) {
            self.over = true;
            return Some(Err(unreachable(ErrorKind::ConnectionReset)));
        }
        if state.unlucky(20) {
            self.over = true;
            let status = state.refusal().status().cloned();
            return Some(Ok(WatchEvent::Error(status.unwrap_or_default())));
        }
        Some(event)
    }

    /// Queues the events since the last call; `None` when the watch ends.
    fn refill(&mut self) -> Option<()> {
        let state = self.server.state();
        if self.age != state.age {
            return None;
        }
        for (version, kind, name) in state.log.iter().filter(|it| it.0 > self.at) {
            self.ready.push_back(event(*kind, name, *version));
        }
        self.at = self.at.max(state.version);
        if std::mem::take(&mut self.initial) {
            self.ready.push_back(mark(self.at, true));
        }
        Some(())
    }
}

impl ListWatch<Thing> for Server {
    fn resource(&self) -> &ResourceType {
        &self.resource
    }

    fn list(&self, params: ListParams) -> Lists<Thing> {
        let events = self.state().list(&params);
        futures_util::stream::iter(events).boxed()
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<Thing>, Error>> {
        let opened = self.open(&params);
        Box::pin(
            async move { opened.map(|cursor| futures_util::stream::unfold(cursor, Cursor::next).boxed()) },
        )
    }
}

impl Server {
    fn open(&self, params: &WatchParams) -> Result<Cursor, Error> {
        let mut state = self.state();
        if state.unlucky(4) {
            return Err(state.refusal());
        }
        let initial = params.send_initial_events == Some(true);
        let asked: u64 = params.version.as_str().parse().unwrap_or(0);
        // For a version in the future, some servers return an error, and some wait silently.
        let silent = asked > state.version && !initial && state.dice.random_bool(0.5);
        if let Some(error) = state.objection(&params.version).filter(|_| !silent) {
            return Err(error);
        }
        let ready = match initial {
            true => {
                state.objects.iter().map(|(name, version)| event(EventKind::Added, name, *version)).collect()
            }
            false => VecDeque::new(),
        };
        let at = if initial { state.version } else { asked };
        Ok(Cursor { server: self.clone(), ready, at, age: state.age, initial, over: false })
    }
}

/// The state that deltas add up to, as a store would hold it.
#[derive(Debug, Default)]
struct Fold {
    objects: BTreeMap<String, u64>,
    list: Option<BTreeMap<String, u64>>,
    version: u64,
}

impl Fold {
    fn apply(&mut self, delta: Delta<Thing>) {
        let within = self.list.is_some();
        let belongs = match &delta {
            Delta::Item(_) | Delta::End { .. } | Delta::Abort | Delta::Nameless => within,
            Delta::Begin | Delta::Dropped(_) => true,
            _ => !within,
        };
        assert!(belongs, "out of order: {delta:?}");
        match delta {
            Delta::Begin => self.list = Some(BTreeMap::new()),
            Delta::Item(it) => self.insert(it),
            Delta::Abort => self.list = None,
            Delta::End { version, undecodable } => self.end(&version, &undecodable),
            Delta::Applied(it) => {
                self.reach(&it.metadata.resource_version);
                self.insert(it);
            }
            Delta::Deleted(it) => {
                self.reach(&it.metadata.resource_version);
                self.objects.remove(it.metadata.name.as_str());
            }
            Delta::Dropped(key) => {
                self.list.as_mut().unwrap_or(&mut self.objects).remove(key.as_str());
            }
            Delta::Bookmark(version) => self.reach(&version),
            Delta::Undecodable { .. } => {}
            Delta::Rewound => self.version = 0,
            other => panic!("unexpected delta: {other:?}"),
        }
    }

    fn insert(&mut self, it: Thing) {
        let version = it.metadata.resource_version.as_str().parse().expect("a number");
        self.list.as_mut().unwrap_or(&mut self.objects).insert(it.metadata.name.to_string(), version);
    }

    fn end(&mut self, version: &ResourceVersion, undecodable: &[(ObjectKey, ResourceVersion)]) {
        let mut list = self.list.take().expect("checked above");
        for (key, _) in undecodable {
            if let Some(known) = self.objects.get(key.as_str()) {
                list.entry(key.as_str().to_owned()).or_insert(*known);
            }
        }
        self.objects = list;
        self.reach(version);
    }

    fn reach(&mut self, version: &ResourceVersion) {
        let version = version.as_str().parse().expect("a number");
        assert!(version >= self.version, "{version} after {}", self.version);
        self.version = version;
    }

    /// Checks that there is nothing that the server does not have, and that every decodable object
    /// of the server is there.
    fn check(&self, server: &State) {
        for name in self.objects.keys() {
            assert!(server.objects.contains_key(name), "{name} does not exist any more: {self:?}");
        }
        for (name, version) in server.objects.iter().filter(|it| !it.1.is_multiple_of(POISON)) {
            assert_eq!(self.objects.get(name), Some(version), "{name}");
        }
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0u8..6).prop_map(Op::Write),
        4 => (0u8..6).prop_map(Op::Delete),
        1 => Just(Op::Forget),
        4 => (0u16..8000).prop_map(Op::Wait),
        1 => Just(Op::Save),
        1 => Just(Op::Restore),
    ];
    proptest::collection::vec(op, 1..60)
}

async fn follow(seed: u64, watch_list: bool, ops: Vec<Op>) {
    let server = Server::new(seed);
    let (sender, mut receiver) = DeltaQueue::channel(8);
    let mut options = options();
    options.watch_list = watch_list;
    let reflector = tokio::spawn(Reflector::new(Arc::new(server.clone()), options, sender).run());
    let fold = Arc::new(Mutex::new(Fold::default()));
    let folded = fold.clone();
    let folding = tokio::spawn(async move {
        let mut batch = Vec::new();
        while receiver.recv_batch(&mut batch, 5).await {
            batch.drain(..).for_each(|it| folded.lock().expect("not poisoned").apply(it));
        }
    });
    let settled = async || {
        server.state().faulty = false;
        // Enough for every wait, and for a silence to be detected.
        tokio::time::sleep(60 * MINUTE).await;
        assert!(!folding.is_finished(), "a delta was out of order");
        fold.lock().expect("not poisoned").check(&server.state());
        server.state().faulty = true;
    };
    for op in ops {
        server.perform(&op);
        match op {
            Op::Wait(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds.into())).await,
            // A write before the reflector has noticed the reset could not be distinguished from
            // the lost history.
            Op::Restore => settled().await,
            _ => {}
        }
    }
    settled().await;
    reflector.abort();
    folding.abort();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn deltas_add_up_to_the_state_of_the_server(seed in any::<u64>(), watch_list in any::<bool>(), ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(follow(seed, watch_list, ops));
    }
}

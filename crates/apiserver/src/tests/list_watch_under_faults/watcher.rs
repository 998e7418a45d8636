//! A watcher: lists, watches, restarts when it must, and compares its cache with the recorded
//! history after every event.

use std::ops::AddAssign;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::recorded_history::{Pods, RecordedHistory, Selector};
use crate::tests::requests::{Transport, WatchItem, WatchReader, version};
use crate::tests::test_cluster::key_of;

/// Longer than any script takes.
const TIMEOUT: Duration = Duration::from_secs(3600);

const SELECTORS: [Selector; 6] = [
    Selector { namespace: None, query: "", holds: |_| true },
    Selector { namespace: Some("default"), query: "", holds: |_| true },
    Selector {
        namespace: None,
        query: "labelSelector=colour%3Dred",
        holds: |it| it["metadata"]["labels"]["colour"] == "red",
    },
    Selector {
        namespace: Some("default"),
        query: "labelSelector=colour+notin+(red,blue)",
        holds: |it| it["metadata"]["labels"]["colour"] == "green",
    },
    Selector {
        namespace: None,
        query: "fieldSelector=status.phase%3DRunning",
        holds: |it| it["status"]["phase"] == "Running",
    },
    Selector {
        namespace: None,
        query: "fieldSelector=metadata.name%3Dpod-3&labelSelector=colour%21%3Dblue",
        holds: |it| it["metadata"]["name"] == "pod-3" && it["metadata"]["labels"]["colour"] != "blue",
    },
];

/// The behaviour of a watcher.
#[derive(Clone, Debug)]
pub(crate) struct WatcherConfig {
    pub(crate) selector: Selector,
    /// `Some(http2)` to use a pipe with HTTP/2 or HTTP/1.1; `None` for direct calls.
    pub(crate) pipe: Option<bool>,
    /// True to start with a streaming list instead of a list.
    stream: bool,
    /// The page size of lists.
    limit: Option<u8>,
    bookmarks: bool,
    /// The timeout that it requests for each watch, in seconds.
    seconds: Option<u8>,
    /// The number of events after which it closes each watch.
    hang_up_after: Option<u8>,
}

pub(crate) fn config() -> impl Strategy<Value = WatcherConfig> {
    let pipe = prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let often = |most: u8| prop_oneof![2 => Just(None), 1 => (1..=most).prop_map(Some)];
    (0..SELECTORS.len(), pipe, any::<bool>(), often(3), any::<bool>(), often(20), often(5)).prop_map(
        |(selector, pipe, stream, limit, bookmarks, seconds, hang_up_after)| {
            let selector = SELECTORS[selector];
            WatcherConfig { selector, pipe, stream, limit, bookmarks, seconds, hang_up_after }
        },
    )
}

/// Returns a config for every selector, with various other settings.
pub(crate) fn every_config() -> Vec<WatcherConfig> {
    let config = |(at, selector): (usize, &Selector)| WatcherConfig {
        selector: *selector,
        pipe: [None, Some(false), Some(true)][at % 3],
        stream: at % 2 == 1,
        limit: (at == 2).then_some(2),
        bookmarks: at != 3,
        seconds: (at == 4).then_some(7),
        hang_up_after: (at == 5).then_some(3),
    };
    SELECTORS.iter().enumerate().map(config).collect()
}

/// The number of occurrences of each kind of event.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lists: usize,
    pub(crate) events: usize,
    pub(crate) bookmarks: usize,
    pub(crate) ends: usize,
    pub(crate) cuts: usize,
    pub(crate) rejections: usize,
    pub(crate) expirations: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.lists += other.lists;
        self.events += other.events;
        self.bookmarks += other.bookmarks;
        self.ends += other.ends;
        self.cuts += other.cuts;
        self.rejections += other.rejections;
        self.expirations += other.expirations;
    }
}

/// A watcher and its cache.
pub(crate) struct Watcher {
    transport: Transport,
    config: WatcherConfig,
    history: Arc<Mutex<RecordedHistory>>,
    /// The final version, once the script has ended.
    last: Receiver<Option<u64>>,
    /// The cache by key, and its version; `None` before a list.
    cached: Option<(Pods, u64)>,
    counts: Counts,
}

/// The next step after the end of a watch.
#[derive(PartialEq, Eq)]
enum NextStep {
    Resume,
    Relist,
}

impl Watcher {
    pub(crate) fn new(
        transport: Transport,
        config: WatcherConfig,
        history: Arc<Mutex<RecordedHistory>>,
        last: Receiver<Option<u64>>,
    ) -> Self {
        Self { transport, config, history, last, cached: None, counts: Counts::default() }
    }

    /// Runs until the cache equals the final state, and some time longer.
    pub(crate) async fn run(mut self) -> Counts {
        let begun = Instant::now();
        while !self.is_done() {
            assert!(
                begun.elapsed() < TIMEOUT,
                "the watcher never caught up: {:?} {:?}",
                self.config,
                self.cached
            );
            if self.cached.is_none() && !self.config.stream {
                self.list().await;
            } else {
                self.watch().await;
            }
            // Clients back off too; it also lets the paused clock advance.
            sleep(Duration::from_millis(20)).await;
        }
        self.counts
    }

    fn is_done(&self) -> bool {
        let (Some(last), Some((cached, _))) = (*self.last.borrow(), &self.cached) else { return false };
        *cached == self.history.lock().unwrap().at(last, &self.config.selector)
    }

    /// Lists page by page; all pages must have one version.
    async fn list(&mut self) {
        let mut path = self.config.selector.path();
        path += &self.config.limit.map(|it| format!("&limit={it}")).unwrap_or_default();
        let (mut pods, mut at, mut token) = (Vec::new(), None, String::new());
        loop {
            let Ok(response) = self.transport.get(&format!("{path}{token}")).await else {
                self.counts.cuts += 1;
                return;
            };
            if response.code != 200 {
                assert!([410, 429, 500, 503].contains(&response.code), "{}", response.body);
                assert_eq!(response.code == 429, response.retry_after.is_some());
                self.counts.rejections += 1;
                return;
            }
            let version = version(&response.body);
            assert_eq!(*at.get_or_insert(version), version, "pages of one list have one version");
            let items = response.body["items"].as_array().expect("items");
            pods.extend(items.iter().map(typed));
            match response.body["metadata"]["continue"].as_str() {
                None | Some("") => break,
                Some(next) => token = format!("&continue={next}"),
            }
        }
        self.counts.lists += 1;
        let keys: Vec<_> = pods.iter().map(key_of).collect();
        assert!(keys.is_sorted(), "not in the order of keys: {keys:?}");
        let cached = keys.into_iter().zip(pods.into_iter().map(Arc::new)).collect();
        self.set_cache(cached, at.expect("at least one page"));
    }

    async fn watch(&mut self) {
        let mut path = format!("{}&watch=true", self.config.selector.path());
        path += if self.config.bookmarks { "&allowWatchBookmarks=true" } else { "" };
        path += &self.config.seconds.map(|it| format!("&timeoutSeconds={it}")).unwrap_or_default();
        path += &match &self.cached {
            Some((_, version)) => format!("&resourceVersion={version}"),
            None => "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
                .to_owned(),
        };
        let mut reader = match self.transport.watch(&path).await {
            Ok(Ok(reader)) => reader,
            Ok(Err(rejected)) => {
                assert!([429, 500, 503].contains(&rejected.code), "{}", rejected.body);
                self.counts.rejections += 1;
                return;
            }
            Err(_) => {
                self.counts.cuts += 1;
                return;
            }
        };
        if self.cached.is_none() && !self.read_initial_events(&mut reader).await {
            return;
        }
        if self.follow(&mut reader).await == NextStep::Relist {
            self.counts.expirations += 1;
            self.cached = None;
        }
    }

    /// Receives the initial events, up to the bookmark that ends them. Returns false if the watch
    /// ends earlier.
    async fn read_initial_events(&mut self, reader: &mut WatchReader) -> bool {
        let mut cached = Pods::new();
        loop {
            match timeout(TIMEOUT, reader.next()).await.expect("an event or the end") {
                WatchItem::Event { kind, object } if kind == "ADDED" => {
                    self.counts.events += 1;
                    let before = cached.insert(key_of(&object), Arc::new(object));
                    assert!(before.is_none(), "delivered twice: {before:?}");
                }
                WatchItem::Event { kind, object } if kind == "BOOKMARK" => {
                    let ends = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
                    assert_eq!(ends, "true", "an earlier bookmark");
                    self.counts.bookmarks += 1;
                    self.set_cache(cached, version(&object));
                    return true;
                }
                WatchItem::Event { kind, object } => panic!("{kind} {object} among the initial events"),
                WatchItem::End => self.counts.ends += 1,
                WatchItem::Cut => self.counts.cuts += 1,
            }
            // A watch that ends before the bookmark gives no consistent state.
            if reader.is_over() {
                return false;
            }
        }
    }

    async fn follow(&mut self, reader: &mut WatchReader) -> NextStep {
        let mut remaining = self.config.hang_up_after;
        let mut until = Instant::now() + TIMEOUT;
        loop {
            if self.is_done() {
                // Wait a little longer: nothing more may come.
                until = until.min(Instant::now() + Duration::from_secs(10));
            }
            let item = tokio::select! {
                item = reader.next() => item,
                _ = self.last.changed() => continue,
                () = sleep_until(until) => return NextStep::Resume,
            };
            match item {
                WatchItem::Event { kind, object } if kind == "ERROR" => {
                    assert_eq!((&object["code"], &object["reason"]), (&410.into(), &"Expired".into()));
                    return NextStep::Relist;
                }
                WatchItem::Event { kind, object } => self.apply(&kind, &object),
                WatchItem::End => {
                    self.counts.ends += 1;
                    return NextStep::Resume;
                }
                WatchItem::Cut => {
                    self.counts.cuts += 1;
                    return NextStep::Resume;
                }
            }
            remaining = remaining.map(|it| it.saturating_sub(1));
            if remaining == Some(0) {
                return NextStep::Resume;
            }
        }
    }

    /// Applies an event to the cache, and compares the result with the history.
    fn apply(&mut self, kind: &str, object: &Value) {
        let (mut cached, at) = self.cached.take().expect("it begins with a list");
        let new = version(object);
        match kind {
            "BOOKMARK" => {
                assert!(self.config.bookmarks || self.config.stream, "bookmarks were not requested");
                assert!(new >= at, "a bookmark with an older version: {new} after {at}");
                self.counts.bookmarks += 1;
            }
            _ => {
                assert!(new > at, "versions must increase: {kind} {new} after {at}");
                self.counts.events += 1;
                let before = match kind {
                    "DELETED" => cached.remove(&key_of(object)),
                    _ => cached.insert(key_of(object), Arc::new(object.clone())),
                };
                assert_eq!(before.is_some(), kind != "ADDED", "{kind} {object}, cached before: {before:?}");
            }
        }
        self.set_cache(cached, new);
    }

    fn set_cache(&mut self, cached: Pods, version: u64) {
        let history = self.history.lock().unwrap().at(version, &self.config.selector);
        if cached != history {
            let keys = |it: &Pods| {
                it.iter()
                    .map(|(key, pod)| format!("{key}@{}", pod["metadata"]["resourceVersion"]))
                    .collect::<Vec<_>>()
            };
            panic!(
                "at {version}: cached {:?}, expected {:?}, {:?}",
                keys(&cached),
                keys(&history),
                self.config
            );
        }
        self.cached = Some((cached, version));
    }
}

/// Returns an item of a list as a standalone object.
fn typed(item: &Value) -> Value {
    let mut pod = item.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}

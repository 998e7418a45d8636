//! A watcher: lists, watches, starts again when it must, and believes nothing without holding it against the truth.

use std::ops::AddAssign;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::recorded_history::{Pods, Selector, Truth};
use crate::requests::{Road, Told, Watching, version};
use crate::test_cluster::named;

/// Longer than any weather lasts.
const LONG: Duration = Duration::from_secs(3600);

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

/// How a watcher goes about it.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) selector: Selector,
    /// Over a wire, with HTTP/2 or without.
    pub(crate) wire: Option<bool>,
    /// By a watch that begins with what there is, instead of a list.
    stream: bool,
    /// In pages of so many.
    limit: Option<u8>,
    bookmarks: bool,
    /// How long it wants each watch to last.
    seconds: Option<u8>,
    /// Hangs up after so many events.
    fickle: Option<u8>,
}

pub(crate) fn manner() -> impl Strategy<Value = Manner> {
    let wire = prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let often = |most: u8| prop_oneof![2 => Just(None), 1 => (1..=most).prop_map(Some)];
    (0..SELECTORS.len(), wire, any::<bool>(), often(3), any::<bool>(), often(20), often(5)).prop_map(
        |(selector, wire, stream, limit, bookmarks, seconds, fickle)| {
            let selector = SELECTORS[selector];
            Manner { selector, wire, stream, limit, bookmarks, seconds, fickle }
        },
    )
}

/// Every selector, and some of everything else.
pub(crate) fn every_manner() -> Vec<Manner> {
    let manner = |(at, selector): (usize, &Selector)| Manner {
        selector: *selector,
        wire: [None, Some(false), Some(true)][at % 3],
        stream: at % 2 == 1,
        limit: (at == 2).then_some(2),
        bookmarks: at != 3,
        seconds: (at == 4).then_some(7),
        fickle: (at == 5).then_some(3),
    };
    SELECTORS.iter().enumerate().map(manner).collect()
}

/// How often what was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) lists: usize,
    pub(crate) events: usize,
    pub(crate) bookmarks: usize,
    pub(crate) ends: usize,
    pub(crate) cuts: usize,
    pub(crate) refusals: usize,
    pub(crate) expirations: usize,
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.lists += other.lists;
        self.events += other.events;
        self.bookmarks += other.bookmarks;
        self.ends += other.ends;
        self.cuts += other.cuts;
        self.refusals += other.refusals;
        self.expirations += other.expirations;
    }
}

/// A watcher and what it believes.
pub(crate) struct Watcher {
    road: Road,
    manner: Manner,
    truth: Arc<Mutex<Truth>>,
    /// The version at which everything is over.
    last: Receiver<Option<u64>>,
    /// What it believes, by key, as of a version; nothing before a list.
    believed: Option<(Pods, u64)>,
    seen: Seen,
}

/// Why a watch is over.
#[derive(PartialEq, Eq)]
enum Over {
    GoOn,
    TooLate,
}

impl Watcher {
    pub(crate) fn new(
        road: Road,
        manner: Manner,
        truth: Arc<Mutex<Truth>>,
        last: Receiver<Option<u64>>,
    ) -> Self {
        Self { road, manner, truth, last, believed: None, seen: Seen::default() }
    }

    /// Watches until it believes what is true in the end, and a while longer.
    pub(crate) async fn run(mut self) -> Seen {
        let begun = Instant::now();
        while !self.is_done() {
            assert!(begun.elapsed() < LONG, "it never got there: {:?} {:?}", self.manner, self.believed);
            if self.believed.is_none() && !self.manner.stream {
                self.list().await;
            } else {
                self.watch().await;
            }
            // As clients do, and so that time goes on.
            sleep(Duration::from_millis(20)).await;
        }
        self.seen
    }

    fn is_done(&self) -> bool {
        let (Some(last), Some((believed, _))) = (*self.last.borrow(), &self.believed) else { return false };
        *believed == self.truth.lock().unwrap().at(last, &self.manner.selector)
    }

    /// Lists page by page, all pages of one version.
    async fn list(&mut self) {
        let mut path = self.manner.selector.path();
        path += &self.manner.limit.map(|it| format!("&limit={it}")).unwrap_or_default();
        let (mut pods, mut at, mut token) = (Vec::new(), None, String::new());
        loop {
            let Ok(answer) = self.road.get(&format!("{path}{token}")).await else {
                self.seen.cuts += 1;
                return;
            };
            if answer.code != 200 {
                assert!([410, 429, 500, 503].contains(&answer.code), "{}", answer.body);
                assert_eq!(answer.code == 429, answer.retry_after.is_some());
                self.seen.refusals += 1;
                return;
            }
            let version = version(&answer.body);
            assert_eq!(*at.get_or_insert(version), version, "pages of one list have one version");
            let items = answer.body["items"].as_array().expect("items");
            pods.extend(items.iter().map(typed));
            match answer.body["metadata"]["continue"].as_str() {
                None | Some("") => break,
                Some(next) => token = format!("&continue={next}"),
            }
        }
        self.seen.lists += 1;
        let keys: Vec<_> = pods.iter().map(named).collect();
        assert!(keys.is_sorted(), "in the order of keys: {keys:?}");
        let believed = keys.into_iter().zip(pods.into_iter().map(Arc::new)).collect();
        self.believe(believed, at.expect("at least one page"));
    }

    async fn watch(&mut self) {
        let mut path = format!("{}&watch=true", self.manner.selector.path());
        path += if self.manner.bookmarks { "&allowWatchBookmarks=true" } else { "" };
        path += &self.manner.seconds.map(|it| format!("&timeoutSeconds={it}")).unwrap_or_default();
        path += &match &self.believed {
            Some((_, version)) => format!("&resourceVersion={version}"),
            None => "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
                .to_owned(),
        };
        let mut watching = match self.road.watch(&path).await {
            Ok(Ok(watching)) => watching,
            Ok(Err(refused)) => {
                assert!([429, 500, 503].contains(&refused.code), "{}", refused.body);
                self.seen.refusals += 1;
                return;
            }
            Err(_) => {
                self.seen.cuts += 1;
                return;
            }
        };
        if self.believed.is_none() && !self.begin(&mut watching).await {
            return;
        }
        if self.follow(&mut watching).await == Over::TooLate {
            self.seen.expirations += 1;
            self.believed = None;
        }
    }

    /// Takes the objects that were there, up to the bookmark that ends them.
    async fn begin(&mut self, watching: &mut Watching) -> bool {
        let mut believed = Pods::new();
        loop {
            match timeout(LONG, watching.next()).await.expect("it tells or ends") {
                Told::Event { kind, object } if kind == "ADDED" => {
                    self.seen.events += 1;
                    let before = believed.insert(named(&object), Arc::new(object));
                    assert!(before.is_none(), "told twice: {before:?}");
                }
                Told::Event { kind, object } if kind == "BOOKMARK" => {
                    let ends = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
                    assert_eq!(ends, "true", "nothing else comes before");
                    self.seen.bookmarks += 1;
                    self.believe(believed, version(&object));
                    return true;
                }
                Told::Event { kind, object } => panic!("{kind} {object} before the end of what is there"),
                Told::End => self.seen.ends += 1,
                Told::Cut => self.seen.cuts += 1,
            }
            // A watch that broke off before the bookmark said nothing to rely on.
            if watching.is_over() {
                return false;
            }
        }
    }

    async fn follow(&mut self, watching: &mut Watching) -> Over {
        let mut patience = self.manner.fickle;
        let mut until = Instant::now() + LONG;
        loop {
            if self.is_done() {
                // Nothing more may come.
                until = until.min(Instant::now() + Duration::from_secs(10));
            }
            let told = tokio::select! {
                told = watching.next() => told,
                _ = self.last.changed() => continue,
                () = sleep_until(until) => return Over::GoOn,
            };
            match told {
                Told::Event { kind, object } if kind == "ERROR" => {
                    assert_eq!((&object["code"], &object["reason"]), (&410.into(), &"Expired".into()));
                    return Over::TooLate;
                }
                Told::Event { kind, object } => self.learn(&kind, &object),
                Told::End => {
                    self.seen.ends += 1;
                    return Over::GoOn;
                }
                Told::Cut => {
                    self.seen.cuts += 1;
                    return Over::GoOn;
                }
            }
            patience = patience.map(|it| it.saturating_sub(1));
            if patience == Some(0) {
                return Over::GoOn;
            }
        }
    }

    /// Takes an event in, and holds the result against the truth.
    fn learn(&mut self, kind: &str, object: &Value) {
        let (mut believed, at) = self.believed.take().expect("it begins with a list");
        let new = version(object);
        match kind {
            "BOOKMARK" => {
                assert!(self.manner.bookmarks || self.manner.stream, "nobody asked for bookmarks");
                assert!(new >= at, "a bookmark of the past: {new} after {at}");
                self.seen.bookmarks += 1;
            }
            _ => {
                assert!(new > at, "versions grow: {kind} {new} after {at}");
                self.seen.events += 1;
                let before = match kind {
                    "DELETED" => believed.remove(&named(object)),
                    _ => believed.insert(named(object), Arc::new(object.clone())),
                };
                assert_eq!(before.is_some(), kind != "ADDED", "{kind} {object}, known before: {before:?}");
            }
        }
        self.believe(believed, new);
    }

    fn believe(&mut self, believed: Pods, version: u64) {
        let truth = self.truth.lock().unwrap().at(version, &self.manner.selector);
        if believed != truth {
            let keys = |it: &Pods| {
                it.iter()
                    .map(|(key, pod)| format!("{key}@{}", pod["metadata"]["resourceVersion"]))
                    .collect::<Vec<_>>()
            };
            panic!(
                "at {version}: believed {:?}, true {:?}, {:?}",
                keys(&believed),
                keys(&truth),
                self.manner
            );
        }
        self.believed = Some((believed, version));
    }
}

/// An item of a list as an object of its own.
fn typed(item: &Value) -> Value {
    let mut pod = item.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}

//! The load: many watches of the pods, on connections of their own, that only count their events.
//!
//! They use plain HTTP/2 and decode nothing, so that the load is cheap compared with the servers
//! that it measures. All watches of a phase start at one version and have to receive the same
//! changes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use testbed::connector::{Connector, Http2Connection};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::latencies::Latencies;
use super::watch_events::{Line, WatchEvents};
use crate::server_pods::{NAMESPACE, now};

/// The number of watches on a connection: below the limits of all servers (100 in kube-apiserver,
/// `http2-max-streams-per-connection`).
const STREAMS: usize = 50;
/// The number of connections that are opened at the same time.
const OPENING: usize = 8;
/// The time within which all watches have to be open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(120);
/// The time without any event after which those that are missing are lost.
const SILENCE: Duration = Duration::from_secs(10);
/// The time within which the watchers have to receive all events after the last change.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(120);
/// The interval at which the counters are read.
const POLL: Duration = Duration::from_millis(5);

/// Open watches. Dropping this ends them.
pub(super) struct Watchers {
    received: Arc<Received>,
    connections: usize,
    _tasks: JoinSet<()>,
}

/// The events that the watchers have received.
struct Received {
    tallies: Box<[Tally]>,
    latencies: Latencies,
    problems: Mutex<Problems>,
}

/// The events of one watcher: their number, and the sum of the annotation's values, which
/// overflows.
#[derive(Debug, Default)]
struct Tally {
    events: AtomicU64,
    sum: AtomicU64,
}

/// The watches that ended, and the reason of the first one.
#[derive(Debug, Default)]
struct Problems {
    ended: usize,
    reason: Option<String>,
}

/// The completeness of the events after some changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Completeness {
    /// The number of events that watchers did not receive.
    pub(super) lost: u64,
    /// The number of watchers with other events than these changes.
    pub(super) wrong: usize,
    /// The number of watches that ended, and the first reason.
    pub(super) ended: usize,
    pub(super) reason: Option<String>,
}

impl Watchers {
    /// Opens this many watches, and waits until the server has responded to each. Each has a token
    /// of its own, or all have the connector's.
    ///
    /// # Errors
    /// If a watch is refused, or not all are open in time.
    pub(super) async fn open(connector: &Connector, count: usize, tokens: &[String]) -> Result<Self> {
        let opening = timeout(OPEN_TIMEOUT, Self::open_all(connector, count, tokens));
        opening.await.with_context(|| format!("{count} watches are not open within {OPEN_TIMEOUT:?}"))?
    }

    async fn open_all(connector: &Connector, count: usize, tokens: &[String]) -> Result<Self> {
        let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let target = format!("{pods}?watch=true&resourceVersion={}", version_of(connector, &pods).await?);
        let received = Arc::new(Received {
            tallies: (0..count).map(|_| Tally::default()).collect(),
            latencies: Latencies::new(),
            problems: Mutex::default(),
        });
        let parts: Vec<Range<usize>> =
            (0..count).step_by(STREAMS).map(|first| first..count.min(first + STREAMS)).collect();
        let connections = parts.len();
        let target = target.as_str();
        let opened = stream::iter(parts).map(|part| async move {
            let mut connection = connector.http2().await?;
            let mut bodies = Vec::with_capacity(part.len());
            for number in part {
                let token = tokens.get(number).map(String::as_str);
                bodies.push((number, open_one(&mut connection, target, token).await?));
            }
            anyhow::Ok(bodies)
        });
        let mut tasks = JoinSet::new();
        let mut opened = opened.buffer_unordered(OPENING);
        while let Some(bodies) = opened.try_next().await? {
            for (number, body) in bodies {
                tasks.spawn(Arc::clone(&received).follow(number, body));
            }
        }
        Ok(Self { received, connections, _tasks: tasks })
    }

    /// Returns the number of connections that carry the watches.
    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Returns the latency from the request of a change to its event that this share of the events
    /// does not exceed.
    pub(super) fn percentile(&self, share: f64) -> Option<Duration> {
        self.received.latencies.percentile(share)
    }

    /// Waits until every watcher has received this many changes in total, or no event comes any
    /// more. `sum` is the sum of the annotation's values of all changes.
    pub(super) async fn received(&self, changes: u64, sum: u64) -> Completeness {
        let began = Instant::now();
        let (mut last, mut last_at) = (0, began);
        loop {
            let completeness = self.received.compared(changes, sum);
            let events = self.received.events();
            if events > last {
                (last, last_at) = (events, Instant::now());
            }
            let is_over = last_at.elapsed() > SILENCE || began.elapsed() > RECEIVE_TIMEOUT;
            let all_ended = completeness.ended == self.received.tallies.len();
            if completeness.lost == 0 || all_ended || is_over {
                return completeness;
            }
            sleep(POLL).await;
        }
    }
}

impl Received {
    /// Counts the events of one watch until it ends.
    async fn follow(self: Arc<Self>, number: usize, mut body: Incoming) {
        let mut events = WatchEvents::default();
        let mut reason = "the server ended the watch".to_owned();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => {
                    let Some(data) = frame.data_ref() else { continue };
                    let now = now();
                    events.feed(data, |line| match line {
                        Line::Change(made) => self.add(number, made, now),
                        Line::Other(text) => reason = String::from_utf8_lossy(text).into_owned(),
                    });
                }
                Err(error) => {
                    reason = error.to_string();
                    break;
                }
            }
        }
        let mut problems = self.problems.lock();
        problems.ended += 1;
        problems.reason.get_or_insert(reason);
    }

    fn add(&self, number: usize, made: u64, now: u64) {
        self.latencies.add(Duration::from_nanos(now.saturating_sub(made)));
        let tally = &self.tallies[number];
        tally.sum.fetch_add(made, Ordering::Relaxed);
        // After the sum, which is read once the number is right.
        tally.events.fetch_add(1, Ordering::Release);
    }

    fn events(&self) -> u64 {
        self.tallies.iter().map(|it| it.events.load(Ordering::Relaxed)).sum()
    }

    fn compared(&self, changes: u64, sum: u64) -> Completeness {
        let (mut lost, mut wrong) = (0, 0);
        for tally in &self.tallies {
            let events = tally.events.load(Ordering::Acquire);
            lost += changes.saturating_sub(events);
            let is_same = events == changes && tally.sum.load(Ordering::Relaxed) == sum;
            wrong += usize::from(events >= changes && !is_same);
        }
        let problems = self.problems.lock();
        Completeness { lost, wrong, ended: problems.ended, reason: problems.reason.clone() }
    }
}

async fn open_one(connection: &mut Http2Connection, target: &str, token: Option<&str>) -> Result<Incoming> {
    let response = connection.open(target, token).await?;
    let status = response.status();
    if status != StatusCode::OK {
        let text = response.into_body().collect().await?.to_bytes();
        anyhow::bail!("a watch failed with {status}: {}", String::from_utf8_lossy(&text));
    }
    Ok(response.into_body())
}

/// Returns the version of a collection, as this server has it.
async fn version_of(connector: &Connector, path: &str) -> Result<String> {
    let target = format!("{path}?limit=1");
    let (code, list) = connector.http1().await?.send(Method::GET, &target, Bytes::new()).await?;
    ensure!(code == StatusCode::OK, "a list failed with {code}: {}", String::from_utf8_lossy(&list));
    let list: Value = serde_json::from_slice(&list).context("the list is not JSON")?;
    let version = list["metadata"]["resourceVersion"].as_str().context("the list has no version")?;
    Ok(version.to_owned())
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").field("connections", &self.connections).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of two watchers: the first has received these, the second one 5 and 6.
    fn compared(first: &[u64]) -> (u64, usize) {
        let tallies = [Tally::default(), Tally::default()].into();
        let received = Received { tallies, latencies: Latencies::new(), problems: Mutex::default() };
        for (number, values) in [(0, first), (1, &[5, 6][..])] {
            values.iter().for_each(|value| received.add(number, *value, 7));
        }
        let Completeness { lost, wrong, .. } = received.compared(2, 11);
        (lost, wrong)
    }

    #[test]
    fn every_watcher_has_to_receive_every_change_once() {
        assert_eq!(compared(&[6, 5]), (0, 0));
        assert_eq!(compared(&[5]), (1, 0));
        assert_eq!(compared(&[5, 5]), (0, 1), "one is lost and another one came twice");
        assert_eq!(compared(&[5, 6, 6]), (0, 1));
    }
}

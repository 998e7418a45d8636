//! The load of `bench apiserver`: writers, a reader and many watchers, the same for every server.
//!
//! It uses plain HTTP connections and decodes nothing: an event is a line of a watch's body.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use testbed::connector::Connector;

/// The number of connections that write concurrently.
pub(super) const WRITERS: usize = 8;
/// The number of objects created during the measurement.
pub(super) const CREATES: usize = 10_000;
/// The number of objects in the list: those that were created.
pub(super) const OBJECTS: usize = CREATES;
pub(super) const WATCHERS: usize = 1_000;
/// The number of connections that carry the watches: ten watches each, as a typical controller has.
pub(super) const WATCH_CONNECTIONS: usize = 100;
/// The number of changes that each watcher receives, in each of two rounds.
pub(super) const CHANGES: usize = 200;
/// The pause between two changes that come one by one.
const PACE: Duration = Duration::from_millis(20);
/// The number of times the list is read. The fastest counts, since other load on the machine can
/// only slow it down.
const LISTS: usize = 3;
/// The number of objects that each connection creates before the measurement.
const WARM_UP: usize = 50;
/// The time within which watchers have to receive all events.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A ConfigMap of about 1 KB.
fn object(name: &str, number: usize) -> Bytes {
    let text =
        format!("line {number:06} of a text that says nothing in particular, to take up room\n").repeat(9);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "text": text, "number": number.to_string() },
        "metadata": { "name": name, "labels": { "app": "bench", "part": (number % 10).to_string() } },
    });
    Bytes::from(map.to_string())
}

fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// Creates the namespaces, and warms up the server with some objects.
pub(super) async fn prepare(connector: &Connector) -> Result<()> {
    let mut connection = connector.http1().await?;
    for namespace in ["warm", "listed", "watched"] {
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        let body = Bytes::from(body.to_string());
        let (code, answer) = connection.send(Method::POST, "/api/v1/namespaces", body).await?;
        ensure!(
            code == StatusCode::CREATED,
            "creating a namespace failed: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    create_in(connector, "warm", WRITERS * WARM_UP).await?;
    Ok(())
}

/// Creates the objects. Returns the seconds it took.
pub(super) async fn create(connector: &Connector) -> Result<f64> {
    create_in(connector, "listed", CREATES).await
}

async fn create_in(connector: &Connector, namespace: &str, count: usize) -> Result<f64> {
    let mut connections = Vec::new();
    for number in 0..WRITERS {
        let bodies: Vec<_> =
            (number..count).step_by(WRITERS).map(|it| object(&format!("object-{it:05}"), it)).collect();
        connections.push((connector.http1().await?, bodies));
    }
    let start = Instant::now();
    let mut writers = JoinSet::new();
    for (mut connection, bodies) in connections {
        let target = collection(namespace);
        writers.spawn(async move {
            for body in bodies {
                let (code, answer) = connection.send(Method::POST, &target, body).await?;
                ensure!(code == StatusCode::CREATED, "a create failed: {}", String::from_utf8_lossy(&answer));
            }
            Ok(())
        });
    }
    all(writers).await?;
    Ok(start.elapsed().as_secs_f64())
}

/// Reads the list several times. Returns its size and the seconds of the fastest read.
pub(super) async fn list(connector: &Connector) -> Result<(usize, f64)> {
    let mut connection = connector.http1().await?;
    let mut best = (0, f64::INFINITY);
    for _ in 0..LISTS {
        let start = Instant::now();
        let mut body = connection.open(&collection("listed")).await?.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        ensure!(bytes > OBJECTS * 1000, "the list is incomplete: it has only {bytes} bytes");
        best = (bytes, start.elapsed().as_secs_f64().min(best.1));
    }
    Ok(best)
}

/// The concurrent watchers. Dropping this ends all watches.
#[derive(Debug)]
pub(super) struct WatchLoad {
    connector: Connector,
    watchers: JoinSet<Result<()>>,
    /// The events that all watchers have received together.
    received: Arc<AtomicUsize>,
    /// The number of events that they have to receive in all rounds so far.
    due: usize,
    /// The number of changes made so far.
    changes: usize,
}

impl WatchLoad {
    /// Opens all watches and waits until the server has responded to each.
    pub(super) async fn begin(connector: &Connector) -> Result<Self> {
        let mut connection = connector.http1().await?;
        let (code, _) = connection.send(Method::POST, &collection("watched"), object("watched", 0)).await?;
        ensure!(code == StatusCode::CREATED, "creating the watched object failed with {code}");
        let (_, list) = connection.send(Method::GET, &collection("watched"), Bytes::new()).await?;
        let list: Value = serde_json::from_slice(&list)?;
        let version = list["metadata"]["resourceVersion"].as_str().context("the list has no version")?;
        let target = format!("{}?watch=true&resourceVersion={version}", collection("watched"));

        let received = Arc::new(AtomicUsize::new(0));
        let mut watchers = JoinSet::new();
        for _ in 0..WATCH_CONNECTIONS {
            let mut connection = connector.http2().await?;
            for _ in 0..WATCHERS / WATCH_CONNECTIONS {
                let response = connection.open(&target, None).await?;
                ensure!(response.status() == StatusCode::OK, "a watch failed with {}", response.status());
                watchers.spawn(count(response.into_body(), Arc::clone(&received)));
            }
        }
        Ok(Self { connector: connector.clone(), watchers, received, due: 0, changes: 0 })
    }

    /// Changes the object as fast as one connection can. Returns the seconds until every watcher
    /// has received everything.
    pub(super) async fn rush(&mut self) -> Result<f64> {
        self.change(None).await
    }

    /// Does the same as [`rush`](Self::rush) with a pause after each change.
    pub(super) async fn pace(&mut self) -> Result<f64> {
        self.change(Some(PACE)).await
    }

    async fn change(&mut self, pause: Option<Duration>) -> Result<f64> {
        let mut connection = self.connector.http1().await?;
        let target = format!("{}/watched", collection("watched"));
        let start = Instant::now();
        for _ in 0..CHANGES {
            self.changes += 1;
            let (code, _) = connection.send(Method::PUT, &target, object("watched", self.changes)).await?;
            ensure!(code == StatusCode::OK, "a change failed with {code}");
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
        }
        self.due += CHANGES * WATCHERS;
        while self.received.load(Ordering::Relaxed) < self.due {
            if let Some(ended) = self.watchers.try_join_next() {
                ended?.context("a watch broke")?;
                anyhow::bail!("the server ended a watch before all events were sent");
            }
            let received = self.received.load(Ordering::Relaxed);
            ensure!(start.elapsed() < TIMEOUT, "watchers received {received} of {} events in time", self.due);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let received = self.received.load(Ordering::Relaxed);
        ensure!(received == self.due, "watchers received {received} events instead of {}", self.due);
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Counts the lines of a watch's body.
async fn count(mut body: Incoming, received: Arc<AtomicUsize>) -> Result<()> {
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|it| **it == b'\n').count());
        received.fetch_add(lines, Ordering::Relaxed);
    }
    Ok(())
}

async fn all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

//! The load of `bench apiserver`: writers, a reader and a crowd of watchers, the same for every server.
//!
//! It goes over plain connections and decodes nothing: an event is a line of a watch's body.

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

use testbed::link::Link;

/// How many connections write at once.
pub(super) const LANES: usize = 8;
/// How many objects are created while the clock runs.
pub(super) const CREATES: usize = 10_000;
/// How many objects are listed: those that were created.
pub(super) const OBJECTS: usize = CREATES;
pub(super) const WATCHERS: usize = 1_000;
/// Over how many connections they watch: each carries ten watches, as those of a real controller do.
pub(super) const ROADS: usize = 100;
/// How many changes each watcher is told of, in each of two rounds.
pub(super) const CHANGES: usize = 200;
/// Between two changes that come one by one.
const PACE: Duration = Duration::from_millis(20);
/// How often the list is read; the best counts, since what else the machine does can only add to it.
const LISTS: usize = 3;
/// What is created before the clock runs, by each connection.
const WARM_UP: usize = 50;
/// How long watchers may take to be told everything.
const PATIENCE: Duration = Duration::from_secs(120);

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

/// Makes the namespaces, and one object that watchers will hear of.
pub(super) async fn prepare(link: &Link) -> Result<()> {
    let mut lane = link.lane().await?;
    for namespace in ["warm", "listed", "watched"] {
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        let body = Bytes::from(body.to_string());
        let (code, answer) = lane.send(Method::POST, "/api/v1/namespaces", body).await?;
        ensure!(code == StatusCode::CREATED, "a namespace was refused: {}", String::from_utf8_lossy(&answer));
    }
    create_in(link, "warm", LANES * WARM_UP).await?;
    Ok(())
}

/// Creates the objects; gives the seconds it took.
pub(super) async fn create(link: &Link) -> Result<f64> {
    create_in(link, "listed", CREATES).await
}

async fn create_in(link: &Link, namespace: &str, count: usize) -> Result<f64> {
    let mut lanes = Vec::new();
    for number in 0..LANES {
        let bodies: Vec<_> =
            (number..count).step_by(LANES).map(|it| object(&format!("object-{it:05}"), it)).collect();
        lanes.push((link.lane().await?, bodies));
    }
    let start = Instant::now();
    let mut writers = JoinSet::new();
    for (mut lane, bodies) in lanes {
        let target = collection(namespace);
        writers.spawn(async move {
            for body in bodies {
                let (code, answer) = lane.send(Method::POST, &target, body).await?;
                ensure!(
                    code == StatusCode::CREATED,
                    "a create was refused: {}",
                    String::from_utf8_lossy(&answer)
                );
            }
            Ok(())
        });
    }
    all(writers).await?;
    Ok(start.elapsed().as_secs_f64())
}

/// Reads the list some times; gives its size and the seconds of the best time.
pub(super) async fn list(link: &Link) -> Result<(usize, f64)> {
    let mut lane = link.lane().await?;
    let mut best = (0, f64::INFINITY);
    for _ in 0..LISTS {
        let start = Instant::now();
        let mut body = lane.open(&collection("listed")).await?.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        ensure!(bytes > OBJECTS * 1000, "a list of {bytes} bytes cannot be whole");
        best = (bytes, start.elapsed().as_secs_f64().min(best.1));
    }
    Ok(best)
}

/// A crowd that watches. Dropping it ends all watches.
#[derive(Debug)]
pub(super) struct Watching {
    link: Link,
    watchers: JoinSet<Result<()>>,
    /// What all of them were told, added up.
    told: Arc<AtomicUsize>,
    /// What they have to have been told, to be done.
    due: usize,
    /// How many changes there were.
    changes: usize,
}

impl Watching {
    /// Opens all watches and waits until the server has answered each.
    pub(super) async fn begin(link: &Link) -> Result<Self> {
        let mut lane = link.lane().await?;
        let (code, _) = lane.send(Method::POST, &collection("watched"), object("watched", 0)).await?;
        ensure!(code == StatusCode::CREATED, "the watched object was refused");
        let (_, list) = lane.send(Method::GET, &collection("watched"), Bytes::new()).await?;
        let list: Value = serde_json::from_slice(&list)?;
        let version = list["metadata"]["resourceVersion"].as_str().context("the list has no version")?;
        let target = format!("{}?watch=true&resourceVersion={version}", collection("watched"));

        let told = Arc::new(AtomicUsize::new(0));
        let mut watchers = JoinSet::new();
        for _ in 0..ROADS {
            let mut road = link.road().await?;
            for _ in 0..WATCHERS / ROADS {
                let response = road.open(&target).await?;
                ensure!(
                    response.status() == StatusCode::OK,
                    "a watch was refused with {}",
                    response.status()
                );
                watchers.spawn(count(response.into_body(), Arc::clone(&told)));
            }
        }
        Ok(Self { link: link.clone(), watchers, told, due: 0, changes: 0 })
    }

    /// Changes the object as fast as one connection can; gives the seconds until every watcher was told everything.
    pub(super) async fn rush(&mut self) -> Result<f64> {
        self.change(None).await
    }

    /// The same, one change after another with a pause between them.
    pub(super) async fn pace(&mut self) -> Result<f64> {
        self.change(Some(PACE)).await
    }

    async fn change(&mut self, pause: Option<Duration>) -> Result<f64> {
        let mut lane = self.link.lane().await?;
        let target = format!("{}/watched", collection("watched"));
        let start = Instant::now();
        for _ in 0..CHANGES {
            self.changes += 1;
            let (code, _) = lane.send(Method::PUT, &target, object("watched", self.changes)).await?;
            ensure!(code == StatusCode::OK, "a change was refused with {code}");
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
        }
        self.due += CHANGES * WATCHERS;
        while self.told.load(Ordering::Relaxed) < self.due {
            if let Some(ended) = self.watchers.try_join_next() {
                ended?.context("a watch broke")?;
                anyhow::bail!("a watch ended too early");
            }
            let told = self.told.load(Ordering::Relaxed);
            ensure!(start.elapsed() < PATIENCE, "watchers were told {told} of {} events", self.due);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let told = self.told.load(Ordering::Relaxed);
        ensure!(told == self.due, "watchers were told {told} events instead of {}", self.due);
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Counts the lines of a body.
async fn count(mut body: Incoming, told: Arc<AtomicUsize>) -> Result<()> {
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|it| **it == b'\n').count());
        told.fetch_add(lines, Ordering::Relaxed);
    }
    Ok(())
}

async fn all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

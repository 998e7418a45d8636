//! The writers. They meet the same faults as the followers, and retry until a change succeeds.

use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::Method;
use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::objects::{END, TIMEOUT, object};
use testbed::connector::{Connector, Http1Connection};

/// The number of concurrent writers.
const WRITERS: usize = 4;
/// The pause between two changes of a writer.
const PACE: Duration = Duration::from_millis(10);
/// The pause before a new connection is opened after one that failed.
const PAUSE: Duration = Duration::from_millis(50);
/// Distributes changes over the objects. It is a prime, so that every object is reached.
const STRIDE: usize = 7_919;

/// The way to the followed objects.
#[derive(Clone, Debug)]
pub(super) struct Writers {
    connector: Connector,
    namespace: String,
}

impl Writers {
    /// Creates writers of this namespace over connections of this connector.
    pub(super) fn new(connector: &Connector, namespace: &str) -> Self {
        Self { connector: connector.clone(), namespace: namespace.to_owned() }
    }

    /// Creates the namespace and its objects.
    pub(super) async fn fill(&self, count: usize) -> Result<()> {
        let name = &self.namespace;
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let body = Bytes::from(body.to_string());
        let (code, _) = self.connector.http1().await?.send(Method::POST, "/api/v1/namespaces", body).await?;
        ensure!(code == StatusCode::CREATED, "creating the namespace {name} failed with {code}");
        let mut writers = JoinSet::new();
        for first in 0..WRITERS {
            let mut writer = self.writer();
            writers.spawn(async move {
                for number in (first..count).step_by(WRITERS) {
                    writer.create(&name_of(number), 0).await?;
                }
                Ok(0)
            });
        }
        sum(writers).await.map(drop)
    }

    /// Changes, deletes and creates objects for a duration. Returns the number of changes.
    pub(super) async fn change(&self, count: usize, how_long: Duration) -> Result<usize> {
        let end = Instant::now() + how_long;
        let mut writers = JoinSet::new();
        for first in 0..WRITERS {
            let mut writer = self.writer();
            writers.spawn(async move {
                let mut changes = 0;
                while Instant::now() < end {
                    let turn = first + changes * WRITERS;
                    let name = name_of(turn * STRIDE % count);
                    match turn % 7 {
                        0 | 3 => writer.delete(&name).await?,
                        1 => writer.create(&name, turn).await?,
                        _ => writer.update(&name, turn).await?,
                    }
                    changes += 1;
                    tokio::time::sleep(PACE).await;
                }
                Ok(changes)
            });
        }
        sum(writers).await
    }

    /// Creates the object that marks the end.
    pub(super) async fn end(&self) -> Result<()> {
        self.writer().create(END, 0).await
    }

    /// Deletes the namespace and its objects, on a server that others use as well.
    pub(super) async fn clear(&self) -> Result<()> {
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        let mut connection = self.connector.http1().await?;
        for path in [format!("{namespace}/configmaps"), namespace] {
            let (code, _) = connection.send(Method::DELETE, &path, Bytes::new()).await?;
            ensure!(code.is_success(), "deleting {path} failed with {code}");
        }
        Ok(())
    }

    fn writer(&self) -> Writer {
        Writer { writers: self.clone(), connection: None }
    }
}

fn name_of(number: usize) -> String {
    format!("object-{number:05}")
}

async fn sum(mut writers: JoinSet<Result<usize>>) -> Result<usize> {
    let mut sum = 0;
    while let Some(done) = writers.join_next().await {
        sum += done??;
    }
    Ok(sum)
}

/// Writes over one connection, and opens a new one when it breaks.
struct Writer {
    writers: Writers,
    connection: Option<Http1Connection>,
}

impl Writer {
    async fn create(&mut self, name: &str, change: usize) -> Result<()> {
        // It may exist already: it was not deleted, or the response to the first attempt was lost.
        self.until(Method::POST, "", object(name, change), &[StatusCode::CREATED, StatusCode::CONFLICT]).await
    }

    async fn update(&mut self, name: &str, change: usize) -> Result<()> {
        let path = format!("/{name}");
        self.until(Method::PUT, &path, object(name, change), &[StatusCode::OK, StatusCode::NOT_FOUND]).await
    }

    async fn delete(&mut self, name: &str) -> Result<()> {
        let path = format!("/{name}");
        self.until(Method::DELETE, &path, Bytes::new(), &[StatusCode::OK, StatusCode::NOT_FOUND]).await
    }

    /// Repeats a request until the response has one of these codes. Other responses and errors are
    /// injected faults.
    async fn until(&mut self, method: Method, path: &str, body: Bytes, codes: &[StatusCode]) -> Result<()> {
        let target = format!("/api/v1/namespaces/{}/configmaps{path}", self.writers.namespace);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let failure = match self.send(&method, &target, &body).await {
                Ok((code, _)) if codes.contains(&code) => return Ok(()),
                Ok((code, answer)) => format!("{code}: {}", String::from_utf8_lossy(&answer)),
                Err(error) => {
                    tokio::time::sleep(PAUSE).await;
                    format!("{error:#}")
                }
            };
            ensure!(Instant::now() < deadline, "{method} {target} did not succeed in time: {failure}");
        }
    }

    /// Sends a request once. The connection is kept if there was a response.
    async fn send(&mut self, method: &Method, target: &str, body: &Bytes) -> Result<(StatusCode, Bytes)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.writers.connector.http1().await?,
        };
        let answer = connection.send(method.clone(), target, body.clone()).await?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

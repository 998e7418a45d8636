//! The writers. They meet the same faults, and retry until a change succeeds.

use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::Method;
use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::objects::{END, NAMESPACE, TIMEOUT, object};
use testbed::connector::{Connector, Http1Connection};

/// The number of concurrent writers.
const WRITERS: usize = 4;
/// The pause between two changes of a writer.
const PACE: Duration = Duration::from_millis(10);
/// Distributes changes over the objects. It is a prime, so that every object is reached.
const STRIDE: usize = 7_919;

/// Creates the namespace and its objects.
pub(super) async fn fill(connector: &Connector, count: usize) -> Result<()> {
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    let body = Bytes::from(body.to_string());
    let (code, _) = connector.http1().await?.send(Method::POST, "/api/v1/namespaces", body).await?;
    ensure!(code == StatusCode::CREATED, "creating the namespace failed with {code}");
    let mut writers = JoinSet::new();
    for first in 0..WRITERS {
        let mut writer = Writer { connector: connector.clone(), connection: None };
        writers.spawn(async move {
            for number in (first..count).step_by(WRITERS) {
                writer.create(&name(number), 0).await?;
            }
            Ok(0)
        });
    }
    sum(writers).await.map(drop)
}

/// Changes, deletes and creates objects for a duration. Returns the number of changes.
pub(super) async fn change(connector: &Connector, count: usize, how_long: Duration) -> Result<usize> {
    let end = Instant::now() + how_long;
    let mut writers = JoinSet::new();
    for first in 0..WRITERS {
        let mut writer = Writer { connector: connector.clone(), connection: None };
        writers.spawn(async move {
            let mut changes = 0;
            while Instant::now() < end {
                let turn = first + changes * WRITERS;
                let name = name(turn * STRIDE % count);
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
pub(super) async fn end(connector: &Connector) -> Result<()> {
    Writer { connector: connector.clone(), connection: None }.create(END, 0).await
}

fn name(number: usize) -> String {
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
    connector: Connector,
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
        let target = format!("/api/v1/namespaces/{NAMESPACE}/configmaps{path}");
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connector.http1().await?,
            };
            let failure = match connection.send(method.clone(), &target, body.clone()).await {
                Ok((code, answer)) => {
                    self.connection = Some(connection);
                    if codes.contains(&code) {
                        return Ok(());
                    }
                    format!("{code}: {}", String::from_utf8_lossy(&answer))
                }
                Err(error) => format!("{error:#}"),
            };
            ensure!(Instant::now() < deadline, "{method} {target} did not succeed in time: {failure}");
        }
    }
}

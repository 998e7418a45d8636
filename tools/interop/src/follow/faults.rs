//! The disturbances of the followers, and those of our own server: rules that stay while the
//! followers run, and actions that are repeated.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Value, json};

use testbed::connector::Connector;

const FAULTS: &str = "/_dogwatch/faults";
/// The pause between two actions.
const PACE: Duration = Duration::from_millis(1_500);

/// Faults that disturb the followers.
pub(crate) trait Disturbances {
    /// Disturbs them again and again until it is dropped.
    async fn repeat(&mut self) -> Result<Infallible>;

    /// Ends what would hold up the last change for ever.
    async fn resume(&mut self) -> Result<()>;

    /// Ends the others. Returns what was done, in words.
    async fn end(&mut self) -> Result<String>;
}

/// The fault injection of our own server.
#[derive(Debug)]
pub(crate) struct Faults {
    connector: Connector,
}

impl Faults {
    /// Adds the rules to a server that was started with `--admin`.
    pub(crate) async fn begin(connector: &Connector) -> Result<Self> {
        let faults = Self { connector: connector.clone() };
        for rule in rules() {
            faults.request(Method::POST, "", rule).await?;
        }
        Ok(faults)
    }

    /// Removes the rules. Returns the counts of the injected faults.
    pub(crate) async fn clear(&self) -> Result<Value> {
        Ok(self.request(Method::DELETE, "", Value::Null).await?["tally"].clone())
    }

    async fn request(&self, method: Method, path: &str, body: Value) -> Result<Value> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let (code, answer) =
            self.connector.http1().await?.send(method, &format!("{FAULTS}{path}"), body).await?;
        ensure!(
            code.is_success(),
            "the fault-injection request {path} failed: {}",
            String::from_utf8_lossy(&answer)
        );
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl Disturbances for Faults {
    /// Drops and cuts watches, forces bookmarks, pauses delivery for a moment and compacts history,
    /// in turn.
    async fn repeat(&mut self) -> Result<Infallible> {
        let actions = [
            ("/drop-watches", json!({ "on": { "resource": "configmaps" } })),
            ("/bookmark", json!({})),
            ("/compact", json!({})),
            ("/drop-watches", json!({ "on": { "resource": "configmaps" }, "cut": true })),
            ("/pause", json!({})),
            ("/resume", json!({})),
            ("/expire", json!({})),
        ];
        loop {
            for (path, body) in &actions {
                tokio::time::sleep(PACE).await;
                self.request(Method::POST, path, body.clone()).await?;
            }
        }
    }

    /// Resumes delivery. The rules stay.
    async fn resume(&mut self) -> Result<()> {
        self.request(Method::POST, "/resume", Value::Null).await.map(drop)
    }

    async fn end(&mut self) -> Result<String> {
        let tally = self.clear().await?;
        for fault in ["refused", "reset", "dropped", "delayed"] {
            ensure!(tally[fault].as_u64() > Some(0), "no request was {fault}: {tally}");
        }
        Ok(format!("injected faults: {tally}"))
    }
}

/// Returns the random faults. Their seeds make them reproducible, as far as requests come in the
/// same order.
fn rules() -> Vec<Value> {
    let on = |verbs: &[&str]| json!({ "verbs": verbs, "resource": "configmaps" });
    let reads = on(&["list", "watch"]);
    let writes = on(&["create", "update", "delete"]);
    let watches = on(&["watch"]);
    vec![
        json!({ "on": reads, "probability": 0.1, "seed": 1, "refuse": { "code": 429, "retryAfter": 1 } }),
        json!({ "on": reads, "probability": 0.1, "seed": 2, "refuse": { "code": 500 } }),
        json!({ "on": reads, "probability": 0.1, "seed": 3, "reset": "before" }),
        json!({ "on": reads, "probability": 0.2, "seed": 4, "delay": "1ms..200ms" }),
        json!({ "on": writes, "probability": 0.01, "seed": 5, "reset": "before" }),
        json!({ "on": writes, "probability": 0.01, "seed": 6, "reset": "after" }),
        json!({ "on": writes, "probability": 0.01, "seed": 7, "refuse": { "code": 500 } }),
        json!({ "on": watches, "probability": 0.3, "seed": 8, "drop": { "after": 400 } }),
        json!({ "on": watches, "probability": 0.3, "seed": 9, "drop": { "after": 250, "cut": true } }),
        json!({ "on": watches, "probability": 0.5, "seed": 10, "split": 7 }),
        json!({ "on": watches, "probability": 0.3, "seed": 11, "coalesce": "5ms..50ms" }),
        json!({ "on": watches, "probability": 0.3, "seed": 12, "lag": "1ms..20ms" }),
    ]
}

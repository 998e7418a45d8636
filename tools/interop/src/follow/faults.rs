//! The injected faults: rules that stay while the followers run, and actions that are repeated.

use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Value, json};

use testbed::connector::Connector;

const FAULTS: &str = "/_dogwatch/faults";
/// The pause between two actions.
const PACE: Duration = Duration::from_millis(1_500);

/// The fault injection of a server.
#[derive(Debug)]
pub(super) struct Faults {
    connector: Connector,
}

impl Faults {
    /// Adds the rules.
    pub(super) async fn begin(connector: &Connector) -> Result<Self> {
        let faults = Self { connector: connector.clone() };
        for rule in rules() {
            faults.request(Method::POST, "", rule).await?;
        }
        Ok(faults)
    }

    /// Drops and cuts watches, forces bookmarks, pauses delivery for a moment and compacts history,
    /// in turn and forever.
    pub(super) async fn repeat_actions<T>(&self) -> Result<T> {
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

    /// Resumes delivery at the end of the actions. The rules stay.
    pub(super) async fn resume(&self) -> Result<()> {
        self.request(Method::POST, "/resume", Value::Null).await.map(drop)
    }

    /// Removes the rules. Returns the counts of the injected faults.
    pub(super) async fn clear(self) -> Result<Value> {
        let answer = self.request(Method::DELETE, "", Value::Null).await?;
        for fault in ["refused", "reset", "dropped", "delayed"] {
            ensure!(answer["tally"][fault].as_u64() > Some(0), "no request was {fault}: {}", answer["tally"]);
        }
        Ok(answer["tally"].clone())
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

//! A client of the fault-injection API. A server that does not offer it is recognized, so that the
//! error says which flag or which server is missing.

use dogwatch::client::Request;
use dogwatch::{Client, Error};
use dogwatch_apiserver::faults::Rule;
use serde_json::Value;

use crate::advice::FaultApiError;
use crate::connection::Connection;
use crate::failure::Reason;

const PATH: &str = "/_dogwatch/faults";

/// The fault-injection API of a server.
pub(super) struct FaultApi {
    client: Client,
}

impl FaultApi {
    pub(super) fn new(connection: &Connection) -> Result<Self, Error> {
        Ok(Self { client: connection.client()? })
    }

    /// Returns all rules and counters.
    pub(super) async fn list(&self) -> anyhow::Result<Value> {
        self.send(self.client.get().uri(PATH), None).await
    }

    /// Adds a rule; returns it with its number.
    pub(super) async fn add(&self, rule: &Rule) -> anyhow::Result<Value> {
        self.send(self.client.post().uri(PATH).json(rule), None).await
    }

    /// Removes a rule; returns it with its counters.
    pub(super) async fn remove(&self, id: u64) -> anyhow::Result<Value> {
        self.send(self.client.delete().uri(&format!("{PATH}/{id}")), Some(id)).await
    }

    /// Removes all rules.
    pub(super) async fn clear(&self) -> anyhow::Result<Value> {
        self.send(self.client.delete().uri(PATH), None).await
    }

    /// Carries out an action on open watches or the history.
    pub(super) async fn switch(&self, name: &str, order: &Value) -> anyhow::Result<Value> {
        self.send(self.client.post().uri(&format!("{PATH}/{name}")).json(order), None).await
    }

    async fn send(&self, request: Request, id: Option<u64>) -> anyhow::Result<Value> {
        let error = match request.accept("application/json").send().await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let has_status = error.status().is_some_and(|it| !it.is_unexpected_server_response());
        match id {
            Some(id) if error.is_not_found() && has_status && self.other_version().await.is_none() => {
                Err(FaultApiError::NoRule { id }.into())
            }
            _ if error.is_not_found() || error.is_forbidden() => Err(self.explain(error, has_status).await),
            _ => Err(error.into()),
        }
    }

    /// Explains a path that is not served, or that the user may not use.
    async fn explain(&self, error: Error, has_status: bool) -> anyhow::Error {
        let server = self.client.server().to_string();
        match self.other_version().await {
            Some(version) => {
                let source = Reason::from(format!("it is not `dogwatch serve`, but Kubernetes {version}"));
                FaultApiError::OtherServer { server, source }.into()
            }
            None if error.is_not_found() && !has_status => {
                let source = Reason::from("it was started without --admin");
                FaultApiError::NotEnabled { server, source }.into()
            }
            None => error.into(),
        }
    }

    /// Returns the version of a server that is not ours. Ours has no git commit in its version;
    /// every build of Kubernetes has one.
    async fn other_version(&self) -> Option<String> {
        let version: Value = self.client.get().uri("/version").send().await.ok()?;
        let commit = version["gitCommit"].as_str().unwrap_or_default();
        let name = version["gitVersion"].as_str().unwrap_or("of an unknown version");
        (!commit.is_empty()).then(|| crate::sanitize::without_controls(name))
    }
}

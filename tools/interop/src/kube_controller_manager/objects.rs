//! Objects by path, as JSON: the few calls that the scenario and the node need.

use anyhow::Result;
use dogwatch::Client;
use serde_json::{Value, json};

/// Access to the objects of a server.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    client: Client,
}

impl Objects {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns the object or list at `path`.
    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.client.get().path(&[path]).send().await?)
    }

    /// Returns the items of the list at `path`.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.get(path).await?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Returns true if there is no object at `path`.
    pub(super) async fn is_gone(&self, path: &str) -> Result<bool> {
        match self.client.get().path(&[path]).bytes().await {
            Ok(_) => Ok(false),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates an object in the collection at `path`.
    pub(super) async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        Ok(self.client.post().path(&[path]).json(object).send().await?)
    }

    /// Patches the object at `path` with a merge patch.
    pub(super) async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        let request = self.client.patch("application/merge-patch+json").path(&[path]);
        let body = serde_json::to_vec(patch)?;
        Ok(request.body("application/merge-patch+json", body).send().await?)
    }

    /// Deletes the object at `path`, with this propagation policy for its dependents.
    pub(super) async fn delete(&self, path: &str, propagation: &str) -> Result<Value> {
        self.delete_with(path, &json!({ "propagationPolicy": propagation })).await
    }

    /// Deletes the object at `path` without a grace period.
    pub(super) async fn delete_now(&self, path: &str) -> Result<Value> {
        self.delete_with(path, &json!({ "gracePeriodSeconds": 0 })).await
    }

    async fn delete_with(&self, path: &str, options: &Value) -> Result<Value> {
        Ok(self.client.delete().path(&[path]).json(options).send().await?)
    }
}

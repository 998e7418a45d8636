//! The scale subresource of any resource (rule SC-1).

use dogwatch_core::{GetParams, Gvk, PatchParams, WriteParams};
use k8s_openapi::api::autoscaling::v1::Scale;
use kube_core::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};

use super::mapper::{MapError, RestMapper};
use super::matching::Match;
use crate::api::{Api, Patch};
use crate::error::{Error, InvalidRequest};

/// A handle on a resource that can be scaled, over all namespaces until one is set.
///
/// ```
/// use dogwatch_client::RestMapper;
/// use dogwatch_core::PatchParams;
///
/// async fn halve(mapper: RestMapper) -> Result<(), Box<dyn std::error::Error>> {
///     let deployments = mapper.scalable("deploy").await?.in_namespace("shop");
///     let scale = deployments.get("web").await?;
///     let replicas = scale.spec.and_then(|it| it.replicas).unwrap_or_default();
///     deployments.set_replicas("web", &PatchParams::default(), replicas / 2).await?;
///     Ok(())
/// }
/// # let _ = halve;
/// ```
#[derive(Clone, Debug)]
pub struct Scalable {
    api: Api<DynamicObject>,
    /// The kind of the server's scale.
    kind: Gvk,
}

/// An error of resolving a scalable resource.
///
/// ```
/// use dogwatch_client::discovery::ScaleError;
/// use dogwatch_client::{CachedDiscovery, RestMapper};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let mapper = RestMapper::new(CachedDiscovery::new(client));
/// match mapper.scalable("configmaps").await {
///     Ok(scalable) => println!("{:?}", scalable.api().resource()),
///     Err(ScaleError::NotScalable(resource)) => assert_eq!(resource, "configmaps"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// The resource does not exist, or discovery failed.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The resource has no scale subresource.
    #[error("{0} cannot be scaled: it has no scale subresource")]
    NotScalable(String),
}

impl RestMapper {
    /// Returns a scale handle for the resource of a name; see [`Self::resolve`].
    ///
    /// # Errors
    /// Returns an error if no resource matches the name, or it has no scale.
    pub async fn scalable(&self, word: &str) -> Result<Scalable, ScaleError> {
        self.scalable_of(self.resolve(word).await?)
    }

    /// Returns a scale handle for a kind, as an owner reference or a `scaleTargetRef` names it.
    ///
    /// # Errors
    /// Returns an error if the server has no such kind, or it has no scale.
    pub async fn scalable_kind(&self, kind: &Gvk) -> Result<Scalable, ScaleError> {
        self.scalable_of(self.by_kind(kind).await?)
    }

    fn scalable_of(&self, found: Match) -> Result<Scalable, ScaleError> {
        let Some(scale) = found.resource.subresource("scale") else {
            return Err(ScaleError::NotScalable(found.resource.group_resource()));
        };
        let kind = scale.gvk.clone();
        Ok(Scalable { api: Api::dynamic(self.client().clone(), found.resource.resource), kind })
    }
}

impl Scalable {
    /// Sets the namespace. Ignored for a cluster-scoped resource.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.api = self.api.in_namespace(namespace);
        self
    }

    /// Returns the handle on the objects themselves.
    pub fn api(&self) -> &Api<DynamicObject> {
        &self.api
    }

    /// Reads the scale of an object: its current and desired number of replicas.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist.
    pub async fn get(&self, name: &str) -> Result<Scale, Error> {
        self.read(self.api.get_subresource(name, "scale", &GetParams::default()).await?)
    }

    /// Replaces the scale of an object; if it has a version, only if the object did not change
    /// since.
    ///
    /// # Errors
    /// `Conflict` if the object changed since it was read.
    pub async fn replace(&self, name: &str, params: &WriteParams, scale: &Scale) -> Result<Scale, Error> {
        let body = self.written(scale)?;
        self.read(self.api.replace_subresource(name, "scale", params, &body).await?)
    }

    /// Patches the scale of an object.
    ///
    /// # Errors
    /// See [`Api::patch`].
    pub async fn patch<P>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: Patch<'_, P>,
    ) -> Result<Scale, Error>
    where
        P: Serialize + ?Sized,
    {
        self.read(self.api.patch_subresource(name, "scale", params, patch).await?)
    }

    /// Sets the desired number of replicas of an object.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist.
    pub async fn set_replicas(
        &self,
        name: &str,
        params: &PatchParams,
        replicas: i32,
    ) -> Result<Scale, Error> {
        self.patch(name, params, Patch::Merge(&json!({ "spec": { "replicas": replicas } }))).await
    }

    /// Serialises the scale in the server's version: all versions have the same `spec`, and clients
    /// do not write `status`.
    fn written(&self, scale: &Scale) -> Result<Value, Error> {
        let unwritable = |error: serde_json::Error| InvalidRequest::Body(error.to_string());
        let mut body = serde_json::to_value(scale).map_err(unwritable)?;
        if self.kind.version != "v1" || self.kind.group != "autoscaling" {
            body["apiVersion"] = json!(self.kind.api_version());
            if let Some(fields) = body.as_object_mut() {
                fields.remove("status");
            }
        }
        Ok(body)
    }

    fn read(&self, answer: Value) -> Result<Scale, Error> {
        let malformed = |error: serde_json::Error| Error::Malformed {
            request: format!("the scale of {}", self.api.resource().gvr()),
            problem: error.to_string(),
        };
        serde_json::from_value(current_form(answer)).map_err(malformed)
    }
}

/// Converts any version of a scale to `autoscaling/v1`. Older ones have a map as selector, and its
/// text in another field.
fn current_form(mut scale: Value) -> Value {
    // Anything that is no object is left as it is, and is malformed.
    if let Some(fields) = scale.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!("autoscaling/v1"));
    }
    if let Some(status) = scale.get_mut("status").and_then(Value::as_object_mut) {
        let text = status.remove("targetSelector").and_then(|it| it.as_str().map(str::to_owned));
        if let Some(Value::Object(labels)) = status.get("selector") {
            let pairs =
                labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            let joined = pairs.collect::<Vec<_>>().join(",");
            status.insert("selector".to_owned(), json!(text.unwrap_or(joined)));
        } else if let Some(text) = text {
            status.insert("selector".to_owned(), json!(text));
        }
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_object_is_malformed() {
        for answer in [json!([]), json!("scale"), json!(1), json!(null), json!({"status": []})] {
            assert!(serde_json::from_value::<Scale>(current_form(answer.clone())).is_err(), "{answer}");
        }
    }

    #[test]
    fn sc_1_every_form_of_a_scale_is_read_as_autoscaling_v1() {
        for (api_version, status, selector) in [
            ("autoscaling/v1", json!({"replicas": 1, "selector": "a=b"}), Some("a=b")),
            ("extensions/v1beta1", json!({"replicas": 1, "selector": {"a": "b", "c": "d"}}), Some("a=b,c=d")),
            (
                "apps/v1beta2",
                json!({"replicas": 1, "selector": {"a": "b"}, "targetSelector": "a in (b)"}),
                Some("a in (b)"),
            ),
            ("apps/v1beta1", json!({"replicas": 1, "targetSelector": "a"}), Some("a")),
            ("autoscaling/v1", json!({"replicas": 1}), None),
        ] {
            let scale = json!({
                "apiVersion": api_version, "kind": "Scale", "metadata": {"name": "x"},
                "spec": {"replicas": 3}, "status": status,
            });
            let scale: Scale = serde_json::from_value(current_form(scale)).expect(api_version);
            assert_eq!(scale.spec.and_then(|it| it.replicas), Some(3), "{api_version}");
            assert_eq!(scale.status.and_then(|it| it.selector).as_deref(), selector, "{api_version}");
        }
    }
}

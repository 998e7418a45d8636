//! Subresources: status, scale, and any others.

use dogwatch_core::{GetParams, PatchParams, WriteParams};
use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::form::Shape;
use super::{Api, Patch};
use crate::error::Error;
use crate::request::Request;

impl<K> Api<K> {
    /// Reads the `status` subresource of an object.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist or its kind has no such subresource.
    pub async fn get_status(&self, name: &str) -> Result<K, Error>
    where
        K: DeserializeOwned,
    {
        self.get_subresource(name, "status", &GetParams::default()).await
    }

    /// Replaces the status of an object; the server ignores everything else in `object`.
    ///
    /// # Errors
    /// `Conflict` if the object changed since it was read.
    pub async fn replace_status(&self, name: &str, params: &WriteParams, object: &K) -> Result<K, Error>
    where
        K: Serialize + DeserializeOwned,
    {
        self.replace_subresource(name, "status", params, object).await
    }

    /// Patches the status of an object.
    ///
    /// # Errors
    /// See [`Self::patch`].
    pub async fn patch_status<P>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: Patch<'_, P>,
    ) -> Result<K, Error>
    where
        K: DeserializeOwned,
        P: Serialize + ?Sized,
    {
        self.patch_subresource(name, "status", params, patch).await
    }

    /// Reads the `scale` subresource of an object: its current and desired number of replicas (rule
    /// SC-1).
    ///
    /// For a resource that returns an older version of `Scale`, see
    /// [`crate::RestMapper::scalable`].
    ///
    /// # Errors
    /// `NotFound` if the object does not exist or its kind cannot be scaled.
    pub async fn get_scale(&self, name: &str) -> Result<Scale, Error> {
        self.get_subresource(name, "scale", &GetParams::default()).await
    }

    /// Sets the desired number of replicas of an object.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist or its kind cannot be scaled.
    pub async fn set_replicas(
        &self,
        name: &str,
        params: &PatchParams,
        replicas: i32,
    ) -> Result<Scale, Error> {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.patch_subresource(name, "scale", params, Patch::Merge(&patch)).await
    }

    /// Replaces the scale of an object; if it has a version, only if the object did not change
    /// since.
    ///
    /// # Errors
    /// `Conflict` if the object changed since it was read.
    pub async fn replace_scale(
        &self,
        name: &str,
        params: &WriteParams,
        scale: &Scale,
    ) -> Result<Scale, Error> {
        self.replace_subresource(name, "scale", params, scale).await
    }

    /// Reads any subresource into any type.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist or its kind has no such subresource.
    pub async fn get_subresource<T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        params: &GetParams,
    ) -> Result<T, Error> {
        let request = self.on_object(self.client.get(), name).subresource(subresource);
        self.read_subresource(request.params(params.query())).await
    }

    /// Posts to any subresource, for example `binding` or `eviction` of a pod.
    ///
    /// # Errors
    /// They depend on the subresource.
    pub async fn create_subresource<T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        params: &WriteParams,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, Error> {
        let request = self.on_object(self.client.post(), name).subresource(subresource);
        self.read_subresource(request.params(params.query()).json(body)).await
    }

    /// Replaces any subresource.
    ///
    /// # Errors
    /// `Conflict` if the object changed since it was read.
    pub async fn replace_subresource<T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        params: &WriteParams,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, Error> {
        let request = self.on_object(self.client.put(), name).subresource(subresource);
        self.read_subresource(request.params(params.query()).json(body)).await
    }

    /// Patches any subresource.
    ///
    /// # Errors
    /// See [`Self::patch`].
    pub async fn patch_subresource<T, P>(
        &self,
        name: &str,
        subresource: &str,
        params: &PatchParams,
        patch: Patch<'_, P>,
    ) -> Result<T, Error>
    where
        T: DeserializeOwned,
        P: Serialize + ?Sized,
    {
        let request = self.on_object(self.client.patch(patch.content_type()), name).subresource(subresource);
        let [json, _] = super::form::Form::Full.accept(Shape::Object, self.fields);
        let request = request.accept(json).checked_params(params.query(false));
        self.read_subresource(request.json(patch.body())).await
    }

    /// Sends a request and decodes the response. Managed fields are left out, unless the handle
    /// keeps them.
    async fn read_subresource<T: DeserializeOwned>(&self, request: Request) -> Result<T, Error> {
        request.response().await?.decode(self.fields)
    }
}

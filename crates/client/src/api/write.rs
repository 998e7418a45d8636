//! Creating, replacing, patching and deleting.

use dogwatch_core::{DeleteParams, ListParams, PatchParams, Scope, Status, WriteParams};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use super::form::Shape;
use crate::encoding::{Encoding, PROTOBUF};
use crate::error::{Error, InvalidRequest};
use crate::exchange::error_response;
use crate::request::Request;
use crate::response::Response;

/// A change to an object, in one of the three forms besides server-side apply.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_client::api::Patch;
/// use dogwatch_core::PatchParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: \
/// #     blue}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// let change = serde_json::json!({ "data": { "colour": "red" } });
/// let map = maps.patch("settings", &PatchParams::default(), Patch::Merge(&change)).await?;
/// assert_eq!(map.data.unwrap_or_default()["colour"], "red");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Patch<'a, P: ?Sized> {
    /// A list of operations (RFC 6902): `json_patch::Patch` or anything that serialises like it.
    Json(&'a P),
    /// A partial object: present fields replace, `null` removes (RFC 7386). Lists are replaced
    /// whole.
    Merge(&'a P),
    /// A partial object whose lists are merged by key. Built-in kinds only.
    Strategic(&'a P),
}

/// The result of a deletion.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_client::api::Deletion;
/// use dogwatch_core::DeleteParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: \
/// #     blue}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// match maps.delete("settings", &DeleteParams::default()).await? {
///     Deletion::Gone(_) => println!("deleted"),
///     Deletion::Terminating(map) => println!("waits for {:?}", map.metadata.finalizers),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Deletion<K> {
    /// The object is deleted.
    Gone(Box<Status>),
    /// The object is terminating: it has finalizers or a grace period, and this is its current
    /// state.
    ///
    /// A few kinds return the last state of an object that is already deleted.
    Terminating(K),
}

impl<'a, P: Serialize + ?Sized> Patch<'a, P> {
    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    pub(super) fn body(&self) -> &'a P {
        match self {
            Self::Json(body) | Self::Merge(body) | Self::Strategic(body) => body,
        }
    }
}

impl<K> Api<K> {
    /// Creates an object and returns it as stored.
    ///
    /// It is never sent twice, unless the server reports that it did not execute it.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken; `Invalid` if the object fails validation.
    pub async fn create(&self, params: &WriteParams, object: &K) -> Result<K, Error>
    where
        K: Serialize + DeserializeOwned,
    {
        self.send_object(self.for_create().params(params.query()), object).await
    }

    /// Replaces an object with this one and returns it as stored.
    ///
    /// An object with a resource version is replaced only if it did not change since.
    ///
    /// # Errors
    /// `Conflict` if it changed since; `NotFound` if it does not exist.
    pub async fn replace(&self, name: &str, params: &WriteParams, object: &K) -> Result<K, Error>
    where
        K: Serialize + DeserializeOwned,
    {
        self.send_object(self.on_object(self.client.put(), name).params(params.query()), object).await
    }

    /// Patches an object and returns it as stored.
    ///
    /// # Errors
    /// `NotFound` if it does not exist; `Invalid` if the result fails validation.
    pub async fn patch<P>(&self, name: &str, params: &PatchParams, patch: Patch<'_, P>) -> Result<K, Error>
    where
        K: DeserializeOwned,
        P: Serialize + ?Sized,
    {
        let request = self.on_object(self.client.patch(patch.content_type()), name);
        self.read_object(request.checked_params(params.query(false)).json(patch.body())).await
    }

    /// Deletes one object.
    ///
    /// # Errors
    /// `NotFound` if it does not exist; `Conflict` if a precondition does not hold.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Deletion<K>, Error>
    where
        K: DeserializeOwned,
    {
        let request = self.on_object(self.client.delete(), name).json(&params.body());
        let response = self.accepting(request, Shape::Object).response().await?;
        self.deletion(&response)
    }

    /// Deletes all objects of the collection that the selectors select; returns their number.
    ///
    /// # Errors
    /// The first error ends it; objects deleted until then stay deleted.
    pub async fn delete_collection(&self, params: &DeleteParams, which: &ListParams) -> Result<usize, Error> {
        #[derive(serde::Deserialize)]
        struct Met {
            #[serde(default)]
            items: Vec<serde::de::IgnoredAny>,
        }
        if self.namespace.is_none() && self.resource.scope == Scope::Namespaced {
            let problem = "a collection is deleted one namespace at a time: set it with `in_namespace`";
            return Err(InvalidRequest::Object(problem).into());
        }
        let request =
            self.on_collection(self.client.delete()).checked_params(which.query()).json(&params.body());
        let met: Met = self.accepting(request, Shape::List).send().await?;
        Ok(met.items.len())
    }

    /// Sends a whole object and returns the one in the response.
    async fn send_object(&self, request: Request, object: &K) -> Result<K, Error>
    where
        K: Serialize + DeserializeOwned,
    {
        // An object that cannot be encoded is sent as JSON, so that the server reports its problem.
        if self.body_encoding.current() == Encoding::Protobuf
            && let Ok(body) = dogwatch_wire::to_protobuf(object)
        {
            match self.read_object(request.clone().body(PROTOBUF, body)).await {
                // The server did not decode the object, so nothing was written yet.
                Err(error) if error.status().is_some_and(Status::is_unsupported_media_type) => {
                    self.body_encoding.refused_by_server(&error);
                }
                sent => return sent,
            }
        }
        self.read_object(request.json(object)).await
    }

    /// Requests JSON. See [`Self::accept`] for lists and watches, which come in other encodings
    /// too.
    pub(super) fn accepting(&self, request: Request, shape: Shape) -> Request {
        let [json, _] = self.form.accept(shape, self.fields);
        request.accept(json)
    }

    fn deletion(&self, response: &Response) -> Result<Deletion<K>, Error>
    where
        K: DeserializeOwned,
    {
        match error_response::as_status(&response.body) {
            Some(status) if status.status.as_deref() == Some("Success") => {
                Ok(Deletion::Gone(Box::new(status)))
            }
            Some(status) => Err(status.into()),
            None => response.decode(self.fields).map(Deletion::Terminating),
        }
    }
}

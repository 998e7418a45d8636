//! Reading: one object, a whole list, a streamed list, and a watch.

use dogwatch_core::{GetParams, ListParams, Object, WatchParams};
use dogwatch_wire::{ListMeta, UndecodableItem};
use futures_util::TryStreamExt;
use serde::de::DeserializeOwned;

use super::Api;
use super::form::Shape;
use crate::encoding::Accept;
use crate::error::Error;
use crate::list::{ListEvent, ListSource, ListStream};
use crate::request::Request;
use crate::watch::{RetryWatcher, WatchSource, WatchStream};

/// A list, or a page of one.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::ListParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let answer = r#"{"metadata": {"resourceVersion": "7"},
/// # "items": [{"metadata": {"name": "good"}}, {"metadata": {"name": "bad"}, "data": 3}]}"#;
/// # let stack = tower::service_fn(move |_: http::Request<_>| async move {
/// #     let response = http::Response::builder().status(200);
/// #     let body = dogwatch_client::boxed(dogwatch_client::RequestBody::from(answer));
/// #     response.header("content-type", "application/json").body(body)
/// # });
/// # let url = "http://localhost".parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", stack);
/// let list = Api::<ConfigMap>::all(client).list_all(&ListParams::default()).await?;
/// assert_eq!(list.metadata.version.as_str(), "7");
/// assert_eq!(list.items.len(), 1);
/// assert_eq!(list.bad[0].path, "data"); // exists, but cannot be decoded
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct List<K> {
    /// The version, continue token and other metadata.
    pub metadata: ListMeta,
    /// The objects, in the server's order.
    pub items: Vec<K>,
    /// The objects that could not be decoded; all others are in `items`.
    pub bad: Vec<UndecodableItem>,
}

impl<K: DeserializeOwned> Api<K> {
    /// Reads one object.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist.
    pub async fn get(&self, name: &str) -> Result<K, Error> {
        self.get_with(name, &GetParams::default()).await
    }

    /// Reads one object, with parameters for its freshness.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist.
    pub async fn get_with(&self, name: &str, params: &GetParams) -> Result<K, Error> {
        self.read_object(self.on_object(self.client.get(), name).params(params.query())).await
    }

    /// Reads one object; `None` if it does not exist.
    ///
    /// # Errors
    /// Any error but `NotFound`.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>, Error> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads one response: everything, or one page if the parameters set a limit.
    ///
    /// Items are decoded while the body arrives; one that cannot be decoded is in [`List::bad`],
    /// and the others are unaffected.
    ///
    /// # Errors
    /// `Expired` if the server no longer keeps the version or the continue token.
    pub async fn list(&self, params: &ListParams) -> Result<List<K>, Error> {
        let mut stream = self.list_stream(params);
        stream.stop_after_first_page();
        collect(stream).await
    }

    /// Reads the whole collection page by page, so that no single response is large (rule PG-1).
    ///
    /// Pages hold 500 objects unless the parameters set a limit. If the continue token expires, the
    /// list is read again in one response.
    ///
    /// # Errors
    /// `Expired` if the server no longer keeps the requested version.
    pub async fn list_all(&self, params: &ListParams) -> Result<List<K>, Error> {
        collect(self.list_pages(params)).await
    }

    /// Streams the whole collection from one response, object by object as the body arrives.
    ///
    /// Holds one chunk at a time; a slow reader applies backpressure to the server. Dropping the
    /// stream cancels the request.
    pub fn list_stream(&self, params: &ListParams) -> ListStream<K> {
        ListStream::new(self.list_source(), params.clone(), self.complete)
    }

    /// Like [`Self::list_stream`], page by page (rule PG-1).
    pub fn list_pages(&self, params: &ListParams) -> ListStream<K> {
        ListStream::paged(self.list_source(), params.clone(), self.complete)
    }

    fn list_source(&self) -> ListSource {
        let (request, accept) = (self.on_collection(self.client.get()), self.accept(Shape::List));
        ListSource { request, accept, fields: self.fields, gvk: self.resource.gvk.clone() }
    }

    /// Opens a watch: the events of one response. Dropping the stream closes it.
    ///
    /// The stream ends when the server ends the watch, which it does regularly; see
    /// [`Self::watch_from`] for one that resumes.
    ///
    /// # Errors
    /// `Expired` if the server no longer keeps the version.
    pub async fn watch(&self, params: &WatchParams) -> Result<WatchStream<K>, Error> {
        self.watch_source().open(params).await
    }

    /// Creates a watch that resumes where it ended, from this version on (rule RW-1).
    ///
    /// # Errors
    /// Returns an error if the version is not a specific one; nothing is sent yet.
    pub fn watch_from(&self, params: WatchParams) -> Result<RetryWatcher<K>, Error>
    where
        K: Object,
    {
        RetryWatcher::new(self.watch_source(), params)
    }

    pub(super) fn watch_source(&self) -> WatchSource {
        let (request, accept) = (self.on_collection(self.client.get()), self.accept(Shape::Watch));
        WatchSource { request, accept: Some(accept), fields: self.fields }
    }

    /// Returns the `Accept` headers of a list or a watch.
    fn accept(&self, shape: Shape) -> Accept {
        let [json, protobuf] = self.form.accept(shape, self.fields);
        Accept { json, protobuf, encoding: self.encoding.clone() }
    }

    /// Sends a request whose response is one object of this handle.
    pub(super) async fn read_object(&self, request: Request) -> Result<K, Error> {
        self.accepting(request, Shape::Object).response().await?.decode(self.fields)
    }
}

async fn collect<K: DeserializeOwned>(mut stream: ListStream<K>) -> Result<List<K>, Error> {
    let mut items = Vec::new();
    let mut bad = Vec::new();
    while let Some(listed) = stream.try_next().await? {
        match listed {
            ListEvent::Item(item) => items.push(item),
            ListEvent::Bad(item) => bad.push(item),
            ListEvent::Restarted => {
                items.clear();
                bad.clear();
            }
            ListEvent::End { .. } => {}
        }
    }
    Ok(List { metadata: stream.into_metadata(), items, bad })
}

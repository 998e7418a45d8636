//! Reading: one object, a whole list, a list as it arrives, and a watch.

use dogwatch_core::{GetParams, ListParams, Object, WatchParams};
use dogwatch_wire::{BadItem, ListMeta};
use futures_util::TryStreamExt;
use serde::de::DeserializeOwned;

use super::Api;
use super::form::Shape;
use crate::error::Error;
use crate::list::{ListSource, ListStream, Listed};
use crate::request::Request;
use crate::watch::{RetryWatcher, WatchSource, WatchStream};

/// A list, or a page of one.
#[derive(Clone, Debug)]
pub struct List<K> {
    /// Version, continue token and the like.
    pub metadata: ListMeta,
    /// The objects, in the server's order.
    pub items: Vec<K>,
    /// The objects that could not be decoded; the others are all there.
    pub bad: Vec<BadItem>,
}

impl<K: DeserializeOwned> Api<K> {
    /// Reads one object.
    ///
    /// # Errors
    /// `NotFound` when there is no such object.
    pub async fn get(&self, name: &str) -> Result<K, Error> {
        self.get_with(name, &GetParams::default()).await
    }

    /// Reads one object, saying how fresh it must be.
    ///
    /// # Errors
    /// `NotFound` when there is no such object.
    pub async fn get_with(&self, name: &str, params: &GetParams) -> Result<K, Error> {
        self.read_object(self.on_object(self.client.get(), name).params(params.query())).await
    }

    /// Reads one object, or tells that there is none.
    ///
    /// # Errors
    /// Anything but `NotFound`.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>, Error> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads one answer: everything, or one page where the parameters set a limit.
    ///
    /// Items are decoded while the body arrives; one that cannot be is in [`List::bad`], and the others are there.
    ///
    /// # Errors
    /// `Expired` when the version or the continue token is no longer kept.
    pub async fn list(&self, params: &ListParams) -> Result<List<K>, Error> {
        let mut stream = self.list_stream(params);
        stream.stop_after_first_page();
        collect(stream).await
    }

    /// Reads the whole collection page by page, so that no single answer is large (rule PG-1).
    ///
    /// Pages hold 500 objects unless the parameters set a limit. When the server forgets the list half-way, it is read
    /// again in one piece.
    ///
    /// # Errors
    /// `Expired` when the version asked for is no longer kept.
    pub async fn list_all(&self, params: &ListParams) -> Result<List<K>, Error> {
        collect(self.list_pages(params)).await
    }

    /// Reads the whole collection in one answer, object by object while the body arrives.
    ///
    /// Holds one object at a time; a reader that is slow slows the server down. Dropping the stream ends the request.
    pub fn list_stream(&self, params: &ListParams) -> ListStream<K> {
        ListStream::new(self.list_source(), params.clone(), self.complete)
    }

    /// As [`Self::list_stream`], page by page (rule PG-1).
    pub fn list_pages(&self, params: &ListParams) -> ListStream<K> {
        ListStream::paged(self.list_source(), params.clone(), self.complete)
    }

    fn list_source(&self) -> ListSource {
        let request = self.accepting(self.on_collection(self.client.get()), Shape::List);
        ListSource { request, fields: self.fields, gvk: self.resource.gvk.clone() }
    }

    /// Opens a watch: one event after another off an open body. Dropping the stream ends it.
    ///
    /// The stream ends when the server ends the watch, which it does now and then; see [`Self::watch_from`] for one
    /// that goes on.
    ///
    /// # Errors
    /// `Expired` when the version is no longer kept.
    pub async fn watch(&self, params: &WatchParams) -> Result<WatchStream<K>, Error> {
        self.watch_source().open(params).await
    }

    /// A watch that starts again where it ended, from this version on (rule RW-1).
    ///
    /// # Errors
    /// When the version names no point in history; nothing is sent yet.
    pub fn watch_from(&self, params: WatchParams) -> Result<RetryWatcher<K>, Error>
    where
        K: Object,
    {
        RetryWatcher::new(self.watch_source(), params)
    }

    pub(super) fn watch_source(&self) -> WatchSource {
        let request = self.accepting(self.on_collection(self.client.get()), Shape::Watch);
        WatchSource { request, fields: self.fields }
    }

    /// Sends a request whose answer is one object of this handle.
    pub(super) async fn read_object(&self, request: Request) -> Result<K, Error> {
        self.accepting(request, Shape::Object).response().await?.decode(self.fields)
    }
}

async fn collect<K: DeserializeOwned>(mut stream: ListStream<K>) -> Result<List<K>, Error> {
    let mut items = Vec::new();
    let mut bad = Vec::new();
    while let Some(listed) = stream.try_next().await? {
        match listed {
            Listed::Item(item) => items.push(item),
            Listed::Bad(item) => bad.push(item),
            Listed::Restarted => {
                items.clear();
                bad.clear();
            }
        }
    }
    Ok(List { metadata: stream.into_metadata(), items, bad })
}

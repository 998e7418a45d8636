//! A collection of the server: the cache to read it, and the requests to write to it.
//!
//! Writes are reported to the reconcile that makes them, so that the next reconcile of its key
//! waits until the cache shows them.

use std::fmt;
use std::sync::Arc;

use dogwatch_client::api::Deletion;
use dogwatch_client::{Api, Client, Error};
use dogwatch_controller::Context;
use dogwatch_core::{DeleteParams, ObjectKey, ResourceType, WriteParams};
use dogwatch_informer::{InformerBuilder, SharedInformer, Store};
use parking_lot::Mutex;
use serde_json::Value;

use crate::object::Payload;
use crate::owner::is_deleting;

/// The number of attempts to change an object that others change at the same time.
const ATTEMPTS: usize = 5;

/// A collection of the server. Clones share the cache.
pub(crate) struct Collection<T: Payload> {
    api: Api<T>,
    pub(crate) informer: SharedInformer<T>,
    pub(crate) store: Store<T>,
}

/// The component that writes, and the reconcile in which it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    /// The field manager, as in Kubernetes.
    pub(crate) manager: &'static str,
    pub(crate) context: &'a Context,
}

impl<T: Payload> Collection<T> {
    /// Creates a collection. Its cache is filled once its informer is started.
    pub(crate) fn new(
        client: &Client,
        resource: ResourceType,
        configure: impl FnOnce(InformerBuilder<T>) -> InformerBuilder<T>,
    ) -> Self {
        let kind = resource.gvk.clone();
        let api = Api::dynamic(client.clone(), resource);
        let builder = SharedInformer::builder(api.clone()).transform(move |it: T| it.typed(&kind));
        let informer = configure(builder).build();
        Self { api, store: informer.store(), informer }
    }

    /// Returns the cached object with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.store.get(key)
    }

    /// Returns the cached objects under a value of an index.
    pub(crate) fn found(&self, index: &str, value: &str) -> Vec<Arc<T>> {
        self.store.by_index(index, value).expect("indexes are added with the informer")
    }

    /// Creates an object and returns it as stored.
    pub(crate) async fn create(&self, object: Value, writer: Writer<'_>) -> Result<Arc<T>, Error> {
        let object = T::from(object);
        let api = self.api.clone().in_namespace(object.header().namespace.unwrap_or_default());
        let created = api.create(&writer.params(), &object).await?;
        Ok(self.wrote(created, writer))
    }

    /// Replaces an object, if it is still at the version of this state.
    pub(crate) async fn replace(
        &self,
        key: &ObjectKey,
        object: Value,
        writer: Writer<'_>,
    ) -> Result<Arc<T>, Error> {
        let replaced = self.api.at(key).replace(key.name(), &writer.params(), &T::from(object)).await?;
        Ok(self.wrote(replaced, writer))
    }

    /// Applies `change` to the cached state of an object, or of a subresource of it, and after a
    /// conflict to the current state on the server. `change` returns false if there is nothing to
    /// write. Returns the object after the change, or `None` if there is no such object.
    pub(crate) async fn change(
        &self,
        key: &ObjectKey,
        part: &str,
        writer: Writer<'_>,
        change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<Option<Arc<T>>, Error> {
        self.change_from(self.get(key), key, part, writer, change).await
    }

    /// Like [`Self::change`], but reads the current state from the server.
    pub(crate) async fn change_live(
        &self,
        key: &ObjectKey,
        part: &str,
        writer: Writer<'_>,
        change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<Option<Arc<T>>, Error> {
        let current = self.live(key).await?;
        self.change_from(current, key, part, writer, change).await
    }

    async fn change_from(
        &self,
        mut current: Option<Arc<T>>,
        key: &ObjectKey,
        part: &str,
        writer: Writer<'_>,
        mut change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<Option<Arc<T>>, Error> {
        let (api, mut attempt) = (self.api.at(key), 0);
        loop {
            let Some(known) = current else { return Ok(None) };
            let mut new = Value::clone(&known);
            if !change(&mut new) {
                return Ok(Some(known));
            }
            let (new, params) = (T::from(new), writer.params());
            let written = match part {
                "" => api.replace(key.name(), &params, &new).await,
                part => api.replace_subresource(key.name(), part, &params, &new).await,
            };
            match written {
                Ok(written) => return Ok(Some(self.wrote(written, writer))),
                Err(error) if error.is_not_found() => {
                    return if self.exists(key, &known).await? { Err(error) } else { Ok(None) };
                }
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
            current = self.live(key).await?;
        }
    }

    /// Returns the current state of an object on the server.
    pub(crate) async fn live(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, Error> {
        Ok(self.api.at(key).get_opt(key.name()).await?.map(Arc::new))
    }

    /// Returns true if the server still has this very object. A write that was answered with 404
    /// does not prove that it has not: a webhook can deny with any code.
    async fn exists(&self, key: &ObjectKey, known: &Value) -> Result<bool, Error> {
        let live = self.live(key).await?;
        Ok(live.is_some_and(|it| it["metadata"]["uid"] == known["metadata"]["uid"]))
    }

    /// Returns true if the cached state of an owner is still that of the server as far as adoption
    /// is concerned: the object exists, is the same one, and is not being deleted. The caches of an
    /// owner and its dependents do not change together, so a cached owner may have just orphaned
    /// what looks like it could be adopted (`RecheckDeletionTimestamp` in k8s.io/kubernetes v1.36.4
    /// pkg/controller/controller_ref_manager.go).
    pub(crate) async fn may_adopt(&self, key: &ObjectKey, owner: &Value) -> Result<bool, Error> {
        let live = self.live(key).await?;
        Ok(live.is_some_and(|it| it["metadata"]["uid"] == owner["metadata"]["uid"] && !is_deleting(&it)))
    }

    /// Posts to a subresource of an object, such as `binding`.
    pub(crate) async fn post(
        &self,
        key: &ObjectKey,
        part: &str,
        body: &Value,
        writer: Writer<'_>,
    ) -> Result<Value, Error> {
        self.api.at(key).create_subresource(key.name(), part, &writer.params(), body).await
    }

    /// Deletes an object. Returns false if it was gone already.
    pub(crate) async fn delete(
        &self,
        key: &ObjectKey,
        params: &DeleteParams,
        writer: Writer<'_>,
    ) -> Result<bool, Error> {
        match self.api.at(key).delete(key.name(), params).await {
            // A pod that is gone at once is returned too, at the revision of its deletion: `Delete`
            // in k8s.io/apiserver v0.36.4 pkg/storage/etcd3/store.go.
            Ok(Deletion::Terminating(object)) => {
                self.wrote(object, writer);
                Ok(true)
            }
            Ok(_) => Ok(true),
            // A webhook can deny with 404 too.
            Err(error) if error.is_not_found() => match self.live(key).await? {
                Some(_) => Err(error),
                None => Ok(false),
            },
            Err(error) => Err(error),
        }
    }

    fn wrote(&self, object: T, writer: Writer<'_>) -> Arc<T> {
        let kind = &self.api.resource().gvk;
        writer.context.wrote_object(kind, &object);
        Arc::new(object.typed(kind))
    }
}

impl Writer<'_> {
    fn params(&self) -> WriteParams {
        WriteParams::default().manager(self.manager)
    }
}

/// The first error of several writes that do not depend on each other. All of them are tried, so
/// that an object that cannot be written does not affect the others.
#[derive(Debug, Default)]
pub(crate) struct FirstError(Option<Error>);

impl FirstError {
    /// Returns the result of a write; keeps its error if it is the first.
    pub(crate) fn keep<V>(&mut self, outcome: Result<V, Error>) -> Option<V> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                self.0.get_or_insert(error);
                None
            }
        }
    }

    /// Returns the error, if a write has failed.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Returns the status code of an error response; 0 for other errors.
pub(crate) fn code(error: &Error) -> u16 {
    error.status().map_or(0, |it| it.code)
}

impl<T: Payload> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self { api: self.api.clone(), informer: self.informer.clone(), store: self.store.clone() }
    }
}

impl<T: Payload> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collection").field(&self.informer.name()).finish()
    }
}

/// A collection that is created again if its informer has ended, for controllers that start after
/// that.
pub(crate) struct CollectionSlot<T: Payload> {
    make: Box<dyn Fn() -> Collection<T> + Send + Sync>,
    current: Mutex<Option<Collection<T>>>,
}

impl<T: Payload> CollectionSlot<T> {
    /// Creates a slot. `configure` is called for each informer that is created.
    pub(crate) fn new(
        client: &Client,
        resource: ResourceType,
        configure: impl Fn(InformerBuilder<T>) -> InformerBuilder<T> + Send + Sync + 'static,
    ) -> Self {
        let client = client.clone();
        let make = move || Collection::new(&client, resource.clone(), &configure);
        Self { make: Box::new(make), current: Mutex::new(None) }
    }

    /// Returns the collection. All callers share it while its informer runs.
    pub(crate) fn get(&self) -> Collection<T> {
        let mut current = self.current.lock();
        match &*current {
            Some(running) if !running.informer.is_stopped() => running.clone(),
            _ => current.insert((self.make)()).clone(),
        }
    }
}

impl<T: Payload> fmt::Debug for CollectionSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CollectionSlot").field(&*self.current.lock()).finish()
    }
}

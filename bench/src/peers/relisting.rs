//! A source of an informer whose watch can be ended as if its version had expired, so that the
//! informer lists again.

use std::sync::Arc;

use dogwatch::api::{FieldSelector, ListParams, Reason, ResourceType, ResourceVersion, Status};
use dogwatch::api::{WatchEvent, WatchParams};
use dogwatch::informer::{ListWatch, Lists, Watches};
use dogwatch::{Api, Error};
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, stream};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

/// An [`Api`] whose watches end when [`Expiry`] says so.
pub(super) struct Relisting<T> {
    api: Api<T>,
    expiry: Expiry,
}

/// The end of the current watch of a [`Relisting`].
#[derive(Clone, Debug, Default)]
pub(super) struct Expiry(Arc<Notify>);

impl Expiry {
    /// Ends the current watch with the error of a server that has forgotten its version.
    pub(super) fn expire(&self) {
        self.0.notify_one();
    }
}

impl<T> Relisting<T> {
    pub(super) fn new(api: Api<T>, expiry: Expiry) -> Self {
        Self { api, expiry }
    }
}

impl<T: DeserializeOwned + Send + 'static> ListWatch<T> for Relisting<T> {
    fn resource(&self) -> &ResourceType {
        self.api.resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.api.namespace()
    }

    fn list(&self, params: ListParams) -> Lists<T> {
        ListWatch::list(&self.api, params)
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<T>, Error>> {
        let (opened, expiry) = (ListWatch::watch(&self.api, params), Arc::clone(&self.expiry.0));
        let expired = async move {
            expiry.notified().await;
            Ok(WatchEvent::Error(Status::failure(Reason::Expired, "too old resource version")))
        };
        async move {
            // The end of the watch is an item too: a selection ends only when both of its streams
            // do.
            let events = opened.await?.map(Some).chain(stream::once(ready(None)));
            let both = stream::select(events, stream::once(expired).map(Some));
            Ok(both.take_while(|it| ready(it.is_some())).filter_map(ready).boxed())
        }
        .boxed()
    }

    fn newest_version(
        &self,
        fields: FieldSelector,
    ) -> BoxFuture<'static, Result<Option<ResourceVersion>, Error>> {
        ListWatch::newest_version(&self.api, fields)
    }

    fn is_served(&self) -> BoxFuture<'static, Result<Option<bool>, Error>> {
        ListWatch::is_served(&self.api)
    }
}

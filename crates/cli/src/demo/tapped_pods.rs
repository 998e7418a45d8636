//! The source of the demo's informer: the pods of the server, with a record of each list and watch
//! as it arrives, before the informer processes it.

use dogwatch::api::{FieldSelector, ListEvent, ListParams, ResourceType, ResourceVersion, WatchParams};
use dogwatch::informer::{ListWatch, Lists, Watches};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Error};
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, stream};

use super::tap::Tap;

/// The pods that a client reads, with a record.
pub(super) struct TappedPods {
    pub(super) api: Api<Pod>,
    pub(super) tap: Tap,
}

impl ListWatch<Pod> for TappedPods {
    fn resource(&self) -> &ResourceType {
        self.api.resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.api.namespace()
    }

    fn list(&self, params: ListParams) -> Lists<Pod> {
        let tap = self.tap.clone();
        let list = ListWatch::list(&self.api, params);
        list.inspect_ok(move |event| {
            if let ListEvent::Item(pod) = event {
                tap.listed(pod);
            }
        })
        .boxed()
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<Pod>, Error>> {
        let (tap, version) = (self.tap.clone(), params.version.clone());
        let opening = ListWatch::watch(&self.api, params);
        opening.map_ok(move |events| tapped(events, tap, &version)).boxed()
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

/// Records an open watch: its events and its end.
fn tapped(events: Watches<Pod>, tap: Tap, version: &ResourceVersion) -> Watches<Pod> {
    tap.opened(version.as_str());
    let ended = tap.clone();
    let end = stream::once(async move { ended.disconnected() }).filter_map(|()| ready(None));
    let events = events.inspect(move |event| match event {
        Ok(event) => tap.received(event),
        Err(_) => tap.disconnected(),
    });
    events.chain(end).boxed()
}

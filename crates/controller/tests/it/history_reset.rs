//! A server whose history was reset, for example by restoring a backup: versions of the old history
//! that a cache still holds do not show the writes of the new one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client, Error};
use dogwatch_controller::{Action, BoxError, Context, Controller};
use dogwatch_core::{FieldSelector, ListParams, ObjectKey, ResourceType, ResourceVersion, WatchParams};
use dogwatch_informer::{HandlerOptions, ListWatch, Lists, Overflow, SharedInformer, Watches};
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::test_cluster::{Calls, Running, SECOND, map};

/// A handle on the server that is currently at an address.
#[derive(Clone)]
struct Address {
    resource: ResourceType,
    current: Arc<Mutex<Api<ConfigMap>>>,
}

impl Address {
    fn new(api: Api<ConfigMap>) -> Self {
        Self { resource: api.resource().clone(), current: Arc::new(Mutex::new(api)) }
    }

    fn api(&self) -> Api<ConfigMap> {
        self.current.lock().unwrap().clone()
    }
}

impl ListWatch<ConfigMap> for Address {
    fn resource(&self) -> &ResourceType {
        &self.resource
    }

    fn list(&self, params: ListParams) -> Lists<ConfigMap> {
        ListWatch::list(&self.api(), params)
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<ConfigMap>, Error>> {
        ListWatch::watch(&self.api(), params)
    }

    fn newest_version(
        &self,
        fields: FieldSelector,
    ) -> BoxFuture<'static, Result<Option<ResourceVersion>, Error>> {
        ListWatch::newest_version(&self.api(), fields)
    }
}

async fn server(names: impl IntoIterator<Item = String>) -> (ApiServer, Api<ConfigMap>) {
    let server = ApiServer::builder().in_process().seed(1).start().await.expect("the server starts");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    let api = Api::<ConfigMap>::default_namespaced(client);
    for name in names {
        api.create(&Default::default(), &map(&name)).await.expect("created");
    }
    (server, api)
}

/// The informer has noticed the reset and its reflector has listed again, but the list waits in the
/// queue: a stream with a bounded backlog is not read, and the store still shows the old history,
/// with higher versions.
#[tokio::test(start_paused = true)]
async fn a_key_waits_for_its_write_while_the_store_still_holds_a_history_that_was_reset() {
    let (old, api) = server((0..100).map(|it| format!("m{it}"))).await;
    let address = Address::new(api);
    let maps = SharedInformer::new(address.clone());
    let mut unread =
        maps.changes_with(HandlerOptions::default().overflow(Overflow::Block(1))).expect("it runs");

    let (calls, store, writes) = (Calls::new(), maps.store(), Arc::new(AtomicUsize::new(0)));
    let (recorded, allowed, current) = (calls.clone(), writes.clone(), address.clone());
    let controller = Controller::of(&maps).build(move |key: ObjectKey, context: Context| {
        let (calls, writes, api, store) = (recorded.clone(), allowed.clone(), current.api(), store.clone());
        async move {
            if key.name() == "m0" {
                let is_old = store.get_named(Some("default"), "m99").is_some();
                calls.add(if is_old { "old" } else { "new" });
                if writes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok() {
                    context.wrote(&api.create(&Default::default(), &map("written")).await?);
                }
            }
            Ok::<_, BoxError>(Action::RequeueAfter(SECOND))
        }
    });
    let running = Running::new(controller);
    maps.synced().await.expect("the informer syncs");
    tokio::time::sleep(5 * SECOND).await;
    assert!(calls.take().iter().all(|it| it == "old"));

    let (_new, api) = server(["m0".to_owned()]).await;
    *address.current.lock().unwrap() = api;
    old.stop().await;
    tokio::time::sleep(20 * SECOND).await;
    let health = maps.health();
    assert_eq!((health.is_ok(), health.rewinds, maps.store().len() >= 100), (true, 1, true), "{health}");
    calls.take();

    writes.store(1, Ordering::Relaxed);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(calls.take(), ["old"], "the key was reconciled over the old history after its own write");
    let reader = tokio::spawn(async move { while unread.next().await.is_some() {} });
    tokio::time::sleep(5 * SECOND).await;
    let calls = calls.take();
    assert!(!calls.is_empty() && calls.iter().all(|it| it == "new"), "{calls:?}");
    running.stop().await.expect("clean shutdown");
    reader.abort();
}

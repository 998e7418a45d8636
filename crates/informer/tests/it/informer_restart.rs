//! Servers that come back with an older state: the informer detects this within seconds, and never
//! reports that it is synced meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client, Error};
use dogwatch_core::{
    FieldSelector, Gvk, ListParams, Reason, ResourceType, ResourceVersion, WatchParams, WriteParams,
};
use dogwatch_informer::{
    HandlerOptions, HealthState, ListWatch, Lists, OnGone, Overflow, SharedInformer, Watches,
};
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::informer::{add, settle, started};
use crate::live::Live;
use crate::script::{MINUTE, SECOND};

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_with_an_older_state_is_listed_again_within_seconds() {
    let live = Live::new(&["a@50", "b@60"]);
    let informer = started(&live).await;
    let (received, _) = add(&informer, HandlerOptions::default());
    tokio::time::sleep(MINUTE).await;
    received.take();
    live.reset_to(&["a@4", "c@7"]);
    live.cut();
    settle().await;
    let health = informer.health();
    assert!(!health.is_ok() && health.to_string().contains("history was reset"), "{health}");
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(received.take(), ["~b@60", "a@50>4", "+c@7"]);
    let health = informer.health();
    assert_eq!((health.is_ok(), health.rewinds), (true, 1), "{health}");
    assert_eq!(informer.last_sync_version().as_str(), "7");
    live.put("c@8");
    settle().await;
    assert_eq!(received.take(), ["c@7>8"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_costs_one_small_request_and_no_list() {
    let live = Live::new(&["a@50"]);
    let informer = started(&live).await;
    for broken in 1..10 {
        live.cut();
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!((live.compared(), live.lists()), (broken, 1));
        assert!(informer.health().is_ok(), "{}", informer.health());
    }
}

/// A machine that is restored from a snapshot together with its connections: nothing breaks, and no
/// event arrives any more.
#[tokio::test(start_paused = true)]
async fn a_server_reset_without_closing_connections_is_detected_by_its_silence() {
    let live = Live::new(&["a@50"]);
    let informer = started(&live).await;
    live.reset_to(&["c@7"]);
    tokio::time::sleep(5 * MINUTE).await;
    let health = informer.health();
    assert_eq!((health.is_ok(), health.rewinds), (true, 1), "{health}");
    assert_eq!(informer.last_sync_version().as_str(), "7");
}

/// A stream with a bounded backlog that is not read keeps the new list out of the store, although
/// the reflector has received it.
#[tokio::test(start_paused = true)]
async fn no_version_counts_as_reached_while_the_store_holds_a_history_that_was_reset() {
    let live = Live::new(&["a@50", "b@60"]);
    let informer = started(&live).await;
    let options = HandlerOptions::default().overflow(Overflow::Block(1));
    let mut unread = informer.changes_with(options).expect("the informer runs");
    settle().await;
    live.reset_to(&["a@4", "c@7"]);
    live.cut();
    tokio::time::sleep(MINUTE).await;
    let health = informer.health();
    assert_eq!((health.is_ok(), health.rewinds), (true, 1), "{health}");
    assert_eq!(informer.last_sync_version().as_str(), "60", "the list waits in the queue");

    let reached = tokio::time::timeout(MINUTE, informer.wait_until(&"7".into())).await;
    assert!(reached.is_err(), "version 60 of the old history does not show version 7 of the new one");
    let reader = tokio::spawn(async move { while unread.next().await.is_some() {} });
    let reached = tokio::time::timeout(MINUTE, informer.wait_until(&"7".into())).await;
    assert_eq!(reached, Ok(Ok(())));
    assert!(informer.store().get_named(None, "c").is_some());
    reader.abort();
}

/// The policy for collections that are gone empties the store, which does not show the new history
/// either.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_emptied_after_a_reset_shows_no_version_before_the_next_list() {
    let live = Live::defined(&["a@50"]);
    let informer = SharedInformer::builder(live.clone()).on_gone(OnGone::Clear).build();
    informer.start();
    informer.synced().await.expect("the informer syncs");
    // A watch that ends at once is retried without a comparison of versions.
    tokio::time::sleep(MINUTE).await;
    live.reset_to(&["c@7"]);
    live.cut();
    settle().await;
    assert_eq!(informer.health().rewinds, 1);
    live.refuse(Some(Reason::NotFound));
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!((informer.health().state, informer.store().len()), (HealthState::NotServed, 0));
    let reached = tokio::time::timeout(SECOND, informer.wait_until(&"7".into())).await;
    assert!(reached.is_err(), "the store is empty");
    live.refuse(None);
    let reached = tokio::time::timeout(5 * MINUTE, informer.wait_until(&"7".into())).await;
    assert_eq!(reached, Ok(Ok(())));
    assert!(informer.store().get_named(None, "c").is_some());
}

/// A handle on the server that is currently at an address.
#[derive(Clone)]
struct Address(Arc<Mutex<Api<ConfigMap>>>);

impl Address {
    fn api(&self) -> Api<ConfigMap> {
        self.0.lock().unwrap().clone()
    }
}

impl ListWatch<ConfigMap> for Address {
    fn resource(&self) -> &ResourceType {
        static MAPS: std::sync::LazyLock<ResourceType> = std::sync::LazyLock::new(|| {
            ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
        });
        &MAPS
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

async fn server(maps: &[&str]) -> (ApiServer, Api<ConfigMap>) {
    let server = ApiServer::builder().in_process().seed(1).start().await.expect("the server starts");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    let api = Api::<ConfigMap>::default_namespaced(client);
    for name in maps {
        let mut map = ConfigMap::default();
        map.metadata.name = Some((*name).to_owned());
        api.create(&WriteParams::default(), &map).await.expect("created");
    }
    (server, api)
}

#[tokio::test(start_paused = true)]
async fn another_server_at_the_same_address_is_followed_within_seconds() {
    let many: Vec<_> = (0..100).map(|it| format!("m{it}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let (old, api) = server(&many).await;
    let address = Address(Arc::new(Mutex::new(api)));
    let informer = SharedInformer::new(address.clone());
    informer.start();
    informer.synced_within(MINUTE).await.expect("the informer syncs");
    assert!(informer.store().len() >= 100);

    let (_new, api) = server(&["only"]).await;
    *address.0.lock().unwrap() = api.clone();
    old.stop().await;
    let truth = api.list_all(&ListParams::default()).await.expect("the server answers").items;
    let truth: Vec<_> = truth.into_iter().filter_map(|it| it.metadata.name).collect();
    let held = || {
        let names = |it: &Arc<ConfigMap>| it.metadata.namespace.as_deref() == Some("default");
        let snapshot = informer.store().snapshot();
        snapshot.iter().filter(|it| names(it)).filter_map(|it| it.metadata.name.clone()).collect::<Vec<_>>()
    };
    for tenth in 0..200 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if held() == truth {
            break;
        }
        // The end of the old server takes a moment to be noticed; after that, the health must not
        // be ok while the store is wrong.
        assert!(tenth < 20 || !informer.health().is_ok(), "{tenth}: {}", informer.health());
        assert!(tenth < 199, "not synced within 20 seconds: {}", informer.health());
    }
    let mut map = ConfigMap::default();
    map.metadata.name = Some("later".to_owned());
    api.create(&WriteParams::default(), &map).await.expect("created");
    tokio::time::sleep(SECOND).await;
    assert!(informer.store().get_named(Some("default"), "later").is_some());
    assert!(informer.health().is_ok(), "{}", informer.health());
}

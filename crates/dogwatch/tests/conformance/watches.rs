//! Watches: from a version, with initial events, with selectors, across broken connections, over
//! HTTP/1.1 and HTTP/2.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch::api::{
    DeleteParams, EventKind, FieldSelector, Header, Meta, Patch, PatchParams, WatchEvent, WatchParams,
    WriteParams,
};
use dogwatch::client::ResponseBody;
use dogwatch::config::HttpVersion;
use dogwatch::http::{Response, Version};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client, Error, Object};
use futures_util::StreamExt;
use serde_json::json;

use crate::fixtures::{config_map, labelled, labels, names};
use crate::proxy::CuttableProxy;
use crate::support::{TestNamespace, client, config, next_change, next_event, within};

async fn config_maps() -> (TestNamespace, Api<ConfigMap>) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api(&client);
    (space, api)
}

async fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    api.create(&WriteParams::default(), &config_map(name, json!({ "set": "this" }))).await.expect("created")
}

/// Returns watch parameters for the objects labelled `set=this`, from the current version.
async fn from_now(api: &Api<ConfigMap>) -> WatchParams {
    let version = api.list(&labelled("set=this")).await.expect("listed").metadata.version;
    WatchParams::after(version).labels(labels("set=this"))
}

#[tokio::test]
async fn a_watch_delivers_the_changes_after_its_version_in_order() {
    let (_space, api) = config_maps().await;
    create(&api, "before").await;
    let mut watch = api.watch(&from_now(&api).await).await.expect("a watch");
    let made = create(&api, "a").await;
    let patch = json!({ "data": { "key": "changed" } });
    let changed = api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
    api.delete("a", &DeleteParams::default()).await.expect("deleted");

    assert_eq!(next_change(&mut watch).await, (EventKind::Added, made.clone()));
    assert_eq!(next_change(&mut watch).await, (EventKind::Modified, changed.clone()));
    let (kind, last) = next_change(&mut watch).await;
    assert_eq!((kind, &last.data), (EventKind::Deleted, &changed.data));
    assert!(changed.version().is_older_than(&last.version()), "a deletion has a version of its own");
}

#[tokio::test]
async fn a_watch_from_an_older_version_begins_with_the_missed_events() {
    let (_space, api) = config_maps().await;
    let params = from_now(&api).await;
    create(&api, "a").await;
    create(&api, "b").await;
    let mut watch = api.watch(&params).await.expect("a watch");
    for expected in ["a", "b"] {
        let (kind, object) = next_change(&mut watch).await;
        assert_eq!((kind, object.metadata.name.as_deref()), (EventKind::Added, Some(expected)));
    }
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark_and_then_the_watch_continues() {
    let (_space, api) = config_maps().await;
    for name in ["a", "b", "c"] {
        create(&api, name).await;
    }
    let params = WatchParams::initial_events().labels(labels("set=this"));
    let mut watch = api.watch(&params).await.expect("a watch");
    let mut initial = Vec::new();
    let bookmark = loop {
        match next_event(&mut watch).await {
            WatchEvent::Added(object) => initial.push(object),
            WatchEvent::Bookmark(bookmark) if bookmark.initial_events_end() => break bookmark,
            WatchEvent::Bookmark(_) => {}
            other => panic!("unexpected initial event: {other:?}"),
        }
    };
    assert_eq!(names(&initial), ["a", "b", "c"]);
    assert!(bookmark.version.is_exact());
    assert!(initial.iter().all(|it| !bookmark.version.is_older_than(&it.version())));

    let made = create(&api, "d").await;
    assert_eq!(next_change(&mut watch).await, (EventKind::Added, made));
}

#[tokio::test]
async fn the_initial_events_of_an_empty_collection_are_a_bookmark() {
    let (_space, api) = config_maps().await;
    let params = WatchParams::initial_events().labels(labels("set=this"));
    let mut watch = api.watch(&params).await.expect("a watch");
    let WatchEvent::Bookmark(bookmark) = next_event(&mut watch).await else { panic!("not a bookmark") };
    assert!(bookmark.initial_events_end());
}

#[tokio::test]
async fn entering_a_selector_is_an_addition_and_leaving_it_a_deletion() {
    let (_space, api) = config_maps().await;
    let params = from_now(&api).await;
    let mut watch = api.watch(&params).await.expect("a watch");
    api.create(&WriteParams::default(), &config_map("a", json!({ "set": "that" }))).await.expect("created");
    for (set, kind) in [("this", EventKind::Added), ("that", EventKind::Deleted), ("this", EventKind::Added)]
    {
        let patch = json!({ "metadata": { "labels": { "set": set } } });
        let patched = api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
        let (received, object) = next_change(&mut watch).await;
        assert_eq!(received, kind);
        assert_eq!(
            object.version(),
            patched.version(),
            "the event has the version of the change, also for a deletion"
        );
    }
}

#[tokio::test]
async fn a_watch_of_one_name_is_about_that_object_only() {
    let (_space, api) = config_maps().await;
    let params = from_now(&api).await.fields(FieldSelector::name("b"));
    let mut watch = api.watch(&params).await.expect("a watch");
    for name in ["a", "b"] {
        create(&api, name).await;
    }
    let (_, object) = next_change(&mut watch).await;
    assert_eq!(object.metadata.name.as_deref(), Some("b"));
}

#[tokio::test]
async fn a_watch_ends_after_its_timeout() {
    let (_space, api) = config_maps().await;
    let params = from_now(&api).await.timeout(Duration::from_secs(1));
    let watch = api.watch(&params).await.expect("a watch");
    let events: Vec<_> = within("the end of the watch", watch.collect()).await;
    assert!(events.iter().all(|it| matches!(it, Ok(WatchEvent::Bookmark(_)))), "{events:?}");
}

/// A view that cannot decode every config map: it expects a number where there may be text.
#[derive(Debug, serde::Deserialize)]
struct Numbers {
    metadata: Meta,
    #[serde(default)]
    data: std::collections::BTreeMap<String, u32>,
}

impl Object for Numbers {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

#[tokio::test]
async fn an_undecodable_object_is_reported_by_name_and_the_watch_continues() {
    let (space, api) = config_maps().await;
    let params = from_now(&api).await;
    let mut watch = api.reading::<Numbers>().watch(&params).await.expect("a watch");
    create(&api, "text").await;
    let empty = json!({ "metadata": { "name": "empty", "labels": { "set": "this" } } });
    api.create(&WriteParams::default(), &crate::fixtures::object(empty)).await.expect("created");

    let bad = loop {
        match within("the first event", watch.next()).await.expect("the watch continues") {
            Err(Error::Undecodable(bad)) => break bad,
            Ok(WatchEvent::Bookmark(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bad.key.map(String::from), Some(format!("{}/text", space.name)));
    assert_eq!((bad.event, bad.path.as_str()), (Some(EventKind::Added), "data.key"));
    let (_, next) = next_change(&mut watch).await;
    assert_eq!((next.metadata.name.as_str(), next.data.len()), ("empty", 0));
    let listed = api.reading::<Numbers>().list(&labelled("set=this")).await.expect("listed");
    assert_eq!((listed.items.len(), listed.bad.len()), (1, 1));
}

type Versions = Arc<Mutex<Vec<Version>>>;

/// Returns a client that uses this HTTP version through the proxy, and a record of the versions of
/// its responses.
fn through(proxy: &CuttableProxy, http: HttpVersion) -> (Client, Versions) {
    let spoken = Versions::default();
    let record = spoken.clone();
    let layer = tower::util::MapResponseLayer::new(move |response: Response<ResponseBody>| {
        record.lock().expect("not poisoned").push(response.version());
        response
    });
    let mut config = proxy.through(config());
    config.http = http;
    (Client::builder(config).layer(layer).build().expect("a client"), spoken)
}

/// Cuts the connection under a watch twice: every change is delivered once, in order.
async fn survives_cuts(http: HttpVersion, expected: Version) {
    let (_space, api) = config_maps().await;
    let proxy = CuttableProxy::to(&config()).await;
    let (client, spoken) = through(&proxy, http);
    let watched = Api::<ConfigMap>::all(client).in_namespace(api.namespace().expect("in a namespace"));
    let mut watch = watched.watch_from(from_now(&api).await).expect("a version to start from");

    create(&api, "0").await;
    assert_eq!(next_change(&mut watch).await.1.metadata.name.as_deref(), Some("0"));
    for round in 1..=2 {
        let before = proxy.connections();
        proxy.cut();
        for name in [format!("{round}-a"), format!("{round}-b")] {
            create(&api, &name).await;
            let (kind, object) = next_change(&mut watch).await;
            assert_eq!((kind, object.metadata.name), (EventKind::Added, Some(name)));
        }
        assert!(proxy.connections() > before, "the watch resumed over a new connection");
    }
    let spoken = spoken.lock().expect("not poisoned");
    assert!(spoken.iter().all(|it| *it == expected), "{spoken:?}");
}

#[tokio::test]
async fn a_resuming_watch_loses_nothing_when_its_http_1_connection_is_cut() {
    survives_cuts(HttpVersion::Http1, Version::HTTP_11).await;
}

#[tokio::test]
async fn a_resuming_watch_loses_nothing_when_its_http_2_connection_is_cut() {
    survives_cuts(HttpVersion::Auto, Version::HTTP_2).await;
}

#[tokio::test]
async fn a_plain_watch_ends_with_an_error_when_its_connection_is_cut() {
    let (_space, api) = config_maps().await;
    let proxy = CuttableProxy::to(&config()).await;
    for http in [HttpVersion::Http1, HttpVersion::Auto] {
        let (client, _) = through(&proxy, http);
        let watched = Api::<ConfigMap>::all(client).in_namespace(api.namespace().expect("in a namespace"));
        let mut watch = watched.watch(&from_now(&api).await).await.expect("a watch");
        proxy.cut();
        let end = within("the end of the watch", watch.next()).await;
        assert!(matches!(end, Some(Err(Error::Unreachable { .. }))), "{http:?}: {end:?}");
        assert!(within("the end of the stream", watch.next()).await.is_none());
    }
}

#[tokio::test]
async fn many_watches_share_one_http_2_connection() {
    let (_space, api) = config_maps().await;
    let proxy = CuttableProxy::to(&config()).await;
    let (client, _) = through(&proxy, HttpVersion::Auto);
    let watched = Api::<ConfigMap>::all(client).in_namespace(api.namespace().expect("in a namespace"));
    let params = from_now(&api).await;
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(watched.watch(&params).await.expect("a watch"));
    }
    let made = create(&api, "a").await;
    for watch in &mut watches {
        assert_eq!(next_change(watch).await, (EventKind::Added, made.clone()));
    }
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn a_resuming_watch_needs_a_version_to_start_from() {
    let api = Api::<ConfigMap>::all(client());
    for version in ["", "0"] {
        assert!(matches!(api.watch_from(WatchParams::after(version)), Err(Error::InvalidRequest(_))));
    }
}

//! Watches: their start, their events and their end.

use std::sync::Arc;
use std::time::Duration;

use crate::controllers::Controllers;
use crate::faults::Rule;
use crate::http::Settings;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{METADATA, Server, TABLE};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LIST: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

fn event(kind: &str, name: &str, version: u64) -> (String, String, u64) {
    (kind.to_owned(), name.to_owned(), version)
}

#[tokio::test(start_paused = true)]
async fn changes_after_a_version_are_delivered_once_and_in_order() {
    let server = Server::start().await;
    let a = server.config_map("a", json!({})).await;
    let b = server.config_map("b", json!({})).await;
    let mut events = server.watch(&format!("{MAPS}?watch=1&resourceVersion={a}")).await;
    assert_eq!(
        (events.code.as_u16(), &events.headers["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    assert_eq!(events.next_event().await, event("ADDED", "b", b));
    events.assert_silent().await;
    let changed = server.merge(&format!("{MAPS}/a"), json!({ "data": { "k": "w" } })).await.version();
    server.send("DELETE", &format!("{MAPS}/b"), &[], "").await;
    assert_eq!(events.next_event().await, event("MODIFIED", "a", changed));
    assert_eq!(events.next_event().await, event("DELETED", "b", changed + 1));
    events.assert_silent().await;
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_followed_by_a_bookmark_and_then_by_changes() {
    let server = Server::start().await;
    let b = server.config_map("b", json!({})).await;
    let a = server.config_map("a", json!({})).await;
    for query in [LIST, "resourceVersion=0&allowWatchBookmarks=true"] {
        let mut events = server.watch(&format!("{MAPS}?watch=1&{query}")).await;
        assert_eq!(events.next_event().await, event("ADDED", "a", a));
        assert_eq!(events.next_event().await, event("ADDED", "b", b));
        let mark = events.next().await.unwrap();
        let metadata = json!({ "resourceVersion": a.to_string(), "annotations": { "k8s.io/initial-events-end": "true" } });
        let expected = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata });
        assert_eq!(mark, json!({ "type": "BOOKMARK", "object": expected }));
        events.assert_silent().await;
    }
    let mut unmarked = server.watch(&format!("{MAPS}?watch=1")).await;
    assert_eq!([unmarked.next_event().await.0, unmarked.next_event().await.0], ["ADDED", "ADDED"]);
    unmarked.assert_silent().await;
    let mut from_now = server
        .watch(&format!("{MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"))
        .await;
    from_now.assert_silent().await;
    let c = server.config_map("c", json!({})).await;
    assert_eq!(from_now.next_event().await, event("ADDED", "c", c));
}

#[tokio::test(start_paused = true)]
async fn entering_a_selector_is_added_and_leaving_it_is_deleted() {
    let server = Server::start().await;
    let a = server.config_map("a", json!({ "on": "no" })).await;
    let mut events =
        server.watch(&format!("{MAPS}?watch=1&resourceVersion={a}&labelSelector=on%3Dyes")).await;
    let label = |on: &str| json!({ "metadata": { "labels": { "on": on } }, "data": { "k": on } });
    let entered = server.merge(&format!("{MAPS}/a"), label("yes")).await.version();
    let left = server.merge(&format!("{MAPS}/a"), label("no")).await.version();
    assert_eq!(events.next_event().await, event("ADDED", "a", entered));
    let gone = events.next().await.unwrap();
    assert_eq!(
        (&gone["type"], &gone["object"]["data"]["k"]),
        (&json!("DELETED"), &json!("yes")),
        "the old content"
    );
    assert_eq!(gone["object"]["metadata"]["resourceVersion"], left.to_string(), "and the new version");
}

#[tokio::test(start_paused = true)]
async fn one_object_is_watched_by_the_legacy_path_and_only_read_by_the_new_one() {
    let server = Server::start().await;
    let a = server.config_map("a", json!({})).await;
    server.config_map("b", json!({})).await;
    let mut events =
        server.watch(&format!("/api/v1/watch/namespaces/default/configmaps/a?resourceVersion={a}")).await;
    events.assert_silent().await;
    let changed = server.merge(&format!("{MAPS}/a"), json!({ "data": { "n": "1" } })).await.version();
    assert_eq!(events.next_event().await, event("MODIFIED", "a", changed));
    assert_eq!(server.get(&format!("{MAPS}/a?watch=1")).await.json()["kind"], "ConfigMap");
    assert_eq!(server.get(&format!("{MAPS}/nope?watch=1")).await.code, 404);
}

/// The last bookmark comes two seconds before the deadline: `nextBookmarkTime` in k8s.io/apiserver
/// v0.36.4 pkg/storage/cacher/cache_watcher.go.
#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_every_period_and_shortly_before_the_end_on_request() {
    let server = Server::start().await;
    let a = server.config_map("a", json!({})).await;
    let marked = format!(
        "{MAPS}?watch=1&resourceVersion={a}&labelSelector=x&allowWatchBookmarks=true&timeoutSeconds=125"
    );
    let mut plain =
        server.watch(&format!("{MAPS}?watch=1&resourceVersion={a}&labelSelector=x&timeoutSeconds=5")).await;
    let mut events = server.watch(&marked).await;
    let begun = Instant::now();
    assert_eq!(plain.next().await, None);
    assert_eq!(begun.elapsed().as_secs(), 5, "the watch ends cleanly and in time");
    let unseen = server.config_map("b", json!({})).await;
    for (at, version) in [(60, unseen), (120, unseen), (123, unseen)] {
        assert_eq!(events.next_event().await, event("BOOKMARK", "", version));
        assert_eq!(begun.elapsed().as_secs(), at);
    }
    assert_eq!(events.next().await, None);
    assert_eq!(begun.elapsed().as_secs(), 125);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_typed_kinds_include_fields_without_omitempty() {
    let server = Server::start().await;
    let shown = async |path: &str, accept: &str| {
        let mut events = server
            .watch_as(&format!("{path}?watch=1&resourceVersion=0&allowWatchBookmarks=true"), accept)
            .await;
        events.next().await.unwrap()["object"].clone()
    };
    let pod = shown("/api/v1/pods", "application/json").await;
    assert_eq!((&pod["spec"], &pod["status"]), (&json!({ "containers": null }), &json!({})));
    let job = shown("/apis/batch/v1/cronjobs", "application/json").await;
    let template =
        json!({ "metadata": {}, "spec": { "template": { "metadata": {}, "spec": { "containers": null } } } });
    assert_eq!(job["spec"], json!({ "schedule": "", "jobTemplate": template }));
    let table = shown(MAPS, TABLE).await;
    assert_eq!(table["rows"][0]["cells"], json!(["", 0, "<unknown>"]));
    assert_eq!(shown("/api/v1/pods", METADATA).await["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn only_the_first_event_of_a_table_has_columns() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    let path = format!("{MAPS}?watch=1&resourceVersion=0&allowWatchBookmarks=true");
    let mut events = server.watch_as(&path, TABLE).await;
    let first = events.next().await.unwrap()["object"].clone();
    assert_eq!(first["columnDefinitions"].as_array().unwrap().len(), 3);
    assert_eq!(first["rows"][0]["cells"][0], "a");
    let mark = events.next().await.unwrap()["object"].clone();
    assert_eq!(mark["columnDefinitions"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn compacted_and_future_versions_are_reported_as_error_events() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    let oldest = server.service.cluster().store().revision();
    let behind = format!("{MAPS}?watch=1&resourceVersion={oldest}");
    let mut expired = server.watch(&behind).await;
    server.config_map("b", json!({})).await;
    server.service.cluster().store().compact(u64::MAX);
    let message = format!("too old resource version: {oldest} ({})", oldest + 1);
    for events in [&mut expired, &mut server.watch(&behind).await] {
        let error = events.next().await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert_eq!(
            (&error["object"]["reason"], &error["object"]["message"]),
            (&json!("Expired"), &json!(message))
        );
        assert_eq!(events.next().await, None);
    }

    let future = oldest + 1000;
    let mut events = server.watch(&format!("{MAPS}?watch=1&{LIST}&resourceVersion={future}")).await;
    let begun = Instant::now();
    let error = events.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(504)));
    assert_eq!((begun.elapsed().as_secs(), events.next().await), (3, None));

    let query = format!("resourceVersion={future}&timeoutSeconds=2&allowWatchBookmarks=true");
    let mut silent = server.watch(&format!("{MAPS}?watch=1&{query}")).await;
    server.config_map("c", json!({})).await;
    assert_eq!(silent.next().await, None);

    let near = server.service.cluster().store().revision() + 1;
    let mut early = server.watch(&format!("{MAPS}?watch=1&resourceVersion={near}")).await;
    server.config_map("d", json!({})).await;
    let e = server.config_map("e", json!({})).await;
    assert_eq!(
        early.next_event().await,
        event("ADDED", "e", e),
        "changes before that version are not delivered"
    );
}

/// Regression test: a client resumed a watch from a version of the server's previous run, and never
/// received an event.
#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_that_is_not_reached_ends_with_410() {
    let server = Server::start().await;
    let newest = server.config_map("a", json!({})).await;
    let begun = Instant::now();
    let future = format!("{MAPS}?watch=1&resourceVersion={}&allowWatchBookmarks=true", newest + 1000);
    let mut events = server.watch(&future).await;
    let error = events.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["reason"]), (&json!("ERROR"), &json!("Expired")));
    let message = format!("unknown resource version: {}, the newest is {newest}", newest + 1000);
    assert_eq!((&error["object"]["message"], begun.elapsed().as_secs()), (&json!(message), 3));
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_events_is_one_write_of_bounded_size() {
    let server = Server::start().await;
    let from = server.config_map("first", json!({})).await;
    let big = "x".repeat(10_000);
    for at in 0..20 {
        server.post(MAPS, json!({ "metadata": { "name": format!("m{at}") }, "data": { "k": big } })).await;
    }
    let mut events = server.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await;
    for _ in 0..20 {
        assert_eq!(events.next_event().await.0, "ADDED");
    }
    assert!((2..=4).contains(&events.writes.len()), "{:?}", events.writes);
    assert!(events.writes.iter().all(|it| *it < 80_000), "{:?}", events.writes);
}

#[tokio::test(start_paused = true)]
async fn watches_of_a_custom_kind_end_when_its_definition_changes_after_all_events() {
    let server = Server::start().await;
    let version = |schema: Value| json!([{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }]);
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = |plural: &str, kind: &str| {
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.ex.io") }, "spec": { "group": "ex.io", "scope": "Namespaced",
            "names": { "plural": plural, "kind": kind }, "versions": version(open.clone()) } })
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.post(definitions, definition("webs", "Web")).await.code, 201);
    let webs = "/apis/ex.io/v1/namespaces/default/webs";
    let object = json!({ "apiVersion": "ex.io/v1", "kind": "Web", "metadata": { "name": "w" } });
    assert_eq!(server.post(webs, object).await.code, 201);
    let mut events = server.watch(&format!("{webs}?watch=1&resourceVersion=0")).await;
    assert_eq!(events.next_event().await.0, "ADDED");

    assert_eq!(server.post(definitions, definition("others", "Other")).await.code, 201);
    events.assert_silent().await;
    server.send("DELETE", &format!("{webs}/w"), &[], "").await;
    let spec = json!({ "spec": { "versions": version(json!({ "type": "object" })) } });
    assert_eq!(server.merge(&format!("{definitions}/webs.ex.io"), spec).await.code, 200);
    assert_eq!(events.next_event().await.0, "DELETED");
    assert_eq!(events.next().await, None);
}

/// The collection of a custom kind is removed with its definition. Its watches still deliver
/// earlier events, also to a slow client, and end as in kube-apiserver: without an error, since
/// there is nothing to list again.
#[tokio::test(start_paused = true)]
async fn watches_of_a_custom_kind_end_without_an_error_when_its_definition_is_deleted() {
    let server = Server::start().await;
    let cluster = Arc::clone(server.service.cluster());
    let controllers = tokio::spawn(Controllers::default().run(cluster, std::future::pending()));
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "webs.ex.io" }, "spec": { "group": "ex.io", "scope": "Namespaced",
        "names": { "plural": "webs", "kind": "Web" }, "versions": [{ "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object" } } }] } });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.post(definitions, definition).await.code, 201);
    let webs = "/apis/ex.io/v1/namespaces/default/webs";
    let object = json!({ "apiVersion": "ex.io/v1", "kind": "Web", "metadata": { "name": "w" } });
    let watch = format!("{webs}?watch=1&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=600");
    let (mut follows, mut behind) = (server.watch(&watch).await, server.watch(&watch).await);
    assert_eq!(server.post(webs, object).await.code, 201);
    assert_eq!(follows.next_event().await.0, "BOOKMARK");
    assert_eq!(follows.next_event().await.0, "ADDED");
    server.send("DELETE", &format!("{definitions}/webs.ex.io"), &[], "").await;
    assert_eq!(follows.next_event().await.0, "DELETED");
    assert_eq!(follows.next().await, None);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(server.get(webs).await.code, 404);
    assert_eq!(behind.next_event().await.0, "BOOKMARK");
    assert_eq!(behind.next_event().await.0, "ADDED");
    assert_eq!(behind.next_event().await.0, "DELETED");
    assert_eq!(behind.next().await, None);
    controllers.abort();
}

#[tokio::test(start_paused = true)]
async fn faults_can_pause_end_and_bookmark_a_watch() {
    let server = Server::start().await;
    let a = server.config_map("a", json!({})).await;
    let path = format!("{MAPS}?watch=1&resourceVersion={a}&allowWatchBookmarks=true");
    let mut events = server.watch(&path).await;
    server.faults.bookmark_now();
    assert_eq!(events.next_event().await, event("BOOKMARK", "", a));

    server.faults.pause();
    let b = server.config_map("b", json!({})).await;
    events.assert_silent().await;
    server.faults.resume();
    assert_eq!(events.next_event().await, event("ADDED", "b", b));

    server.faults.drop_watches();
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn faults_can_reject_and_cut_requests() {
    let server = Server::start().await;
    let busy =
        server.faults.rule(Rule::on("list").resource("configmaps").times(1).refuse(429).retry_after(7));
    let refused = server.get(MAPS).await;
    assert_eq!((refused.code.as_u16(), refused.header("retry-after")), (429, "7"));
    assert_eq!(server.get(MAPS).await.code, 200);
    busy.remove();

    let cut = server.faults.rule(Rule::on("create").times(1).reset_after());
    let body = json!({ "metadata": { "name": "made" } }).to_string();
    assert!(server.raw("POST", MAPS, &[super::JSON], body).await.is_err());
    assert_eq!(server.get(&format!("{MAPS}/made")).await.code, 200, "the write was executed");
    cut.remove();
}

/// The random factor is that of k8s.io/apiserver v0.36.4 pkg/endpoints/handlers/get.go.
#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_ends_between_one_and_two_minimum_timeouts() {
    let settings = Settings { watch_timeout: Duration::from_secs(10), ..Settings::default() };
    let server = Server::with(settings).await;
    let begun = Instant::now();
    let mut events = server.watch(&format!("{MAPS}?watch=1&resourceVersion=1&labelSelector=none")).await;
    assert_eq!(events.next().await, None);
    assert!((10..=20).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

/// A bookmark promises that all events up to its version were delivered; one after a gap would hide
/// the gap for ever.
#[tokio::test(start_paused = true)]
async fn a_watch_behind_the_compacted_history_gets_no_bookmark() {
    let server = Server::start().await;
    let a = server.config_map("a", json!({})).await;
    let query = format!("resourceVersion={a}&allowWatchBookmarks=true&timeoutSeconds=300");
    let mut events = server.watch(&format!("{MAPS}?watch=1&{query}")).await;
    events.assert_silent().await;
    server.config_map("b", json!({})).await;
    server.service.cluster().store().compact(u64::MAX);
    tokio::time::advance(Duration::from_secs(70)).await;
    assert_eq!(events.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(events.next().await, None);
}

/// The guarantee of list and watch: for random writes and every selector, a list plus the events
/// after it gives every later list.
#[test]
fn a_list_plus_its_events_gives_every_later_list() {
    use proptest::prelude::*;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let writes = proptest::collection::vec((0..4u8, 0..3u8), 1..25);
    proptest!(ProptestConfig::with_cases(40), |(before in writes.clone(), after in writes)| {
        runtime.block_on(async {
            let server = Server::start().await;
            for (name, label) in before {
                write(&server, name, label).await;
            }
            for selector in ["", "&labelSelector=x%3D1", "&labelSelector=x!%3D1", "&fieldSelector=metadata.name%3Dm1"] {
                let list = server.get(&format!("{MAPS}?limit=0{selector}")).await;
                let mut events = server.watch(&format!("{MAPS}?watch=1&resourceVersion={}{selector}", list.version())).await;
                for (name, label) in &after {
                    write(&server, *name, *label).await;
                }
                let later = server.get(&format!("{MAPS}?limit=0{selector}")).await;
                let mut seen = state(&list.json());
                let mut last = list.version();
                while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(10), events.next()).await {
                    let object = &event["object"];
                    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                    let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                    assert!(version > last, "versions only grow");
                    last = version;
                    match event["type"].as_str().unwrap() {
                        "ADDED" => assert!(seen.insert(name, version).is_none()),
                        "MODIFIED" => assert!(seen.insert(name, version).is_some()),
                        _ => assert!(seen.remove(&name).is_some()),
                    }
                }
                assert_eq!(seen, state(&later.json()), "{selector}");
            }
        });
    });
}

/// Creates, changes or deletes one of four objects.
async fn write(server: &Server, name: u8, label: u8) {
    let path = format!("{MAPS}/m{name}");
    if label == 2 {
        server.send("DELETE", &path, &[], "").await;
        return;
    }
    let labels = json!({ "x": label.to_string() });
    let count = server.service.cluster().store().revision().to_string();
    let patch = json!({ "metadata": { "labels": labels }, "data": { "k": count } });
    if server.merge(&path, patch).await.code == 404 {
        server.config_map(&format!("m{name}"), labels).await;
    }
}

fn state(list: &Value) -> std::collections::BTreeMap<String, u64> {
    let item = |it: &Value| {
        let metadata = &it["metadata"];
        let version = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
        (metadata["name"].as_str().unwrap().to_owned(), version)
    };
    list["items"].as_array().unwrap().iter().map(item).collect()
}

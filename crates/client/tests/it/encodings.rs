//! Responses in protobuf: who asks for them, and what they decode into.

use std::path::Path;

use dogwatch_client::{Api, Encoding};
use dogwatch_core::{DeleteParams, Gvk, ListParams, ResourceType, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;

use crate::scripted::{Reply, Script, json, reply};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const IN_JSON: &str = "application/json;drop=metadata.managedFields,application/json";
const IN_PROTOBUF: &str = "application/vnd.kubernetes.protobuf;drop=metadata.managedFields,\
    application/json;drop=metadata.managedFields,application/json";

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 0x4000 && number < 16);
    let length = bytes.len();
    let length = if length < 0x80 {
        vec![length as u8]
    } else {
        vec![(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]
    };
    [vec![number << 3 | 2], length, bytes.to_vec()].concat()
}

fn envelope(kind: &str, message: &[u8]) -> Vec<u8> {
    let types = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, message)].concat()
}

fn map(name: &str) -> Vec<u8> {
    let metadata = [field(1, name.as_bytes()), field(3, b"a"), field(6, b"1")].concat();
    let entry = [field(1, b"key"), field(2, b"value")].concat();
    [field(1, &metadata), field(2, &entry)].concat()
}

fn protobuf(code: u16, body: Vec<u8>) -> Reply {
    reply(code).header("content-type", PROTOBUF).chunk(body)
}

fn accept(script: &Script) -> String {
    let seen = script.seen();
    seen.last().expect("a request").headers["accept"].to_str().expect("text").to_owned()
}

fn maps(script: &Script) -> Api<ConfigMap> {
    Api::namespaced(script.client(), "a").with_encoding(Encoding::Protobuf)
}

#[tokio::test]
async fn protobuf_is_requested_for_lists_and_watches_where_it_exists() {
    let script = Script::new([
        json(200, r#"{"metadata":{"name":"x"}}"#),
        json(200, r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#),
        json(200, r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#),
    ]);
    let client = script.client();
    let pods = Api::<Pod>::all(client.clone());
    assert_eq!(pods.encoding(), Encoding::Protobuf);
    let in_json = pods.clone().with_encoding(Encoding::Json);
    assert_eq!(in_json.encoding(), Encoding::Json);
    // A cache of one is not a cache of the other: what cannot be decoded differs.
    assert_ne!(in_json.representation(), pods.representation());
    assert_eq!(Api::<CustomResourceDefinition>::all(client.clone()).encoding(), Encoding::Protobuf);
    // Custom resources have no protobuf.
    let widgets = ResourceType::namespaced(Gvk::new("example.com", "v1", "Widget"), "widgets");
    let custom = Api::<DynamicObject>::dynamic(client, widgets).with_encoding(Encoding::Protobuf);
    assert_eq!(custom.encoding(), Encoding::Json);

    let maps = maps(&script);
    maps.get("x").await.expect("a map");
    assert_eq!(accept(&script), IN_JSON);
    maps.list(&ListParams::default()).await.expect("a list");
    assert_eq!(accept(&script), IN_PROTOBUF);
    let in_json = maps.with_encoding(Encoding::Json);
    in_json.list(&ListParams::default()).await.expect("a list");
    assert_eq!(accept(&script), IN_JSON);
}

#[tokio::test]
async fn managed_fields_are_requested_only_if_the_handle_keeps_them() {
    let list = || json(200, r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#);
    let script = Script::new([list(), json(200, ""), list(), json(200, ""), list(), json(200, "")]);
    let maps = maps(&script);
    let kept = maps.clone().with_managed_fields();
    let metadata =
        Api::<PartialObjectMeta<ConfigMap>>::dynamic_metadata(script.client(), maps.resource().clone());
    maps.list(&ListParams::default()).await.expect("a list");
    drop(maps.watch(&WatchParams::default()).await.expect("a watch"));
    kept.list(&ListParams::default()).await.expect("a list");
    drop(kept.watch(&WatchParams::default()).await.expect("a watch"));
    metadata.list(&ListParams::default()).await.expect("a list");
    drop(metadata.watch(&WatchParams::default()).await.expect("a watch"));
    let accepts: Vec<_> =
        script.seen().iter().map(|it| it.headers["accept"].to_str().expect("text").to_owned()).collect();
    let whole = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(accepts[..4], [IN_PROTOBUF, IN_PROTOBUF, whole, whole]);
    for (accept, form) in accepts[4..].iter().zip(["PartialObjectMetadataList", "PartialObjectMetadata"]) {
        let first = format!("{PROTOBUF};as={form};g=meta.k8s.io;v=v1;drop=metadata.managedFields,");
        assert!(accept.starts_with(&first), "{accept}");
    }
}

/// A map with a field that no version of Kubernetes has.
fn newer_map(name: &str) -> Vec<u8> {
    [map(name), field(15, b"new")].concat()
}

fn added(object: &[u8]) -> Vec<u8> {
    let frame = [field(1, b"ADDED"), field(2, &field(1, &envelope("ConfigMap", object)))].concat();
    [(frame.len() as u32).to_be_bytes().to_vec(), frame].concat()
}

fn stream(body: Vec<u8>) -> Reply {
    reply(200).header("content-type", "application/vnd.kubernetes.protobuf;stream=watch").chunk(body)
}

#[tokio::test]
async fn a_list_with_a_field_that_is_unknown_in_protobuf_is_read_again_in_json() {
    let list = [field(1, &field(2, b"7")), field(2, &map("x")), field(2, &newer_map("y"))].concat();
    let in_json = r#"{"metadata":{"resourceVersion":"8"},"items":[{"metadata":{"name":"x"}},{"metadata":{"name":"y"}}]}"#;
    let script = Script::new([
        protobuf(200, envelope("ConfigMapList", &list)),
        json(200, in_json),
        json(200, in_json),
    ]);
    let maps = maps(&script);
    let found = maps.list_all(&ListParams::default()).await.expect("a list");
    assert_eq!((found.items.len(), found.bad.len(), found.metadata.version.as_str()), (2, 0, "8"));
    assert_eq!(accept(&script), IN_JSON);
    // The handle and its clones remember it.
    maps.clone().list(&ListParams::default()).await.expect("a list");
    assert_eq!(accept(&script), IN_JSON);
    assert_eq!(script.seen().len(), 3);
}

#[tokio::test]
async fn a_view_that_does_not_read_the_part_with_an_unknown_field_stays_with_protobuf() {
    #[derive(Debug, serde::Deserialize)]
    struct Names {
        metadata: Name,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Name {
        name: String,
    }
    let metadata = [field(1, b"x"), field(3, b"a"), field(6, b"1")].concat();
    let pod = [field(1, &metadata), field(2, &field(15, b"new"))].concat();
    let list = [field(1, &field(2, b"7")), field(2, &pod)].concat();
    let script = Script::new([protobuf(200, envelope("PodList", &list))]);
    let names = Api::<Pod>::all(script.client()).reading::<Names>();
    let found = names.list(&ListParams::default()).await.expect("a list");
    assert_eq!(found.items[0].metadata.name, "x");
}

#[tokio::test]
async fn a_watch_with_a_field_that_is_unknown_in_protobuf_is_resumed_in_json() {
    let events = [added(&map("x")), added(&newer_map("y")), added(&map("z"))].concat();
    let rest = r#"{"type":"ADDED","object":{"metadata":{"name":"y","resourceVersion":"2"}}}"#;
    let script = Script::new([stream(events), json(200, rest)]);
    let params = WatchParams::after("1");
    let mut watch = maps(&script).watch_from(params).expect("a specific version");
    let mut names = Vec::new();
    while names.len() < 2 {
        match watch.try_next().await.expect("no error") {
            Some(WatchEvent::Added(map)) => names.push(map.metadata.name.expect("a name")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names, ["x", "y"]);
    assert_eq!(accept(&script), IN_JSON);
}

#[tokio::test]
async fn unknown_fields_from_a_server_that_sends_protobuf_against_the_request_are_skipped() {
    let list = [field(1, &field(2, b"7")), field(2, &newer_map("y"))].concat();
    let body = || protobuf(200, envelope("ConfigMapList", &list));
    let script = Script::new([body(), body()]);
    let found = maps(&script).list_all(&ListParams::default()).await.expect("a list");
    assert_eq!((found.items.len(), script.seen().len()), (1, 2));
}

#[tokio::test]
async fn an_object_a_list_and_a_watch_are_decoded_from_protobuf() {
    let list = [field(1, &field(2, b"7")), field(2, &map("x")), field(2, &map("y"))].concat();
    let events = added(&map("z"));
    let (begin, end) = events.split_at(9);
    let script = Script::new([
        protobuf(200, envelope("ConfigMap", &map("x"))),
        protobuf(200, envelope("ConfigMapList", &list)),
        reply(200)
            .header("content-type", "application/vnd.kubernetes.protobuf;stream=watch")
            .chunk(begin.to_vec())
            .chunk(end.to_vec()),
    ]);
    let maps = maps(&script);
    let map = maps.get("x").await.expect("a map");
    assert_eq!(map.data.expect("data")["key"], "value");
    let list = maps.list_all(&ListParams::default()).await.expect("a list");
    let names: Vec<_> = list.items.iter().map(|it| it.metadata.name.as_deref().expect("a name")).collect();
    assert_eq!((names, list.metadata.version.as_str()), (vec!["x", "y"], "7"));
    let mut watch = maps.watch(&WatchParams::default()).await.expect("a watch");
    match watch.try_next().await.expect("an event") {
        Some(WatchEvent::Added(map)) => assert_eq!(map.metadata.name.as_deref(), Some("z")),
        other => panic!("{other:?}"),
    }
    assert!(watch.try_next().await.expect("the end").is_none());
}

#[tokio::test]
async fn errors_and_deletions_are_decoded_from_protobuf() {
    let failure = [field(2, b"Failure"), field(3, b"no such map"), field(4, b"NotFound")].concat();
    let success = field(2, b"Success");
    let script = Script::new([
        protobuf(404, envelope("Status", &failure)),
        protobuf(200, envelope("Status", &success)),
        protobuf(200, envelope("ConfigMap", &map("x"))),
    ]);
    let maps = maps(&script);
    let error = maps.get("x").await.expect_err("not found");
    assert!(error.is_not_found(), "{error}");
    assert!(error.to_string().contains("no such map"), "{error}");
    let params = DeleteParams::default();
    assert!(matches!(maps.delete("x", &params).await, Ok(dogwatch_client::api::Deletion::Gone(_))));
    assert!(matches!(maps.delete("x", &params).await, Ok(dogwatch_client::api::Deletion::Terminating(_))));
}

#[tokio::test]
async fn a_server_without_protobuf_answers_with_json() {
    let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
        {"metadata":{"name":"x"}}]}"#;
    let script = Script::new([json(200, list), json(200, r#"{"metadata":{"name":"x"}}"#)]);
    let maps = maps(&script);
    assert_eq!(maps.list_all(&ListParams::default()).await.expect("a list").items.len(), 1);
    assert_eq!(maps.get("x").await.expect("a map").metadata.name.as_deref(), Some("x"));
}

#[tokio::test]
async fn every_golden_pod_field_arrives_through_the_client() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden");
    let body = std::fs::read(folder.join("core.v1.Pod.pb")).expect("a pod");
    let text = std::fs::read(folder.join("core.v1.Pod.json")).expect("a pod");
    let script = Script::new([protobuf(200, body), json(200, String::from_utf8(text).expect("text"))]);
    let pods = Api::<Pod>::namespaced(script.client(), "a").with_encoding(Encoding::Protobuf);
    let (one, other) = (pods.get("x").await.expect("protobuf"), pods.get("x").await.expect("JSON"));
    assert_eq!(one, other);
}

#[tokio::test]
async fn an_expired_page_and_then_an_unknown_field_lose_no_objects() {
    let page = [field(1, &[field(2, b"7"), field(3, b"token")].concat()), field(2, &map("x"))].concat();
    let all = [field(1, &field(2, b"8")), field(2, &map("x")), field(2, &newer_map("y"))].concat();
    let expired = r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410}"#;
    let in_json = r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"x"}},{"metadata":{"name":"y"}}]}"#;
    let script = Script::new([
        protobuf(200, envelope("ConfigMapList", &page)),
        json(410, expired),
        protobuf(200, envelope("ConfigMapList", &all)),
        json(200, in_json),
    ]);
    let found = maps(&script).list_all(&ListParams::default().limit(1)).await.expect("a list");
    assert_eq!((found.items.len(), found.metadata.version.as_str()), (2, "9"));
    let seen = script.seen();
    let query = |it: &str| it.split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
    let queries: Vec<_> = seen.iter().map(|it| query(&it.target)).collect();
    assert_eq!(queries, ["limit=1", "limit=1&continue=token", "", ""]);
}

#[tokio::test]
async fn a_type_that_denies_unknown_fields_does_not_restart_a_list_or_end_a_watch() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        #[serde(rename = "metadata")]
        _metadata: serde::de::IgnoredAny,
    }
    let list = [field(1, &field(2, b"7")), field(2, &map("x"))].concat();
    let script = Script::new([
        protobuf(200, envelope("ConfigMapList", &list)),
        json(200, r#"{"metadata":{"resourceVersion":"8"},"items":[{"metadata":{"name":"x"},"data":{}}]}"#),
        stream([added(&map("x")), added(&map("y"))].concat()),
    ]);
    let strict = maps(&script).reading::<Strict>();
    for handle in [strict.clone(), strict.clone().with_encoding(Encoding::Json)] {
        let found = handle.list_all(&ListParams::default()).await.expect("a list");
        assert_eq!((found.items.len(), found.bad.len()), (0, 1));
    }
    let mut watch = strict.watch(&WatchParams::default()).await.expect("a watch");
    for _ in 0..2 {
        let error = watch.try_next().await.expect_err("data is not expected");
        assert!(matches!(error, dogwatch_client::Error::Undecodable(_)), "{error}");
    }
    assert_eq!(script.seen().len(), 3);
}

//! Responses in protobuf: who asks for them, and what they decode into.

use std::path::Path;

use dogwatch_client::{Api, Encoding};
use dogwatch_core::{DeleteParams, Gvk, ListParams, ResourceType, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::DynamicObject;

use crate::scripted::{Reply, Script, json, reply};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

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
async fn protobuf_is_requested_where_it_is_chosen_and_exists() {
    let script = Script::new([]);
    let client = script.client();
    let pods = Api::<Pod>::all(client.clone());
    assert_eq!(pods.encoding(), Encoding::Json);
    let chosen = pods.clone().with_encoding(Encoding::Protobuf);
    assert_eq!(chosen.encoding(), Encoding::Protobuf);
    // A cache of one is not a cache of the other: newer fields are missing in protobuf.
    assert_ne!(chosen.representation(), pods.representation());
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    assert_eq!(definitions.with_encoding(Encoding::Protobuf).encoding(), Encoding::Protobuf);
    // Custom resources have no protobuf.
    let widgets = ResourceType::namespaced(Gvk::new("example.com", "v1", "Widget"), "widgets");
    let custom = Api::<DynamicObject>::dynamic(client, widgets).with_encoding(Encoding::Protobuf);
    assert_eq!(custom.encoding(), Encoding::Json);
}

#[tokio::test]
async fn an_object_a_list_and_a_watch_are_decoded_from_protobuf() {
    let list = [field(1, &field(2, b"7")), field(2, &map("x")), field(2, &map("y"))].concat();
    let frame = [field(1, b"ADDED"), field(2, &field(1, &envelope("ConfigMap", &map("z"))))].concat();
    let stream = [(frame.len() as u32).to_be_bytes().to_vec(), frame].concat();
    let (begin, end) = stream.split_at(9);
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
    assert_eq!(accept(&script), "application/vnd.kubernetes.protobuf,application/json");
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

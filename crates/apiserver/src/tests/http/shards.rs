//! Shards of a collection (`shardSelector`), as in kube-apiserver 1.36.4 with the feature gate
//! `ShardedListAndWatch`.

use crate::http::Settings;
use serde_json::{Value, json};

use super::{Server, TABLE};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const LOW: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
const HIGH: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

async fn sharding_server() -> Server {
    Server::with(Settings { sharding: true, ..Settings::default() }).await
}

fn with(path: &str, selector: &str, more: &str) -> String {
    let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
    format!("{path}?shardSelector={selector}{more}")
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|it| it["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

/// Creates ten config maps. The seed determines which are in the low shard.
async fn ten(server: &Server) -> (Vec<String>, Vec<String>) {
    for number in 0..10 {
        server.config_map(&format!("m{number}"), json!({ "odd": (number % 2).to_string() })).await;
    }
    let shard = async |selector| names(&server.get(&with(MAPS, selector, "")).await.json());
    (shard(LOW).await, shard(HIGH).await)
}

#[tokio::test]
async fn shards_divide_a_collection_and_report_their_selector() {
    let server = sharding_server().await;
    let (low, high) = ten(&server).await;
    assert!(!low.is_empty() && !high.is_empty());
    let mut all = [low.clone(), high.clone()].concat();
    all.sort();
    assert_eq!(all, names(&server.get(MAPS).await.json()));

    let spaced = format!("  ({}  || {HIGH} ) ", LOW.replace(' ', "").replace('\'', "\""));
    let both = server.get(&with(MAPS, &spaced, "")).await.json();
    assert_eq!(names(&both), all);
    assert_eq!(both["metadata"]["shardInfo"], json!({ "selector": format!("{LOW} || {HIGH}") }));
    assert!(server.get(MAPS).await.json()["metadata"].get("shardInfo").is_none());
    assert!(server.get(&with(MAPS, "", "")).await.json()["metadata"].get("shardInfo").is_none());

    let odd = server.get(&with(MAPS, LOW, "&labelSelector=odd%3D1")).await.json();
    let expected: Vec<_> = low.iter().filter(|it| it.as_bytes()[1] % 2 == 1).cloned().collect();
    assert_eq!(names(&odd), expected, "both selectors apply");
}

#[tokio::test]
async fn sharding_by_namespace_keeps_namespaces_and_cluster_scoped_objects_together() {
    let server = sharding_server().await;
    ten(&server).await;
    let shards = [LOW, HIGH].map(|it| it.replace("uid", "namespace"));
    for path in [MAPS, "/api/v1/namespaces"] {
        let all = names(&server.get(path).await.json());
        let mut found = Vec::new();
        for shard in &shards {
            found.push(names(&server.get(&with(path, shard, "")).await.json()));
        }
        assert!(found.contains(&all) && found.contains(&Vec::new()), "{path}: {found:?}");
    }
}

#[tokio::test]
async fn pages_of_a_shard_count_remaining_items_of_all_shards_and_need_the_selector_again() {
    let server = sharding_server().await;
    let (low, high) = ten(&server).await;
    let first = server.get(&with(MAPS, LOW, "&limit=1")).await.json();
    assert_eq!(names(&first), low[..1]);
    assert_eq!(first["metadata"]["remainingItemCount"], json!(9));
    let token = first["metadata"]["continue"].as_str().expect("a continue token");
    let rest = server.get(&with(MAPS, LOW, &format!("&limit=10&continue={token}"))).await.json();
    assert_eq!(names(&rest), low[1..]);
    let whole = names(&server.get(&format!("{MAPS}?limit=100&continue={token}")).await.json());
    assert!(low[1..].iter().all(|it| whole.contains(it)) && high.iter().any(|it| whole.contains(it)));
}

#[tokio::test]
async fn only_lists_of_whole_built_in_objects_report_their_selector() {
    let server = sharding_server().await;
    let (low, _) = ten(&server).await;
    for form in [TABLE, METADATA_LIST] {
        let list = server.get_as(&with(MAPS, LOW, ""), form).await.json();
        let shown = list["rows"].as_array().or(list["items"].as_array()).expect("a list").len();
        assert_eq!(shown, low.len(), "{form}");
        assert!(list["metadata"].get("shardInfo").is_none(), "{form}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_shard_delivers_only_its_objects() {
    let server = sharding_server().await;
    let (low, high) = ten(&server).await;
    let version = server.get(MAPS).await.version();
    let mut initial = server.watch(&with(MAPS, LOW, "&watch=1&resourceVersion=0")).await;
    for name in &low {
        assert_eq!(initial.next_event().await.1, *name);
    }
    initial.assert_silent().await;
    let mut events = server.watch(&with(MAPS, LOW, &format!("&watch=1&resourceVersion={version}"))).await;
    for name in [&high[0], &low[0]] {
        server.merge(&format!("{MAPS}/{name}"), json!({ "data": { "k": "w" } })).await;
        server.send("DELETE", &format!("{MAPS}/{name}"), &[], "").await;
    }
    for kind in ["MODIFIED", "DELETED"] {
        let (received, name, _) = events.next_event().await;
        assert_eq!((received.as_str(), &name), (kind, &low[0]));
    }
    events.assert_silent().await;
}

#[tokio::test]
async fn deleting_a_shard_keeps_the_other() {
    let server = sharding_server().await;
    let (low, high) = ten(&server).await;
    let deleted = server.send("DELETE", &with(MAPS, LOW, ""), &[], "").await.json();
    assert_eq!(names(&deleted), low);
    assert_eq!(names(&server.get(MAPS).await.json()), high);
}

#[tokio::test]
async fn an_invalid_shard_selector_is_a_server_error_for_lists_and_watches() {
    let server = sharding_server().await;
    let expected = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
        "message": "invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator" });
    for path in [with(MAPS, "junk", ""), with(MAPS, "junk", "&watch=1")] {
        let response = server.get(&path).await;
        assert_eq!((response.code.as_u16(), response.json()), (500, expected.clone()), "{path}");
    }
    assert_eq!(server.get(&with(&format!("{MAPS}/m0"), "junk", "")).await.code.as_u16(), 404, "not a list");
}

#[tokio::test]
async fn a_server_without_sharding_ignores_the_selector() {
    let server = Server::start().await;
    for number in 0..4 {
        server.config_map(&format!("m{number}"), json!({})).await;
    }
    for selector in [LOW, "junk"] {
        let list = server.get(&with(MAPS, selector, "")).await.json();
        assert_eq!(names(&list).len(), 4);
        assert!(list["metadata"].get("shardInfo").is_none());
    }
}

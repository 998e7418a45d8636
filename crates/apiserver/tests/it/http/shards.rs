//! Parts of a collection (`shardSelector`), as kube-apiserver 1.36.4 answers with the feature gate `ShardedListAndWatch`.

use dogwatch_apiserver::http::Settings;
use serde_json::{Value, json};

use super::{Server, TABLE};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const LOW: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
const HIGH: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

async fn dividing() -> Server {
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

/// Ten maps; the seed decides which are low.
async fn ten(server: &Server) -> (Vec<String>, Vec<String>) {
    for number in 0..10 {
        server.config_map(&format!("m{number}"), json!({ "odd": (number % 2).to_string() })).await;
    }
    let part = async |selector| names(&server.get(&with(MAPS, selector, "")).await.json());
    (part(LOW).await, part(HIGH).await)
}

#[tokio::test]
async fn parts_divide_a_collection_and_say_which_they_are() {
    let server = dividing().await;
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
    assert_eq!(names(&odd), expected, "all conditions hold");
}

#[tokio::test]
async fn the_namespace_divides_too_and_what_has_none_is_together() {
    let server = dividing().await;
    ten(&server).await;
    let parts = [LOW, HIGH].map(|it| it.replace("uid", "namespace"));
    for path in [MAPS, "/api/v1/namespaces"] {
        let all = names(&server.get(path).await.json());
        let mut found = Vec::new();
        for part in &parts {
            found.push(names(&server.get(&with(path, part, "")).await.json()));
        }
        assert!(found.contains(&all) && found.contains(&Vec::new()), "{path}: {found:?}");
    }
}

#[tokio::test]
async fn pages_of_a_part_count_what_was_not_shown_of_any_part_and_the_next_page_must_ask_for_the_part_again()
{
    let server = dividing().await;
    let (low, high) = ten(&server).await;
    let first = server.get(&with(MAPS, LOW, "&limit=1")).await.json();
    assert_eq!(names(&first), low[..1]);
    assert_eq!(first["metadata"]["remainingItemCount"], json!(9));
    let token = first["metadata"]["continue"].as_str().expect("more to come");
    let rest = server.get(&with(MAPS, LOW, &format!("&limit=10&continue={token}"))).await.json();
    assert_eq!(names(&rest), low[1..]);
    let whole = names(&server.get(&format!("{MAPS}?limit=100&continue={token}")).await.json());
    assert!(low[1..].iter().all(|it| whole.contains(it)) && high.iter().any(|it| whole.contains(it)));
}

#[tokio::test]
async fn only_lists_of_whole_built_in_objects_say_which_part_they_are() {
    let server = dividing().await;
    let (low, _) = ten(&server).await;
    for form in [TABLE, METADATA_LIST] {
        let list = server.get_as(&with(MAPS, LOW, ""), form).await.json();
        let shown = list["rows"].as_array().or(list["items"].as_array()).expect("a list").len();
        assert_eq!(shown, low.len(), "{form}");
        assert!(list["metadata"].get("shardInfo").is_none(), "{form}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_part_tells_of_nothing_else() {
    let server = dividing().await;
    let (low, high) = ten(&server).await;
    let version = server.get(MAPS).await.version();
    let mut initial = server.watch(&with(MAPS, LOW, "&watch=1&resourceVersion=0")).await;
    for name in &low {
        assert_eq!(initial.seen().await.1, *name);
    }
    initial.is_silent().await;
    let mut events = server.watch(&with(MAPS, LOW, &format!("&watch=1&resourceVersion={version}"))).await;
    for name in [&high[0], &low[0]] {
        server.merge(&format!("{MAPS}/{name}"), json!({ "data": { "k": "w" } })).await;
        server.send("DELETE", &format!("{MAPS}/{name}"), &[], "").await;
    }
    for kind in ["MODIFIED", "DELETED"] {
        let (told, name, _) = events.seen().await;
        assert_eq!((told.as_str(), &name), (kind, &low[0]));
    }
    events.is_silent().await;
}

#[tokio::test]
async fn deleting_a_part_leaves_the_other() {
    let server = dividing().await;
    let (low, high) = ten(&server).await;
    let deleted = server.send("DELETE", &with(MAPS, LOW, ""), &[], "").await.json();
    assert_eq!(names(&deleted), low);
    assert_eq!(names(&server.get(MAPS).await.json()), high);
}

#[tokio::test]
async fn what_is_no_selector_is_an_error_of_the_server_for_lists_and_watches_alike() {
    let server = dividing().await;
    let expected = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
        "message": "invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator" });
    for path in [with(MAPS, "junk", ""), with(MAPS, "junk", "&watch=1")] {
        let answer = server.get(&path).await;
        assert_eq!((answer.code.as_u16(), answer.json()), (500, expected.clone()), "{path}");
    }
    assert_eq!(server.get(&with(&format!("{MAPS}/m0"), "junk", "")).await.code.as_u16(), 404, "no list");
}

#[tokio::test]
async fn a_server_that_does_not_divide_ignores_the_selector_whatever_it_says() {
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

//! Reads of objects and lists, in every representation.

use std::io::Read;

use serde_json::{Value, json};

use super::{METADATA, Server, TABLE};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_object_is_served_with_a_trailing_newline() {
    let server = Server::start().await;
    let version = server.config_map("a", json!({ "x": "1" })).await;
    let response = server.get(&format!("{MAPS}/a")).await;
    assert_eq!((response.code.as_u16(), response.header("content-type")), (200, "application/json"));
    assert!(
        response.text().starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","#)
            && response.text().ends_with("}\n")
    );
    assert_eq!((response.version(), &response.json()["data"]), (version, &json!({ "k": "v" })));
    assert_eq!(response.header("cache-control"), "no-cache, private");
    assert_eq!(response.header("audit-id").len(), 36);
}

#[tokio::test]
async fn not_found_is_a_status_in_the_requested_format() {
    let server = Server::start().await;
    let path = format!("{MAPS}/nope");
    assert_eq!(server.get(&path).await.error(), (404, "configmaps \"nope\" not found".to_owned()));
    let yaml = server.get_as(&path, "application/yaml").await;
    let expected = "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: nope\nkind: Status\nmessage: configmaps \
                    \"nope\" not found\nmetadata: {}\nreason: NotFound\nstatus: Failure\n";
    assert_eq!((yaml.header("content-type"), yaml.text()), ("application/yaml", expected));
}

#[tokio::test]
async fn items_of_a_built_in_list_omit_kind_and_api_version() {
    let server = Server::start().await;
    let empty = server.get(MAPS).await.json();
    assert_eq!((&empty["kind"], &empty["items"]), (&json!("ConfigMapList"), &json!([])));
    for name in ["b", "a"] {
        server.config_map(name, json!({})).await;
    }
    let list = server.get(MAPS).await;
    assert_eq!(names(&list.json()), ["a", "b"]);
    assert!(
        list.json()["items"][0].get("kind").is_none() && list.json()["items"][0].get("apiVersion").is_none()
    );
    assert_eq!(list.version(), server.service.cluster().store().revision());
    assert_eq!(list.json()["metadata"].as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn pages_continue_and_an_expired_token_returns_a_new_one() {
    let server = Server::start().await;
    for name in ["a", "b", "c"] {
        server.config_map(name, json!({})).await;
    }
    let first = server.get(&format!("{MAPS}?limit=2")).await.json();
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(1)));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = server.get(&format!("{MAPS}?limit=2&continue={token}")).await.json();
    assert_eq!((names(&second), second["metadata"].get("continue")), (vec!["c"], None));

    server.config_map("d", json!({})).await;
    server.service.cluster().store().compact(u64::MAX);
    let gone = server.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((gone.code.as_u16(), &gone.json()["reason"]), (410, &json!("Expired")));
    let token = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = server.get(&format!("{MAPS}?limit=2&continue={token}")).await.json();
    assert_eq!(names(&rest), ["c", "d"]);
}

/// The three seconds are `blockTimeout` in k8s.io/apiserver v0.36.4
/// pkg/storage/cacher/watch_cache.go.
#[tokio::test(start_paused = true)]
async fn a_future_version_is_awaited_for_three_seconds() {
    let server = Server::start().await;
    let now = server.config_map("a", json!({})).await;
    for path in
        [format!("{MAPS}?resourceVersion={}", now + 9), format!("{MAPS}/a?resourceVersion={}", now + 9)]
    {
        let begun = tokio::time::Instant::now();
        let response = server.get(&path).await;
        let message = format!("Timeout: Too large resource version: {}, current: {now}", now + 9);
        assert_eq!(response.error(), (504, message));
        assert_eq!((response.header("retry-after"), begun.elapsed().as_secs()), ("1", 3));
    }
    let path = format!("{MAPS}?resourceVersion={}", now + 1);
    let (listed, _) = tokio::join!(server.get(&path), server.config_map("b", json!({})));
    assert_eq!(names(&listed.json()), ["a", "b"], "the version was reached in time");
}

#[tokio::test]
async fn invalid_versions_are_rejected_by_get_list_and_watch() {
    let server = Server::start().await;
    let why = r#"resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#;
    let list = server.get(&format!("{MAPS}?resourceVersion=abc")).await;
    assert_eq!(list.error(), (400, format!("invalid resource version: {why}")));
    for path in [format!("{MAPS}/a?resourceVersion=abc"), format!("{MAPS}?watch=1&resourceVersion=abc")] {
        let response = server.get(&path).await;
        assert_eq!(response.error(), (500, why.to_owned()));
        assert!(response.json().get("reason").is_none());
    }
}

#[tokio::test]
async fn tables_have_columns_and_include_the_requested_part_of_the_object() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    let table = server.get_as(MAPS, TABLE).await.json();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(table["columnDefinitions"][1]["name"], "Data");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "0s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let object = server.get_as(&format!("{MAPS}/a?includeObject=Object"), TABLE).await.json();
    assert_eq!(object["rows"][0]["object"]["data"], json!({ "k": "v" }));
    let rejected = server.get_as(&format!("{MAPS}?includeObject=Foo"), TABLE).await;
    assert_eq!(rejected.code, 400);
    let pods = server.get_as("/api/v1/pods", TABLE).await.json();
    assert_eq!((&pods["rows"], pods["columnDefinitions"].as_array().unwrap().len()), (&json!([]), 9));
}

#[tokio::test]
async fn partial_metadata_must_match_object_or_list() {
    let server = Server::start().await;
    server.config_map("a", json!({ "x": "y" })).await;
    let list_form = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let one = server.get_as(&format!("{MAPS}/a"), METADATA).await.json();
    assert_eq!((&one["kind"], one.get("data")), (&json!("PartialObjectMetadata"), None));
    let list = server.get_as(MAPS, list_form).await.json();
    assert_eq!(list["items"][0]["metadata"]["labels"], json!({ "x": "y" }));
    let message =
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)";
    assert_eq!(server.get_as(MAPS, METADATA).await.error(), (406, message.to_owned()));
    let message =
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)";
    assert_eq!(server.get_as(&format!("{MAPS}/a"), list_form).await.error(), (406, message.to_owned()));
}

/// Responses are compressed from 128 KiB on: k8s.io/apiserver v0.36.4
/// pkg/endpoints/handlers/responsewriters/writers.go.
#[tokio::test]
async fn large_responses_are_compressed_on_request_and_small_ones_never() {
    let server = Server::start().await;
    let big = json!({ "metadata": { "name": "big" }, "data": { "k": "x".repeat(200_000) } });
    server.post(MAPS, big).await;
    let gzip = [("accept-encoding", "gzip")];
    let packed = server.send("GET", &format!("{MAPS}/big"), &gzip, "").await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "Accept-Encoding"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed.bytes[..]).read_to_string(&mut text).expect("gzip");
    assert_eq!(text, server.get(&format!("{MAPS}/big")).await.text());
    assert_eq!(server.send("GET", &format!("{MAPS}/no"), &gzip, "").await.header("content-encoding"), "");
}

#[tokio::test]
async fn curl_gets_pretty_json_and_yaml_is_available() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    let pretty = server.send("GET", &format!("{MAPS}/a"), &[("user-agent", "curl/8")], "").await;
    assert!(
        pretty.text().starts_with("{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n"),
        "{}",
        pretty.text()
    );
    let yaml = server.get_as(&format!("{MAPS}/a"), "application/yaml").await;
    assert!(yaml.text().starts_with("apiVersion: v1\ndata:\n  k: v\nkind: ConfigMap\n"), "{}", yaml.text());
}

#[tokio::test]
async fn events_of_both_groups_are_the_same_objects_in_two_forms() {
    let server = Server::start().await;
    let event = json!({ "metadata": { "name": "e" }, "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default" },
        "reason": "Because", "message": "of it", "type": "Normal" });
    let created = server.post("/api/v1/namespaces/default/events", event).await;
    assert_eq!(created.code, 201, "{created:?}");
    let other = server.get("/apis/events.k8s.io/v1/namespaces/default/events").await.json();
    assert_eq!((&other["kind"], &other["items"][0]["regarding"]["name"]), (&json!("EventList"), &json!("p")));
    assert_eq!((&other["items"][0]["note"], other["items"][0].get("kind")), (&json!("of it"), None));
}

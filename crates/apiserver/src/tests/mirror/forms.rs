//! One stored form, and clients that ask for others.

use dogwatch_wire::{Fields, from_protobuf};
use serde_json::{Value, json};

use super::{Newest, Reply, in_protobuf, request};
use crate::mirror::{Mirror, MirrorError, MirrorObject, MirrorSettings, MirroredResource, View};
use http_body_util::BodyExt;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const METADATA_IN_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn pod(name: &str) -> Value {
    json!({ "kind": "Pod", "apiVersion": "v1",
        "metadata": { "name": name, "namespace": "default", "uid": name, "resourceVersion": "7",
            "creationTimestamp": "2026-01-02T03:04:05Z", "labels": { "app": "web" },
            "managedFields": [{ "manager": "m", "operation": "Update", "apiVersion": "v1",
                "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": {} } }] },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "c", "image": "i", "resources": {} }] },
        "status": { "phase": "Running" } })
}

fn pods() -> MirroredResource {
    MirroredResource::new("", "v1", "pods", "Pod").namespaced()
}

async fn get(mirror: &Mirror, path: &str, accept: &str) -> Reply {
    let response = mirror.respond(request(path, accept), View::unchanged(), &Newest(0)).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("no fault").to_bytes().to_vec();
    Reply { code, retry_after: None, body }
}

/// Whatever the encoding of the feed, every client gets the same objects.
#[tokio::test]
async fn clients_of_all_encodings_and_forms_read_one_stored_object() {
    let json = MirrorObject::from_value(&pod("a"));
    let enveloped = in_protobuf(&pod("a"));
    let message = protobuf_message(&enveloped);
    let mut bare = pod("a");
    bare.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
    for fed in [json, enveloped, message, MirrorObject::from_value(&bare)] {
        let mirror = Mirror::new(pods(), MirrorSettings::default());
        mirror.replace(9, vec![fed.clone()]).expect("it is stored");
        let one = "/api/v1/namespaces/default/pods/a";
        let expected = crate::protobuf::decode(in_protobuf(&pod("a")).bytes()).unwrap().value;
        assert_eq!(get(&mirror, one, JSON).await.json(), expected, "{fed:?}");
        let read: Value =
            from_protobuf(&get(&mirror, one, PROTOBUF).await.body, Fields::default().keep_managed_fields())
                .expect("protobuf");
        assert_eq!(read, expected);
        let yaml = String::from_utf8(get(&mirror, one, "application/yaml").await.body).unwrap();
        assert!(yaml.contains("\n  nodeName: node-1\n"), "{yaml}");

        let all = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1";
        let list = get(&mirror, all, JSON).await.json();
        assert_eq!((&list["kind"], &list["metadata"]["resourceVersion"]), (&json!("PodList"), &json!("9")));
        assert_eq!(list["items"][0]["spec"], expected["spec"]);
        let list: Value =
            from_protobuf(&get(&mirror, all, PROTOBUF).await.body, Fields::default()).expect("protobuf");
        assert_eq!(list["items"][0]["status"]["phase"], "Running");
        let table = get(&mirror, all, TABLE).await.json();
        assert_eq!(
            (&table["rows"][0]["cells"][0], &table["rows"][0]["cells"][2]),
            (&json!("a"), &json!("Running"))
        );
        let metadata = get(&mirror, all, METADATA).await.json();
        assert_eq!(metadata["items"][0]["metadata"]["labels"], json!({ "app": "web" }));
        let metadata: Value =
            from_protobuf(&get(&mirror, all, METADATA_IN_PROTOBUF).await.body, Fields::default()).unwrap();
        assert_eq!(metadata["items"][0]["metadata"]["name"], "a");
        let none = get(&mirror, "/api/v1/pods?fieldSelector=spec.nodeName%3Dother", JSON).await.json();
        assert_eq!(none["items"], json!([]));
    }
}

fn protobuf_message(object: &MirrorObject) -> MirrorObject {
    let envelope = crate::protobuf::Envelope::read(object.bytes()).expect("an envelope");
    MirrorObject::protobuf(envelope.message.to_vec())
}

#[tokio::test]
async fn unknown_fields_of_json_survive_and_are_not_lost_in_protobuf() {
    let mut new = pod("a");
    new["spec"]["ofTheFuture"] = json!({ "n": 12345678901234567890_u64 });
    let text = new.to_string();
    let mirror = Mirror::new(pods(), MirrorSettings::default());
    mirror.replace(9, vec![MirrorObject::json(text.clone())]).expect("it is stored");
    let one = "/api/v1/namespaces/default/pods/a";
    assert_eq!(get(&mirror, one, JSON).await.json(), new);
    let refused = get(&mirror, one, PROTOBUF).await;
    assert_eq!(refused.code, 500);
    // Without protobuf, clients that accept JSON too get that.
    let settings = MirrorSettings { protobuf: false, ..MirrorSettings::default() };
    let mirror = Mirror::new(pods(), settings);
    mirror.replace(9, vec![MirrorObject::json(text)]).expect("it is stored");
    assert_eq!(get(&mirror, one, &format!("{PROTOBUF},{JSON}")).await.json(), new);
    assert_eq!(get(&mirror, one, PROTOBUF).await.code, 406);
}

#[tokio::test]
async fn a_message_with_an_unknown_field_names_the_object_and_asks_for_json() {
    let mirror = Mirror::new(pods(), MirrorSettings::default());
    let message = [&[0x0a, 6, 0x0a, 1, b'a', 0x32, 1, b'7'][..], &[0x12, 3, 0xf8, 0x03, 1]].concat();
    let error = mirror.replace(9, vec![MirrorObject::protobuf(message)]).expect_err("it would be lost");
    assert!(matches!(&error, MirrorError::UnknownField { object, .. } if object == "a"), "{error}");
    assert!(error.to_string().starts_with("pods a: spec"), "{error}");
    assert_eq!(mirror.version(), None);
}

#[tokio::test]
async fn a_custom_resource_has_the_columns_of_its_definition() {
    let columns = vec![json!({ "name": "Size", "type": "integer", "jsonPath": ".spec.size" })];
    let widgets = MirroredResource::new("example.com", "v1", "widgets", "Widget")
        .namespaced()
        .columns(columns)
        .selectable_fields([".spec.colour"]);
    let mirror = Mirror::new(widgets, MirrorSettings::default());
    assert!(!mirror.has_protobuf());
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "size": 3, "colour": "red" },
        "metadata": { "name": "a", "namespace": "default", "resourceVersion": "7" } });
    mirror.replace(9, vec![MirrorObject::from_value(&widget)]).expect("it is stored");
    let all = "/apis/example.com/v1/widgets";
    let table = get(&mirror, all, TABLE).await.json();
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3]));
    let red = get(&mirror, &format!("{all}?fieldSelector=spec.colour%3Dred"), JSON).await.json();
    assert_eq!(red["items"], json!([widget]));
    let blue = get(&mirror, &format!("{all}?fieldSelector=spec.colour%3Dblue"), JSON).await.json();
    assert_eq!(blue["items"], json!([]));
    assert_eq!(get(&mirror, &format!("{all}?fieldSelector=spec.size%3D3"), JSON).await.code, 400);
    assert_eq!(get(&mirror, all, PROTOBUF).await.code, 406);
}

#[tokio::test]
async fn only_reads_of_the_resource_itself_are_served() {
    let mirror = Mirror::new(pods(), MirrorSettings::default());
    mirror.replace(9, vec![MirrorObject::from_value(&pod("a"))]).expect("it is stored");
    for (path, expected) in [
        ("/api/v1/namespaces/default/pods/a", 200),
        ("/api/v1/namespaces/default/pods", 200),
        ("/api/v1/namespaces/other/pods/a", 404),
        ("/api/v1/namespaces/default/pods/a/log", 404),
        ("/api/v1/nodes", 404),
        ("/apis/apps/v1/deployments", 404),
        ("/version", 404),
    ] {
        assert_eq!(get(&mirror, path, JSON).await.code, expected, "{path}");
    }
    let mut post = request("/api/v1/namespaces/default/pods", JSON);
    *post.method_mut() = http::Method::POST;
    assert_eq!(mirror.respond(post, View::unchanged(), &Newest(0)).await.status(), 405);
}

/// kube-apiserver v1.36.4 writes Go's structs: a time has no omitempty that would apply to it, and
/// an empty message in protobuf.
#[tokio::test]
async fn a_time_that_is_not_set_is_null_in_json_and_not_absent() {
    let conditions = json!([{ "type": "Ready", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": "2026-01-02T03:04:05Z" }]);
    let mut pod = pod("a");
    pod["status"]["conditions"] = conditions.clone();
    let enveloped = in_protobuf(&pod);
    for fed in [protobuf_message(&enveloped), enveloped] {
        let mirror = Mirror::new(pods(), MirrorSettings::default());
        mirror.replace(9, vec![fed]).expect("it is stored");
        let list = get(&mirror, "/api/v1/pods", JSON).await.json();
        assert_eq!(list["items"][0]["status"]["conditions"], conditions);
    }
}

#[tokio::test]
async fn errors_have_the_warning_of_a_deprecated_kind_as_well() {
    let endpoints = MirroredResource::new("", "v1", "endpoints", "Endpoints").namespaced();
    let mirror = Mirror::new(endpoints, MirrorSettings::default());
    mirror.replace(9, vec![]).expect("an empty list");
    for (path, code) in [("/api/v1/endpoints", 200), ("/api/v1/endpoints?fieldSelector=name%3Dx", 400)] {
        let response = mirror.respond(request(path, JSON), View::unchanged(), &Newest(0)).await;
        assert_eq!(response.status().as_u16(), code);
        let warning = response.headers().get("warning").and_then(|it| it.to_str().ok());
        assert!(warning.is_some_and(|it| it.contains("v1 Endpoints is deprecated")), "{warning:?}");
    }
}

/// A mirror with more objects than a list encodes at once.
fn many(encode: impl Fn(&Value) -> MirrorObject) -> Mirror {
    let mirror = Mirror::new(pods(), MirrorSettings::default());
    let listed = |version: u64| {
        let objects = (0..400).map(|it| {
            let mut pod = pod(&format!("pod-{it:03}"));
            pod["metadata"]["annotations"] = json!({ "long": format!("{it:03}").repeat(1_000) });
            encode(&pod)
        });
        mirror.replace(version, objects.collect()).expect("it is stored");
    };
    // The objects of the first list train the compression.
    listed(9);
    mirror.reset();
    listed(10);
    mirror
}

/// Returns the items or rows of a list, and the rest of it.
fn items_of(mut list: Value) -> (Vec<Value>, Value) {
    let field = if list["rows"].is_array() { "rows" } else { "items" };
    let items = list.as_object_mut().unwrap().remove(field).unwrap();
    for volatile in ["continue", "remainingItemCount"] {
        list["metadata"].as_object_mut().unwrap().remove(volatile);
    }
    (items.as_array().unwrap().clone(), list)
}

/// A view that changes some objects and hides others.
fn changing() -> View {
    View::new(7, |object| {
        let mut value = object.to_value().ok()?;
        let name = value["metadata"]["name"].as_str()?.to_owned();
        value["metadata"]["labels"] = json!({ "app": if name.ends_with('3') { "other" } else { "web" } });
        (!name.ends_with('7')).then(|| MirrorObject::from_value(&value))
    })
}

#[tokio::test]
async fn a_long_list_is_encoded_while_it_is_sent_and_is_the_same() {
    let all_forms = &[JSON, TABLE, METADATA, PROTOBUF, METADATA_IN_PROTOBUF][..];
    let all_views = &[View::unchanged(), changing()][..];
    for (mirror, forms, views) in [
        (many(in_protobuf), all_forms, all_views),
        (many(MirrorObject::from_value), &[JSON, PROTOBUF][..], &[View::unchanged()][..]),
    ] {
        for accept in forms {
            let accept = *accept;
            for view in views {
                let read = async |path: &str| {
                    let response = mirror.respond(request(path, accept), view.clone(), &Newest(0)).await;
                    assert_eq!(response.status(), 200, "{accept}");
                    let is_streamed = response.body().is_streamed();
                    let body = response.into_body().collect().await.expect("it is complete").to_bytes();
                    let list: Value = match accept.contains("protobuf") {
                        true => from_protobuf(&body, Fields::default()).expect("protobuf"),
                        false => serde_json::from_slice(&body).expect("JSON"),
                    };
                    (list, is_streamed)
                };
                let all = "/api/v1/pods?labelSelector=app%3Dweb";
                let (long, is_streamed) = read(all).await;
                let (mut pages, mut next) = (Vec::new(), String::new());
                let rest = loop {
                    let (page, is_streamed) = read(&format!("{all}&limit=200&continue={next}")).await;
                    assert!(!is_streamed, "a short list has a length");
                    next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
                    let (items, others) = items_of(page);
                    pages.extend(items);
                    if next.is_empty() {
                        break others;
                    }
                };
                let (items, others) = items_of(long);
                assert_eq!(items.len(), if view.identity().is_some() { 320 } else { 400 }, "{accept}");
                assert!(items == pages, "{accept}: the items differ");
                assert_eq!(others, rest, "{accept}");
                // Whole objects may be stored as they are sent.
                if accept == TABLE || accept == METADATA || (accept == JSON && cfg!(feature = "zstd")) {
                    assert!(is_streamed, "{accept}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_panic_in_the_middle_of_a_long_list_cuts_it() {
    let mirror = many(in_protobuf);
    let panicking = View::new(8, |object| {
        assert_ne!(object.to_value().ok()?["metadata"]["name"], "pod-200");
        Some(object.clone())
    });
    let request = |view| mirror.respond(request("/api/v1/pods", JSON), view, &Newest(0));
    let cut = request(panicking).await.into_body().collect().await;
    assert!(cut.is_err(), "the list is not complete");
    assert!(request(View::unchanged()).await.into_body().collect().await.is_ok());
}

/// The memory of a response that has not been read.
#[tokio::test]
async fn a_long_list_that_is_not_read_takes_little_memory() {
    let mirror = many(in_protobuf);
    for accept in [JSON, TABLE, METADATA] {
        let mut responses = Vec::new();
        let used = allocation_counter::measure(|| {
            let responding = mirror.respond(request("/api/v1/pods", accept), View::unchanged(), &Newest(0));
            responses.extend(futures_util::FutureExt::now_or_never(responding));
        });
        assert_eq!(responses.len(), 1, "it does not wait");
        // Of more than a megabyte; the first table also loads the columns of all kinds.
        assert!(used.bytes_current < 256 * 1024, "{accept}: {} bytes", used.bytes_current);
    }
}

#[cfg(feature = "zstd")]
#[tokio::test]
async fn a_long_list_of_compressed_objects_in_protobuf_is_decompressed_while_it_is_sent() {
    let mirror = many(in_protobuf);
    for accept in [PROTOBUF, METADATA_IN_PROTOBUF] {
        let response = mirror.respond(request("/api/v1/pods", accept), View::unchanged(), &Newest(0)).await;
        assert!(response.body().is_streamed(), "{accept}");
    }
}

#[tokio::test]
async fn a_long_list_is_compressed_while_it_is_sent() {
    let mirror = many(in_protobuf);
    let mut asked = request("/api/v1/pods", JSON);
    asked.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
    let response = mirror.respond(asked, View::unchanged(), &Newest(0)).await;
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert!(response.body().is_streamed());
    let packed = response.into_body().collect().await.expect("it is complete").to_bytes();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut text).expect("gzip");
    assert_eq!(text.as_bytes(), get(&mirror, "/api/v1/pods", JSON).await.body);
    assert!(text.ends_with("]}\n"), "as from kube-apiserver");
}

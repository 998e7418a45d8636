//! Objects, lists and watches in protobuf, compared with the same in JSON, both encoded by
//! Kubernetes.

use std::path::Path;

use dogwatch_core::{Reason, Status};
use dogwatch_wire::{
    EventKind, Fields, ListDecoder, ListError, ListMeta, UndecodableItem, WatchDecoder, WatchError,
    WatchEvent,
};
use dogwatch_wire::{from_protobuf, from_slice, to_protobuf};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::strategies::cut;

const MAGIC: &[u8] = b"k8s\0";

pub(crate) fn golden() -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden");
    let files = std::fs::read_dir(folder).expect("the golden objects exist");
    let files = files.map(|it| it.expect("readable").path());
    let mut golden: Vec<_> = files
        .filter(|it| it.extension().is_some_and(|it| it == "pb"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let json = std::fs::read(path.with_extension("json")).expect("each object exists in JSON too");
            (name, std::fs::read(&path).expect("readable"), json)
        })
        // Not an object: it has no kind.
        .filter(|(name, _, _)| name != "core.v1.WatchEvent")
        .collect();
    golden.sort();
    golden
}

pub(crate) fn golden_named(name: &str) -> (Vec<u8>, Vec<u8>) {
    let found = golden().into_iter().find(|it| it.0 == name);
    found.map(|(_, encoded, json)| (encoded, json)).unwrap_or_else(|| panic!("{name} exists"))
}

pub(crate) fn all() -> Fields {
    Fields::default().keep_managed_fields()
}

#[test]
fn every_golden_object_is_equal_in_protobuf_and_json() {
    let golden = golden();
    assert!(golden.len() > 180, "{} golden objects", golden.len());
    for (name, encoded, json) in golden {
        for fields in [Fields::default(), all()] {
            let decoded: Value =
                from_protobuf(&encoded, fields).unwrap_or_else(|bad| panic!("{name}: {bad}"));
            let expected: Value = from_slice(&json, fields).expect("JSON");
            assert_eq!(decoded, expected, "{name}");
        }
    }
}

#[test]
fn typed_objects_are_equal_in_protobuf_and_json() {
    fn agree<T: DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str) {
        let (encoded, json) = golden_named(name);
        let decoded: T = from_protobuf(&encoded, all()).unwrap_or_else(|bad| panic!("{name}: {bad}"));
        assert_eq!(decoded, from_slice(&json, all()).expect("JSON"), "{name}");
    }

    agree::<Pod>("core.v1.Pod");
    agree::<Node>("core.v1.Node");
    agree::<Service>("core.v1.Service");
    agree::<Secret>("core.v1.Secret");
    agree::<Event>("core.v1.Event");
    agree::<Deployment>("apps.v1.Deployment");
    agree::<StatefulSet>("apps.v1.StatefulSet");
    agree::<EndpointSlice>("discovery.k8s.io.v1.EndpointSlice");
    agree::<HorizontalPodAutoscaler>("autoscaling.v2.HorizontalPodAutoscaler");
    agree::<Status>("core.v1.Status");
}

#[test]
fn every_golden_object_is_the_same_after_encoding_and_decoding() {
    for (name, encoded, json) in golden() {
        let object: Value = from_slice(&json, all()).expect("JSON");
        let ours = to_protobuf(&object).unwrap_or_else(|error| panic!("{name}: {error}"));
        let decoded: Value = from_protobuf(&ours, all()).unwrap_or_else(|bad| panic!("{name}: {bad}"));
        assert_eq!(decoded, object, "{name}");
        // Go writes the empty fields of embedded and other messages too, but nothing that is
        // larger.
        assert!(ours.len() <= encoded.len(), "{name}: {} bytes instead of {}", ours.len(), encoded.len());
    }
}

#[test]
fn golden_objects_of_common_kinds_are_encoded_to_the_bytes_of_go() {
    for name in ["core.v1.Pod", "core.v1.Node", "core.v1.Secret", "apps.v1.Deployment", "batch.v1.CronJob"] {
        let (encoded, json) = golden_named(name);
        let object: Value = from_slice(&json, all()).expect("JSON");
        assert!(to_protobuf(&object).expect("encoded") == encoded, "{name}");
    }
}

#[test]
fn values_that_do_not_fit_their_fields_are_named() {
    let encode = |spec: Value| {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec });
        to_protobuf(&pod).expect_err("invalid").to_string()
    };
    for (spec, message) in [
        (json!("x"), "cannot encode spec: expected an object, found a string"),
        (json!({ "nodeName": 5 }), "cannot encode spec.nodeName: expected a string, found another number"),
        (
            json!({ "containers": [{}, { "ports": [{ "containerPort": 1.5 }] }] }),
            "cannot encode spec.containers[1].ports[0].containerPort: expected an integer, found another number",
        ),
        (
            json!({ "nodeSelector": { "a": true } }),
            "cannot encode spec.nodeSelector.a: expected a string, found a boolean",
        ),
        // Fields of other versions of Kubernetes must not be lost.
        (
            json!({ "workloadRef": { "name": "a" } }),
            "cannot encode spec.workloadRef: protobuf has no such field",
        ),
        (
            json!({ "containers": [{ "kind": "Pod" }] }),
            "cannot encode spec.containers[0].kind: protobuf has no such field",
        ),
    ] {
        assert_eq!(encode(spec), message);
    }
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget" });
    let error = to_protobuf(&widget).expect_err("a custom kind").to_string();
    assert_eq!(
        error,
        r#"cannot encode the object: the kind "Widget" of "example.com/v1" has no protobuf encoding"#
    );
    assert!(to_protobuf(&5).is_err() && to_protobuf(&json!({})).is_err());
}

#[test]
fn times_before_1970_and_whole_floats_are_encoded_exactly() {
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": {}, "source": {},
        "count": 3.0, "eventTime": "1969-12-31T23:59:59.250000Z", "firstTimestamp": "1900-01-01T00:00:00Z",
        "lastTimestamp": null, "reportingComponent": "", "reportingInstance": "",
    });
    let decoded: Value = from_protobuf(&to_protobuf(&event).expect("encoded"), all()).expect("decoded");
    let mut expected = event;
    expected["count"] = json!(3);
    expected.as_object_mut().expect("an object").remove("lastTimestamp");
    assert_eq!(decoded, expected);
}

/// Encodes a field with a length.
fn field(number: u16, bytes: &[u8]) -> Vec<u8> {
    [&varint(u64::from(number) << 3 | 2), &varint(bytes.len() as u64), bytes].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn integer(number: u16, value: u64) -> Vec<u8> {
    [varint(u64::from(number) << 3), varint(value)].concat()
}

fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &types), field(2, message), field(3, b""), field(4, b"")].concat()
}

fn value_of(api_version: &str, kind: &str, message: &[u8]) -> Value {
    let body = envelope(api_version, kind, message);
    from_protobuf(&body, all()).unwrap_or_else(|bad| panic!("{kind}: {bad}"))
}

#[test]
fn empty_values_are_omitted_exactly_where_json_omits_them() {
    // As Go encodes a pod with one container and nothing else: single values are always there.
    let metadata = [field(1, b"a"), field(2, b""), integer(7, 0), field(8, b"")].concat();
    let container = [field(1, b"c"), field(2, b""), field(8, b"")].concat();
    let spec = [field(2, &container), field(3, b""), integer(4, 0), integer(11, 0)].concat();
    let pod = [field(1, &metadata), field(2, &spec), field(3, &field(1, b""))].concat();
    assert_eq!(
        value_of("v1", "Pod", &pod),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
            // A pointer to zero is shown, and a container without resources has an empty object.
            "spec": { "containers": [{ "name": "c", "resources": {} }], "terminationGracePeriodSeconds": 0 },
            "status": {},
        })
    );
}

#[test]
fn values_with_a_form_of_their_own() {
    let quota = |quantity: &[u8]| {
        let hard = [field(1, b"cpu"), field(2, quantity)].concat();
        value_of("v1", "ResourceQuota", &field(2, &field(1, &hard)))["spec"]["hard"]["cpu"].clone()
    };
    assert_eq!(quota(&field(1, b"100m")), "100m");
    assert_eq!(quota(b""), "0");

    let port = |port: &[u8]| {
        let ports = [integer(3, 80), field(4, port)].concat();
        value_of("v1", "Service", &field(2, &field(1, &ports)))["spec"]["ports"][0]["targetPort"].clone()
    };
    assert_eq!(port(&[integer(1, 0), integer(2, 8080)].concat()), 8080);
    assert_eq!(port(&[integer(1, 1), field(3, b"http")].concat()), "http");
    assert_eq!(port(&integer(2, (-1_i64) as u64)), -1);

    let deleted = |time: &[u8]| {
        value_of("v1", "Pod", &field(1, &field(9, time)))["metadata"]["deletionTimestamp"].clone()
    };
    assert_eq!(deleted(&integer(1, 1_794_951_438)), "2026-11-17T21:37:18Z");
    assert_eq!(deleted(b""), Value::Null);

    let secret = [field(1, b"key"), field(2, &[0, 1, 255])].concat();
    assert_eq!(value_of("v1", "Secret", &field(2, &secret))["data"]["key"], "AAH/");

    assert_eq!(deleted(&[integer(1, 0), integer(2, 0)].concat()), "1970-01-01T00:00:00Z");
    assert_eq!(deleted(&integer(1, (-62_135_596_800_i64) as u64)), Value::Null);

    // Go does not check the text of strings, and shows one replacement for each invalid byte.
    let label = [field(1, b"k\xff"), field(2, b"a\xe2\x82b")].concat();
    let pod = value_of("v1", "Pod", &field(1, &[field(1, b"\xf0x"), field(11, &label)].concat()));
    assert_eq!(
        pod["metadata"],
        json!({ "name": "\u{fffd}x", "labels": { "k\u{fffd}": "a\u{fffd}\u{fffd}b" } })
    );

    let revision =
        |raw: &[u8]| value_of("apps/v1", "ControllerRevision", &field(2, &field(1, raw)))["data"].clone();
    assert_eq!(revision(br#" {"a":[1,"x"]} "#), json!({ "a": [1, "x"] }));
    assert_eq!(revision(b"5"), 5);
    assert_eq!(revision(b""), Value::Null);
    assert_eq!(revision(&envelope("v1", "Pod", &field(1, &field(1, b"p"))))["metadata"]["name"], "p");
}

#[test]
fn managed_fields_are_skipped_unless_they_are_to_be_kept() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        managed_fields: Vec<ManagedFieldsEntry>,
    }

    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }

    let (pod, _) = golden_named("core.v1.Pod");
    let decode = |fields| from_protobuf::<Object>(&pod, fields).expect("a pod").metadata.managed_fields.len();
    assert_eq!((decode(Fields::default()), decode(all())), (0, 1));
}

#[test]
fn the_order_of_fields_has_no_meaning() {
    let spec = [field(10, b"node"), field(16, b"host"), field(3, b"Always")];
    let parts = [field(1, &field(1, b"a")), field(2, &spec.concat()), field(3, &field(1, b"Running"))];
    let expected = value_of("v1", "Pod", &parts.concat());
    assert_eq!(
        (&expected["spec"]["hostname"], &expected["status"]["phase"]),
        (&json!("host"), &json!("Running"))
    );
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let turned = order.map(|it| parts[it].clone()).concat();
        assert_eq!(value_of("v1", "Pod", &turned), expected, "{order:?}");
    }
    // The message may also be before the kind.
    let types = field(1, &[field(1, b"v1"), field(2, b"Pod")].concat());
    let body = [MAGIC.to_vec(), field(2, &parts.concat()), types].concat();
    assert_eq!(from_protobuf::<Value>(&body, all()).expect("a pod"), expected);
}

#[test]
fn repeated_single_fields_are_merged_and_scattered_elements_are_joined() {
    let spec = |parts: &[Vec<u8>]| field(2, &parts.concat());
    let pod = [
        field(1, &field(1, b"first")),
        spec(&[field(10, b"node"), field(2, &field(1, b"a"))]),
        field(1, &field(1, b"last")),
        spec(&[field(2, &field(1, b"b")), field(3, b"Never"), field(2, &field(1, b"c"))]),
    ]
    .concat();
    let pod = value_of("v1", "Pod", &pod);
    assert_eq!(pod["metadata"]["name"], "last");
    assert_eq!((&pod["spec"]["nodeName"], &pod["spec"]["restartPolicy"]), (&json!("node"), &json!("Never")));
    let containers = pod["spec"]["containers"].as_array().expect("containers");
    let names: Vec<_> = containers.iter().map(|it| it["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["a", "b", "c"]);
    // Map entries as well.
    let label = |key: &[u8], value: &[u8]| field(11, &[field(1, key), field(2, value)].concat());
    let metadata = [label(b"a", b"1"), field(1, b"x"), label(b"b", b"2"), label(b"a", b"3")].concat();
    let pod = value_of("v1", "Pod", &field(1, &metadata));
    assert_eq!(pod["metadata"]["labels"], json!({ "a": "3", "b": "2" }));
    let twice = field(11, &[field(1, b"a"), field(2, b"1"), field(2, b"2")].concat());
    assert_eq!(value_of("v1", "Pod", &field(1, &twice))["metadata"]["labels"], json!({ "a": "2" }));
}

#[test]
fn floats_without_a_fraction_are_integers() {
    let maximum = |value: f64| {
        let schema = [vec![9 << 3 | 1], value.to_bits().to_le_bytes().to_vec()].concat();
        let version = field(4, &field(1, &schema));
        let spec = field(2, &field(7, &version));
        let crd = value_of("apiextensions.k8s.io/v1", "CustomResourceDefinition", &spec);
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["maximum"].to_string()
    };
    assert_eq!((maximum(100.0), maximum(-3.0), maximum(0.5)), ("100".into(), "-3".into(), "0.5".into()));
}

#[test]
fn messages_that_are_split_at_every_level_are_rejected_before_they_fill_the_memory() {
    // A schema in a schema, each in two parts, of which one is empty.
    let schema =
        (0..100).fold(field(4, &[b'x'; 100_000]), |inner, _| [field(28, &inner), field(28, b"")].concat());
    let spec = field(2, &field(7, &field(4, &field(1, &schema))));
    let body = envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &spec);
    let bad = from_protobuf::<Value>(&body, all()).expect_err("too much to join");
    assert!(bad.reason.contains("split into parts"), "{}", bad.reason);
}

#[test]
fn unknown_fields_are_skipped() {
    let fixed = [varint(62 << 3 | 1), vec![0; 8]].concat();
    let pod = [integer(60, 5), field(4_000, b"abc"), field(1, &field(1, b"a")), fixed].concat();
    assert_eq!(value_of("v1", "Pod", &pod)["metadata"]["name"], "a");
}

#[test]
fn packed_numbers_are_read_like_single_ones() {
    let csi = |numbers: &[u8]| value_of("v1", "PodPortForwardOptions", numbers)["ports"].clone();
    assert_eq!(csi(&[integer(1, 80), integer(1, 443)].concat()), json!([80, 443]));
    assert_eq!(csi(&field(1, &[80, 0xbb, 0x03])), json!([80, 443]));
}

#[test]
fn an_undecodable_object_is_reported_with_its_key_and_the_path() {
    #[derive(Debug, Deserialize)]
    struct Wrong {
        #[serde(rename = "spec")]
        _spec: WrongSpec,
    }

    #[derive(Debug, Deserialize)]
    struct WrongSpec {
        #[serde(rename = "containers")]
        _containers: Vec<WrongContainer>,
    }

    #[derive(Debug, Deserialize)]
    struct WrongContainer {
        #[serde(rename = "name")]
        _name: i32,
    }

    let metadata = [field(1, b"a"), field(3, b"n"), field(6, b"7")].concat();
    let pod = [field(1, &metadata), field(2, &field(2, &field(1, b"secret")))].concat();
    let bad = from_protobuf::<Wrong>(&envelope("v1", "Pod", &pod), all()).expect_err("a string");
    assert_eq!(
        bad.to_string(),
        "n/a cannot be decoded at spec.containers[0].name: invalid type: a string of 6 bytes, expected i32"
    );
    assert_eq!(bad.version.as_str(), "7");
    let bad =
        from_protobuf::<Value>(&envelope("example.com/v1", "Widget", &pod), all()).expect_err("unknown");
    assert_eq!(bad.key.map(String::from).as_deref(), Some("n/a"));
    assert!(bad.reason.contains("Widget"), "{}", bad.reason);
    let bad = from_protobuf::<Value>(b"{}", all()).expect_err("not protobuf");
    assert!(bad.reason.contains("does not start with"), "{}", bad.reason);
}

#[test]
fn nested_envelopes_and_the_json_in_them_share_one_depth_limit() {
    let revision = |raw: &[u8]| envelope("apps/v1", "ControllerRevision", &field(2, &field(1, raw)));
    let nested =
        move |levels: usize, core: &[u8]| (0..levels).fold(core.to_vec(), |inner, _| revision(&inner));
    let list = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let decode = |body: &[u8]| from_protobuf::<Value>(body, all());
    // Half of the stack of a runtime thread.
    let small = std::thread::Builder::new().stack_size(1024 * 1024);
    let decoding = small.spawn(move || {
        assert!(decode(&nested(126, b"{}")).is_ok());
        assert!(decode(&nested(60, list(60).as_bytes())).is_ok());
        for (levels, core) in
            [(128, "{}".to_owned()), (3_000, "{}".to_owned()), (60, list(68)), (60, list(50_000))]
        {
            let bad = decode(&nested(levels, core.as_bytes())).expect_err("too deep");
            assert!(bad.reason.contains("nested deeper than 127"), "{levels}: {}", bad.reason);
        }
    });
    decoding.expect("a thread").join().expect("no stack overflow, which would abort the process");
}

type Listed = (Vec<Result<Value, UndecodableItem>>, Result<ListMeta, ListError>);

fn list(chunks: &[&[u8]]) -> Listed {
    let mut decoder = ListDecoder::<Value>::protobuf().fields(all());
    let mut items = Vec::new();
    for chunk in chunks {
        if let Err(error) = decoder.feed(chunk, |item| items.push(item)) {
            return (items, Err(error));
        }
    }
    (items, decoder.finish())
}

/// Encodes a list of pods with these names.
fn pods(names: &[&str]) -> Vec<u8> {
    let mut message = field(1, &[field(2, b"7"), field(3, b"next"), integer(4, 5)].concat());
    for name in names {
        message.extend(field(2, &field(1, &field(1, name.as_bytes()))));
    }
    envelope("v1", "PodList", &message)
}

#[test]
fn a_list_has_items_and_metadata() {
    let (items, meta) = list(&[&pods(&["a", "b"])]);
    let names: Vec<_> =
        items.iter().map(|it| it.as_ref().expect("a pod")["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    let meta = meta.expect("complete");
    assert_eq!(
        (meta.kind.as_str(), meta.api_version.as_str(), meta.version.as_str()),
        ("PodList", "v1", "7")
    );
    assert_eq!((meta.continue_token.as_deref(), meta.remaining_item_count), (Some("next"), Some(5)));
    let (items, meta) = list(&[&pods(&[])]);
    assert!(items.is_empty() && meta.is_ok());
    // A list without any field.
    assert!(list(&[&envelope("v1", "PodList", b"")]).1.is_ok());
}

#[test]
fn a_list_that_is_none_is_described() {
    let status = [field(2, b"Failure"), field(3, b"too old"), field(4, b"Expired"), integer(6, 410)].concat();
    match list(&[&envelope("v1", "Status", &status)]).1 {
        Err(ListError::Refused(status)) => assert_eq!(status.reason, Reason::Expired),
        other => panic!("{other:?}"),
    }
    for (body, found) in [
        (envelope("v1", "Pod", b""), "a Pod"),
        (b"<html>no</html>".to_vec(), "text that begins with \"<html>no</html>\""),
        (b"k8".to_vec(), ""),
        (b"".to_vec(), ""),
    ] {
        match list(&[&body]).1 {
            Err(ListError::NotAList { found: what }) => assert_eq!(what, found),
            Err(ListError::Torn { .. }) => assert_eq!(found, ""),
            other => panic!("{other:?}"),
        }
    }
    let backwards = [MAGIC.to_vec(), field(2, b"")].concat();
    assert!(matches!(list(&[&backwards]).1, Err(ListError::Malformed { .. })));
    let two = [pods(&["a"]), field(2, b"")].concat();
    assert!(matches!(list(&[&two]).1, Err(ListError::Malformed { .. })));
    // Fields of all wire types may be added.
    let fixed = |wire_type: u64, length: usize| [varint(30 << 3 | wire_type), vec![0; length]].concat();
    let others = [fixed(1, 8), fixed(5, 4), integer(31, 5)].concat();
    let types = field(1, &[field(1, b"v1"), field(2, b"PodList")].concat());
    let items = [others.clone(), field(2, b"")].concat();
    let body = [MAGIC.to_vec(), types, field(2, &items), others].concat();
    let (items, meta) = list(&[&body]);
    assert!(items.len() == 1 && meta.is_ok(), "{meta:?}");
    // An item that is longer than the list around it.
    let item = [vec![2 << 3 | 2], varint(50), vec![0; 50]].concat();
    let types = field(1, &[field(1, b"v1"), field(2, b"PodList")].concat());
    let body = [MAGIC.to_vec(), types, vec![2 << 3 | 2], varint(10), item].concat();
    assert!(matches!(list(&[&body]).1, Err(ListError::Malformed { .. })));
}

#[test]
fn items_and_events_beyond_the_limit_are_rejected_before_they_are_held() {
    let body = pods(&["a", &"b".repeat(100)]);
    let mut decoder = ListDecoder::<Value>::protobuf().item_limit(50);
    let mut count = 0;
    assert!(matches!(decoder.feed(&body, |_| count += 1), Err(ListError::TooLarge { limit: 50, .. })));
    assert_eq!(count, 1);
    let mut decoder = WatchDecoder::<Value>::protobuf().frame_limit(50);
    let prefix = [0, 0, 0, 51];
    assert!(matches!(decoder.feed(&prefix, |_| ()), Err(WatchError::TooLarge { limit: 50, .. })));
    assert!(decoder.feed(&[0], |_| ()).is_err());
}

type Watched = (Vec<Result<WatchEvent<Value>, UndecodableItem>>, Result<(), WatchError>);

fn watch(chunks: &[&[u8]]) -> Watched {
    let mut decoder = WatchDecoder::<Value>::protobuf().fields(all());
    let mut events = Vec::new();
    for chunk in chunks {
        if let Err(error) = decoder.feed(chunk, |event| events.push(event)) {
            return (events, Err(error));
        }
    }
    (events, decoder.finish())
}

fn event(word: &str, object: &[u8]) -> Vec<u8> {
    let message = [field(1, word.as_bytes()), field(2, &field(1, object))].concat();
    [(message.len() as u32).to_be_bytes().to_vec(), message].concat()
}

#[test]
fn a_watch_has_events_of_every_type() {
    let pod =
        |name: &str| envelope("v1", "Pod", &field(1, &[field(1, name.as_bytes()), field(6, b"9")].concat()));
    let status =
        envelope("v1", "Status", &[field(2, b"Failure"), field(4, b"Expired"), integer(6, 410)].concat());
    let stream = [
        event("ADDED", &pod("a")),
        event("MODIFIED", &pod("b")),
        event("DELETED", &pod("c")),
        event("BOOKMARK", &pod("")),
        event("LATER", &pod("d")),
        event("DELETED", &envelope("example.com/v1", "Widget", &field(1, &field(1, b"e")))),
        event("ERROR", &status),
    ]
    .concat();
    let (events, end) = watch(&[&stream]);
    assert_eq!(end, Ok(()));
    let name = |value: &Value| value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let described: Vec<_> = events
        .iter()
        .map(|it| match it {
            Ok(WatchEvent::Added(pod)) => format!("added {}", name(pod)),
            Ok(WatchEvent::Modified(pod)) => format!("modified {}", name(pod)),
            Ok(WatchEvent::Deleted(pod)) => format!("deleted {}", name(pod)),
            Ok(WatchEvent::Bookmark(bookmark)) => format!("bookmark {}", bookmark.version),
            Ok(WatchEvent::Error(status)) => format!("error {:?}", status.reason),
            Ok(_) => "another event".to_owned(),
            Err(bad) => format!("bad {:?} {:?}", bad.key.as_ref().map(|it| it.as_str()), bad.event),
        })
        .collect();
    assert_eq!(
        described,
        [
            "added a",
            "modified b",
            "deleted c",
            "bookmark 9",
            "bad Some(\"d\") None",
            "bad Some(\"e\") Some(Deleted)",
            "error Expired",
        ]
    );
}

#[test]
fn a_malformed_event_loses_neither_an_error_nor_a_deletion() {
    let framed = |message: Vec<u8>| [(message.len() as u32).to_be_bytes().to_vec(), message].concat();
    let (events, _) = watch(&[&event("ERROR", b"not an envelope")]);
    assert!(
        matches!(&events[..], [Ok(WatchEvent::Error(status))] if status.message.contains("not a status"))
    );
    let pod = envelope("v1", "Pod", &field(1, &[field(1, b"a"), field(3, b"n")].concat()));
    let message = [field(1, b"DELETED"), field(2, &field(1, &pod)), vec![0xff]].concat();
    let (events, end) = watch(&[&framed(message)]);
    assert_eq!(end, Ok(()));
    match &events[..] {
        [Err(bad)] => {
            assert_eq!(bad.event, Some(EventKind::Deleted));
            assert_eq!(bad.key.as_ref().map(|it| it.as_str()), Some("n/a"));
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn a_list_decodes_the_same_however_it_is_split(
        names in proptest::collection::vec("[a-z]{0,200}", 0..6),
        places in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let body = pods(&names);
        prop_assert_eq!(list(&cut(&body, &places)), list(&[&body]));
    }

    #[test]
    fn a_watch_decodes_the_same_however_it_is_split(
        names in proptest::collection::vec("[a-z]{0,200}", 0..6),
        places in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let stream: Vec<u8> =
            names.iter().flat_map(|it| event("ADDED", &envelope("v1", "Pod", &field(1, &field(1, it.as_bytes()))))).collect();
        prop_assert_eq!(watch(&cut(&stream, &places)), watch(&[&stream]));
    }

    #[test]
    fn a_truncated_body_is_torn_and_never_complete(at in any::<prop::sample::Index>()) {
        let body = pods(&["a", "b", "c"]);
        // The two empty fields at the end may be absent.
        let at = at.index(body.len() - 4);
        prop_assert!(matches!(list(&[&body[..at]]).1, Err(ListError::Torn { .. })), "{}", at);
        let stream = event("ADDED", &envelope("v1", "Pod", b""));
        let at = 1 + at % (stream.len() - 1);
        prop_assert!(matches!(watch(&[&stream[..at]]).1, Err(WatchError::Torn { .. })), "{}", at);
    }

    #[test]
    fn damaged_bodies_in_any_chunks_give_the_same_result_and_never_panic(
        which in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        places in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        cut_at in any::<prop::sample::Index>(),
    ) {
        let bodies = [golden_named("core.v1.Pod").0, golden_named("core.v1.Event").0, pods(&["a", "b"])];
        let mut body = bodies[which.index(bodies.len())].clone();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        body.truncate(cut_at.index(body.len()) + 1);
        let _ = from_protobuf::<Value>(&body, all());
        let _ = from_protobuf::<Pod>(&body, Fields::default());
        prop_assert_eq!(list(&cut(&body, &places)), list(&[&body]));
        prop_assert_eq!(watch(&cut(&body, &places)), watch(&[&body]));
    }
}

#[test]
fn a_field_that_is_not_in_the_table_is_skipped_or_rejected_where_it_is_decoded() {
    let metadata = [field(1, b"x"), field(6, b"7")].concat();
    let pod = [field(1, &metadata), field(2, &field(60, b"new"))].concat();
    let types = [field(1, b"v1"), field(2, b"Pod")].concat();
    let body = [MAGIC, &field(1, &types), &field(2, &pod)].concat();
    let found = from_protobuf::<Pod>(&body, Fields::default()).expect("the field is skipped");
    assert_eq!(found.metadata.name.as_deref(), Some("x"));
    let strict = Fields::default().reject_unknown();
    let bad = from_protobuf::<Pod>(&body, strict).expect_err("the field is unknown");
    assert!(bad.is_unknown_field() && bad.path == "spec", "{bad}");
    assert_eq!(bad.key.map(|it| it.to_string()).as_deref(), Some("x"));
    // A type that does not read the specification does not lose anything of it.
    #[derive(Debug, Deserialize)]
    struct Named {
        metadata: Value,
    }
    let named = from_protobuf::<Named>(&body, strict).expect("the specification is skipped");
    assert_eq!(named.metadata["name"], "x");
}

//! Replacing the resource version in the bytes of an object.

use dogwatch_wire::{Envelope, Fields, from_protobuf, to_protobuf, with_resource_version};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

fn map(version: Option<&str>) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".to_owned());
    map.metadata.namespace = Some("b".to_owned());
    map.metadata.resource_version = version.map(str::to_owned);
    map.metadata.labels = Some([("k".to_owned(), "v".to_owned())].into());
    map.data = Some([("resourceVersion".to_owned(), "7".to_owned())].into());
    map
}

#[test]
fn a_message_has_the_new_version_and_everything_else_as_before() {
    for version in [Some("7"), Some("123456789"), None] {
        let old = to_protobuf(&map(version)).expect("a built-in kind");
        let new = with_resource_version(&old, "1000").expect("a message");
        // The same bytes as if it had been encoded with that version.
        assert_eq!(new, to_protobuf(&map(Some("1000"))).expect("a built-in kind"), "{version:?}");
        assert_eq!(from_protobuf::<ConfigMap>(&new, Fields::default()).expect("a map"), map(Some("1000")));
    }
}

#[test]
fn unknown_fields_of_a_message_are_kept() {
    // metadata { name: "a", field 99: 1 }, field 98: 2
    let message = [&[0x0a, 6, 0x0a, 1, b'a', 0x98, 0x06, 1][..], &[0x90, 0x06, 2]].concat();
    let head = Envelope::head("v1", "ConfigMap", message.len());
    let object = [&head[..], &message, Envelope::TAIL].concat();
    let new = with_resource_version(&object, "5").expect("a message");
    let expected = [&[0x0a, 9, 0x0a, 1, b'a', 0x32, 1, b'5', 0x98, 0x06, 1][..], &[0x90, 0x06, 2]].concat();
    assert_eq!(Envelope::read(&new).expect("an envelope").message, expected);
}

#[test]
fn only_the_version_in_the_metadata_of_the_object_itself_is_replaced() {
    let object = json!({ "metadata": { "name": "a", "resourceVersion": "7", "labels": { "resourceVersion": "7" } },
        "spec": { "metadata": { "resourceVersion": "7" } }, "resourceVersion": "7" });
    let mut expected = object.clone();
    expected["metadata"]["resourceVersion"] = "18".into();
    let text = format!(" {object}\n");
    let new = with_resource_version(text.as_bytes(), "18").expect("an object");
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&new).expect("JSON"), expected);
    for bad in ["{}", r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":"#, "5", "k8s\0\u{1}"] {
        assert!(with_resource_version(bad.as_bytes(), "18").is_err(), "{bad}");
    }
}

//! `managedFields` are skipped before they are allocated, and nothing else is.

use dogwatch_wire::{Fields, ListDecoder, WatchDecoder, WatchEvent, from_slice};
use k8s_openapi::api::core::v1::Pod;
use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;
use proptest::prelude::*;
use serde_json::Value;

use crate::strategies::{object, written};

const POD: &str =
    r#"{"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:x":{}}}],"labels":{"k":"v"}}}"#;

fn without(mut object: Value) -> Value {
    object["metadata"].as_object_mut().expect("metadata is an object").remove("managedFields");
    object
}

proptest! {
    #[test]
    fn skipping_while_decoding_equals_removing_afterwards(object in object(), (escape, pretty) in any::<(bool, bool)>()) {
        let text = written(&object, escape, pretty);
        let cut: Value = from_slice(text.as_bytes(), Fields::default()).expect("valid");
        let kept: Value = from_slice(text.as_bytes(), Fields::default().keep_managed_fields()).expect("valid");
        prop_assert_eq!(&kept, &object);
        prop_assert_eq!(cut, without(object));
    }
}

#[test]
fn managed_fields_of_typed_dynamic_and_partial_objects_are_skipped() {
    let pod: Pod = from_slice(POD.as_bytes(), Fields::default()).expect("a pod");
    assert_eq!(pod.metadata.managed_fields, None);
    assert_eq!(pod.metadata.labels.map(|it| it.len()), Some(1));
    let dynamic: DynamicObject = from_slice(POD.as_bytes(), Fields::default()).expect("an object");
    assert_eq!(dynamic.metadata.managed_fields, None);
    let partial: PartialObjectMeta<Pod> = from_slice(POD.as_bytes(), Fields::default()).expect("metadata");
    assert_eq!(partial.metadata.managed_fields, None);
    let kept: Pod = from_slice(POD.as_bytes(), Fields::default().keep_managed_fields()).expect("a pod");
    assert_eq!(kept.metadata.managed_fields.map(|it| it.len()), Some(1));
}

#[test]
fn keys_with_escapes_are_recognized() {
    let text = r#"{"m\u0065tadata":{"managed\u0046ields":[],"name":"a"}}"#;
    let value: Value = from_slice(text.as_bytes(), Fields::default()).expect("valid");
    assert_eq!(value, serde_json::json!({"metadata": {"name": "a"}}));
}

#[test]
fn the_key_is_found_at_every_position() {
    for text in [
        r#"{"metadata":{"managedFields":[1]}}"#,
        r#"{"metadata":{"managedFields":[1],"managedFields":{"a":2}}}"#,
        r#"{"metadata" : { "managedFields" : null , "managedFields":"x" } }"#,
    ] {
        let value: Value = from_slice(text.as_bytes(), Fields::default()).expect("valid");
        assert_eq!(value, serde_json::json!({"metadata": {}}), "{text}");
    }
}

#[test]
fn lists_and_watches_skip_managed_fields_unless_configured_to_keep_them() {
    for (fields, expected) in [(Fields::default(), false), (Fields::default().keep_managed_fields(), true)] {
        let mut has = Vec::new();
        let mut list = ListDecoder::<Pod>::json().fields(fields);
        list.feed(format!(r#"{{"items":[{POD}]}}"#).as_bytes(), |pod| {
            has.push(pod.expect("a pod").metadata.managed_fields.is_some());
        })
        .expect("a list");
        let mut watch = WatchDecoder::<Pod>::json().fields(fields);
        watch
            .feed(format!(r#"{{"object":{POD},"type":"ADDED"}}"#).as_bytes(), |event| match event {
                Ok(WatchEvent::Added(pod)) => has.push(pod.metadata.managed_fields.is_some()),
                other => panic!("{other:?}"),
            })
            .expect("a watch");
        assert_eq!(has, [expected, expected]);
    }
}

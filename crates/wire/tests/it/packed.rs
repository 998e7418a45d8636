//! Packed objects, compared with the same objects decoded directly.

use dogwatch_core::{Object, ResourceVersion};
use dogwatch_wire::{
    Envelope, Fields, ListDecoder, Packed, PackedBytes, from_protobuf, from_slice, to_protobuf,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::DynamicObject;
use serde_json::{Value, json};

use crate::protobuf::{all, golden, golden_named};

#[test]
fn every_golden_object_is_the_same_after_packing_in_either_encoding() {
    for (name, encoded, json) in golden() {
        for fields in [Fields::default(), all()] {
            let direct: Value = from_slice(&json, fields).expect("JSON");
            let packed: Packed<Value> =
                from_protobuf(&encoded, fields).unwrap_or_else(|bad| panic!("{name}: {bad}"));
            assert_eq!(packed.get().unwrap_or_else(|bad| panic!("{name}: {bad}")), direct, "{name}");
            let packed: Packed<Value> =
                from_slice(&json, fields).unwrap_or_else(|bad| panic!("{name}: {bad}"));
            assert_eq!(packed.get().unwrap_or_else(|bad| panic!("{name}: {bad}")), direct, "{name}");
        }
    }
}

/// Puts a message into the envelope of a kind.
fn enveloped(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let (mut field, mut length) = (vec![number << 3 | 2], bytes.len());
        while length > 0x7f {
            field.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
            length >>= 7;
        }
        field.push(u8::try_from(length).expect("seven bits"));
        [&field[..], bytes].concat()
    };
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [Envelope::MAGIC, &field(1, &types), &field(2, message)].concat()
}

#[test]
fn the_bytes_of_a_packed_object_are_those_of_the_whole_object() {
    for (name, encoded, json) in golden() {
        let whole: Value = from_slice(&json, all()).expect("JSON");
        let packed: Packed<Value> =
            from_protobuf(&encoded, all()).unwrap_or_else(|bad| panic!("{name}: {bad}"));
        let PackedBytes::Protobuf(message) = packed.encoded().expect("its bytes") else { panic!("{name}") };
        let envelope = Envelope::read(&encoded).expect("an envelope");
        let again = enveloped(envelope.api_version, envelope.kind, &message);
        let decoded: Value = from_protobuf(&again, all()).unwrap_or_else(|bad| panic!("{name}: {bad}"));
        assert_eq!(decoded, whole, "{name}");

        let packed: Packed<Value> = from_slice(&json, all()).expect("JSON");
        let PackedBytes::Json(bytes) = packed.encoded().expect("its bytes") else { panic!("{name}") };
        assert_eq!(from_slice::<Value>(&bytes, all()).expect("JSON"), whole, "{name}");
    }
}

#[test]
fn a_packed_object_has_the_header_of_the_object() {
    let (encoded, json) = golden_named("core.v1.Pod");
    let pod: Pod = from_slice(&json, Fields::default()).expect("a pod");
    let packed = [
        from_protobuf::<Packed<Pod>>(&encoded, Fields::default()).expect("a pod"),
        from_slice(&json, Fields::default()).expect("a pod"),
        Packed::from_object(&pod).expect("a pod"),
        serde_json::from_slice(&json).expect("a pod"),
    ];
    for packed in packed {
        let (header, expected) = (packed.header(), pod.header());
        assert_eq!((header.name, header.namespace), (expected.name, expected.namespace));
        assert_eq!((header.uid, header.version), (expected.uid, expected.version));
        assert!(expected.labels.iter().count() > 0 && header.labels.iter().eq(expected.labels.iter()));
        assert_eq!(packed.view::<Pod>().expect("a pod").spec, pod.spec);
        assert_eq!(packed.clone(), packed);
        assert!(format!("{packed:?}").len() < 100, "{packed:?} has no content");
    }
}

#[test]
fn managed_fields_are_removed_before_the_object_is_held() {
    let (encoded, json) = golden_named("core.v1.Pod");
    let sizes = [Fields::default(), all()].map(|fields| {
        let packed = from_protobuf::<Packed<Pod>>(&encoded, fields).expect("a pod");
        let json = from_slice::<Packed<Pod>>(&json, fields).expect("a pod");
        let kept = packed.get().expect("a pod").metadata.managed_fields.is_some();
        assert_eq!(json.get().expect("a pod").metadata.managed_fields.is_some(), kept);
        (packed.size(), json.size(), kept)
    });
    assert!(sizes[0].0 < sizes[1].0 && sizes[0].1 < sizes[1].1, "{sizes:?}");
    assert!(!sizes[0].2 && sizes[1].2, "{sizes:?}");
}

#[test]
fn managed_fields_are_found_wherever_they_are_in_json() {
    for body in [
        r#"{"metadata":{"managedFields":[{"a":[1,{}]}],"name":"a"},"x":[ 1, "b c" ]}"#,
        r#"{"metadata" : { "name":"a" , "managedFields" : [ ] } ,"x":[1,"b c"]}"#,
        r#"{"x":[1,"b c"],"metadata":{"managedFields":null,"managedFields":[],"name":"a"}}"#,
        r#"{"metadata":{"managedFields":7,"managedFields":[1],"managedFields":{}},"x":[1,"b c"]}"#,
    ] {
        let packed: Packed<Value> = from_slice(body.as_bytes(), Fields::default()).expect("an object");
        let expected: Value = from_slice(body.as_bytes(), Fields::default()).expect("an object");
        assert_eq!(packed.get().expect("an object"), expected, "{body}");
        assert!(packed.size() < body.len() + 20, "{} bytes of {body}", packed.size());
        assert_eq!(packed.header().name == "a", body.contains("name"), "{body}");
    }
}

#[test]
fn an_object_that_does_not_match_its_type_is_reported_when_it_is_read() {
    let body = br#"{"metadata":{"name":"a","namespace":"b","resourceVersion":"7"},"data":5}"#;
    let packed: Packed<ConfigMap> = from_slice(body, Fields::default()).expect("an object");
    let bad = packed.get().expect_err("data is not a map");
    assert_eq!((bad.key.as_ref().map(|it| it.as_str()), bad.path.as_str()), (Some("b/a"), "data"));
    assert_eq!(bad.version, ResourceVersion::new("7"));
    for body in [&b"5"[..], b"[]", br#"{"metadata":{"labels":7}}"#] {
        assert!(from_slice::<Packed<ConfigMap>>(body, Fields::default()).is_err(), "{body:?}");
    }
}

#[test]
fn a_message_that_cannot_be_read_is_not_packed() {
    let map = |data: &[u8]| {
        let metadata = [0x0a, 3, 0x0a, 1, b'a'];
        let message = [&metadata, data].concat();
        let mut body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12".to_vec();
        body.push(u8::try_from(message.len()).expect("short"));
        body.extend_from_slice(&message);
        body
    };
    let strict = Fields::default().reject_unknown();
    let known = map(&[0x12, 6, 0x0a, 1, b'k', 0x12, 1, b'v']);
    let packed = from_protobuf::<Packed<ConfigMap>>(&known, strict).expect("a map");
    assert_eq!(packed.get().expect("a map").data.expect("data")["k"], "v");
    // A field of a newer version is rejected only if it must not be lost.
    let unknown = map(&[0xa2, 6, 1, 0]);
    let bad = from_protobuf::<Packed<ConfigMap>>(&unknown, strict).expect_err("an unknown field");
    assert!(bad.is_unknown_field(), "{bad}");
    assert!(from_protobuf::<Packed<ConfigMap>>(&unknown, Fields::default()).is_ok());
    // Cut off, and with entries of a map that are apart.
    let bad = from_protobuf::<Packed<ConfigMap>>(&map(&[0x12, 9]), strict).expect_err("cut off");
    assert_eq!(bad.key.as_ref().map(|it| it.as_str()), Some("a"));
    let apart = map(&[0x12, 3, 0x0a, 1, b'k', 0x1a, 3, 0x0a, 1, b'b', 0x12, 3, 0x0a, 1, b'l']);
    let packed = from_protobuf::<Packed<ConfigMap>>(&apart, strict).expect("a map");
    assert_eq!(packed.get().expect("a map").data.expect("data").len(), 2);
}

#[test]
fn depth_is_limited_as_for_other_objects() {
    type Around = fn(Value) -> Value;
    let around: [Around; 4] = [
        |schema| json!({ "type": "object", "properties": { "a": schema } }),
        |schema| json!({ "type": "array", "items": schema }),
        |schema| json!({ "type": "object", "additionalProperties": schema }),
        |schema| json!({ "anyOf": [schema] }),
    ];
    let nested = |depth: usize, around: Around| {
        let mut schema = json!({ "type": "object" });
        for _ in 0..depth {
            schema = around(schema);
        }
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "a" },
            "spec": { "group": "g", "names": { "kind": "K", "plural": "k" }, "scope": "Cluster", "versions": [
                { "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] } })
    };
    let depths = (10..20).chain(50..70).chain(110..130);
    for (depth, around) in depths.flat_map(|depth| around.map(|it| (depth, it))) {
        let Ok(body) = to_protobuf(&nested(depth, around)) else { continue };
        let direct = from_protobuf::<Value>(&body, Fields::default());
        let packed = from_protobuf::<Packed<CustomResourceDefinition>>(&body, Fields::default());
        assert_eq!(direct.is_ok(), packed.is_ok(), "{depth} levels: {direct:?}");
        if let Ok(packed) = packed {
            assert_eq!(packed.view::<Value>().expect("readable"), direct.expect("readable"), "{depth}");
        }
    }
}

#[test]
fn lists_and_parts_of_objects_can_be_packed() {
    let body = br#"{"kind":"List","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
    let mut list = ListDecoder::<Packed<DynamicObject>>::json();
    let mut names = Vec::new();
    list.feed(body, |item| names.push(item.expect("an object").header().name.to_owned())).expect("a list");
    assert_eq!(names, ["a", "b"]);

    #[derive(serde::Deserialize)]
    struct WithSpec {
        spec: Packed<Value>,
    }
    let (encoded, json) = golden_named("core.v1.Pod");
    let expected: Value = from_slice(&json, Fields::default()).expect("a pod");
    for object in [from_protobuf(&encoded, all()), from_slice::<WithSpec>(&json, all())] {
        assert_eq!(object.expect("a pod").spec.get().expect("a spec"), expected["spec"]);
    }
}

#[test]
fn the_kind_of_an_event_is_kept() {
    let (encoded, _) = golden_named("apps.v1.Deployment");
    let packed: Packed<DynamicObject> = from_protobuf(&encoded, Fields::default()).expect("an object");
    let types = packed.get().expect("an object").types.expect("types");
    assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("apps/v1", "Deployment"));
}

#[test]
fn the_kind_can_be_set_where_the_server_leaves_it_out() {
    let types = |packed: &Packed<DynamicObject>| {
        let types = packed.get().expect("an object").types.expect("types");
        format!("{} {}", types.api_version, types.kind)
    };
    let mut list = ListDecoder::<Packed<DynamicObject>>::protobuf();
    let item = to_protobuf(&ConfigMap::default()).expect("encoded");
    let entry = &item[dogwatch_wire::list_entry(&item).expect("an entry")];
    let head = dogwatch_wire::Envelope::head("v1", "ConfigMapList", entry.len());
    list.feed(&[&head[..], entry].concat(), |item| {
        let mut packed = item.expect("an object");
        assert_eq!(packed.get().expect("an object").types, None);
        packed.set_kind("v1", "ConfigMap");
        assert_eq!(types(&packed), "v1 ConfigMap");
    })
    .expect("a list");
    for (body, expected) in [
        (r#"{"metadata":{"name":"a"}}"#, "v1 ConfigMap"),
        (r#"{}"#, "v1 ConfigMap"),
        (r#"{"apiVersion":"v2","kind":"Other"}"#, "v2 Other"),
    ] {
        let mut packed: Packed<DynamicObject> =
            from_slice(body.as_bytes(), Fields::default()).expect("an object");
        packed.set_kind("v1", "ConfigMap");
        assert_eq!(types(&packed), expected, "{body}");
    }
}

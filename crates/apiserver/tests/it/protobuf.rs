//! Objects in protobuf, held against the same objects in JSON as the original writes both.

use std::path::Path;

use dogwatch_apiserver::protobuf::{self, ProtobufError};
use serde_json::{Map, Value};

/// What says nothing is left out of JSON and written in protobuf, so it is dropped on both sides.
fn spoken(value: Value) -> Value {
    let says = |it: &Value| match it {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(flag) => *flag,
    };
    match value {
        Value::Object(map) => {
            let kept =
                map.into_iter().map(|(key, value)| (key, spoken(value))).filter(|(_, value)| says(value));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(spoken).collect(),
        other => other,
    }
}

fn golden() -> Vec<(String, Vec<u8>, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden");
    let files = std::fs::read_dir(&folder).expect("the golden objects are there");
    let encoded =
        files.map(|it| it.expect("readable").path()).filter(|it| it.extension().is_some_and(|it| it == "pb"));
    encoded
        .map(|path| {
            let json = std::fs::read(path.with_extension("json")).expect("each is there in JSON too");
            let name = path.file_stem().and_then(|it| it.to_str()).unwrap_or_default().to_owned();
            (name, std::fs::read(&path).expect("readable"), serde_json::from_slice(&json).expect("JSON"))
        })
        .collect()
}

#[test]
fn every_golden_object_says_the_same_in_protobuf_and_in_json() {
    let golden = golden();
    assert!(golden.len() > 60, "{} golden objects", golden.len());
    for (name, encoded, json) in golden {
        let object = protobuf::decode(&encoded).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(spoken(object.value), spoken(json), "{name}");
    }
}

#[test]
fn no_bytes_bring_the_reader_down() {
    for (name, encoded, _) in golden() {
        for end in (0..encoded.len()).step_by(7) {
            let _ = protobuf::decode(&encoded[..end]);
        }
        let mut damaged = encoded.clone();
        for at in (4..damaged.len()).step_by(11) {
            damaged[at] ^= 0x55;
        }
        let _ = protobuf::decode(&damaged);
        assert_eq!(protobuf::decode(&encoded[1..]), Err(ProtobufError::NotProtobuf), "{name}");
    }
}

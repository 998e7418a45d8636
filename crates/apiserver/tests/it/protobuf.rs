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

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

/// A ControllerRevision whose data are raw bytes.
fn revision(raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, b"apps/v1"), field(2, b"ControllerRevision")].concat();
    let object = [field(1, &field(1, b"a")), field(2, &field(1, raw))].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &object)].concat()
}

fn nested(levels: usize, core: &[u8]) -> Vec<u8> {
    (0..levels).fold(core.to_vec(), |inner, _| revision(&inner))
}

#[test]
fn envelopes_in_one_another_add_up_to_one_limit() {
    // Half of what a thread of the runtime has.
    let small = std::thread::Builder::new().stack_size(1024 * 1024);
    let decoding = small.spawn(|| {
        assert!(protobuf::decode(&nested(90, b"{}")).is_ok());
        for levels in [101, 500, 1300, 3_000] {
            let refused = protobuf::decode(&nested(levels, b"{}")).expect_err("it is too deep");
            assert_eq!(refused.to_string(), "exceeded max depth of 100", "{levels} levels");
        }
        // Levels of the JSON inside count too.
        let list = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(protobuf::decode(&nested(30, list(60).as_bytes())).is_ok());
        for levels in [80, 5_000] {
            let refused = protobuf::decode(&nested(30, list(levels).as_bytes())).expect_err("it is too deep");
            assert_eq!(refused.to_string(), "exceeded max depth of 100", "{levels} levels of JSON");
        }
    });
    decoding.unwrap().join().expect("no overflow of the stack, which would end the process");
}

#[test]
fn the_raw_bytes_of_an_envelope_are_read_once() {
    let text = serde_json::to_vec(&serde_json::json!({ "a": "x".repeat(100_000) })).unwrap();
    let mut value = &protobuf::decode(&nested(80, &text)).expect("it can be read").value;
    for _ in 0..80 {
        value = &value["data"];
    }
    assert_eq!(value["a"].as_str().map(str::len), Some(100_000));
}

//! Objects in protobuf, compared with the same objects in JSON, both encoded by Kubernetes.

use std::path::Path;

use dogwatch_apimachinery::protobuf::{self, ProtobufError};
use serde_json::Value;

fn golden() -> Vec<(String, Vec<u8>, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden");
    let files = std::fs::read_dir(&directory).expect("the golden objects exist");
    let encoded =
        files.map(|it| it.expect("readable").path()).filter(|it| it.extension().is_some_and(|it| it == "pb"));
    encoded
        .map(|path| {
            let json = std::fs::read(path.with_extension("json")).expect("each object exists in JSON too");
            let name = path.file_stem().and_then(|it| it.to_str()).unwrap_or_default().to_owned();
            (name, std::fs::read(&path).expect("readable"), serde_json::from_slice(&json).expect("JSON"))
        })
        // Not an object: it has no kind.
        .filter(|(name, _, _)| name != "core.v1.WatchEvent")
        .collect()
}

#[test]
fn every_golden_object_is_equal_in_protobuf_and_json() {
    let golden = golden();
    assert!(golden.len() > 180, "{} golden objects", golden.len());
    for (name, encoded, json) in golden {
        let object = protobuf::decode(&encoded).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(object.value, json, "{name}");
    }
}

#[test]
fn no_bytes_cause_a_panic() {
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

/// Encodes a length-delimited field.
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

/// Encodes a ControllerRevision whose data are raw bytes.
fn revision(raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, b"apps/v1"), field(2, b"ControllerRevision")].concat();
    let object = [field(1, &field(1, b"a")), field(2, &field(1, raw))].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &object)].concat()
}

fn nested(levels: usize, core: &[u8]) -> Vec<u8> {
    (0..levels).fold(core.to_vec(), |inner, _| revision(&inner))
}

#[test]
fn nested_envelopes_share_one_depth_limit() {
    // Half of the stack of a runtime thread.
    let small = std::thread::Builder::new().stack_size(1024 * 1024);
    let decoding = small.spawn(|| {
        assert!(protobuf::decode(&nested(90, b"{}")).is_ok());
        for levels in [101, 500, 1300, 3_000] {
            let refused = protobuf::decode(&nested(levels, b"{}")).expect_err("too deep");
            assert_eq!(refused.to_string(), "exceeded max depth of 100", "{levels} levels");
        }
        // Nesting of the JSON inside counts too.
        let list = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(protobuf::decode(&nested(30, list(60).as_bytes())).is_ok());
        for levels in [80, 5_000] {
            let refused = protobuf::decode(&nested(30, list(levels).as_bytes())).expect_err("too deep");
            assert_eq!(refused.to_string(), "exceeded max depth of 100", "{levels} levels of JSON");
        }
    });
    decoding.unwrap().join().expect("no stack overflow, which would abort the process");
}

#[test]
fn the_raw_bytes_of_nested_envelopes_are_decoded_once() {
    let text = serde_json::to_vec(&serde_json::json!({ "a": "x".repeat(100_000) })).unwrap();
    let mut value = &protobuf::decode(&nested(80, &text)).expect("decoded").value;
    for _ in 0..80 {
        value = &value["data"];
    }
    assert_eq!(value["a"].as_str().map(str::len), Some(100_000));
}

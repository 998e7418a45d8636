//! Properties of the decoders that hold for every input, however malformed.
//!
//! `cargo +nightly fuzz run json` and `cargo +nightly fuzz run protobuf` look for inputs that
//! violate them (see CONTRIBUTING.md); the tests of this crate check them for the inputs in
//! `corpus`.

use dogwatch_wire::{
    Fields, ListDecoder, Packed, UndecodableItem, WatchDecoder, from_protobuf, from_slice, to_protobuf,
};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A few fields of a pod, so that most of an object is skipped.
#[derive(Debug, Deserialize, PartialEq)]
struct View {
    metadata: Option<Metadata>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Metadata {
    name: Option<String>,
}

/// Checks a body as JSON: an object, a list and a watch.
///
/// # Panics
/// Panics if a property does not hold.
pub fn json(body: &[u8]) {
    let ours = from_slice::<Value>(body, all());
    let theirs = serde_json::from_slice::<Value>(body);
    // Keys that serde_json may interpret are rejected.
    let is_special = matches!(&theirs, Ok(value) if value.to_string().contains("$serde_json::private::"));
    if !is_special {
        assert_eq!(ours.ok(), theirs.ok(), "the decoder and serde_json disagree");
    }
    let _ = from_slice::<Pod>(body, Fields::default());
    let _ = from_slice::<View>(body, Fields::default());
    if let Ok(packed) = from_slice(body, Fields::default()) {
        same_after_packing(&packed, from_slice(body, Fields::default()).ok());
    }
    list(ListDecoder::json, body);
    watch(WatchDecoder::json, body);
}

/// Checks a body as protobuf: an object, a list and a watch.
///
/// # Panics
/// Panics if a property does not hold.
pub fn protobuf(body: &[u8]) {
    let _ = from_protobuf::<Pod>(body, Fields::default());
    let _ = from_protobuf::<View>(body, Fields::default());
    if let Ok(object) = from_protobuf::<Value>(body, all()) {
        same_after_encoding(&object);
    }
    if let Ok(packed) = from_protobuf(body, Fields::default()) {
        same_after_packing(&packed, from_protobuf(body, Fields::default()).ok());
    }
    list(ListDecoder::protobuf, body);
    watch(WatchDecoder::protobuf, body);
}

/// Checks that an object is the same after encoding and decoding.
fn same_after_encoding(object: &Value) {
    let encoded = match to_protobuf(object) {
        Ok(encoded) => encoded,
        // Levels of messages that JSON does not have count while encoding.
        Err(error) if error.reason.starts_with("nested deeper") => return,
        Err(error) => panic!("a decoded object cannot be encoded: {error}"),
    };
    let decoded: Value = from_protobuf(&encoded, all()).expect("what was encoded can be decoded");
    let again = to_protobuf(&decoded).expect("what was decoded can be encoded");
    assert!(encoded == again, "encoding and decoding changed the object");
}

/// Checks that an object that was packed is the one that is decoded without packing. An object that
/// cannot be decoded may be packed: packing does not look into every scalar, and of fields that a
/// message repeats out of order it keeps the last.
fn same_after_packing(packed: &Packed<Pod>, object: Option<Value>) {
    let shown = packed.view::<Value>().ok().map(with_metadata);
    if let Some(object) = object {
        assert_eq!(shown, Some(with_metadata(object)), "packing changed the object");
    }
}

/// Adds empty metadata to an object without any: a packed object always has them.
fn with_metadata(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    }
    object
}

fn list(decoder: fn() -> ListDecoder<Value>, body: &[u8]) {
    let decode = |chunks: &[&[u8]]| {
        let (mut decoder, mut items) = (decoder().item_limit(64 * 1024), Vec::new());
        for chunk in chunks {
            if let Err(error) = decoder.feed(chunk, |item: Result<Value, UndecodableItem>| items.push(item)) {
                return (items, Err(error));
            }
        }
        (items, decoder.finish())
    };
    same_in_chunks(body, decode);
}

fn watch(decoder: fn() -> WatchDecoder<Value>, body: &[u8]) {
    let decode = |chunks: &[&[u8]]| {
        let (mut decoder, mut events) = (decoder().frame_limit(64 * 1024), Vec::new());
        for chunk in chunks {
            if let Err(error) = decoder.feed(chunk, |event| events.push(event)) {
                return (events, Err(error));
            }
        }
        (events, decoder.finish())
    };
    same_in_chunks(body, decode);
}

/// Checks that the result does not depend on the chunks in which a body arrives.
fn same_in_chunks<T: PartialEq + std::fmt::Debug>(body: &[u8], decode: impl Fn(&[&[u8]]) -> T) {
    let whole = decode(&[body]);
    for size in [1, 7, 64, body.len() / 2 + 1] {
        let chunks: Vec<&[u8]> = body.chunks(size).collect();
        assert_eq!(decode(&chunks), whole, "in chunks of {size} bytes");
    }
}

fn all() -> Fields {
    Fields::default().keep_managed_fields()
}

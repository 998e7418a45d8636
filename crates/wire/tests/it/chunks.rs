//! Any split of a body into chunks gives the same result, and no input causes a panic.

use dogwatch_wire::{
    Fields, ListDecoder, ListError, ListMeta, UndecodableItem, WatchDecoder, WatchError, WatchEvent,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::strategies::{cut, object, text, value, written};

type Listed = (Vec<Result<Value, UndecodableItem>>, Result<ListMeta, ListError>);
type Watched = (Vec<Result<WatchEvent<Value>, UndecodableItem>>, Result<(), WatchError>);

fn list(chunks: &[&[u8]]) -> Listed {
    let mut decoder = ListDecoder::json().fields(Fields::default().keep_managed_fields()).item_limit(5000);
    let mut items = Vec::new();
    for chunk in chunks {
        // The decoder keeps an error and returns it again at the end.
        let _ = decoder.feed(chunk, |item| items.push(item));
    }
    (items, decoder.finish())
}

fn watch(chunks: &[&[u8]]) -> Watched {
    let mut decoder = WatchDecoder::json().fields(Fields::default().keep_managed_fields()).frame_limit(5000);
    let mut events = Vec::new();
    for chunk in chunks {
        let _ = decoder.feed(chunk, |event| events.push(event));
    }
    (events, decoder.finish())
}

/// Generates bytes that are similar enough to JSON to reach every case.
fn almost_json() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(&b"{"[..]),
        Just(&b"}"[..]),
        Just(&b"["[..]),
        Just(&b"]"[..]),
        Just(&b"\""[..]),
        Just(&b"\\"[..]),
        Just(&b":"[..]),
        Just(&b","[..]),
        Just(&b" \n"[..]),
        Just(&b"\"items\":["[..]),
        Just(&b"\"metadata\":{"[..]),
        Just(&b"\"type\":\"ADDED\","[..]),
        Just(&b"\"object\":{"[..]),
        Just(&b"\"kind\":\"List\","[..]),
        Just(&b"-1.5e3"[..]),
        Just(&b"null"[..]),
        Just(&b"\"\\u00"[..]),
        Just(&b"\xff\xc3"[..]),
        Just(&b"x"[..]),
    ];
    (proptest::collection::vec(token, 0..60), any::<bool>()).prop_map(|(tokens, braced)| {
        let mut bytes = if braced { b"{\"items\":[".to_vec() } else { Vec::new() };
        bytes.extend(tokens.concat());
        bytes
    })
}

proptest! {
    #[test]
    fn a_list_decodes_as_with_serde_json_however_it_is_split(
        items in proptest::collection::vec(prop_oneof![object(), value()], 0..6),
        note in text(),
        metadata_last in any::<bool>(),
        (escape, pretty) in any::<(bool, bool)>(),
        places in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut body = json!({"kind": "XList", "apiVersion": "v1", "unknown": note, "items": items});
        let key = if metadata_last { "metadata" } else { "a" };
        body[key] = json!({"resourceVersion": "5", "continue": note});
        let text = written(&body, escape, pretty);
        let (found, meta) = list(&cut(text.as_bytes(), &places));
        prop_assert_eq!(found, items.into_iter().map(Ok).collect::<Vec<_>>());
        let meta = meta.expect("a complete list");
        prop_assert_eq!(meta.kind.as_str(), "XList");
        if metadata_last {
            prop_assert_eq!(meta.version.as_str(), "5");
            prop_assert_eq!(meta.continue_token.unwrap_or_default(), note);
        }
    }

    #[test]
    fn a_watch_decodes_as_with_serde_json_however_it_is_split(
        objects in proptest::collection::vec((object(), any::<bool>(), "[ \n\r\t]{0,3}"), 0..6),
        (escape, pretty) in any::<(bool, bool)>(),
        places in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut stream = String::new();
        for (object, object_first, space) in &objects {
            let object = written(object, escape, pretty);
            stream += &if *object_first {
                format!(r#"{{"object":{object},"type":"ADDED"}}{space}"#)
            } else {
                format!(r#"{{"type":"ADDED","object":{object}}}{space}"#)
            };
        }
        let (found, end) = watch(&cut(stream.as_bytes(), &places));
        prop_assert_eq!(found, objects.into_iter().map(|it| Ok(WatchEvent::Added(it.0))).collect::<Vec<_>>());
        prop_assert_eq!(end, Ok(()));
    }

    #[test]
    fn a_truncated_body_is_reported_as_torn(items in proptest::collection::vec(object(), 1..4), at in any::<prop::sample::Index>()) {
        let body = written(&json!({"kind": "XList", "items": items, "metadata": {}}), false, false);
        let end = at.index(body.len());
        let (found, meta) = list(&[&body.as_bytes()[..end]]);
        prop_assert_eq!(meta, Err(ListError::Torn { offset: end as u64 }));
        prop_assert!(found.iter().zip(&items).all(|(found, item)| found.as_ref() == Ok(item)));

        let event = format!(r#"{{"type":"ADDED","object":{}}}"#, items[0]);
        let end = 1 + at.index(event.len() - 1);
        prop_assert_eq!(watch(&[&event.as_bytes()[..end]]), (Vec::new(), Err(WatchError::Torn { offset: end as u64 })));
    }

    #[test]
    fn any_bytes_in_any_chunks_give_the_same_result_and_never_panic(
        bytes in prop_oneof![almost_json(), proptest::collection::vec(any::<u8>(), 0..300)],
        places in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        prop_assert_eq!(list(&cut(&bytes, &places)), list(&[&bytes]));
        prop_assert_eq!(watch(&cut(&bytes, &places)), watch(&[&bytes]));
        let single: Vec<_> = bytes.chunks(1).collect();
        prop_assert_eq!(list(&single), list(&[&bytes]));
        prop_assert_eq!(watch(&single), watch(&[&bytes]));
    }

    #[test]
    fn skipped_values_do_not_affect_the_values_that_are_read(
        (before, between, after) in (value(), value(), value()),
        pretty in any::<bool>(),
    ) {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Picked {
            first: Vec<Inner>,
            last: String,
        }

        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Inner {
            number: u8,
        }

        let inner = json!({"aside": between, "number": 7, "rest": before});
        let whole = json!({"a": before, "first": [inner, inner], "g": between, "last": "}\"", "z": after});
        let picked: Picked = dogwatch_wire::from_slice(written(&whole, false, pretty).as_bytes(), Fields::default())
            .expect("valid");
        prop_assert_eq!(picked.last, "}\"");
        prop_assert_eq!(picked.first, [Inner { number: 7 }, Inner { number: 7 }]);
    }

    #[test]
    fn values_that_are_read_in_full_are_accepted_exactly_if_serde_json_accepts_them(bytes in almost_json()) {
        let ours = dogwatch_wire::from_slice::<Value>(&bytes, Fields::default().keep_managed_fields());
        let theirs = serde_json::from_slice::<Value>(&bytes);
        prop_assert_eq!(ours.ok(), theirs.ok());
    }
}

//! Watches: events without line ends, bookmarks, errors, and events that cannot be decoded.

use dogwatch_core::{Meta, ResourceVersion};
use dogwatch_wire::{EventKind, UndecodableItem, WatchDecoder, WatchError, WatchEvent};
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Named {
    metadata: Meta,
}

type Events = Vec<Result<WatchEvent<String>, UndecodableItem>>;

fn decode(stream: &[u8]) -> (Events, Result<(), WatchError>) {
    let mut decoder = WatchDecoder::<Named>::json();
    let mut events = Vec::new();
    let name = |it: Named| it.metadata.name.to_string();
    for chunk in stream.chunks(11) {
        let fed = decoder.feed(chunk, |event| {
            events.push(event.map(|event| match event {
                WatchEvent::Added(it) => WatchEvent::Added(name(it)),
                WatchEvent::Modified(it) => WatchEvent::Modified(name(it)),
                WatchEvent::Deleted(it) => WatchEvent::Deleted(name(it)),
                WatchEvent::Bookmark(it) => WatchEvent::Bookmark(it),
                WatchEvent::Error(it) => WatchEvent::Error(it),
                other => panic!("{:?}", other.kind()),
            }));
        });
        if fed.is_err() {
            return (events, fed);
        }
    }
    (events, decoder.finish())
}

#[test]
fn rq_4_events_need_no_line_ends_and_no_order_of_keys() {
    let stream = br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}{"object":{"metadata":{"name":"b"}},"type":"MODIFIED"}

        {"extra":[1],"type":"DELETED","object":{"metadata":{"name":"c"}},"more":{}}
"#;
    let (events, end) = decode(stream);
    let expected = [WatchEvent::Added("a"), WatchEvent::Modified("b"), WatchEvent::Deleted("c")];
    assert_eq!(end, Ok(()));
    assert_eq!(events.len(), 3);
    for (event, expected) in events.into_iter().zip(expected) {
        let event = event.expect("a good event");
        assert_eq!(event.kind(), expected.kind());
        let (WatchEvent::Added(name) | WatchEvent::Modified(name) | WatchEvent::Deleted(name)) = event else {
            panic!("{event:?}");
        };
        let (WatchEvent::Added(wanted) | WatchEvent::Modified(wanted) | WatchEvent::Deleted(wanted)) =
            expected
        else {
            panic!("{expected:?}");
        };
        assert_eq!(name, wanted);
    }
}

#[test]
fn an_event_is_delivered_with_its_last_byte_and_not_later() {
    let event = br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
    let mut decoder = WatchDecoder::<Named>::json();
    let mut count = 0;
    for (at, byte) in event.iter().enumerate() {
        decoder.feed(&[*byte], |_| count += 1).expect("good");
        assert_eq!(count, usize::from(at + 1 == event.len()));
    }
}

#[test]
fn a_bookmark_has_a_version_and_may_end_the_initial_events() {
    for (annotations, ends) in [
        ("", false),
        (r#","annotations":null"#, false),
        (r#","annotations":{"k8s.io/initial-events-end":"true"}"#, true),
        (r#","annotations":{"k8s.io/initial-events-end":"false"}"#, false),
    ] {
        let stream = format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{{"resourceVersion":"12"{annotations}}},"spec":{{"containers":null}}}}}}"#
        );
        match &decode(stream.as_bytes()).0[..] {
            [Ok(WatchEvent::Bookmark(bookmark))] => {
                assert_eq!(bookmark.version, ResourceVersion::new("12"));
                assert_eq!(bookmark.initial_events_end(), ends, "{annotations}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_error_event_is_a_status_even_if_it_is_malformed() {
    for (object, code) in [
        (r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}"#, 410),
        ("5", 500),
        (r#"{"code":"x"}"#, 500),
    ] {
        let stream = format!(r#"{{"type":"ERROR","object":{object}}}"#);
        match &decode(stream.as_bytes()).0[..] {
            [Ok(WatchEvent::Error(status))] => assert_eq!(status.code, code, "{status:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_undecodable_event_is_reported_and_decoding_continues() {
    let stream = br#"
        {"type":"DELETED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"4","labels":7}}}
        {"type":"RENAMED","object":{"metadata":{"name":"b"}}}
        {"type":"ADDED"}
        {"object":{"metadata":{"name":"c"}}}
        {"type":7,"object":{"metadata":{"name":"d"}}}
        {"type":"ADDED" "object":{}}
        {"type":"BOOKMARK","object":{"metadata":{}}}
        {}
        {"type":"ADDED","object":{"metadata":{"name":"z"}}}"#;
    let (events, end) = decode(stream);
    assert_eq!(end, Ok(()));
    let expected = [
        (
            Some("n/a"),
            Some(EventKind::Deleted),
            "metadata.labels",
            "invalid type: integer `7`, expected a map of labels",
        ),
        (Some("b"), None, "", "an event of the unknown type \"RENAMED\""),
        (None, Some(EventKind::Added), "", "an event of type \"ADDED\" without an object"),
        (Some("c"), None, "", "an event of the unknown type \"\""),
        (Some("d"), None, "", "an event of the unknown type \"\""),
        (None, None, "", "expected a comma or the end"),
        (None, Some(EventKind::Bookmark), "metadata", "missing field `resourceVersion`"),
        (None, None, "", "an event of type \"\" without an object"),
    ];
    let (last, bad) = events.split_last().expect("there are events");
    assert_eq!(last, &Ok(WatchEvent::Added("z".to_owned())));
    assert_eq!(bad.len(), expected.len());
    for (event, (key, kind, path, reason)) in bad.iter().zip(expected) {
        let bad = event.as_ref().expect_err("bad");
        assert_eq!(
            (bad.key.as_ref().map(|it| it.as_str()), bad.event, bad.path.as_str()),
            (key, kind, path),
            "{bad:?}"
        );
        assert!(bad.reason.starts_with(reason), "{bad:?}");
    }
    assert_eq!(bad[0].as_ref().expect_err("bad").version, ResourceVersion::new("4"));
}

#[test]
fn an_end_between_events_is_clean_and_an_end_inside_one_is_torn() {
    let event = br#"{"type":"ADDED","object":{"metadata":{"name":"a\u00e9\\"}}}"#;
    for end in 1..event.len() {
        assert_eq!(decode(&event[..end]), (Vec::new(), Err(WatchError::Torn { offset: end as u64 })));
    }
    for whole in [&b""[..], b" \n", event] {
        assert_eq!(decode(whole).1, Ok(()));
    }
}

#[test]
fn anything_but_an_event_ends_the_watch() {
    for (stream, offset) in [(&b"<html>"[..], 0), (b"{}\n[]", 3), (b"{}}", 2), (b"null", 0)] {
        match decode(stream).1 {
            Err(WatchError::Malformed { offset: found, .. }) => assert_eq!(found, offset),
            other => panic!("{other:?}"),
        }
    }
}

/// Without a limit, a broken server could fill the memory of every client.
#[test]
fn rq_4_a_frame_of_a_hundred_megabytes_is_rejected_at_sixteen() {
    let mut decoder = WatchDecoder::<Named>::json();
    let chunk = vec![b' '; 64 * 1024];
    let mut fed = 0;
    let mut result = decoder.feed(br#"{"type":"ADDED","object":{"metadata":{"name":""#, |_| ());
    while result.is_ok() && fed < 100 << 20 {
        fed += chunk.len();
        result = decoder.feed(&chunk, |_| ());
    }
    assert_eq!(result, Err(WatchError::TooLarge { offset: 0, limit: 16 << 20 }));
    assert!(fed <= (16 << 20) + chunk.len(), "rejected only after {fed} bytes");
}

#[test]
fn the_limit_of_a_frame_is_configurable() {
    let event = br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
    for (limit, good) in [(event.len(), true), (event.len() - 1, false)] {
        for size in [1, 7, 1000] {
            let mut decoder = WatchDecoder::<Named>::json().frame_limit(limit);
            let result = event.chunks(size).try_for_each(|chunk| decoder.feed(chunk, |_| ()));
            assert_eq!(result.is_ok(), good, "limit {limit}, chunks of {size}");
        }
    }
}

/// The type of the event and the object are known although the object is not JSON: a deletion must
/// not be lost.
#[test]
fn an_event_with_an_invalid_character_still_has_its_type_and_key() {
    for (forbidden, reason) in [(&b"\xff"[..], "invalid UTF-8"), (b"\x01", "a control character")] {
        let event = |kind: &str, field: &str| {
            let (before, after) = field.split_once('*').expect("a place");
            let head = format!(
                r#"{{"type":"{kind}","object":{{"metadata":{{"name":"a","namespace":"n","resourceVersion":"4"}},{before}"#
            );
            [head.as_bytes(), forbidden, after.as_bytes(), b"}}"].concat()
        };
        let stream = [
            event("DELETED", r#""x":"*""#),
            event(
                "ERROR",
                r#""kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"*""#,
            ),
            event("RENAMED", r#""x":"*""#),
        ];
        let (events, end) = decode(&stream.concat());
        assert_eq!(end, Ok(()));
        let bad = events[0].as_ref().expect_err("bad");
        assert_eq!(
            (bad.key.as_ref().map(|it| it.as_str()), bad.event),
            (Some("n/a"), Some(EventKind::Deleted))
        );
        assert_eq!(bad.version, ResourceVersion::new("4"));
        assert!(bad.reason.starts_with(reason), "{bad:?}");
        let Ok(WatchEvent::Error(status)) = &events[1] else { panic!("{:?}", events[1]) };
        assert_eq!(status.code, 410);
        assert_eq!(events[2].as_ref().expect_err("bad").event, None);
    }
}

#[test]
fn an_object_may_be_as_deep_in_a_watch_as_in_a_list() {
    #[derive(Debug, Deserialize)]
    struct Deep {
        #[serde(rename = "x")]
        _x: serde_json::Value,
    }
    for (depth, fits) in [(126, true), (127, false)] {
        let object = format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let mut decoded = Vec::new();
        let event = format!(r#"{{"type":"ADDED","object":{object}}}"#);
        let mut watch = WatchDecoder::<Deep>::json();
        watch.feed(event.as_bytes(), |it| decoded.push(it.is_ok())).expect("events");
        let list = format!(r#"{{"kind":"DeepList","items":[{object}]}}"#);
        let mut items = dogwatch_wire::ListDecoder::<Deep>::json();
        items.feed(list.as_bytes(), |it| decoded.push(it.is_ok())).expect("items");
        decoded.push(
            dogwatch_wire::from_slice::<Deep>(object.as_bytes(), dogwatch_wire::Fields::default()).is_ok(),
        );
        assert_eq!(decoded, [fits; 3], "{depth}");
    }
}

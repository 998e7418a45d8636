//! Lists: the position of the metadata, bodies that are not lists, and items that cannot be
//! decoded.

use dogwatch_core::{Meta, ResourceVersion};
use dogwatch_wire::{ListDecoder, ListError, ListMeta, UndecodableItem};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Named {
    metadata: Meta,
}

fn decode(body: &[u8]) -> (Vec<Result<String, UndecodableItem>>, Result<ListMeta, ListError>) {
    let mut decoder = ListDecoder::<Named>::json();
    let mut names = Vec::new();
    for chunk in body.chunks(7) {
        if let Err(error) =
            decoder.feed(chunk, |item| names.push(item.map(|it| it.metadata.name.to_string())))
        {
            return (names, Err(error));
        }
    }
    (names, decoder.finish())
}

#[test]
fn metadata_may_be_before_or_after_the_items() {
    let metadata = r#""metadata":{"resourceVersion":"7","continue":"tok","remainingItemCount":3,"selfLink":"/x","shardInfo":{"selector":"s"}}"#;
    let items = r#""items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]"#;
    for body in [
        format!(r#"{{"kind":"PodList","apiVersion":"v1",{metadata},{items}}}"#),
        format!(r#"{{{items},"apiVersion":"v1",{metadata},"kind":"PodList"}}"#),
        format!(" {{ {items} ,\n{metadata} , \"kind\" : \"PodList\",\"apiVersion\":\"v1\" }} \n"),
    ] {
        let (names, meta) = decode(body.as_bytes());
        assert_eq!(names, [Ok("a".to_owned()), Ok("b".to_owned())], "{body}");
        let meta = meta.expect("a complete list");
        assert_eq!((meta.kind.as_str(), meta.api_version.as_str()), ("PodList", "v1"));
        assert_eq!(meta.version, ResourceVersion::new("7"));
        assert_eq!(meta.continue_token.as_deref(), Some("tok"));
        assert_eq!(meta.remaining_item_count, Some(3));
        assert_eq!(meta.shard_info, Some(serde_json::json!({"selector": "s"})));
    }
}

#[test]
fn no_items_null_items_and_an_empty_array_are_an_empty_list() {
    for items in ["", r#","items":null"#, r#","items":[]"#, r#","items":[ ]"#] {
        let body =
            format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"1","continue":""}}{items}}}"#);
        let (names, meta) = decode(body.as_bytes());
        assert_eq!(names, []);
        let meta = meta.expect("a complete list");
        assert_eq!((meta.version.as_str(), meta.continue_token), ("1", None));
    }
}

#[test]
fn a_status_instead_of_a_list_is_reported_as_refused() {
    let body = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}"#;
    match decode(body).1 {
        Err(ListError::Refused(status)) => assert!(status.is_expired(), "{status:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_body_that_is_not_a_list_is_described() {
    let page = "<html><body>Bad Gateway</body></html>".repeat(9);
    for (body, found) in [
        (r#"{"kind":"Pod","metadata":{"name":"a"}}"#, "a Pod"),
        ("{}", "an object without kind and items"),
        ("  <html>Bad Gateway</html>\n", r#"text that begins with "<html>Bad Gateway</html>""#),
        ("[1,2]", r#"text that begins with "[1,2]""#),
        ("404 page not found", r#"text that begins with "404 page not found""#),
        (page.as_str(), &format!("text that begins with {:?}", &page[..80])),
    ] {
        assert_eq!(decode(body.as_bytes()).1, Err(ListError::NotAList { found: found.to_owned() }), "{body}");
    }
}

#[test]
fn a_malformed_list_is_reported_with_position_and_reason() {
    for (body, offset, reason) in [
        (r#"{"items":[{}]} x"#, 15, "more text after the list"),
        (r#"{"items":[{} {}]}"#, 13, "expected a comma or the end of the items"),
        (r#"{"items":[{},]}"#, 13, "expected a value"),
        (r#"{"items":[],"items":[]}"#, 12, "duplicate items"),
        (r#"{"items":{"a":1}}"#, 9, "items are not an array"),
        (r#"{"kind" "x"}"#, 8, "expected a colon"),
        (r#"{kind:1}"#, 1, "expected a key"),
        (r#"{"kind":"PodList",}"#, 18, "expected a key"),
        (r#"{"kind":"PodList";"#, 17, "expected a comma or the end of the list"),
    ] {
        let expected = ListError::Malformed { offset, reason: reason.to_owned() };
        assert_eq!(decode(body.as_bytes()).1, Err(expected), "{body}");
    }
    let (_, error) = decode(br#"{"kind":"PodList","metadata":{"resourceVersion":7}}"#);
    let text = error.expect_err("a number is no version").to_string();
    assert!(text.contains("metadata.resourceVersion: invalid type: integer `7`"), "{text}");
}

#[test]
fn a_truncated_list_is_torn_and_not_malformed() {
    let body = br#"{"kind":"PodList","items":[{"metadata":{"name":"a\u0041"}},{"metadata":{"name":"b"}}]}"#;
    for end in 0..body.len() {
        let (names, meta) = decode(&body[..end]);
        assert_eq!(meta, Err(ListError::Torn { offset: end as u64 }));
        assert!(names.iter().all(Result::is_ok));
    }
    assert_eq!(decode(b"").1, Err(ListError::Torn { offset: 0 }));
}

#[test]
fn an_undecodable_item_is_reported_and_the_others_are_decoded() {
    let body = br#"{"kind":"PodList","items":[
        {"metadata":{"name":"a"}},
        {"metadata":{"name":"b","namespace":"n","resourceVersion":"9"},"spec":{"containers":[{"name":"c","ports":[{"containerPort":"http"}]}]}},
        {"metadata":{"name":"c"}, nonsense},
        null, 7, "text", [],
        {"metadata":{"name":"d"}}]}"#;
    let mut decoder = ListDecoder::<Pod>::json();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    decoder
        .feed(body, |item| match item {
            Ok(pod) => good.extend(pod.metadata.name),
            Err(item) => bad.push(item),
        })
        .expect("a list");
    decoder.finish().expect("a complete list");
    assert_eq!(good, ["a", "d"]);
    assert_eq!(bad.len(), 6);
    assert_eq!(bad[0].key.as_ref().map(ToString::to_string).as_deref(), Some("n/b"));
    assert_eq!(bad[0].version, ResourceVersion::new("9"));
    assert_eq!(bad[0].path, "spec.containers[0].ports[0].containerPort");
    assert!(
        bad[0].reason.starts_with("invalid type: a string of 4 bytes, expected i32 at byte "),
        "{}",
        bad[0].reason
    );
    assert!(bad[1].reason.starts_with("expected `\"` at byte 26"), "{}", bad[1].reason);
    assert_eq!(
        bad[2].to_string(),
        "an object without a readable name cannot be decoded: invalid type: null, expected Pod at byte 4 of the object"
    );
}

#[test]
fn invalid_utf_8_and_control_characters_are_reported_with_the_key_of_the_item() {
    for (poison, reason) in [
        (&b"\xff"[..], "invalid UTF-8 at byte 41 of the object"),
        (&b"\n"[..], "a control character at byte 41 of the object"),
    ] {
        let item = [br#"{"metadata":{"name":"a"},"spec":{"note":""#, poison, br#""}}"#].concat();
        let at = item.windows(poison.len()).position(|it| it == poison).expect("the item contains it");
        assert_eq!(at, 41);
        let body = [br#"{"items":["#, &item[..], br#",{"metadata":{"name":"b"}}]}"#].concat();
        let (names, meta) = decode(&body);
        assert!(meta.is_ok());
        let bad = names[0].as_ref().expect_err("poisoned");
        assert_eq!(bad.reason, reason);
        assert_eq!(bad.key.as_ref().map(ToString::to_string).as_deref(), Some("a"));
        assert_eq!(names[1], Ok("b".to_owned()));
    }
}

/// Text in the place of a number may be a secret that was put into the wrong field.
#[test]
fn a_report_never_quotes_text_of_the_object() {
    let body = br#"{"items":[{"metadata":{"name":"a"},"kind":"hunter2","spec":{"priority":"hunter2"}},
        {"metadata":{"name":"a"},"spec":{"containers":"hunter2"}},{"metadata":"hunter2"}]}"#;
    let mut decoder = ListDecoder::<Pod>::json();
    let mut count = 0;
    decoder
        .feed(body, |item| {
            count += 1;
            let bad = item.expect_err("poisoned");
            assert!(!format!("{bad} {bad:?}").contains("hunter2"), "{bad:?}");
        })
        .expect("a list");
    assert_eq!(count, 3);
}

#[test]
fn an_item_beyond_the_limit_is_rejected() {
    let body = br#"{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"too long a name"}}]}"#;
    for size in [1, 10, 1000] {
        let mut decoder = ListDecoder::<Named>::json().item_limit(30);
        let mut count = 0;
        let result = body.chunks(size).try_for_each(|chunk| decoder.feed(chunk, |_| count += 1));
        assert_eq!(result, Err(ListError::TooLarge { offset: 36, limit: 30 }));
        assert_eq!(count, 1);
    }
}

#[test]
fn an_envelope_beyond_the_limit_is_rejected() {
    let body = format!(r#"{{"kind":"{}"}}"#, "x".repeat(2 << 20));
    let mut decoder = ListDecoder::<Named>::json();
    let result = body.as_bytes().chunks(64 << 10).try_for_each(|chunk| decoder.feed(chunk, |_| ()));
    assert_eq!(result, Err(ListError::TooLarge { offset: 8, limit: 1 << 20 }));
}

#[test]
fn after_an_error_every_call_returns_it_again() {
    let mut decoder = ListDecoder::<Named>::json();
    let error = decoder.feed(b"{]", |_| ()).expect_err("malformed");
    assert_eq!(decoder.feed(b"{}", |_| ()), Err(error.clone()));
    assert_eq!(decoder.finish(), Err(error));
}

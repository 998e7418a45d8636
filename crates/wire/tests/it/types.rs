//! The reader behaves like serde_json for every type that serde supports.

use std::collections::{BTreeMap, HashMap};

use dogwatch_wire::{Fields, from_slice, to_vec};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::DynamicObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn ours<T: DeserializeOwned>(text: &str) -> Option<T> {
    from_slice(text.as_bytes(), Fields::default().keep_managed_fields()).ok()
}

/// Checks that both readers give the same result, a value or an error.
fn agree<T: DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) {
    assert_eq!(ours::<T>(text), serde_json::from_str::<T>(text).ok(), "{text}");
}

#[derive(Debug, PartialEq, Deserialize)]
enum Shape {
    Unit,
    New(i32),
    Pair(i32, String),
    Named { a: Option<bool> },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Either {
    Number(i64),
    Text(String),
    Nested { inner: Vec<Either> },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Tagged {
    One { value: u8 },
    Two { values: Vec<f64> },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    a: u8,
    #[serde(default)]
    b: Option<char>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Wrapper(Vec<(i8, f32)>);

#[test]
fn enums_newtypes_tuples_and_strict_structs() {
    for text in [
        r#""Unit""#,
        r#"{"Unit":null}"#,
        r#"{"New":5}"#,
        r#"{"Pair":[1,"x"]}"#,
        r#"{"Named":{"a":true}}"#,
        r#"{"Named":{}}"#,
        r#"{"New":5,"Unit":null}"#,
        r#""New""#,
        r#""Other""#,
        r#"{"Other":1}"#,
        "{}",
        "5",
        r#"{"Pair":[1]}"#,
        r#"{"Pair":[1,"x",2]}"#,
    ] {
        agree::<Shape>(text);
    }
    for text in ["5", "-5", r#""x\n""#, r#"{"inner":[1,"a",{"inner":[]}]}"#, "null", "1.5"] {
        agree::<Either>(text);
    }
    for text in [
        r#"{"kind":"one","value":3}"#,
        r#"{"values":[1,2.5],"kind":"two"}"#,
        r#"{"kind":"three"}"#,
        r#"{"kind":"one","value":300}"#,
    ] {
        agree::<Tagged>(text);
    }
    for text in [
        r#"{"a":1}"#,
        r#"{"a":1,"b":"é"}"#,
        r#"{"a":1,"b":null}"#,
        r#"{"a":1,"c":2}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"b":"x"}"#,
        "[7]",
        "[7,\"q\"]",
    ] {
        agree::<Strict>(text);
    }
    for text in ["[[1,2.5],[-3,4]]", "[]", "[[1]]", "[[1,2],]", "[,]", "[1 2]", "[[1,2]"] {
        agree::<Wrapper>(text);
    }
}

#[test]
fn numbers_their_bounds_and_invalid_numbers() {
    for text in [
        "0",
        "255",
        "256",
        "-1",
        "1.0",
        "1e2",
        "01",
        "-",
        "+1",
        "1.",
        "NaN",
        "18446744073709551615",
        "18446744073709551616",
        "-0",
        "-0.0",
        "1e400",
    ] {
        agree::<u8>(text);
        agree::<i64>(text);
        agree::<u64>(text);
        agree::<f64>(text);
        agree::<Value>(text);
        agree::<Option<i32>>(text);
    }
    for text in ["true", "false", "null", "tru", "nul", "True", "", " ", "truex", "true x", "nullnull"] {
        agree::<bool>(text);
        agree::<()>(text);
        agree::<Value>(text);
    }
}

#[test]
fn maps_with_keys_that_are_not_strings() {
    for text in
        [r#"{"1":"a","-2":"b"}"#, r#"{"x":"a"}"#, r#"{"1":"a",}"#, r#"{1:"a"}"#, r#"{"1" "a"}"#, "{,}"]
    {
        agree::<BTreeMap<i32, String>>(text);
        agree::<HashMap<String, String>>(text);
    }
    agree::<BTreeMap<bool, u8>>(r#"{"true":1,"false":0}"#);
    for key in ["+1", "01", "1 ", " 1", "1e2", "-0", "18446744073709551615", "", "true", "inf", "NaN"] {
        let text = format!(r#"{{"{key}":1}}"#);
        agree::<BTreeMap<i64, u8>>(&text);
        agree::<BTreeMap<u64, u8>>(&text);
        agree::<BTreeMap<bool, u8>>(&text);
        agree::<BTreeMap<String, u8>>(&text);
    }
    agree::<BTreeMap<Option<String>, u8>>(r#"{"a":1}"#);
    agree::<BTreeMap<char, u8>>(r#"{"a":1,"é":2}"#);
}

#[test]
fn duplicate_keys_are_handled_by_the_type() {
    agree::<Value>(r#"{"a":1,"a":2,"\u0061":3}"#);
    agree::<Pod>(r#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#);
    agree::<DynamicObject>(r#"{"metadata":{"name":"a"},"x":1,"x":2}"#);
}

#[test]
fn kubernetes_types_with_custom_decoding() {
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":8081}]}}"#;
    agree::<Service>(service);
    let ports = ours::<Service>(service).and_then(|it| it.spec?.ports).expect("ports");
    assert_eq!(ports[0].target_port, Some(IntOrString::String("http".to_owned())));
    assert_eq!(ports[1].target_port, Some(IntOrString::Int(8081)));
    agree::<Secret>(
        r#"{"metadata":{"name":"s","creationTimestamp":"2026-01-02T03:04:05Z"},"data":{"k":"aGk=","bad":null}}"#,
    );
    let secret = ours::<Secret>(r#"{"data":{"k":"aG\u006b="}}"#).and_then(|it| it.data).expect("data");
    assert_eq!(secret["k"], ByteString(b"hi".to_vec()));
    agree::<ConfigMap>(
        r#"{"data":{"script":"if [ \"$a\" ]; then\n\techo \\{\\}\nfi","":"","é":"\ud83d\ude00"}}"#,
    );
    agree::<Pod>(
        r#"{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"250m","memory":"1Gi"}}}]},"status":{"podIP":null}}"#,
    );
    agree::<Pod>(r#"{"apiVersion":"v2","metadata":{}}"#);
    agree::<Pod>(r#"{"metadata":{"creationTimestamp":"yesterday"}}"#);
    agree::<DynamicObject>(
        r#"{"apiVersion":"x/v1","kind":"Foo","metadata":{"name":"f"},"spec":{"a":[1,2.5,null,{"b":"c"}]},"items":[]}"#,
    );
}

#[test]
fn nesting_is_limited_where_values_are_read_and_unlimited_where_they_are_skipped() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Shallow {
        a: u8,
    }
    for depth in [10, 127, 128, 129, 100_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        agree::<Value>(&deep);
        assert_eq!(ours::<Value>(&deep).is_some(), depth <= 127, "{depth}");
        assert_eq!(ours::<Shallow>(&format!(r#"{{"x":{deep},"a":1}}"#)), Some(Shallow { a: 1 }), "{depth}");
    }
    let error = from_slice::<Value>("[".repeat(300).as_bytes(), Fields::default()).expect_err("torn");
    assert_eq!(error.reason, "the body ends early, after 300 bytes");
}

#[test]
fn strings_are_found_at_every_offset_from_a_block_boundary() {
    for length in 0..200 {
        let text = format!(
            r#"{{"{}":["{}\n",{{}},[{{"a":{{}}}}]],"last":"\\"}}"#,
            "k".repeat(length),
            "v".repeat(length)
        );
        agree::<Value>(&text);
        #[derive(Debug, PartialEq, Deserialize)]
        struct Last {
            last: String,
        }
        agree::<Last>(&text);
    }
}

/// Containers and volumes are kilobytes each; a vector that grows by doubling would waste as many.
#[test]
fn a_vector_of_objects_or_strings_has_no_excess_capacity() {
    let filler = "x".repeat(50);
    for count in [1, 3, 5, 17, 100] {
        let strings = format!("[{}]", vec![format!(r#""{filler}\"[{{""#); count].join(","));
        let strings: Vec<String> = ours(&strings).expect("strings");
        assert_eq!((strings.len(), strings.capacity()), (count, count));
        let objects = format!("[{}]", vec![format!(r#"{{"k":["{filler}",{{}},[[]]]}}"#); count].join(", "));
        let objects: Vec<BTreeMap<String, Value>> = ours(&objects).expect("objects");
        assert_eq!((objects.len(), objects.capacity()), (count, count));
    }
}

#[test]
fn the_body_of_one_object_must_be_one_object() {
    for (body, reason) in [
        (&b""[..], "an empty body"),
        (b" \n", "an empty body"),
        (br#"{"a":"#, "the body ends early, after 5 bytes"),
        (br#"{} {}"#, "more text after the object, at byte 2"),
        (b"<html>", "not a valid number at byte 0 of the object"),
    ] {
        assert_eq!(from_slice::<Value>(body, Fields::default()).expect_err("bad").reason, reason);
    }
}

#[test]
fn an_object_survives_encoding_and_decoding() {
    let pod: Pod =
        ours(r#"{"metadata":{"name":"a","labels":{"k":"\"v\""}},"spec":{"containers":[]}}"#).expect("a pod");
    assert_eq!(
        from_slice::<Pod>(&to_vec(&pod).expect("a pod can be serialized"), Fields::default()),
        Ok(pod)
    );
}

#[test]
fn ignored_numbers_may_be_out_of_range() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Narrow {
        a: u8,
    }
    for ignored in ["1e400", "-1e400", "123456789012345678901234567890", "0.1e-999", "1e", "01", "-", "1.2.3"]
    {
        agree::<Narrow>(&format!(r#"{{"x":{ignored},"a":1}}"#));
    }
}

#[test]
fn text_of_an_object_is_not_in_the_error() {
    for text in [r#""s3cret""#, r#"{"s3cret":1}"#, r#"{"New":"s3cret"}"#, r#"["s3cret"]"#] {
        let bad = from_slice::<Shape>(text.as_bytes(), Fields::default()).expect_err("no such shape");
        assert!(!bad.to_string().contains("s3cret"), "{bad}");
    }
}

#[test]
fn a_key_that_serde_json_would_interpret_is_rejected() {
    let body = br#"{"metadata":{"name":"a"},"spec":{"$serde_json::private::RawValue":"{}"}}"#;
    let bad = dogwatch_wire::from_slice::<serde_json::Value>(body, Default::default()).expect_err("reserved");
    assert!(bad.reason.starts_with("a key that is reserved by serde_json"), "{bad}");
    assert_eq!(bad.path, "spec");
}

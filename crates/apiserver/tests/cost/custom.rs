//! Custom resources with many parts, and their definitions.

use serde_json::{Value, json};

use crate::measure::{Sent, assert_proportional, list, map};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/ex.io/v1/namespaces/default/things";

fn version(schema: Value) -> Value {
    json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": {
        "spec": schema, "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } } }, "subresources": { "status": {} } })
}

fn definition(versions: Value) -> Value {
    json!({ "metadata": { "name": "things.ex.io" }, "spec": { "group": "ex.io", "scope": "Namespaced",
        "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
        "versions": versions } })
}

fn define(schema: Value) -> Sent {
    Sent::post(DEFINITIONS, &definition(json!([version(schema)])))
}

fn thing(spec: Value) -> Value {
    json!({ "apiVersion": "ex.io/v1", "kind": "Thing", "metadata": { "name": "a" }, "spec": spec })
}

fn create(schema: Value, spec: Value) -> Vec<Sent> {
    vec![define(schema), Sent::post(THINGS, &thing(spec))]
}

/// Creates an object and replaces it.
fn replace(schema: Value, spec: Value, other: Value) -> Vec<Sent> {
    let mut requests = create(schema, spec);
    requests.push(Sent::merge(format!("{THINGS}/a"), &json!({ "spec": other })));
    requests
}

fn keyed(n: usize, value: &str) -> Value {
    list(n, |i| json!({ "k": format!("k{i}"), "v": value }))
}

fn keyed_list() -> Value {
    json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": { "type": "object", "required": ["k"], "properties": { "k": { "type": "string" }, "v": { "type": "string", "maxLength": 3 } } } })
}

fn with(field: &str, schema: Value) -> Value {
    json!({ "type": "object", "properties": { field: schema } })
}

#[test]
fn custom_objects_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "wide list",
            500,
            |n| {
                create(
                    with("l", json!({ "type": "array", "items": { "type": "integer" } })),
                    json!({ "l": list(n, |i| json!(i)) }),
                )
            },
            201,
        ),
        (
            "invalid wide list",
            500,
            |n| {
                create(
                    with("l", json!({ "type": "array", "items": { "type": "integer" } })),
                    json!({ "l": list(n, |_| json!("x")) }),
                )
            },
            422,
        ),
        (
            "wide list below a long key",
            500,
            |n| {
                create(
                    with(
                        "m",
                        json!({ "type": "object", "additionalProperties": { "type": "array", "items": { "type": "integer" } } }),
                    ),
                    json!({ "m": { "k".repeat(n): list(n, |_| json!(1)) } }),
                )
            },
            201,
        ),
        (
            "invalid wide list below a long key",
            500,
            |n| {
                create(
                    with(
                        "m",
                        json!({ "type": "object", "additionalProperties": { "type": "array", "items": { "type": "integer" } } }),
                    ),
                    json!({ "m": { "k".repeat(n): list(n, |_| json!("x")) } }),
                )
            },
            422,
        ),
        (
            "unknown fields",
            250,
            |n| {
                create(
                    with("m", json!({ "type": "object" })),
                    json!({ "m": map(n, |i| (format!("k{i}"), json!(1))) }),
                )
            },
            201,
        ),
        (
            "unknown fields below a long key",
            500,
            |n| {
                create(
                    with("m", json!({ "type": "object", "additionalProperties": { "type": "object" } })),
                    json!({ "m": { "k".repeat(n): map(n, |i| (format!("k{i}"), json!(1))) } }),
                )
            },
            201,
        ),
        (
            "unknown fields of metadata",
            250,
            |n| {
                let mut object = thing(json!({}));
                object["metadata"] = map(n, |i| (format!("k{i}"), json!(1)));
                object["metadata"]["name"] = json!("a");
                vec![define(json!({ "type": "object" })), Sent::post(THINGS, &object)]
            },
            201,
        ),
        (
            "nested lists",
            125,
            |n| {
                create(
                    with(
                        "l",
                        json!({ "type": "array", "items": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } } }),
                    ),
                    json!({ "l": list(n, |_| json!([{ "a": "x" }, { "a": "y" }])) }),
                )
            },
            201,
        ),
        (
            "map",
            250,
            |n| {
                create(
                    with(
                        "m",
                        json!({ "type": "object", "additionalProperties": { "type": "string", "minLength": 1 } }),
                    ),
                    json!({ "m": map(n, |i| (format!("k{i}"), json!(""))) }),
                )
            },
            422,
        ),
        (
            "forbidden fields",
            250,
            |n| {
                create(
                    with(
                        "m",
                        json!({ "type": "object", "maxProperties": 1, "additionalProperties": { "type": "string" } }),
                    ),
                    json!({ "m": map(n, |i| (format!("k{i}"), json!(""))) }),
                )
            },
            422,
        ),
        ("keyed list", 125, |n| create(with("l", keyed_list()), json!({ "l": keyed(n, "v") })), 201),
        (
            "duplicates in a keyed list",
            125,
            |n| {
                create(
                    with("l", keyed_list()),
                    json!({ "l": list(n, |i| json!({ "k": format!("k{}", i / 2) })) }),
                )
            },
            422,
        ),
        (
            "changed keyed list",
            125,
            |n| {
                replace(with("l", keyed_list()), json!({ "l": keyed(n, "v") }), json!({ "l": keyed(n, "w") }))
            },
            200,
        ),
        (
            "invalid change of a keyed list",
            125,
            |n| {
                replace(
                    with("l", keyed_list()),
                    json!({ "l": keyed(n, "v") }),
                    json!({ "l": keyed(n, "long") }),
                )
            },
            422,
        ),
        (
            "set",
            250,
            |n| {
                create(
                    with(
                        "s",
                        json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } }),
                    ),
                    json!({ "s": list(n, |i| json!(format!("v{i}"))) }),
                )
            },
            201,
        ),
        (
            "duplicates in a set",
            250,
            |n| {
                create(
                    with(
                        "s",
                        json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } }),
                    ),
                    json!({ "s": list(n, |i| json!(format!("v{}", i / 2))) }),
                )
            },
            422,
        ),
        (
            "sets below a long key",
            500,
            |n| {
                create(
                    with(
                        "m",
                        json!({ "type": "object", "additionalProperties": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "integer" } } }),
                    ),
                    json!({ "m": { "k".repeat(n): list(n, |i| json!(i / 2)) } }),
                )
            },
            422,
        ),
        (
            "invalid keyed lists below a long key",
            2_000,
            |n| {
                let lists = json!({ "type": "object", "additionalProperties": keyed_list() });
                create(
                    json!({ "type": "object", "additionalProperties": lists }),
                    json!({ "k".repeat(20 * n): map(n, |i| (format!("l{i}"), json!([1]))) }),
                )
            },
            422,
        ),
        (
            "required fields",
            250,
            |n| {
                let schema = json!({ "type": "array", "items": { "type": "object", "required": list(n, |i| json!(format!("f{i}"))), "properties": map(n, |i| (format!("f{i}"), json!({ "type": "string" }))) } });
                create(with("l", schema), json!({ "l": list(n, |_| json!({})) }))
            },
            422,
        ),
        (
            "values of an enum",
            75,
            |n| {
                create(
                    with(
                        "l",
                        json!({ "type": "array", "items": { "type": "string", "enum": list(n, |i| json!(format!("v{i}"))) } }),
                    ),
                    json!({ "l": list(n, |i| json!(format!("v{i}"))) }),
                )
            },
            201,
        ),
        (
            "values that are not in an enum",
            75,
            |n| {
                create(
                    with(
                        "l",
                        json!({ "type": "array", "items": { "type": "string", "enum": list(n, |i| json!(format!("v{i}"))) } }),
                    ),
                    json!({ "l": list(n, |i| json!(format!("w{i}"))) }),
                )
            },
            422,
        ),
        (
            "alternatives for items",
            250,
            |n| {
                // Only the last alternative is fulfilled.
                let alternatives = list(4 * n, |i| json!({ "minimum": 4 * n - 1 - i }));
                let items = json!({ "type": "integer", "anyOf": alternatives });
                create(
                    with("l", json!({ "type": "array", "items": items })),
                    json!({ "l": list(n, |_| json!(0)) }),
                )
            },
            422,
        ),
        (
            "alternatives for a long text",
            500,
            |n| {
                let alternatives = list(2 * n, |i| json!({ "minLength": 66 * n - i }));
                create(
                    with("s", json!({ "type": "string", "anyOf": alternatives })),
                    json!({ "s": "x".repeat(64 * n + 1) }),
                )
            },
            422,
        ),
        (
            "alternatives for an object with many fields",
            1_000,
            |n| {
                let mut schema = anything();
                schema["oneOf"] = list(n, |_| json!({}));
                create(schema, map(n, |i| (format!("k{i}"), json!(1))))
            },
            422,
        ),
        (
            "alternatives that name a field of an object with many",
            250,
            |n| {
                let mut schema = anything();
                schema["anyOf"] = list(n, |_| json!({ "properties": { "k1": { "minimum": 2 } } }));
                create(schema, map(n, |i| (format!("k{i}"), json!(1))))
            },
            422,
        ),
        (
            "alternatives that forbid the fields of an object with many",
            2_000,
            |n| {
                let mut schema = anything();
                schema["anyOf"] = list(n, |_| json!({ "additionalProperties": false }));
                create(schema, map(n, |i| (format!("k{i}"), json!(1))))
            },
            422,
        ),
        (
            "the same problem in many restrictions of a value below a long key",
            500,
            |n| {
                let value = json!({ "type": "integer", "allOf": list(n, |_| json!({ "not": {} })) });
                let schema = json!({ "type": "object", "additionalProperties": value });
                create(schema, json!({ "k".repeat(20 * n): 1 }))
            },
            422,
        ),
        (
            "required fields of an alternative",
            250,
            |n| {
                let required = list(n, |i| json!(format!("f{i}")));
                let items =
                    json!({ "type": "object", "anyOf": [{ "required": required }, { "maxProperties": 1 }] });
                create(
                    with("l", json!({ "type": "array", "items": items })),
                    json!({ "l": list(n, |_| json!({})) }),
                )
            },
            201,
        ),
        (
            "embedded resources",
            50,
            |n| {
                create(
                    with(
                        "l",
                        json!({ "type": "array", "items": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true } }),
                    ),
                    json!({ "l": list(n, |i| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("p{i}"), "x": 1 } })) }),
                )
            },
            201,
        ),
        (
            "invalid embedded resources",
            125,
            |n| {
                create(
                    with(
                        "l",
                        json!({ "type": "array", "items": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true } }),
                    ),
                    json!({ "l": list(n, |_| json!({})) }),
                )
            },
            422,
        ),
        (
            "embedded resources below a long key",
            125,
            |n| {
                create(
                    with(
                        "m",
                        json!({ "type": "object", "additionalProperties": { "type": "array", "items": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true } } }),
                    ),
                    json!({ "m": { "k".repeat(20 * n): list(n, |_| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "x": 1 } })) } }),
                )
            },
            201,
        ),
        (
            "status",
            125,
            |n| {
                let mut requests = create(json!({ "type": "object" }), json!({}));
                requests.push(Sent::merge(
                    format!("{THINGS}/a/status"),
                    &json!({ "status": { "conditions": list(n, |i| json!({ "type": format!("T{i}") })) } }),
                ));
                requests
            },
            200,
        ),
        (
            "selectable fields of many versions",
            // The large number must not exceed the limit of 32.
            4,
            |n| {
                let fields = map(8, |i| (format!("f{i}"), json!({ "type": "string" })));
                let schema = json!({ "type": "object", "properties": fields });
                let versions = list(n, |i| {
                    let mut version = version(schema.clone());
                    version["name"] = json!(format!("v{}", i + 1));
                    version["storage"] = json!(i == 0);
                    version["selectableFields"] = list(8, |i| json!({ "jsonPath": format!(".spec.f{i}") }));
                    version
                });
                let text = "x".repeat(375 * n);
                let spec = map(8, |i| (format!("f{i}"), json!(text)));
                vec![Sent::post(DEFINITIONS, &definition(versions)), Sent::post(THINGS, &thing(spec))]
            },
            201,
        ),
        (
            "pattern",
            5_000,
            |n| {
                create(
                    with("s", json!({ "type": "string", "pattern": "^(a+)+$" })),
                    json!({ "s": "a".repeat(n) + "b" }),
                )
            },
            422,
        ),
        (
            "format",
            5_000,
            |n| {
                create(
                    with("s", json!({ "type": "string", "format": "email" })),
                    json!({ "s": "a.".repeat(n) + "@" }),
                )
            },
            422,
        ),
        (
            "duration",
            2_500,
            |n| {
                create(
                    with("s", json!({ "type": "string", "format": "duration" })),
                    json!({ "s": "1h".repeat(n) }),
                )
            },
            201,
        ),
        (
            "host name",
            2_500,
            |n| {
                create(
                    with("s", json!({ "type": "string", "format": "hostname" })),
                    json!({ "s": "a.".repeat(n) }),
                )
            },
            422,
        ),
        (
            "alternatives of formats for a long text",
            500,
            |n| {
                let formats = ["duration", "hostname", "email", "date-time"];
                let alternatives = list(n, |i| json!({ "format": formats[i % 4] }));
                create(
                    with("s", json!({ "type": "string", "anyOf": alternatives })),
                    json!({ "s": "1x.".repeat(20 * n) }),
                )
            },
            422,
        ),
        (
            "alternatives for objects with few fields",
            250,
            |n| {
                let mut items = anything();
                items["anyOf"] = list(4 * n, |_| json!({ "required": ["a", "b", "x"] }));
                create(
                    with("l", json!({ "type": "array", "items": items })),
                    json!({ "l": list(n, |_| json!({ "a": 1, "b": 1 })) }),
                )
            },
            422,
        ),
        (
            "empty items of a keyed list",
            10_000,
            |n| {
                let mut keyed = keyed_list();
                keyed["items"]["required"] = json!([]);
                keyed["items"]["properties"]["k"]["default"] = json!("");
                // The text makes up for the default, which takes 640 bytes in each item.
                let mut schema = with("l", keyed);
                schema["properties"]["t"] = json!({ "type": "string" });
                create(schema, json!({ "l": list(n, |_| json!({})), "t": "x".repeat(2 * n) }))
            },
            422,
        ),
        (
            "applied keyed list",
            75,
            |n| {
                vec![
                    define(with("l", keyed_list())),
                    Sent::apply(format!("{THINGS}/a?fieldManager=m"), &thing(json!({ "l": keyed(n, "v") }))),
                    Sent::apply(
                        format!("{THINGS}/a?fieldManager=o&force=true"),
                        &thing(json!({ "l": keyed(n, "w") })),
                    ),
                ]
            },
            200,
        ),
        (
            "applied set",
            125,
            |n| {
                let set = |from: usize| thing(json!({ "s": list(n, |i| json!(from + n - i)) }));
                vec![
                    define(with(
                        "s",
                        json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "integer" } }),
                    )),
                    Sent::apply(format!("{THINGS}/a?fieldManager=m"), &set(0)),
                    Sent::apply(format!("{THINGS}/a?fieldManager=o"), &set(n / 2)),
                ]
            },
            200,
        ),
        (
            "applied below a long key",
            125,
            |n| {
                let wide = |v: &str| {
                    thing(json!({ "m": { "k".repeat(5 * n): map(n, |i| (format!("k{i}"), json!(v))) } }))
                };
                let schema = with(
                    "m",
                    json!({ "type": "object", "additionalProperties": { "type": "object", "additionalProperties": { "type": "string" } } }),
                );
                vec![
                    define(schema),
                    Sent::apply(format!("{THINGS}/a?fieldManager=m"), &wide("v")),
                    Sent::apply(format!("{THINGS}/a?fieldManager=o"), &wide("w")),
                ]
            },
            409,
        ),
        (
            "table",
            125,
            |n| {
                let mut version = version(with(
                    "l",
                    json!({ "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } }),
                ));
                version["additionalPrinterColumns"] = json!([{ "name": "A", "type": "string", "jsonPath": ".spec.l[*].a" }, { "name": "B", "type": "string", "jsonPath": "..a" }]);
                vec![
                    Sent::post(DEFINITIONS, &definition(json!([version]))),
                    Sent::post(THINGS, &thing(json!({ "l": list(n, |i| json!({ "a": format!("v{i}") })) }))),
                    Sent::get(THINGS),
                ]
            },
            200,
        ),
        (
            "table with repeated descents",
            15,
            |n| {
                let mut version = version(with(
                    "l",
                    json!({ "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } }),
                ));
                version["additionalPrinterColumns"] = json!([{ "name": "A", "type": "string", "jsonPath": format!("{}a", "..*".repeat(n) + "..") }]);
                vec![
                    Sent::post(DEFINITIONS, &definition(json!([version]))),
                    Sent::post(THINGS, &thing(json!({ "l": list(n, |i| json!({ "a": format!("v{i}") })) }))),
                    Sent::get(THINGS),
                ]
            },
            200,
        ),
        (
            "table with unions",
            5,
            |n| {
                let mut version = version(with(
                    "l",
                    json!({ "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } }),
                ));
                version["additionalPrinterColumns"] = json!([{ "name": "A", "type": "string", "jsonPath": format!(".spec['l','l']{}", "[*,*]".repeat(n)) }]);
                vec![
                    Sent::post(DEFINITIONS, &definition(json!([version]))),
                    Sent::post(THINGS, &thing(json!({ "l": list(n, |i| json!({ "a": format!("v{i}") })) }))),
                    Sent::get(THINGS),
                ]
            },
            200,
        ),
    ]);
}

#[test]
fn definitions_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "properties",
            50,
            |n| {
                vec![define(
                    json!({ "type": "object", "properties": map(n, |i| (format!("f{i}"), json!({ "type": "string" }))) }),
                )]
            },
            201,
        ),
        (
            "properties below a long name",
            75,
            |n| {
                vec![define(
                    json!({ "type": "object", "properties": { "k".repeat(20 * n): { "type": "object", "properties": map(n, |i| (format!("f{i}"), json!({ "type": "string" }))) } } }),
                )]
            },
            201,
        ),
        (
            "invalid properties",
            50,
            |n| {
                vec![define(
                    json!({ "type": "object", "properties": map(n, |i| (format!("f{i}"), json!({ "type": "x" }))) }),
                )]
            },
            422,
        ),
        (
            "properties without a type",
            50,
            |n| {
                vec![define(
                    json!({ "type": "object", "properties": map(n, |i| (format!("f{i}"), json!({}))) }),
                )]
            },
            422,
        ),
        ("unknown keywords", 125, |n| vec![define(map(n, |i| (format!("x{i}"), json!(1))))], 422),
        (
            "restrictions",
            25,
            |n| {
                vec![define(
                    json!({ "type": "object", "allOf": list(n, |i| json!({ "required": [format!("f{i}")] })), "properties": { "a": { "type": "string", "anyOf": list(n, |_| json!({ "minLength": 1 })) } } }),
                )]
            },
            201,
        ),
        (
            "empty restrictions",
            5_000,
            |n| vec![define(json!({ "type": "object", "allOf": list(n, |_| json!({})) }))],
            201,
        ),
        (
            "too many empty restrictions",
            // The small number exceeds the limit as well.
            107_000,
            |n| vec![define(json!({ "type": "object", "allOf": list(n, |_| json!({})) }))],
            400,
        ),
        (
            "empty restrictions at the root of a schema with a status",
            5_000,
            |n| {
                let mut version = version(json!({ "type": "object" }));
                version["schema"]["openAPIV3Schema"]["allOf"] = list(n, |_| json!({}));
                vec![Sent::post(DEFINITIONS, &definition(json!([version])))]
            },
            422,
        ),
        (
            "empty restrictions in versions of the same name",
            2_500,
            |n| {
                let restricted = |key: &str| json!({ "type": "object", key: list(n, |_| json!({})) });
                let versions = json!([version(restricted("allOf")), version(restricted("anyOf"))]);
                vec![Sent::post(DEFINITIONS, &definition(versions))]
            },
            422,
        ),
        (
            "restrictions of missing properties",
            25,
            |n| {
                vec![define(
                    json!({ "type": "object", "allOf": list(n, |i| json!({ "properties": { (format!("f{i}")): { "minLength": 1 } } })) }),
                )]
            },
            201,
        ),
        (
            "enum",
            125,
            |n| {
                vec![define(with(
                    "a",
                    json!({ "type": "string", "enum": list(n, |i| json!(format!("v{i}"))) }),
                ))]
            },
            201,
        ),
        (
            "equal values of an enum",
            125,
            |n| vec![define(with("a", json!({ "type": "string", "enum": list(n, |_| json!("v")) })))],
            201,
        ),
        (
            "required",
            125,
            |n| vec![define(json!({ "type": "object", "required": list(n, |i| json!(format!("f{i}"))) }))],
            201,
        ),
        (
            "keys of a list",
            8,
            |n| {
                vec![define(with(
                    "l",
                    json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(n, |i| json!(format!("f{i}"))), "items": { "type": "object", "required": list(n, |i| json!(format!("f{i}"))), "properties": map(n, |i| (format!("f{i}"), json!({ "type": "string" }))) } }),
                ))]
            },
            201,
        ),
        (
            "equal keys of a list",
            150,
            |n| {
                vec![define(with(
                    "l",
                    json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(n, |_| json!("f")), "items": { "type": "object", "properties": { "f": { "type": "string" } } } }),
                ))]
            },
            422,
        ),
        (
            "defaults",
            50,
            |n| {
                vec![define(
                    json!({ "type": "object", "properties": map(n, |i| (format!("f{i}"), json!({ "type": "string", "default": 1 }))) }),
                )]
            },
            422,
        ),
        (
            "a large default",
            250,
            |n| {
                vec![define(with(
                    "l",
                    json!({ "type": "array", "items": { "type": "integer" }, "default": list(n, |i| json!(i)) }),
                ))]
            },
            201,
        ),
        (
            "defaults around alternatives",
            400,
            |n| {
                // Only the last alternative is fulfilled by the items.
                let items =
                    json!({ "type": "integer", "anyOf": list(n, |i| json!({ "minimum": n - 1 - i })) });
                let list = json!({ "type": "array", "items": items, "default": vec![0; n / 10] });
                let schema = (0..40).fold(list, |inner, _| {
                    let default = json!({ "a": inner["default"] });
                    json!({ "type": "object", "default": default, "properties": { "a": inner } })
                });
                vec![define(json!({ "type": "object", "properties": { "a": schema } }))]
            },
            422,
        ),
        (
            "defaults in defaults",
            10,
            |n| {
                let schema = (0..n.min(40)).fold(
                    json!({ "type": "object", "default": {} }),
                    |inner, _| json!({ "type": "object", "default": {}, "properties": { "a": inner } }),
                );
                vec![define(with("d", schema)), Sent::post(THINGS, &thing(json!({})))]
            },
            201,
        ),
        (
            "rules",
            50,
            |n| {
                vec![define(
                    json!({ "type": "object", "x-kubernetes-validations": list(n, |_| json!({ "rule": "true" })) }),
                )]
            },
            201,
        ),
        (
            "versions",
            // The large number must not exceed the limit of 32.
            4,
            |n| {
                vec![Sent::post(
                    DEFINITIONS,
                    &definition(list(n, |i| {
                        let mut it = version(json!({ "type": "object" }));
                        it["name"] = json!(format!("v{}", i + 1));
                        it["storage"] = json!(i == 0);
                        it
                    })),
                )]
            },
            201,
        ),
        (
            "equal versions",
            4,
            |n| vec![Sent::post(DEFINITIONS, &definition(list(n, |_| version(json!({ "type": "object" })))))],
            422,
        ),
        (
            "stored versions",
            75,
            |n| {
                vec![
                    define(json!({ "type": "object" })),
                    Sent::merge(
                        format!("{DEFINITIONS}/things.ex.io/status"),
                        &json!({ "status": { "storedVersions": list(n, |i| json!(format!("v{i}"))) } }),
                    ),
                ]
            },
            200,
        ),
        (
            "conditions",
            75,
            |n| {
                vec![
                    define(json!({ "type": "object" })),
                    Sent::merge(
                        format!("{DEFINITIONS}/things.ex.io/status"),
                        &json!({ "status": { "conditions": list(n, |i| json!({ "type": format!("T{i}"), "status": "True", "reason": "R", "message": "" })) } }),
                    ),
                ]
            },
            200,
        ),
        (
            "columns",
            25,
            |n| {
                let mut version = version(json!({ "type": "object" }));
                version["additionalPrinterColumns"] =
                    list(n, |i| json!({ "name": format!("c{i}"), "type": "string", "jsonPath": ".spec.a" }));
                vec![Sent::post(DEFINITIONS, &definition(json!([version])))]
            },
            201,
        ),
        (
            "invalid columns",
            25,
            |n| {
                let mut version = version(json!({ "type": "object" }));
                version["additionalPrinterColumns"] =
                    list(n, |_| json!({ "name": "", "type": "x", "jsonPath": "" }));
                vec![Sent::post(DEFINITIONS, &definition(json!([version])))]
            },
            422,
        ),
        (
            "a long path of a column",
            1_250,
            |n| {
                let mut version = version(json!({ "type": "object" }));
                version["additionalPrinterColumns"] =
                    json!([{ "name": "c", "type": "string", "jsonPath": ".a".repeat(n) }]);
                vec![Sent::post(DEFINITIONS, &definition(json!([version])))]
            },
            201,
        ),
        (
            "nested filters of a column",
            500,
            |n| {
                let mut version = version(json!({ "type": "object" }));
                version["additionalPrinterColumns"] = json!([{ "name": "c", "type": "string", "jsonPath": format!("{}@.a{}", ".a[?(".repeat(n), ")]".repeat(n)) }]);
                vec![Sent::post(DEFINITIONS, &definition(json!([version])))]
            },
            201,
        ),
        (
            "selectable fields",
            12,
            |n| {
                let mut version = version(
                    json!({ "type": "object", "properties": map(n, |i| (format!("f{i}"), json!({ "type": "string" }))) }),
                );
                version["selectableFields"] = list(n, |i| json!({ "jsonPath": format!(".spec.f{i}") }));
                vec![Sent::post(DEFINITIONS, &definition(json!([version])))]
            },
            422,
        ),
        (
            "equal selectable fields",
            25,
            |n| {
                let mut version =
                    version(json!({ "type": "object", "properties": { "f": { "type": "string" } } }));
                version["selectableFields"] = list(n, |_| json!({ "jsonPath": ".spec.f" }));
                vec![Sent::post(DEFINITIONS, &definition(json!([version])))]
            },
            422,
        ),
        (
            "short names",
            // The large number must not exceed the limit of 64.
            8,
            |n| {
                let mut it = definition(json!([version(json!({ "type": "object" }))]));
                it["spec"]["names"]["shortNames"] = list(n, |i| json!(format!("t{i}")));
                it["spec"]["names"]["categories"] = list(n, |i| json!(format!("c{i}")));
                vec![Sent::post(DEFINITIONS, &it)]
            },
            201,
        ),
        (
            "equal short names",
            8,
            |n| {
                let mut it = definition(json!([version(json!({ "type": "object" }))]));
                it["spec"]["names"]["shortNames"] = list(n, |_| json!("t"));
                vec![Sent::post(DEFINITIONS, &it)]
            },
            201,
        ),
        (
            "patterns with defaults",
            8,
            |n| {
                let field = |i: usize| json!({ "type": "string", "default": "a", "pattern": format!("^\\p{{L}}{{0,{}}}$", 300 + i) });
                vec![define(
                    json!({ "type": "object", "properties": map(n, |i| (format!("f{i}"), field(i))) }),
                )]
            },
            422,
        ),
        (
            "a deep schema in protobuf",
            10,
            |n| vec![Sent::of("POST", DEFINITIONS, "application/vnd.kubernetes.protobuf", deep_schema(n))],
            201,
        ),
        (
            "a pattern",
            500,
            |n| vec![define(with("s", json!({ "type": "string", "pattern": "(a|b)".repeat(n) })))],
            201,
        ),
        (
            "a pattern with repeats",
            12,
            |n| vec![define(with("s", json!({ "type": "string", "pattern": "a{1000}".repeat(n) })))],
            201,
        ),
        (
            "a pattern with a class of many ranges",
            5_000,
            |n| {
                let letter = |it| char::from_u32(0x10000 + 2 * it).unwrap();
                let class: String = (0..u32::try_from(n).unwrap()).rev().map(letter).collect();
                vec![define(with("s", json!({ "type": "string", "pattern": format!("[{class}]") })))]
            },
            201,
        ),
        (
            "a pattern with class names that do not end",
            2_500,
            |n| {
                vec![define(with(
                    "s",
                    json!({ "type": "string", "pattern": format!("[{}", "[:".repeat(n)) }),
                ))]
            },
            422,
        ),
        (
            "a changed definition",
            25,
            |n| {
                let schema = |kind: &str| json!({ "type": "object", "properties": map(n, |i| (format!("f{i}"), json!({ "type": kind }))) });
                vec![
                    define(schema("string")),
                    Sent::merge(
                        format!("{DEFINITIONS}/things.ex.io"),
                        &json!({ "spec": { "versions": [version(schema("integer"))] } }),
                    ),
                ]
            },
            200,
        ),
        (
            "the OpenAPI document",
            25,
            |n| {
                vec![
                    define(
                        json!({ "type": "object", "properties": map(n, |i| (format!("f{i}"), json!({ "type": "string" }))) }),
                    ),
                    Sent::get("/openapi/v3/apis/ex.io/v1"),
                ]
            },
            200,
        ),
    ]);
}

/// Returns a definition in protobuf: a schema of `n - 9` nested lists around a description that is
/// longer the larger `n` is.
fn deep_schema(n: usize) -> Vec<u8> {
    fn varint(mut number: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while number >= 0x80 {
            out.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
        out
    }
    fn field(number: usize, bytes: &[u8]) -> Vec<u8> {
        [varint(number << 3 | 2), varint(bytes.len()), bytes.to_vec()].concat()
    }
    fn yes(number: usize) -> Vec<u8> {
        [varint(number << 3), vec![1]].concat()
    }
    let leaf = [field(4, "d".repeat(2_000 * n).as_bytes()), field(5, b"string")].concat();
    let lists = (9..n).fold(leaf, |inner, _| [field(5, b"array"), field(24, &field(1, &inner))].concat());
    let spec = [field(1, b"spec"), field(2, &lists)].concat();
    let schema = field(1, &[field(5, b"object"), field(29, &spec)].concat());
    let version = [field(1, b"v1"), yes(2), yes(3), field(4, &schema)].concat();
    let names =
        [field(1, b"things"), field(2, b"thing"), field(4, b"Thing"), field(5, b"ThingList")].concat();
    let spec = [field(1, b"ex.io"), field(3, &names), field(4, b"Namespaced"), field(7, &version)].concat();
    let definition = [field(1, &field(1, b"things.ex.io")), field(2, &spec)].concat();
    let kind = [field(1, b"apiextensions.k8s.io/v1"), field(2, b"CustomResourceDefinition")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, &definition)].concat()
}

/// Returns a list inside of many nested objects.
fn deep_list(n: usize) -> Value {
    (0..90).fold(list(n, |_| json!(0)), |inner, _| json!({ "a": inner }))
}

fn anything() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Returns the requests that create an object under one schema, change the schema, and then change
/// the field `x` of the object.
fn under_another_schema(before: Value, after: Value, spec: Value) -> Vec<Sent> {
    let mut requests = create(before, spec);
    let versions = json!({ "spec": { "versions": [version(after)] } });
    requests.push(Sent::merge(format!("{DEFINITIONS}/things.ex.io"), &versions));
    requests.push(Sent::get(format!("{DEFINITIONS}/things.ex.io")));
    requests.push(Sent::merge(format!("{THINGS}/a"), &json!({ "spec": { "x": 1 } })));
    requests
}

#[test]
fn deeply_nested_objects_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "applied twice",
            2_000,
            |n| {
                let apply = |manager: &str| {
                    Sent::apply(format!("{THINGS}/a?fieldManager={manager}"), &thing(deep_list(n)))
                };
                vec![define(anything()), apply("m"), apply("m")]
            },
            200,
        ),
        (
            "applied by two managers",
            2_000,
            |n| {
                let apply = |manager: &str| {
                    Sent::apply(format!("{THINGS}/a?fieldManager={manager}"), &thing(deep_list(n)))
                };
                vec![define(anything()), apply("m"), apply("o")]
            },
            200,
        ),
        (
            "replaced in a list",
            2_000,
            |n| replace(anything(), json!({ "l": [deep_list(n)] }), json!({ "l": [deep_list(n + 1)] })),
            200,
        ),
        ("replaced", 2_000, |n| replace(anything(), deep_list(n), deep_list(n + 1)), 200),
    ]);
}

#[test]
fn schemas_and_their_objects_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "repeated required fields of many items",
            500,
            |n| {
                let item = json!({ "type": "object", "required": list(n, |_| json!("a")), "properties": { "a": { "type": "integer" } } });
                create(
                    with("l", json!({ "type": "array", "items": item })),
                    json!({ "l": list(n, |_| json!({ "a": 1 })) }),
                )
            },
            201,
        ),
        (
            "applied items of a list with many keys that have defaults",
            400,
            |n| {
                let mut properties =
                    map(60, |i| (format!("d{i}"), json!({ "type": "string", "default": "" })));
                properties["k"] = json!({ "type": "integer" });
                let keys: Vec<&String> = properties.as_object().unwrap().keys().collect();
                let schema = json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
                    "items": { "type": "object", "required": ["k"], "properties": properties } });
                vec![
                    define(with("l", schema)),
                    Sent::apply(
                        format!("{THINGS}/a?fieldManager=m"),
                        &thing(json!({ "l": list(n, |i| json!({ "k": i })) })),
                    ),
                ]
            },
            500,
        ),
        (
            "unchanged values that are not in an enum",
            100,
            |n| {
                let schema = |values: Value| json!({ "type": "object", "additionalProperties": { "x-kubernetes-int-or-string": true, "enum": values } });
                under_another_schema(
                    schema(json!(["v", 1])),
                    schema(list(n, |i| json!(if i == 0 { json!(1) } else { json!(format!("w{i}")) }))),
                    map(n, |i| (format!("k{i}"), json!("v"))),
                )
            },
            200,
        ),
        (
            "an invalid value next to unchanged ones that are not in an enum",
            100,
            |n| {
                let schema = |values: Value| json!({ "type": "object", "additionalProperties": { "x-kubernetes-int-or-string": true, "enum": values } });
                under_another_schema(
                    schema(json!(["v"])),
                    schema(list(n, |i| json!(format!("w{i}")))),
                    map(n, |i| (format!("k{i}"), json!("v"))),
                )
            },
            422,
        ),
        (
            "managers of many versions",
            30,
            |n| {
                let versions = list(32, |i| {
                    let mut it = version(anything());
                    it["name"] = json!(format!("v{}", i + 1));
                    it["storage"] = json!(i == 0);
                    it
                });
                let managers = list(n, |i| {
                    json!({ "manager": format!("m{i}"), "operation": "Apply", "apiVersion": format!("ex.io/v{}", i % 32 + 1),
                        "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { (format!("f:k{i}")): {} } } })
                });
                vec![
                    Sent::post(DEFINITIONS, &definition(versions)),
                    Sent::post(THINGS, &thing(map(20 * n, |i| (format!("k{i}"), json!("v"))))),
                    Sent::merge(format!("{THINGS}/a"), &json!({ "metadata": { "managedFields": managers } })),
                    Sent::merge(format!("{THINGS}/a"), &json!({ "spec": { "x": 1 } })),
                ]
            },
            200,
        ),
        (
            "a small merge into many small maps",
            4_000,
            |n| {
                vec![
                    Sent::post(DEFINITIONS, &definition(json!([version(anything())]))),
                    Sent::post(THINGS, &thing(json!({ "a": list(n, |_| json!({ "": 0 })) }))),
                    Sent::merge(format!("{THINGS}/a"), &json!({ "spec": { "x": 1 } })),
                ]
            },
            200,
        ),
        (
            "a field that is no longer applied to many small maps",
            4_000,
            |n| {
                let applied = |spec: Value| Sent::apply(format!("{THINGS}/a?fieldManager=m"), &thing(spec));
                vec![
                    Sent::post(DEFINITIONS, &definition(json!([version(anything())]))),
                    Sent::post(THINGS, &thing(json!({ "a": list(n, |_| json!({ "": 0 })) }))),
                    applied(json!({ "x": 1 })),
                    applied(json!({})),
                ]
            },
            200,
        ),
        (
            "a table with many columns of one text",
            10,
            |n| {
                let mut version = version(with("t", json!({ "type": "string" })));
                version["additionalPrinterColumns"] = list(
                    200,
                    |i| json!({ "name": format!("c{i}"), "type": "string", "jsonPath": ".spec.t" }),
                );
                let mut requests = vec![Sent::post(DEFINITIONS, &definition(json!([version])))];
                requests.extend((0..n).map(|i| {
                    let mut thing = thing(json!({ "t": "x".repeat(2_000) }));
                    thing["metadata"]["name"] = json!(format!("a{i}"));
                    Sent::post(THINGS, &thing)
                }));
                requests.push(Sent::get(THINGS));
                requests
            },
            200,
        ),
        (
            "a table with a long path for many objects",
            10,
            |n| {
                let mut version = version(with("t", json!({ "type": "string" })));
                version["additionalPrinterColumns"] =
                    list(n, |_| json!({ "name": "c", "type": "string", "jsonPath": ".a".repeat(1_000) }));
                let mut requests = vec![Sent::post(DEFINITIONS, &definition(json!([version])))];
                requests.extend((0..5 * n).map(|i| {
                    let mut thing = thing(json!({}));
                    thing["metadata"]["name"] = json!(format!("a{i}"));
                    Sent::post(THINGS, &thing)
                }));
                requests.push(Sent::get(THINGS));
                requests
            },
            200,
        ),
    ]);
}

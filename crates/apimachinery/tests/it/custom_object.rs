//! Custom objects: pruning, defaulting and validation, with the messages recorded from
//! kube-apiserver.

use dogwatch_apimachinery::custom::{CustomKind, Version, object, prune};
use serde_json::{Value, json};

/// Returns the definition that most recorded scenarios use.
pub(crate) fn gadget() -> Version {
    version(json!({"spec": {"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "items": {"type": "array", "maxItems": 2, "items": {"type": "object", "required": ["k"], "properties": {
            "k": {"type": "string"}, "w": {"type": "integer", "default": 7}}}},
        "port": {"x-kubernetes-int-or-string": true},
        "opt": {"type": "string", "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}, "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}}))
}

pub(crate) fn version(properties: Value) -> Version {
    let schema = json!({"type": "object", "properties": properties});
    let mut kind = CustomKind::read(&json!({"spec": {
        "group": "x.example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }}));
    kind.versions.remove(0)
}

fn whole(spec: Value) -> Value {
    json!({"apiVersion": "x.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": spec})
}

/// Decodes and validates an object. Returns the sorted problems as they appear in a message.
fn rejected(version: &Version, spec: &Value) -> Vec<String> {
    let mut value = whole(spec.clone());
    object::decode(&mut value, version).unwrap();
    let mut problems: Vec<String> =
        object::validate_create(&value, version).iter().map(ToString::to_string).collect();
    problems.sort();
    problems
}

#[test]
fn unknown_fields_are_pruned_and_reported_and_defaults_are_set() {
    let mut value = whole(
        json!({"size": 2, "unknown": 1, "items": [{"k": "x", "y": 1}], "free": {"any": {"thing": [1]}}}),
    );
    value["top"] = json!(1);
    value["metadata"]["bogus"] = json!(1);
    let unknown = object::decode(&mut value, &gadget()).unwrap();
    assert_eq!(unknown, ["metadata.bogus", "spec.items[0].y", "spec.unknown", "top"]);
    assert_eq!(prune::unknown_field(&unknown[1]), r#"unknown field "spec.items[0].y""#);
    let spec =
        json!({"size": 2, "color": "red", "items": [{"k": "x", "w": 7}], "free": {"any": {"thing": [1]}}});
    assert_eq!(value, whole(spec));
}

#[test]
fn a_null_becomes_the_default_unless_the_field_is_nullable() {
    let mut value = whole(json!({"size": 1, "color": null, "opt": null}));
    object::decode(&mut value, &gadget()).unwrap();
    assert_eq!(value["spec"], json!({"size": 1, "color": "red", "opt": null}));
}

#[test]
fn problems_of_gadgets_have_the_recorded_messages() {
    let gadget = gadget();
    for (spec, message) in [
        (json!({"size": 1}), vec![]),
        (json!({}), vec!["spec.size: Required value"]),
        (
            json!({"size": 0}),
            vec!["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"],
        ),
        (
            json!({"size": "x"}),
            vec![
                r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
            ],
        ),
        (
            json!({"size": 1.5}),
            vec![
                r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.size"#,
                r#"spec.size: Invalid value: "number": spec.size in body must be of type integer: "number""#,
            ],
        ),
        (
            json!({"size": 1, "color": "blue"}),
            vec![r#"spec.color: Unsupported value: "blue": supported values: "red", "green""#],
        ),
        (json!({"size": 1, "name": "TOOLONG"}), vec!["spec.name: Too long: may not be more than 5 bytes"]),
        (
            json!({"size": 11, "color": "blue", "items": [{"k": "a"}, {}, {"k": "c"}]}),
            vec![
                r#"spec.color: Unsupported value: "blue": supported values: "red", "green""#,
                "spec.items: Too many: 3: must have at most 2 items",
                "spec.items[1].k: Required value",
                "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
            ],
        ),
        (
            json!({"size": 1, "port": []}),
            vec![
                r#"spec.port: Invalid value: "array": spec.port in body must be of type integer,string: "array""#,
            ],
        ),
        (json!([]), vec![r#"spec: Invalid value: "array": spec in body must be of type object: "array""#]),
    ] {
        assert_eq!(rejected(&gadget, &spec), message, "{spec}");
    }
}

/// Returns a kind with one field for each keyword of a schema.
fn thing() -> Version {
    version(json!({"spec": {"type": "object", "properties": {
        "e": {"type": "string", "nullable": true, "enum": ["a", "b"]},
        "en": {"type": "integer", "enum": [1, 2]},
        "mo": {"type": "number", "multipleOf": 0.5},
        "moi": {"type": "integer", "multipleOf": 3},
        "ex": {"type": "number", "minimum": 1.5, "exclusiveMinimum": true, "maximum": 1e21},
        "pat": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2},
        "dt": {"type": "string", "format": "date-time"},
        "i32": {"type": "integer", "format": "int32"},
        "mi": {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 2}},
        "mp": {"type": "object", "minProperties": 1, "maxProperties": 2,
               "additionalProperties": {"type": "integer", "minimum": 1}},
        "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "any": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "all": {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 5}]},
        "not": {"type": "string", "not": {"enum": ["no"]}},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "email": {"type": "string", "format": "email"},
        "b": {"type": "boolean"},
        "num": {"type": "number"},
    }}}))
}

#[test]
fn violations_of_every_keyword_have_the_recorded_messages() {
    let thing = thing();
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                 character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                 validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let kind = format!(
        "spec.emb.kind: Invalid value: \"X_y\": may have mixed case, but should otherwise match: {label}"
    );
    for (spec, message) in [
        (json!({"e": null}), vec![r#"spec.e: Unsupported value: null: supported values: "a", "b""#]),
        (json!({"en": 3}), vec![r#"spec.en: Unsupported value: 3: supported values: "1", "2""#]),
        (
            json!({"mo": 0.7}),
            vec!["spec.mo: Invalid value: 0.7: spec.mo in body should be a multiple of 0.5"],
        ),
        (
            json!({"mo": 1e30}),
            vec!["spec.mo: Invalid value: 1e+30: spec.mo in body should be a multiple of 0.5"],
        ),
        (
            json!({"mo": 5}),
            vec!["spec.mo: Invalid value: 0: factor MultipleOf declared for spec.mo must be positive: 0"],
        ),
        (
            json!({"ex": 3}),
            vec![
                "spec.ex: Invalid value: 3: spec.ex in body should be less than or equal to -9223372036854775808",
            ],
        ),
        (
            json!({"en": 1.5}),
            vec![
                r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.en"#,
                r#"spec.en: Invalid value: "number": spec.en in body must be of type integer: "number""#,
            ],
        ),
        (json!({"moi": 4}), vec!["spec.moi: Invalid value: 4: spec.moi in body should be a multiple of 3"]),
        (json!({"ex": 1.5}), vec!["spec.ex: Invalid value: 1.5: spec.ex in body should be greater than 1.5"]),
        (
            json!({"ex": 2e21}),
            vec!["spec.ex: Invalid value: 2e+21: spec.ex in body should be less than or equal to 1e+21"],
        ),
        (
            json!({"pat": "A"}),
            vec![r#"spec.pat: Invalid value: "A": spec.pat in body should be at least 2 chars long"#],
        ),
        (
            json!({"pat": "AB"}),
            vec![r#"spec.pat: Invalid value: "AB": spec.pat in body should match '^[a-z]+$'"#],
        ),
        (
            json!({"dt": "nope"}),
            vec![r#"spec.dt: Invalid value: "nope": spec.dt in body must be of type date-time: "nope""#],
        ),
        (
            json!({"dt": 5}),
            vec![r#"spec.dt: Invalid value: "int64": spec.dt in body must be of type date-time: "int64""#],
        ),
        (json!({"dt": []}), vec![]),
        (
            json!({"i32": 3_000_000_000_i64}),
            vec![
                r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i32"#,
            ],
        ),
        (json!({"mi": []}), vec!["spec.mi: Invalid value: 0: spec.mi in body should have at least 1 items"]),
        (
            json!({"mi": ["abc", null]}),
            vec![
                "spec.mi[0]: Too long: may not be more than 2 bytes",
                r#"spec.mi[1]: Invalid value: "null": spec.mi[1] in body must be of type string: "null""#,
            ],
        ),
        (
            json!({"mp": {}}),
            vec!["spec.mp: Invalid value: 0: spec.mp in body should have at least 1 properties"],
        ),
        (
            json!({"mp": {"a": 0, "b": 2, "c": 3}}),
            vec![
                "spec.mp.a: Invalid value: 0: spec.mp.a in body should be greater than or equal to 1",
                "spec.mp: Too many: 3: must have at most 2 items",
            ],
        ),
        (
            json!({"one": {}}),
            vec![
                r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid"#,
                "spec.one.a: Required value",
            ],
        ),
        (
            json!({"one": {"a": "x", "b": "y"}}),
            vec![
                r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ],
        ),
        (
            json!({"any": {}}),
            vec![
                r#"<nil>: Invalid value: "": "spec.any" must validate at least one schema (anyOf)"#,
                "spec.any.a: Required value",
            ],
        ),
        (
            json!({"all": 9}),
            vec![
                r#"<nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf)"#,
                "spec.all: Invalid value: 9: spec.all in body should be less than or equal to 5",
            ],
        ),
        (
            json!({"not": "no"}),
            vec![r#"<nil>: Invalid value: "": "spec.not" must not validate the schema (not)"#],
        ),
        (json!({"emb": {}}), vec!["spec.emb.apiVersion: Required value", "spec.emb.kind: Required value"]),
        (
            json!({"emb": {"apiVersion": "a/b/c", "kind": "X_y"}}),
            vec![
                r#"spec.emb.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                &kind,
            ],
        ),
        (
            json!({"email": "x"}),
            vec![r#"spec.email: Invalid value: "x": spec.email in body must be of type email: "x""#],
        ),
        (
            json!({"b": "true"}),
            vec![r#"spec.b: Invalid value: "string": spec.b in body must be of type boolean: "string""#],
        ),
        (
            json!({"num": "1"}),
            vec![r#"spec.num: Invalid value: "string": spec.num in body must be of type number: "string""#],
        ),
        (
            json!({"pat": "a<b>\"\u{1}é"}),
            vec![r#"spec.pat: Invalid value: "a<b>\"\x01é": spec.pat in body should match '^[a-z]+$'"#],
        ),
    ] {
        assert_eq!(rejected(&thing, &spec), message, "{spec}");
    }
}

#[test]
fn integral_numbers_are_stored_without_a_fraction() {
    let mut value = json!({"a": [2.0, 1.5, -0.0, 1e30], "b": 3});
    object::settle_numbers(&mut value);
    assert_eq!(value, json!({"a": [2, 1.5, 0, 1e30], "b": 3}));
}

#[test]
fn metadata_of_the_wrong_type_is_a_decoding_error() {
    for (metadata, message) in [
        (
            json!({"labels": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            json!({"labels": 5}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        (
            json!({"name": 5}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string",
        ),
        (
            json!({"ownerReferences": {}}),
            "json: cannot unmarshal object into Go struct field ObjectMeta.ownerReferences of type []v1.OwnerReference",
        ),
        (
            json!({"generation": "a"}),
            "json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64",
        ),
        (
            json!({"finalizers": [1]}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.finalizers of type string",
        ),
        (
            json!({"ownerReferences": [{"controller": "a"}]}),
            "json: cannot unmarshal string into Go struct field OwnerReference.ownerReferences.controller of type bool",
        ),
        (
            json!({"creationTimestamp": "foo"}),
            r#"parsing time "foo" as "2006-01-02T15:04:05Z07:00": cannot parse "foo" as "2006""#,
        ),
    ] {
        let mut value = whole(json!({}));
        value["metadata"] = metadata;
        assert_eq!(object::decode(&mut value, &gadget()), Err(message.to_owned()));
    }
    let mut value = whole(json!({"emb": {"apiVersion": 1, "kind": "X"}}));
    let message = "spec.emb.apiVersion: Invalid value: 1: must be a string";
    assert_eq!(object::decode(&mut value, &thing()), Err(message.to_owned()));
}

fn star() -> Version {
    version(json!({"spec": {"type": "object", "properties": {
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "rings": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "r": {"type": "integer", "maximum": 5}}}},
        "plain": {"type": "array", "items": {"type": "string", "maxLength": 2}},
    }}}))
}

#[test]
fn sets_and_keyed_lists_must_not_have_duplicates() {
    for (spec, message) in [
        (json!({"tags": ["b", "b", "b"]}), vec![r#"spec.tags[1]: Duplicate value: "b""#]),
        (
            json!({"rings": [{"name": "z"}, {"name": "z"}]}),
            vec![r#"spec.rings[1]: Duplicate value: {"name":"z"}"#],
        ),
        (json!({"plain": ["a", "a"]}), vec![]),
    ] {
        assert_eq!(rejected(&star(), &spec), message, "{spec}");
    }
}

#[test]
fn an_update_may_keep_invalid_values_unchanged() {
    let star = star();
    let wrong = whole(json!({"tags": ["b", "b"], "rings": [{"name": "z", "r": 9}], "plain": ["long"]}));
    assert_eq!(object::validate_update(&wrong, &wrong, &star), []);

    // Keyed items are matched when they move; a list without keys is compared as a whole.
    let mut moved = wrong.clone();
    moved["spec"]["rings"] = json!([{"name": "a", "r": 1}, {"name": "z", "r": 9}]);
    assert_eq!(object::validate_update(&moved, &wrong, &star), []);

    let mut longer = wrong.clone();
    longer["spec"]["plain"] = json!(["long", "a"]);
    longer["spec"]["rings"] = json!([{"name": "z", "r": 8}]);
    let problems: Vec<String> =
        object::validate_update(&longer, &wrong, &star).iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "spec.plain[0]: Too long: may not be more than 2 bytes",
            "spec.rings[0].r: Invalid value: 8: spec.rings[0].r in body should be less than or equal to 5",
        ]
    );
}

#[test]
fn generation_counts_changes_outside_of_metadata_and_of_a_status_subresource() {
    let mut version = gadget();
    version.status = true;
    let mut new = whole(json!({"size": 1}));
    new["status"] = json!({"phase": "dropped"});
    object::prepare_create(&mut new, &version);
    assert_eq!((&new["metadata"]["generation"], new.get("status")), (&json!(1), None));

    let mut old = new.clone();
    old["status"] = json!({"phase": "Up"});
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    labelled["status"] = json!({"phase": "ignored"});
    object::prepare_update(&mut labelled, &old, &version);
    assert_eq!(
        (&labelled["metadata"]["generation"], &labelled["status"]["phase"]),
        (&json!(1), &json!("Up"))
    );

    let mut grown = old.clone();
    grown["spec"]["size"] = json!(2);
    object::prepare_update(&mut grown, &old, &version);
    assert_eq!(grown["metadata"]["generation"], 2);

    let mut status = grown.clone();
    status["metadata"]["labels"] = json!({"ignored": "1"});
    status["status"] = json!({"phase": "Down"});
    object::prepare_status(&mut status, &old);
    assert_eq!((&status["spec"], &status["status"]["phase"]), (&old["spec"], &json!("Down")));
    assert_eq!(status["metadata"].get("labels"), None);
}

#[test]
fn skipped_validation_rules_are_mentioned() {
    let version = version(json!({"spec": {"type": "object", "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self.a != \"no\""}]}}));
    assert_eq!(
        rejected(&version, &json!({"a": 5})),
        [
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the \
             existing errors to complete validation",
            r#"spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer""#,
        ]
    );
}

#[test]
fn unknown_fields_of_metadata_come_first_and_of_embedded_metadata_last() {
    let mut value = whole(
        json!({"emb": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "q", "bogus": 1}}, "bogus": 1}),
    );
    value["metadata"]["zed"] = json!(1);
    value["top"] = json!(1);
    value["aaa"] = json!(1);
    assert_eq!(
        object::decode(&mut value, &thing()).unwrap(),
        ["metadata.zed", "aaa", "spec.bogus", "top", "spec.emb.metadata.bogus"]
    );
    assert_eq!(value["spec"]["emb"]["metadata"], json!({"name": "q"}));
}

#[test]
fn messages_of_status_problems_omit_the_status_prefix() {
    let mut new = whole(json!({"size": 1}));
    new["status"] = json!({"phase": 5});
    let problems: Vec<String> = object::validate_status(&new, &whole(json!({"size": 1})), &gadget())
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [r#"status.phase: Invalid value: "integer": phase in body must be of type string: "integer""#]
    );
}

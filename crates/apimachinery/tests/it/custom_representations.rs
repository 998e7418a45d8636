//! Other representations of custom objects: rows of a table, a Scale, another version, and the
//! schema for apply.

use dogwatch_apimachinery::custom::scale::ScalePaths;
use dogwatch_apimachinery::custom::structural::OBJECT_META;
use dogwatch_apimachinery::custom::{CustomKind, Structural, columns, convert, scale};
use dogwatch_apimachinery::schema::{Schema, Topology};
use jiff::Timestamp;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn kind(extra: Value) -> CustomKind {
    let mut version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    for (key, value) in extra.as_object().unwrap() {
        version[key] = value.clone();
    }
    CustomKind::read(&json!({"spec": {"group": "x.example.com", "scope": "Namespaced",
        "names": {"plural": "trains", "kind": "Train"}, "versions": [version]}}))
}

#[test]
fn columns_are_described_and_cells_have_the_type_of_their_column() {
    let kind = kind(json!({"additionalPrinterColumns": [
        {"name": "Speed", "type": "integer", "jsonPath": ".spec.speed"},
        {"name": "Line", "type": "string", "jsonPath": ".spec.line", "priority": 1, "description": "which line"},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
    ]}));
    let columns = &kind.versions[0].columns;
    let definitions = columns::definitions(columns);
    assert_eq!(definitions.len(), 5);
    assert_eq!((&definitions[0]["name"], &definitions[0]["format"]), (&json!("Name"), &json!("name")));
    assert_eq!(
        definitions[1],
        json!({"name": "Speed", "type": "integer", "format": "", "priority": 0,
               "description": "Custom resource definition column (in JSONPath format): .spec.speed"})
    );
    assert_eq!(
        (&definitions[2]["description"], &definitions[2]["priority"]),
        (&json!("which line"), &json!(1))
    );
    let a = json!({"metadata": {"name": "a"}, "spec": {"speed": 100, "line": "blue", "on": true}});
    assert_eq!(
        columns::cells(&a, columns, now(), &mut columns::CellRoom::default()),
        [json!("a"), json!(100), json!("blue"), json!(true), json!(null)]
    );
    let b = json!({"metadata": {"name": "b"}, "spec": {}});
    assert_eq!(
        columns::cells(&b, columns, now(), &mut columns::CellRoom::default()),
        [json!("b"), json!(null), json!(null), json!(null), json!(null)]
    );
}

#[test]
fn cells_are_rendered_as_by_kube_apiserver() {
    let column = |kind: &str, path: &str| json!({"name": path, "type": kind, "jsonPath": path});
    let kind = kind(json!({"additionalPrinterColumns": [
        column("string", ".spec.mi"), column("string", ".spec.mi[0]"), column("string", ".spec.num"),
        column("string", ".spec.b"), column("integer", ".spec.b"), column("integer", ".spec.num"),
        column("number", ".spec.i32"), column("date", ".spec.pat"), column("string", ".spec.mp"),
        column("string", r".metadata.labels.a\.b/c"), column("string", ".spec.mi[*]"), column("date", ".spec.since"),
    ]}));
    let object = json!({"metadata": {"name": "x", "labels": {"a.b/c": "lab"}}, "spec": {
        "mi": ["p", "q"], "num": 1.5, "b": true, "i32": 7, "pat": "nodate", "mp": {"k": 1},
        "since": "2026-01-01T00:55:00Z"}});
    let cells = columns::cells(&object, &kind.versions[0].columns, now(), &mut columns::CellRoom::default());
    let expected = json!([
        "x",
        "[\"p\",\"q\"]",
        "p",
        "1.5",
        "true",
        null,
        1,
        7,
        "<invalid>",
        "{\"k\":1}",
        "lab",
        "p",
        "5m"
    ]);
    assert_eq!(Value::Array(cells), expected);
}

#[test]
fn a_definition_without_columns_shows_the_age() {
    let kind = kind(json!({}));
    let object = json!({"metadata": {"name": "w", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(
        columns::cells(&object, &kind.versions[0].columns, now(), &mut columns::CellRoom::default()),
        [json!("w"), json!("60m")]
    );
    assert_eq!(columns::definitions(&kind.versions[0].columns)[1]["name"], "Age");
}

#[test]
fn selectable_fields_have_values_as_text() {
    let kind = kind(
        json!({"selectableFields": [{"jsonPath": ".spec.on"}, {"jsonPath": ".spec.line"}, {"jsonPath": ".spec.n"},
                                                {"jsonPath": ".spec.none.at.all"}]}),
    );
    let object = json!({"spec": {"on": true, "line": "blue", "n": 3}});
    let expected = [("spec.on", "true"), ("spec.line", "blue"), ("spec.n", "3")];
    assert_eq!(kind.field_values(&object), expected.map(|(name, value)| (name.into(), value.to_owned())));
}

/// All versions returned all of their fields: 2,048 copies of a text, or a structure once for each
/// level that another version has a field in.
#[test]
fn a_field_that_several_versions_select_has_one_value() {
    let version = |name: &str, paths: &[&str]| {
        let fields: Vec<Value> = paths.iter().map(|it| json!({ "jsonPath": it })).collect();
        json!({"name": name, "served": true, "storage": name == "v1", "selectableFields": fields,
               "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let versions = [
        version("v1", &[".spec.a", ".spec.empty"]),
        version("v2", &[".spec.a", ".spec.b"]),
        version("v3", &[".spec.b.c", ".spec.a"]),
    ];
    let kind = CustomKind::read(&json!({"spec": {"versions": versions}}));
    let object = json!({"spec": {"a": "x", "b": {"c": "y"}, "empty": ""}});
    let expected = [("spec.a", "x"), ("spec.b.c", "y")];
    assert_eq!(kind.field_values(&object), expected.map(|(name, value)| (name.into(), value.to_owned())));
}

fn engine() -> (Value, ScalePaths) {
    let object = json!({
        "apiVersion": "x.example.com/v1", "kind": "Engine",
        "metadata": {"name": "e", "namespace": "n", "uid": "u", "resourceVersion": "5", "generation": 1,
                     "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": 2}, "status": {"phase": "Up", "replicas": 1, "selector": "a=b"},
    });
    let kind = kind(json!({"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}}));
    (object, kind.versions[0].scale.clone().unwrap())
}

#[test]
fn a_scale_is_read_from_its_paths_and_written_back_to_them() {
    let (mut object, paths) = engine();
    assert_eq!(
        scale::read_scale(&object, &paths).unwrap(),
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
               "metadata": {"name": "e", "namespace": "n", "uid": "u", "resourceVersion": "5",
                            "creationTimestamp": "2026-01-01T00:00:00Z"},
               "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "a=b"}})
    );
    let put = json!({"metadata": {"name": "e", "resourceVersion": "4"}, "spec": {"replicas": 5}});
    scale::apply_scale(&mut object, &put, &paths).unwrap();
    assert_eq!(
        (&object["spec"]["replicas"], &object["metadata"]["resourceVersion"]),
        (&json!(5), &json!("4"))
    );
    assert_eq!(object["status"]["phase"], "Up");
}

#[test]
fn missing_replicas_cannot_be_read_or_patched_but_can_be_put() {
    let (mut object, paths) = engine();
    object["spec"] = json!({});
    let refusal = scale::read_scale(&object, &paths).unwrap_err();
    let message = r#"Internal error occurred: the spec replicas field ".spec.replicas" does not exist"#;
    assert_eq!((refusal.0.code, refusal.0.message.as_str()), (500, message));
    let base = scale::patch_base(&object, &paths).unwrap();
    let refusal = scale::apply_scale(&mut object, &base, &paths).unwrap_err();
    assert_eq!(
        (refusal.0.code, refusal.0.message.as_str()),
        (400, r#"the spec replicas field ".spec.replicas" cannot be empty"#)
    );
    scale::apply_scale(&mut object, &json!({"spec": {}}), &paths).unwrap();
    assert_eq!(object["spec"], json!({"replicas": 0}));
    assert_eq!(scale::scale_of(&object, &paths).unwrap()["spec"], json!({}));
}

#[test]
fn replicas_must_be_a_count() {
    let (mut object, paths) = engine();
    for (spec, message) in [
        (
            json!({"replicas": "a"}),
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: a is of the type string, expected int64",
        ),
        (json!({"replicas": -1}), ".spec.replicas: Invalid value: -1: should be a non-negative integer"),
        (
            json!(5),
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 5 is of the type int64, expected \
             map[string]interface{}",
        ),
        (
            json!({"replicas": 3_000_000_000_i64}),
            ".spec.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
        ),
    ] {
        object["spec"] = spec;
        let problems: Vec<String> =
            scale::spec_problems(&object, &paths).iter().map(ToString::to_string).collect();
        assert_eq!(problems, [message]);
    }
    assert_eq!(scale::status_problems(&object, &paths), []);
}

#[test]
fn without_a_webhook_conversion_only_changes_the_api_version() {
    let mut object = json!({"apiVersion": "x.example.com/v1", "kind": "Plane", "spec": {"seats": 4}});
    convert::to_version(&mut object, "x.example.com", "v2");
    assert_eq!(object, json!({"apiVersion": "x.example.com/v2", "kind": "Plane", "spec": {"seats": 4}}));
}

#[test]
fn for_apply_lists_are_atomic_by_default_and_metadata_is_object_meta() {
    let schema = Structural::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "rings": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                  "items": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "free": {"type": "object"},
        "map": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
    }}}}))
    .to_schema();
    let field = |schema: &Schema, name: &str| match schema {
        Schema::Struct(object) => object.fields[name].schema.clone(),
        other => panic!("{other:?} has no fields"),
    };
    assert!(matches!(field(&schema, "metadata"), Schema::Named(name) if &*name == OBJECT_META));
    let spec = field(&schema, "spec");
    for (name, topology) in [
        ("tags", Topology::Set),
        ("rings", Topology::Map(vec!["name".to_owned()])),
        ("plain", Topology::Atomic),
    ] {
        assert!(matches!(field(&spec, name), Schema::List(list) if list.topology == topology), "{name}");
    }
    assert!(
        matches!(field(&spec, "free"), Schema::Map(map) if !map.atomic && matches!(map.value, Schema::Any))
    );
    assert!(matches!(field(&spec, "map"), Schema::Map(map) if map.atomic));
    assert!(
        matches!(&spec, Schema::Struct(object) if object.additional.is_none() && !object.preserve_unknown)
    );
}

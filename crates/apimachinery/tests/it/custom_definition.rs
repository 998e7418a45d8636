//! CustomResourceDefinitions: defaults, validation with its messages, and conflicts of names.

use dogwatch_apimachinery::custom::{CustomKind, Scope, check, definition, names};
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-02T00:00:00Z";
const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                     character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                     validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Returns a definition after decoding and defaulting.
fn define(name: &str, spec: Value) -> Value {
    let mut definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                                "metadata": {"name": name}, "spec": spec});
    definition::fill_defaults(&mut definition);
    definition
}

/// Returns a definition with one version of this schema.
fn noo(schema: Value) -> Value {
    with_versions(
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]),
    )
}

fn with_versions(versions: Value) -> Value {
    let names = json!({"plural": "noos", "kind": "Noo"});
    define(
        "noos.x.example.com",
        json!({"group": "x.example.com", "scope": "Namespaced", "names": names, "versions": versions}),
    )
}

fn rejected(mut definition: Value) -> Vec<String> {
    definition::prepare_create(&mut definition);
    check::check_create(&definition).iter().map(ToString::to_string).collect()
}

/// Returns the problems of a schema for `spec`, with paths relative to it.
fn rejected_spec(schema: Value) -> Vec<String> {
    let problems = rejected(noo(json!({"type": "object", "properties": {"spec": schema}})));
    let prefix = "spec.validation.openAPIV3Schema.properties[spec].";
    problems.into_iter().map(|problem| problem.strip_prefix(prefix).unwrap_or(&problem).to_owned()).collect()
}

#[test]
fn a_definition_gets_its_defaults_and_is_established_immediately() {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let mut gadgets = define(
        "gadgets.x.example.com",
        json!({"group": "x.example.com", "scope": "Namespaced",
               "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all"]},
               "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}),
    );
    definition::prepare_create(&mut gadgets);
    assert_eq!(check::check_create(&gadgets), []);
    let accepted = json!({"plural": "gadgets", "singular": "gadget", "shortNames": ["gd"], "kind": "Gadget",
                          "listKind": "GadgetList", "categories": ["all"]});
    assert_eq!(gadgets["spec"]["names"], accepted);
    assert_eq!(gadgets["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(gadgets["metadata"]["generation"], 1);
    assert!(names::settle(&mut gadgets, [], NOW));
    assert_eq!(
        gadgets["status"],
        json!({
            "conditions": [
                {"type": "NamesAccepted", "status": "True", "lastTransitionTime": NOW, "reason": "NoConflicts",
                 "message": "no conflicts found"},
                {"type": "Established", "status": "True", "lastTransitionTime": NOW, "reason": "InitialNamesAccepted",
                 "message": "the initial names have been accepted"},
            ],
            "acceptedNames": accepted,
            "storedVersions": ["v1"],
        })
    );
    assert!(!names::settle(&mut gadgets, [], LATER));
    let kind = CustomKind::read(&gadgets);
    assert_eq!((kind.scope, kind.names.list_kind.as_str()), (Scope::Namespaced, "GadgetList"));
    assert!(kind.served("v1").is_some() && kind.served("v2").is_none());
}

#[test]
fn names_in_use_are_rejected_until_they_are_free() {
    let mut first = noo(json!({"type": "object"}));
    definition::prepare_create(&mut first);
    names::settle(&mut first, [], NOW);
    let mut second = define(
        "engs.x.example.com",
        json!({"group": "x.example.com", "scope": "Cluster", "names": {"plural": "engs", "kind": "Eng",
               "shortNames": ["noo"]}, "versions": []}),
    );
    definition::prepare_create(&mut second);
    assert!(names::settle(&mut second, [&first], NOW));
    assert_eq!(
        second["status"]["conditions"],
        json!([
            {"type": "NamesAccepted", "status": "False", "lastTransitionTime": NOW, "reason": "ShortNamesConflict",
             "message": "\"noo\" is already in use"},
            {"type": "Established", "status": "False", "lastTransitionTime": NOW, "reason": "NotAccepted",
             "message": "not all names are accepted"},
        ])
    );
    let accepted = json!({"plural": "engs", "singular": "eng", "kind": "Eng", "listKind": "EngList"});
    assert_eq!(second["status"]["acceptedNames"], accepted);
    assert!(!names::settle(&mut second, [&first], LATER));
    assert!(names::settle(&mut second, [], LATER));
    assert!(names::is_true(&second, "Established"));
    assert_eq!(second["status"]["conditions"][0]["lastTransitionTime"], LATER);
    assert_eq!(second["status"]["acceptedNames"]["shortNames"], json!(["noo"]));
}

#[test]
fn the_condition_names_the_conflicting_name() {
    let mut first = noo(json!({"type": "object"}));
    definition::prepare_create(&mut first);
    names::settle(&mut first, [], NOW);
    for (wanted, reason) in [
        (json!({"plural": "noo", "kind": "A"}), "PluralConflict"),
        (json!({"plural": "as", "singular": "noos", "kind": "A"}), "SingularConflict"),
        (json!({"plural": "as", "singular": "a", "kind": "Noo"}), "ListKindConflict"),
        (json!({"plural": "as", "singular": "a", "kind": "Noo", "listKind": "L"}), "KindConflict"),
    ] {
        let mut other = define("a", json!({"group": "x.example.com", "names": wanted}));
        definition::prepare_create(&mut other);
        names::settle(&mut other, [&first], NOW);
        assert_eq!(other["status"]["conditions"][0]["reason"], reason);
    }
    let mut elsewhere =
        define("a", json!({"group": "y.example.com", "names": {"plural": "noos", "kind": "Noo"}}));
    definition::prepare_create(&mut elsewhere);
    names::settle(&mut elsewhere, [&first], NOW);
    assert!(names::is_true(&elsewhere, "NamesAccepted"));
}

#[test]
fn whole_definitions_are_rejected_with_the_recorded_messages() {
    let mut wrong = noo(json!({"type": "object"}));
    wrong["metadata"]["name"] = json!("wrong.example.com");
    let message =
        r#"metadata.name: Invalid value: "wrong.example.com": must be spec.names.plural+"."+spec.group"#;
    assert_eq!(rejected(wrong), [message]);

    let without = with_versions(json!([{"name": "v1", "served": true, "storage": true}]));
    assert_eq!(rejected(without), ["spec.versions[0].schema.openAPIV3Schema: Required value"]);

    let message =
        r#"spec.validation.openAPIV3Schema.type: Invalid value: "string": must be object at the root"#;
    assert_eq!(rejected(noo(json!({"type": "string"}))), [message]);

    let message = "spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object \
                 fields";
    assert_eq!(rejected(noo(json!({"type": "object", "properties": {"a": {}}}))), [message]);

    let version = |name: &str| json!({"name": name, "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let shown = |name: &str| {
        format!(
            "{{\"Name\":\"{name}\",\"Served\":true,\"Storage\":true,\"Deprecated\":false,\"DeprecationWarning\":null,\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}"
        )
    };
    assert_eq!(
        rejected(with_versions(json!([version("v1"), version("v2")]))),
        [
            format!(
                "spec.versions: Invalid value: [{},{}]: must have exactly one version marked as storage version",
                shown("v1"),
                shown("v2")
            ),
            "status.storedVersions: Invalid value: [\"v1\"]: must have the storage version v2".to_owned(),
        ]
    );
    assert_eq!(
        rejected_spec(json!({"type": "object", "properties": {"n": {"type": "integer", "default": "x"}}})),
        [r#"properties[n].default: Invalid value: "string":  in body must be of type integer: "string""#]
    );
}

/// Returns the Go representation of a schema that has only a type, as in messages of
/// kube-apiserver.
fn shown(description: &str, more: &str) -> String {
    format!(
        "{{\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,\"Description\":\"{description}\",\"Type\":\"object\",\"Nullable\":false,\
         \"Format\":\"\",\"Title\":\"\",\"Default\":null,\"Maximum\":null,\"ExclusiveMaximum\":false,\"Minimum\":null,\
         \"ExclusiveMinimum\":false,\"MaxLength\":null,\"MinLength\":null,\"Pattern\":\"\",\"MaxItems\":null,\"MinItems\":null,\
         \"UniqueItems\":false,\"MultipleOf\":null,\"Enum\":null,\"MaxProperties\":null,\"MinProperties\":null,\
         \"Required\":null,\"Items\":null,\"AllOf\":null,\"OneOf\":null,\"AnyOf\":null,\"Not\":null,\"Properties\":null,\
         \"AdditionalProperties\":{more},\"PatternProperties\":null,\"Dependencies\":null,\"AdditionalItems\":null,\
         \"Definitions\":null,\"ExternalDocs\":null,\"Example\":null,\"XPreserveUnknownFields\":null,\
         \"XEmbeddedResource\":false,\"XIntOrString\":false,\"XListMapKeys\":null,\"XListType\":null,\"XMapType\":null,\
         \"XValidations\":null}}"
    )
}

#[test]
fn messages_show_differing_versions_in_their_internal_form() {
    let schema =
        |description: &str| json!({"openAPIV3Schema": {"type": "object", "description": description}});
    let scale = json!({"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.b"});
    let versions = json!([
        {"name": "v1", "served": true, "storage": false, "schema": schema(""),
         "subresources": {"status": {}, "scale": scale},
         "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}]},
        {"name": "v2", "served": true, "storage": false, "schema": schema("x")},
    ]);
    let message = format!(
        "spec.versions: Invalid value: [{{\"Name\":\"v1\",\"Served\":true,\"Storage\":false,\"Deprecated\":false,\
         \"DeprecationWarning\":null,\"Schema\":{{\"OpenAPIV3Schema\":{}}},\"Subresources\":{{\"Status\":{{}},\"Scale\":\
         {{\"SpecReplicasPath\":\".spec.a\",\"StatusReplicasPath\":\".status.b\",\"LabelSelectorPath\":null}}}},\
         \"AdditionalPrinterColumns\":[{{\"Name\":\"A\",\"Type\":\"string\",\"Format\":\"\",\"Description\":\"\",\
         \"Priority\":0,\"JSONPath\":\".a\"}}],\"SelectableFields\":null}},{{\"Name\":\"v2\",\"Served\":true,\
         \"Storage\":false,\"Deprecated\":false,\"DeprecationWarning\":null,\"Schema\":{{\"OpenAPIV3Schema\":{}}},\
         \"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}]: must have exactly one \
         version marked as storage version",
        shown("", "null"),
        shown("x", "null"),
    );
    let problems = rejected(with_versions(versions));
    assert_eq!(problems[0], message);
    assert_eq!(
        problems[1],
        "status.storedVersions: Invalid value: null: must have at least one stored version"
    );
    assert_eq!(problems.len(), 2);
}

#[test]
fn with_a_status_subresource_the_root_schema_is_restricted() {
    let mut narrow = noo(json!({"type": "object", "additionalProperties": true}));
    narrow["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let problems = rejected(narrow);
    let start = format!(
        "spec.validation.openAPIV3Schema: Invalid value: {}: only [Description Type Format ",
        shown("", r#"{"Allows":true,"Schema":null}"#)
    );
    assert!(problems[0].starts_with(&start), "{}", problems[0]);
    let message =
        "spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root";
    assert_eq!(problems[1..], [message]);
}

#[test]
fn schemas_are_rejected_with_the_recorded_messages() {
    for (schema, message) in [
        (json!({"type": "array"}), vec!["items: Required value: must be specified"]),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}},
                   "anyOf": [{"type": "object", "description": "x", "properties": {"b": {"type": "string"}}}],
                   "allOf": [{"not": {"required": ["a"]}}]}),
            vec![
                "anyOf[0].description: Forbidden: must be empty to be structural",
                "anyOf[0].properties[b].type: Forbidden: must be empty to be structural",
                "anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            vec!["additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            json!({"type": "foo"}),
            vec![
                r#"type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b", "o", "o"],
                   "items": {"type": "object", "properties": {"a": {"type": "string"}, "o": {"type": "object"}}}}),
            vec![
                r#"x-kubernetes-list-map-keys: Invalid value: ["a","b","o","o"]: entries must all be names of item properties"#,
                r#"items.properties[o].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#,
                r#"items.properties[o].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#,
                r#"x-kubernetes-list-map-keys: Invalid value: ["a","b","o","o"]: must not contain duplicate entries"#,
                "items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                "items.properties[o].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                "items.properties[o].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "nullable": true}}),
            vec![
                "items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
                "items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-list-type": "foo", "x-kubernetes-map-type": "x"}),
            vec![
                r#"type: Invalid value: "string": must be object if x-kubernetes-map-type is specified"#,
                r#"x-kubernetes-map-type: Unsupported value: "x": supported values: "atomic", "granular""#,
                r#"type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
                r#"x-kubernetes-list-type: Unsupported value: "foo": supported values: "atomic", "set", "map""#,
            ],
        ),
        (
            json!({"type": "object", "default": {"b": 1}, "properties": {"a": {"type": "string"}}}),
            vec![r#"default: Invalid value: {"b":1}: must not have unknown fields"#],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            vec![
                "properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            vec!["x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            vec![],
        ),
        (json!({"type": "string", "format": "foo"}), vec![]),
    ] {
        assert_eq!(rejected_spec(schema.clone()), message, "{schema}");
    }
}

#[test]
fn the_root_is_not_nullable_and_restricts_only_names_in_metadata() {
    let schema = json!({"type": "object", "nullable": true, "properties": {
        "metadata": {"type": "object", "default": {}, "properties": {"labels": {"type": "object"}}},
        "kind": {"type": "integer"}}});
    let path = "spec.validation.openAPIV3Schema";
    assert_eq!(
        rejected(noo(schema)),
        [
            format!("{path}.nullable: Forbidden: nullable cannot be true at the root"),
            format!("{path}.properties[kind].type: Invalid value: \"integer\": must be string"),
            format!(
                "{path}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
                 metadata is implicitly specified"
            ),
            format!("{path}.properties[metadata].default: Forbidden: must not be set in top-level metadata"),
        ]
    );
    let named = json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}}});
    assert_eq!(rejected(noo(named)), Vec::<String>::new());
}

#[test]
fn a_default_of_the_root_must_be_a_whole_resource() {
    let schema = json!({"type": "object", "default": {"b": 2}, "properties": {"c": {"type": "object"}}});
    let path = "spec.validation.openAPIV3Schema.default";
    assert_eq!(
        rejected(noo(schema)),
        [
            format!("{path}: Invalid value: {{\"b\":2}}: must not have unknown fields"),
            format!("{path}.apiVersion: Required value"),
            format!("{path}.kind: Required value"),
        ]
    );
}

#[test]
fn problems_of_names_and_groups_are_in_the_recorded_order() {
    let mut bad = define(
        "noos.x.example.com",
        json!({"group": "nodot", "scope": "X", "versions": [],
               "names": {"plural": "Noos", "kind": "N_o", "listKind": "N_o", "shortNames": ["A"]}}),
    );
    bad["metadata"]["name"] = json!("noos.x.example.com");
    assert_eq!(
        rejected(bad),
        [
            r#"metadata.name: Invalid value: "noos.x.example.com": must be spec.names.plural+"."+spec.group"#
                .to_owned(),
            r#"spec.group: Invalid value: "nodot": should be a domain with at least one dot"#.to_owned(),
            r#"spec.scope: Unsupported value: "X": supported values: "Cluster", "Namespaced""#.to_owned(),
            "spec.versions: Invalid value: []: must have exactly one version marked as storage version"
                .to_owned(),
            format!("spec.names.plural: Invalid value: \"Noos\": {LABEL}"),
            format!("spec.names.singular: Invalid value: \"n_o\": {LABEL}"),
            format!(
                "spec.names.kind: Invalid value: \"N_o\": may have mixed case, but should otherwise match: {LABEL}"
            ),
            format!(
                "spec.names.listKind: Invalid value: \"N_o\": may have mixed case, but should otherwise match: {LABEL}"
            ),
            format!("spec.names.shortNames[0]: Invalid value: \"A\": {LABEL}"),
            r#"spec.names.listKind: Invalid value: "N_o": kind and listKind may not be the same"#.to_owned(),
            "status.storedVersions: Invalid value: null: must have at least one stored version".to_owned(),
        ]
    );
}

#[test]
fn other_problems_of_a_version_have_the_recorded_messages() {
    let mut bad = with_versions(json!([{
        "name": "V1", "served": true, "storage": true, "deprecationWarning": "x",
        "schema": {"openAPIV3Schema": {"type": "object"}},
        "additionalPrinterColumns": [{"name": "", "type": "x", "jsonPath": "spec", "format": "f"}],
        "selectableFields": [{"jsonPath": ".spec.a"}, {"jsonPath": "spec[0]"}],
        "subresources": {"scale": {"specReplicasPath": ".a", "statusReplicasPath": "", "labelSelectorPath": "x"}},
    }]));
    bad["spec"]["preserveUnknownFields"] = json!(true);
    bad["spec"]["conversion"] = json!({"strategy": "Foo"});
    assert_eq!(
        rejected(bad),
        [
            format!("spec.versions[0].name: Invalid value: \"V1\": {LABEL}").as_str(),
            r#"spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions"#,
            &format!("spec.version: Invalid value: \"V1\": {LABEL}"),
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".a": should be a json path under .spec"#,
            "spec.subresources.scale.statusReplicasPath: Required value",
            r#"spec.subresources.scale.labelSelectorPath: Invalid value: "x": must be a simple json path starting with ."#,
            "spec.additionalPrinterColumns[0].name: Required value",
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "x": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[0].format: Invalid value: "f": must be one of byte,date,date-time,double,float,int32,int64,password"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple json path starting with ."#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.a": is an invalid path: does not refer to a valid field"#,
            r#"spec.selectableFields[1].jsonPath: Invalid value: "spec[0]": is an invalid path: expected [ or . but got: spec"#,
            r#"spec.conversion.strategy: Invalid value: "Foo": must be None if spec.preserveUnknownFields is true"#,
            r#"spec.conversion.strategy: Unsupported value: "Foo": supported values: "None", "Webhook""#,
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ]
    );
}

/// Regression test: the limits were given in bytes. `MaxLenError` in k8s.io/apimachinery v0.36.4
/// pkg/util/validation/validation.go, which definitions are validated with, says characters.
#[test]
fn names_that_are_too_long_are_rejected_with_a_limit_in_characters() {
    let mut definition = noo(json!({"type": "object"}));
    definition["spec"]["names"]["singular"] = json!("a".repeat(64));
    definition["metadata"]["name"] = json!("a".repeat(254));
    let problems = rejected(definition);
    for expected in ["must be no more than 63 characters", "must be no more than 253 characters"] {
        assert!(problems.iter().any(|it| it.ends_with(expected)), "{problems:?}");
    }
}

#[test]
fn scope_and_group_are_immutable_once_established() {
    let mut old = noo(json!({"type": "object"}));
    definition::prepare_create(&mut old);
    names::settle(&mut old, [], NOW);
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["group"] = json!("y.example.com");
    definition::prepare_update(&mut new, &old);
    assert_eq!(new["metadata"]["generation"], 2);
    let problems: Vec<String> = check::check_update(&new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            r#"spec.group: Invalid value: "y.example.com": field is immutable"#,
        ]
    );
}

#[test]
fn a_stored_version_must_remain() {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    let mut old = with_versions(json!([version("v1", true)]));
    definition::prepare_create(&mut old);
    let mut both = with_versions(json!([version("v1", false), version("v2", true)]));
    definition::prepare_update(&mut both, &old);
    assert_eq!(both["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(check::check_update(&both, &old), []);
    let mut one = with_versions(json!([version("v2", true)]));
    definition::prepare_update(&mut one, &both);
    let problems: Vec<String> = check::check_update(&one, &both).iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage \
             version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 \
             and removes v1 from status.storedVersions"
        ]
    );
}

#[test]
fn protected_groups_need_an_approval_annotation() {
    let mut own = noo(json!({"type": "object"}));
    own["metadata"]["name"] = json!("noos.x.k8s.io");
    own["spec"]["group"] = json!("x.k8s.io");
    assert_eq!(
        rejected(own.clone()),
        [
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \
             \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"
        ]
    );
    own["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    assert_eq!(rejected(own), Vec::<String>::new());
}

#[test]
fn new_unrecognized_formats_are_warned_about() {
    let strange = noo(json!({"type": "object", "properties": {"a": {"type": "string", "format": "foo"},
        "b": {"type": "string", "format": "date-time"}, "c": {"type": "integer", "format": "int32"}}}));
    assert_eq!(check::format_warnings(&strange, None), [r#"unrecognized format "foo""#]);
    assert_eq!(check::format_warnings(&strange, Some(&strange)), Vec::<String>::new());
}

#[test]
fn a_deprecated_version_has_its_own_or_the_default_warning() {
    let version = |extra: Value| {
        let mut version = json!({"name": "v1", "served": true, "storage": true, "deprecated": true});
        version.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        CustomKind::read(&with_versions(json!([version]))).versions[0].deprecation.clone().unwrap()
    };
    assert_eq!(version(json!({})), "x.example.com/v1 Noo is deprecated");
    assert_eq!(version(json!({"deprecationWarning": "use v2"})), "use v2");
}

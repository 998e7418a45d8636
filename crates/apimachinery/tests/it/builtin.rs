//! Built-in kinds: every field of every kind is known, and errors are worded as in kube-apiserver.

use std::path::Path;

use dogwatch_apimachinery::builtin::{self, BuiltinDefinitions, Findings};
use dogwatch_apimachinery::protobuf;
use dogwatch_apimachinery::schema::Schema;
use proptest::prelude::*;
use serde_json::{Value, json};

fn schema(group: &str, version: &str, kind: &str) -> Schema {
    BuiltinDefinitions.of_kind(group, version, kind).unwrap()
}

fn inspect(group: &str, version: &str, kind: &str, body: &str) -> Findings {
    builtin::inspect(body.as_bytes(), &schema(group, version, kind), &BuiltinDefinitions).unwrap()
}

fn mismatch(kind: &str, body: &str) -> String {
    let group = if kind == "Deployment" { "apps" } else { "" };
    let group = if kind == "Lease" { "coordination.k8s.io" } else { group };
    inspect(group, "v1", kind, body).mismatch.unwrap_or_else(|| panic!("{kind} accepts {body}"))
}

#[test]
fn every_field_of_the_golden_objects_is_known() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|it| it != "json") {
            continue;
        }
        let body = std::fs::read_to_string(&path).unwrap();
        let object: Value = serde_json::from_str(&body).unwrap();
        let api_version = object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = object["kind"].as_str().unwrap();
        assert_eq!(inspect(group, version, kind, &body), Findings::default(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 12, "{count}");
}

#[test]
fn unknown_and_duplicate_fields_are_reported_once_in_the_order_of_the_text() {
    let body = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","foo":1,"name":"q"},"bar":2,"bar":3,
        "spec":{"containers":[{"name":"a","zed":1,"zed":2},
            {"name":"b","ports":[{"x":1}],"env":[{"name":"a","name":"b"}]}],
        "nodeSelector":{"a":"b","a":"c"}}}"#;
    assert_eq!(
        inspect("", "v1", "Pod", body).strict,
        [
            r#"unknown field "metadata.foo""#,
            r#"duplicate field "metadata.name""#,
            r#"unknown field "bar""#,
            r#"unknown field "spec.containers[0].zed""#,
            r#"unknown field "spec.containers[1].ports[0].x""#,
            r#"duplicate field "spec.containers[1].env[0].name""#,
            r#"duplicate field "spec.nodeSelector.a""#,
        ]
    );
}

#[test]
fn field_names_are_case_sensitive_and_unknown_values_are_not_inspected() {
    let body = r#"{"data":{"a":"1","a":"2"},"Data":{},"foo":{"a":1,"a":2}}"#;
    assert_eq!(
        inspect("", "v1", "ConfigMap", body).strict,
        [r#"duplicate field "data.a""#, r#"unknown field "Data""#, r#"unknown field "foo""#]
    );
}

/// The limit is that of sigs.k8s.io/json internal/golang/encoding/json/kubernetes_patch.go.
#[test]
fn no_more_than_a_hundred_fields_are_reported() {
    let body: serde_json::Map<String, Value> = (0..150).map(|it| (format!("x{it}"), json!(1))).collect();
    let found = inspect("", "v1", "ConfigMap", &Value::Object(body).to_string());
    assert_eq!(found.strict.len(), 100);
}

#[test]
fn duplicates_are_found_without_a_schema_too() {
    let body = br#"{"data":{"a":"1","a":"2"},"list":[{"b":1},{"b":1,"b":2}]}"#;
    assert_eq!(
        builtin::duplicate_fields(body),
        [r#"duplicate field "data.a""#, r#"duplicate field "list[1].b""#]
    );
    assert_eq!(builtin::duplicate_fields(b"{"), [] as [&str; 0]);
}

#[test]
fn raw_fields_are_not_inspected() {
    let body = r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{},"f:a":{}}}]},"data":{"x":{"x":1}}}"#;
    assert_eq!(inspect("apps", "v1", "ControllerRevision", body), Findings::default());
}

#[test]
fn null_is_valid_for_every_field() {
    let body = r#"{"metadata":null,"spec":{"containers":null,"hostNetwork":null,"nodeSelector":{"a":null}}}"#;
    assert_eq!(inspect("", "v1", "Pod", body), Findings::default());
}

#[test]
fn a_value_of_the_wrong_type_is_rejected_with_the_message_of_kube_apiserver() {
    let in_container = |it: &str| format!(r#"{{"spec":{{"containers":[{{"name":"a",{it}}}]}}}}"#);
    let in_spec = |it: &str| format!(r#"{{"spec":{{{it}}}}}"#);
    let meta = |it: &str| format!(r#"{{"metadata":{{{it}}}}}"#);
    for (kind, body, words) in [
        (
            "ConfigMap",
            r#"{"data":{"n":1}}"#.to_owned(),
            "number into Go struct field ConfigMap.data of type string",
        ),
        (
            "ConfigMap",
            meta(r#""labels":["x"]"#),
            "array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            "Pod",
            meta(r#""labels":{"a":{}}"#),
            "object into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "Pod",
            meta(r#""finalizers":"x""#),
            "string into Go struct field ObjectMeta.metadata.finalizers of type []string",
        ),
        (
            "Pod",
            meta(r#""creationTimestamp":5"#),
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "Pod",
            meta(r#""ownerReferences":[{"controller":"x"}]"#),
            "string into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool",
        ),
        (
            "Pod",
            r#"{"metadata":"x"}"#.to_owned(),
            "string into Go struct field Pod.metadata of type v1.ObjectMeta",
        ),
        ("Pod", r#"{"spec":[]}"#.to_owned(), "array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            "Pod",
            in_spec(r#""containers":{}"#),
            "object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            in_spec(r#""containers":["a"]"#),
            "string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            "Pod",
            in_spec(r#""hostNetwork":"yes""#),
            "string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            "Pod",
            in_spec(r#""restartPolicy":5"#),
            "number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            "Pod",
            in_spec(r#""terminationGracePeriodSeconds":"5""#),
            "string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            "Pod",
            in_spec(r#""securityContext":{"supplementalGroups":5}"#),
            "number into Go struct field PodSecurityContext.spec.securityContext.supplementalGroups of type []int64",
        ),
        (
            "Pod",
            in_spec(r#""volumes":[{"name":"a","emptyDir":5}]"#),
            "number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
        ),
        (
            "Pod",
            in_spec(r#""volumes":[{"configMap":{"name":5}}]"#),
            "number into Go struct field ConfigMapVolumeSource.spec.volumes.VolumeSource.configMap.LocalObjectReference.name of type string",
        ),
        (
            "Pod",
            in_container(r#""image":true,"ports":[{"containerPort":"80"}]"#),
            "bool into Go struct field Container.spec.containers.image of type string",
        ),
        (
            "Pod",
            in_container(r#""ports":[{"containerPort":1.5}]"#),
            "number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "Pod",
            in_container(r#""ports":[{"containerPort":99999999999}]"#),
            "number 99999999999 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "Pod",
            in_container(r#""ports":[{"protocol":2}]"#),
            "number into Go struct field ContainerPort.spec.containers.ports.protocol of type v1.Protocol",
        ),
        (
            "Pod",
            in_container(r#""resources":{"limits":[]}"#),
            "array into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            "Pod",
            in_container(r#""livenessProbe":{"httpGet":{"port":true}}"#),
            "bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            "Secret",
            r#"{"data":{"a":1}}"#.to_owned(),
            "number into Go struct field Secret.data of type []uint8",
        ),
        (
            "Secret",
            r#"{"data":"x"}"#.to_owned(),
            "string into Go struct field Secret.data of type map[string][]uint8",
        ),
        (
            "Deployment",
            in_spec(r#""replicas":"3","selector":"x""#),
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            in_spec(r#""strategy":{"rollingUpdate":{"maxSurge":{}}}"#),
            "object into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
        (
            "Lease",
            in_spec(r#""renewTime":7"#),
            "number into Go struct field LeaseSpec.spec.renewTime of type string",
        ),
    ] {
        assert_eq!(mismatch(kind, &body), format!("json: cannot unmarshal {words}"), "{body}");
    }
}

#[test]
fn invalid_times_quantities_and_base64_are_rejected() {
    let limit =
        |it: &str| format!(r#"{{"spec":{{"containers":[{{"resources":{{"limits":{{"cpu":{it}}}}}}}]}}}}"#);
    for bad in [limit(r#""zz""#), limit("true"), limit("{}")] {
        assert!(mismatch("Pod", &bad).starts_with("quantities must match the regular expression"), "{bad}");
    }
    assert_eq!(inspect("", "v1", "Pod", &limit("1.5")), Findings::default());
    assert_eq!(mismatch("Secret", r#"{"data":{"a":"!!"}}"#), "illegal base64 data at input byte 0");
    assert_eq!(
        mismatch("Lease", r#"{"spec":{"renewTime":"x"}}"#),
        r#"parsing time "x" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "x" as "2006""#
    );
}

#[test]
fn values_are_checked_like_text() {
    let object = json!({"metadata": {"name": 5, "foo": 1}, "bar": true});
    let schema = schema("", "v1", "ConfigMap");
    assert_eq!(
        builtin::unknown_fields(&object, &schema, &BuiltinDefinitions),
        [r#"unknown field "bar""#, r#"unknown field "metadata.foo""#]
    );
    assert_eq!(
        builtin::type_errors(&object, &schema, &BuiltinDefinitions),
        ["json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string"]
    );
}

/// Generates JSON for a Pod: some fields are known, some are not, and values have any type.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "[0-9TZ:.+-]{0,30}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("spec".to_owned()),
        Just("metadata".to_owned()),
        Just("containers".to_owned()),
        Just("ports".to_owned()),
        Just("creationTimestamp".to_owned()),
        Just("labels".to_owned()),
        Just("items".to_owned()),
        Just("allOf".to_owned()),
        "[a-z]{0,4}".prop_map(|it| it),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.clone(), inner, 0..5)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

/// Objects with a value in every field.
fn golden() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "json"));
    paths.sort();
    paths.iter().map(|it| serde_json::from_str(&std::fs::read_to_string(it).unwrap()).unwrap()).collect()
}

/// Returns the pointers to all values below the root, except for the type.
fn pointers(object: &Value) -> Vec<String> {
    fn collect(value: &Value, pointer: &str, out: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => {
                map.iter().map(|(key, it)| (key.replace('~', "~0").replace('/', "~1"), it)).collect()
            }
            Value::Array(items) => items.iter().enumerate().map(|(at, it)| (at.to_string(), it)).collect(),
            _ => Vec::new(),
        };
        for (key, child) in children {
            let pointer = format!("{pointer}/{key}");
            collect(child, &pointer, out);
            out.push(pointer);
        }
    }
    let mut out = Vec::new();
    collect(object, "", &mut out);
    out.retain(|it| it != "/apiVersion" && it != "/kind");
    out
}

/// A definition whose schema has schemas in all fields that can hold one.
fn definition(schema: &Value) -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "a.e.test" }, "spec": { "group": "e.test", "scope": "Namespaced",
            "names": { "plural": "as", "kind": "A" }, "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "items": { "type": "array", "items": schema },
                    "list": { "type": "array", "items": [schema] },
                    "values": { "type": "object", "additionalProperties": schema },
                    "deep": { "items": { "additionalProperties": { "items": schema } } },
                    "depends": { "dependencies": { "a": schema, "b": ["x"] } } } } } }] } })
}

/// The texts of Go: an error keeps the structure that has the field of the outermost schema.
#[test]
fn a_schema_below_items_is_decoded_like_any_other() {
    let body = |schema: Value| {
        json!({ "spec": { "versions": [{ "schema": { "openAPIV3Schema": { "properties": { "a": schema } } } }] } })
            .to_string()
    };
    let field = |path: &str| {
        format!("Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.{path}")
    };
    let (group, kind) = ("apiextensions.k8s.io", "CustomResourceDefinition");
    for (schema, error) in [
        (
            json!({ "items": { "maxLength": "63" } }),
            format!("json: cannot unmarshal string into {} of type int64", field("items.maxLength")),
        ),
        (
            json!({ "items": { "additionalProperties": { "description": 5 } } }),
            format!(
                "json: cannot unmarshal number into {} of type string",
                field("items.additionalProperties.description")
            ),
        ),
        (
            json!({ "items": { "x-kubernetes-validations": [{ "rule": true }] } }),
            format!(
                "json: cannot unmarshal bool into {} of type string",
                field("items.x-kubernetes-validations.rule")
            ),
        ),
        (
            json!({ "dependencies": { "b": [1] } }),
            format!("json: cannot unmarshal number into {} of type string", field("dependencies")),
        ),
        (json!({ "additionalProperties": "x" }), "boolean or JSON schema expected".to_owned()),
        (json!({ "additionalProperties": [] }), "boolean or JSON schema expected".to_owned()),
    ] {
        assert_eq!(inspect(group, "v1", kind, &body(schema)).mismatch, Some(error));
    }
    for schema in [
        json!({ "items": { "odd": 1, "properties": { "a": { "odd": 1 } } } }),
        json!({ "items": 5 }),
        json!({ "additionalProperties": true }),
        json!({ "items": { "default": { "any": 1 }, "allOf": [null], "required": [null] } }),
    ] {
        assert_eq!(inspect(group, "v1", kind, &body(schema)), Findings::default());
    }
}

proptest! {
    #[test]
    fn a_definition_is_refused_or_has_an_encoding_in_protobuf(
        field in proptest::sample::select(vec![
            "type", "maxLength", "minimum", "description", "allOf", "required", "items", "enum", "default", "not",
            "additionalProperties", "properties", "dependencies", "externalDocs", "nullable", "definitions",
            "x-kubernetes-validations", "x-kubernetes-list-map-keys",
        ]),
        value in anything(),
    ) {
        let schema = schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let nested = json!({ "type": "object", field: value });
        for part in [&nested, &value] {
            let mut object = definition(part);
            let found = builtin::inspect(object.to_string().as_bytes(), &schema, &BuiltinDefinitions).unwrap();
            if found.mismatch.is_none() {
                builtin::keep_known(&mut object, &schema, &BuiltinDefinitions);
                let encoded = protobuf::encode(&object);
                prop_assert!(encoded.is_ok(), "{object} {encoded:?}");
            }
        }
    }

    /// One object without an encoding fails every list of its kind.
    #[test]
    fn an_object_with_one_changed_value_is_refused_or_has_an_encoding_in_protobuf(
        object in proptest::sample::select(golden()),
        position in any::<proptest::sample::Index>(),
        value in prop_oneof![Just(Value::Null), Just(json!([null])), Just(json!({ "a": null })), anything()],
    ) {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        prop_assume!(protobuf::encode(&object).is_ok());
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
        let schema = schema(group, version, &kind);
        let mut changed = object.clone();
        let pointers = pointers(&object);
        let pointer: &String = position.get(&pointers);
        *changed.pointer_mut(pointer).unwrap() = value;
        let found = builtin::inspect(changed.to_string().as_bytes(), &schema, &BuiltinDefinitions).unwrap();
        if found.mismatch.is_none() {
            builtin::keep_known(&mut changed, &schema, &BuiltinDefinitions);
            let encoded = protobuf::encode(&changed);
            prop_assert!(encoded.is_ok(), "{} {} {:?}", kind, pointer, encoded);
        }
    }

    #[test]
    fn a_text_and_its_parsed_value_give_the_same_findings(value in anything()) {
        let schema = schema("", "v1", "Pod");
        let found = builtin::inspect(value.to_string().as_bytes(), &schema, &BuiltinDefinitions).unwrap();
        prop_assert_eq!(&found.strict, &builtin::unknown_fields(&value, &schema, &BuiltinDefinitions));
        let mismatch: Vec<String> = found.mismatch.into_iter().collect();
        prop_assert_eq!(mismatch, builtin::type_errors(&value, &schema, &BuiltinDefinitions));
    }

    #[test]
    fn the_search_for_duplicates_accepts_any_bytes(bytes in any::<Vec<u8>>()) {
        builtin::duplicate_fields(&bytes);
    }
}

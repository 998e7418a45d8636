//! Patches and applied configurations with many parts.

use serde_json::{Value, json};

use crate::measure::{Sent, assert_proportional, list, map};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const POD: &str = "/api/v1/namespaces/default/pods/a";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/a";

/// Returns the request that creates a ConfigMap, and another one.
fn change(fields: Value, sent: Sent) -> Vec<Sent> {
    let mut object = json!({ "metadata": { "name": "a" } });
    for (key, value) in fields.as_object().unwrap() {
        match key.as_str() {
            "finalizers" => object["metadata"]["finalizers"] = value.clone(),
            _ => object[key] = value.clone(),
        }
    }
    vec![Sent::post(CONFIG_MAPS, &object), sent]
}

fn entries(n: usize, value: &str) -> Value {
    map(n, |i| (format!("k{i}"), json!(value)))
}

fn finalizers(n: usize) -> Value {
    list(n, |i| json!(format!("a.b/f{i}")))
}

fn deployment(containers: Value, volumes: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a", "namespace": "default" }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": containers, "volumes": volumes } } } })
}

fn containers(n: usize, image: &str) -> Value {
    list(n, |i| json!({ "name": format!("c{i}"), "image": image }))
}

fn create_deployment(n: usize) -> Sent {
    Sent::post("/apis/apps/v1/namespaces/default/deployments", &deployment(containers(n, "i"), json!([])))
}

fn template(fields: Value) -> Value {
    json!({ "spec": { "template": { "spec": fields } } })
}

fn applied(n: usize, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "default" }, "data": entries(n, value) })
}

fn by(manager: &str) -> String {
    format!("{CONFIG_MAP}?fieldManager={manager}")
}

/// Returns the request that creates a Deployment with `n` variables in a container, and a patch
/// with `n` items for that container.
fn repeated_items(n: usize, item: &Value) -> Vec<Sent> {
    let env = list(n, |i| json!({ "name": format!("V{i}"), "value": "v" }));
    let made = deployment(json!([{ "name": "c", "image": "i", "env": env }]), json!([]));
    vec![
        Sent::post("/apis/apps/v1/namespaces/default/deployments", &made),
        Sent::strategic(DEPLOYMENT, &template(json!({ "containers": vec![item; n] }))),
    ]
}

/// Returns the requests that create a ConfigMap with `n` entries, each of which has another
/// manager, and a change of all entries.
fn owned_by_many(n: usize, change: Sent) -> Vec<Sent> {
    let managers = list(n, |i| {
        json!({ "manager": format!("m{i}"), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": { (format!("f:k{i}")): {} } } })
    });
    vec![
        Sent::post(CONFIG_MAPS, &applied(n, "v")),
        Sent::merge(CONFIG_MAP, &json!({ "metadata": { "managedFields": managers } })),
        change,
    ]
}

#[test]
fn patches_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "added fields",
            125,
            |n| {
                change(
                    json!({ "data": {} }),
                    Sent::json_patch(
                        CONFIG_MAP,
                        &list(n, |i| json!({ "op": "add", "path": format!("/data/k{i}"), "value": "v" })),
                    ),
                )
            },
            422,
        ),
        (
            "items added to the front",
            125,
            |n| {
                change(
                    json!({ "finalizers": finalizers(n) }),
                    Sent::json_patch(
                        CONFIG_MAP,
                        &list(
                            n,
                            |i| json!({ "op": "add", "path": "/metadata/finalizers/0", "value": format!("c.d/g{i}") }),
                        ),
                    ),
                )
            },
            200,
        ),
        (
            "items removed from the front",
            125,
            |n| {
                change(
                    json!({ "finalizers": finalizers(n) }),
                    Sent::json_patch(
                        CONFIG_MAP,
                        &list(n - 1, |_| json!({ "op": "remove", "path": "/metadata/finalizers/0" })),
                    ),
                )
            },
            200,
        ),
        (
            "tests of a large value",
            25,
            |n| {
                change(
                    json!({ "data": entries(n, "v") }),
                    Sent::json_patch(
                        CONFIG_MAP,
                        &list(n, |_| json!({ "op": "test", "path": "/data", "value": {} })),
                    ),
                )
            },
            422,
        ),
        (
            "copies of copies",
            50,
            |n| {
                change(
                    json!({ "data": { "k": "v" } }),
                    Sent::json_patch(
                        CONFIG_MAP,
                        &list(n, |_| json!({ "op": "copy", "from": "/data", "path": "/data/k" })),
                    ),
                )
            },
            422,
        ),
        (
            "moves",
            75,
            |n| {
                change(
                    json!({ "data": entries(n, "v") }),
                    Sent::json_patch(
                        CONFIG_MAP,
                        &list(
                            n,
                            |i| json!({ "op": "move", "from": format!("/data/k{i}"), "path": format!("/data/m{i}") }),
                        ),
                    ),
                )
            },
            200,
        ),
        (
            "a move of a large value to and fro",
            75,
            |n| {
                change(
                    json!({ "data": entries(n, "v") }),
                    Sent::json_patch(
                        CONFIG_MAP,
                        &list(2 * n, |i| {
                            if i % 2 == 0 {
                                json!({ "op": "move", "from": "/data", "path": "/metadata/data" })
                            } else {
                                json!({ "op": "move", "from": "/metadata/data", "path": "/data" })
                            }
                        }),
                    ),
                )
            },
            200,
        ),
        (
            "unknown fields of operations",
            125,
            |n| {
                change(
                    json!({ "data": {} }),
                    Sent::json_patch(
                        format!("{CONFIG_MAP}?fieldValidation=Strict"),
                        &list(n, |_| json!({ "op": "add", "path": "/data/k", "value": "v", "extra": 1 })),
                    ),
                )
            },
            422,
        ),
        (
            "merge",
            250,
            |n| {
                change(
                    json!({ "data": entries(n, "v") }),
                    Sent::merge(CONFIG_MAP, &json!({ "data": entries(n, "w") })),
                )
            },
            200,
        ),
        (
            "merge of nulls",
            250,
            |n| {
                change(
                    json!({ "data": entries(n, "v") }),
                    Sent::merge(CONFIG_MAP, &json!({ "data": map(n, |i| (format!("k{i}"), Value::Null)) })),
                )
            },
            200,
        ),
        (
            "duplicate fields of a merge",
            250,
            |n| {
                change(
                    json!({ "data": {} }),
                    Sent::of(
                        "PATCH",
                        format!("{CONFIG_MAP}?fieldValidation=Strict"),
                        "application/merge-patch+json",
                        format!(
                            r#"{{"data":{{{}}}}}"#,
                            (0..n).map(|i| format!(r#""k{i}":"","k{i}":"""#)).collect::<Vec<_>>().join(",")
                        ),
                    ),
                )
            },
            422,
        ),
        (
            "merged containers",
            12,
            |n| {
                vec![
                    create_deployment(n),
                    Sent::strategic(DEPLOYMENT, &template(json!({ "containers": containers(n, "j") }))),
                ]
            },
            200,
        ),
        (
            "new containers",
            12,
            |n| {
                vec![
                    create_deployment(1),
                    Sent::strategic(DEPLOYMENT, &template(json!({ "containers": containers(n, "j") }))),
                ]
            },
            200,
        ),
        (
            "deleted containers",
            25,
            |n| {
                vec![
                    create_deployment(n),
                    Sent::strategic(
                        DEPLOYMENT,
                        &template(
                            json!({ "containers": list(n - 1, |i| json!({ "name": format!("c{i}"), "$patch": "delete" })) }),
                        ),
                    ),
                ]
            },
            200,
        ),
        (
            "ordered containers",
            12,
            |n| {
                let order = list(n, |i| json!({ "name": format!("c{}", n - 1 - i) }));
                let mut all = containers(n, "j");
                all.as_array_mut().unwrap().reverse();
                vec![
                    create_deployment(n),
                    Sent::strategic(
                        DEPLOYMENT,
                        &template(json!({ "$setElementOrder/containers": order, "containers": all })),
                    ),
                ]
            },
            200,
        ),
        (
            "a wrong order",
            12,
            |n| {
                vec![
                    create_deployment(n),
                    Sent::strategic(
                        DEPLOYMENT,
                        &template(
                            json!({ "$setElementOrder/containers": list(n, |i| json!({ "name": format!("c{}", n - 1 - i) })), "containers": containers(n, "j") }),
                        ),
                    ),
                ]
            },
            500,
        ),
        (
            "repeated items",
            400,
            |n| repeated_items(n, &json!({ "name": "c", "env": [{ "name": "V0", "value": "w" }] })),
            413,
        ),
        (
            "repeated items with an order",
            400,
            |n| repeated_items(n, &json!({ "name": "c", "$setElementOrder/env": [] })),
            413,
        ),
        (
            "merged scalars",
            75,
            |n| {
                change(
                    json!({ "finalizers": finalizers(n) }),
                    Sent::strategic(
                        CONFIG_MAP,
                        &json!({ "metadata": { "finalizers": list(n, |i| json!(format!("c.d/f{i}"))) } }),
                    ),
                )
            },
            200,
        ),
        (
            "deleted scalars",
            75,
            |n| {
                change(
                    json!({ "finalizers": finalizers(n) }),
                    Sent::strategic(
                        CONFIG_MAP,
                        &json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": finalizers(n) } }),
                    ),
                )
            },
            200,
        ),
        (
            "retained keys",
            250,
            |n| {
                vec![
                    create_deployment(1),
                    Sent::strategic(
                        DEPLOYMENT,
                        &json!({ "spec": { "strategy": { "$retainKeys": list(n, |i| json!(format!("k{i}"))) } } }),
                    ),
                ]
            },
            200,
        ),
        (
            "many order directives",
            75,
            |n| {
                change(
                    json!({ "finalizers": finalizers(n) }),
                    Sent::strategic(CONFIG_MAP, &map(n, |i| (format!("$setElementOrder/k{i}"), json!([])))),
                )
            },
            500,
        ),
        (
            "a large key and an order",
            4_000,
            |n| {
                let order = list(n, |_| json!({ "uid": 1 }));
                let owners = json!([{ "uid": list(n, |_| json!(0)) }]);
                let patch = json!({ "$setElementOrder/ownerReferences": order, "ownerReferences": owners });
                change(json!({}), Sent::strategic(CONFIG_MAP, &json!({ "metadata": patch })))
            },
            500,
        ),
        (
            "a long key and new items",
            2_000,
            |n| {
                let owner =
                    |uid: String| json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid });
                let object =
                    json!({ "metadata": { "name": "a", "ownerReferences": [owner("x".repeat(40 * n))] } });
                let owners = list(n, |i| owner(format!("u{i}")));
                vec![
                    Sent::post(CONFIG_MAPS, &object),
                    Sent::strategic(CONFIG_MAP, &json!({ "metadata": { "ownerReferences": owners } })),
                ]
            },
            200,
        ),
        (
            "a large key and applied items",
            2_000,
            |n| {
                let mut owners = vec![json!({ "uid": map(n, |i| (format!("a{i}"), json!(0))) })];
                owners.extend((0..n).map(|_| json!({ "uid": { "b": 0 } })));
                let object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": { "name": "a", "ownerReferences": owners } });
                vec![Sent::apply(by("m"), &object)]
            },
            500,
        ),
        (
            "fields without a schema",
            75,
            |n| {
                change(
                    json!({ "data": {} }),
                    Sent::strategic(CONFIG_MAP, &map(n, |i| (format!("k{i}"), json!({})))),
                )
            },
            200,
        ),
        (
            "patched status",
            50,
            |n| {
                let pod = json!({ "metadata": { "name": "a" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
                let conditions = |status: &str| json!({ "status": { "conditions": list(n, |i| json!({ "type": format!("T{i}"), "status": status })) } });
                let path = format!("{POD}/status");
                vec![
                    Sent::post("/api/v1/namespaces/default/pods", &pod),
                    Sent::strategic(path.clone(), &conditions("True")),
                    Sent::strategic(path, &conditions("False")),
                ]
            },
            200,
        ),
        (
            "put of the fields of many managers",
            200,
            |n| owned_by_many(n, Sent::put(CONFIG_MAP, &applied(n, "w"))),
            200,
        ),
        (
            "put",
            250,
            |n| {
                change(
                    json!({ "data": entries(n, "v") }),
                    Sent::put(CONFIG_MAP, &json!({ "metadata": { "name": "a" }, "data": entries(n, "w") })),
                )
            },
            200,
        ),
        (
            "deletion with many unknown options",
            250,
            |n| change(json!({}), Sent::delete(CONFIG_MAP, &map(n, |i| (format!("k{i}"), json!(1))))),
            200,
        ),
        (
            "YAML",
            250,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/yaml",
                    format!(
                        "metadata: {{name: a}}\ndata:\n{}",
                        (0..n).map(|i| format!("  k{i}: v\n")).collect::<String>()
                    ),
                )]
            },
            201,
        ),
        (
            "YAML aliases",
            100,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/yaml",
                    format!(
                        "metadata: {{name: a}}\ndata:\n  k: &a {}\n{}",
                        "x".repeat(5 * n),
                        (0..n).map(|i| format!("  k{i}: *a\n")).collect::<String>()
                    ),
                )]
            },
            400,
        ),
        (
            "YAML flow list",
            1_250,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/yaml",
                    format!("metadata: {{name: a, finalizers: [{}]}}", "a.b/c,".repeat(n)),
                )]
            },
            201,
        ),
        (
            "YAML quoted",
            7_500,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/yaml",
                    format!("metadata: {{name: a}}\ndata: {{k: \"{}\"}}", "\\n".repeat(n)),
                )]
            },
            201,
        ),
        (
            "YAML merge keys",
            150,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/yaml",
                    format!(
                        "x: &x\n{}metadata: {{name: a}}\ndata:\n  <<: [{}]\n",
                        (0..n).map(|i| format!("  k{i}: v\n")).collect::<String>(),
                        vec!["*x"; n].join(",")
                    ),
                )]
            },
            400,
        ),
        (
            "JSON escapes",
            7_500,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/json",
                    format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{}"}}}}"#, r"\u00e9".repeat(n)),
                )]
            },
            201,
        ),
        (
            "invalid UTF-8",
            12_500,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/json",
                    [
                        br#"{"metadata":{"name":"a"},"data":{"k":""#.to_vec(),
                        vec![0xff; n],
                        br#""}}"#.to_vec(),
                    ]
                    .concat(),
                )]
            },
            201,
        ),
        (
            "digits",
            7_500,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/json",
                    format!(r#"{{"metadata":{{"name":"a"}},"x":{}}}"#, "1".repeat(n)),
                )]
            },
            400,
        ),
        (
            "spaces",
            25_000,
            |n| {
                vec![Sent::of(
                    "POST",
                    CONFIG_MAPS,
                    "application/json",
                    format!(r#"{{"metadata":{{"name":"a"}}}}{}x"#, " ".repeat(n)),
                )]
            },
            400,
        ),
    ]);
}

#[test]
fn applied_configurations_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        ("new", 125, |n| vec![Sent::apply(by("m"), &applied(n, "v"))], 201),
        (
            "unchanged",
            125,
            |n| vec![Sent::apply(by("m"), &applied(n, "v")), Sent::apply(by("m"), &applied(n, "v"))],
            200,
        ),
        (
            "removal",
            125,
            |n| vec![Sent::apply(by("m"), &applied(n, "v")), Sent::apply(by("m"), &applied(0, "v"))],
            200,
        ),
        (
            "conflicts",
            75,
            |n| vec![Sent::apply(by("m"), &applied(n, "v")), Sent::apply(by("o"), &applied(n, "w"))],
            409,
        ),
        (
            "conflicts with updates",
            75,
            |n| vec![Sent::post(CONFIG_MAPS, &applied(n, "v")), Sent::apply(by("o"), &applied(n, "w"))],
            409,
        ),
        (
            "conflicts with many managers",
            10,
            |n| {
                let mut all: Vec<Sent> =
                    (0..n / 5).map(|i| Sent::apply(by(&format!("m{i}")), &applied(n, "v"))).collect();
                all.push(Sent::apply(by("o"), &applied(n, "w")));
                all
            },
            409,
        ),
        (
            "conflicts with a manager for each field",
            200,
            |n| owned_by_many(n, Sent::apply(by("o"), &applied(n, "w"))),
            409,
        ),
        (
            "force",
            75,
            |n| {
                vec![
                    Sent::apply(by("m"), &applied(n, "v")),
                    Sent::apply(format!("{}&force=true", by("o")), &applied(n, "w")),
                ]
            },
            200,
        ),
        (
            "items of keyed lists",
            12,
            |n| {
                vec![Sent::apply(
                    format!("{DEPLOYMENT}?fieldManager=m"),
                    &deployment(
                        containers(n, "i"),
                        list(n, |i| json!({ "name": format!("v{i}"), "emptyDir": {} })),
                    ),
                )]
            },
            201,
        ),
        (
            "reordered items of keyed lists",
            12,
            |n| {
                let mut reversed = containers(n, "i");
                reversed.as_array_mut().unwrap().reverse();
                vec![
                    Sent::apply(
                        format!("{DEPLOYMENT}?fieldManager=m"),
                        &deployment(containers(n, "i"), json!([])),
                    ),
                    Sent::apply(format!("{DEPLOYMENT}?fieldManager=o"), &deployment(reversed, json!([]))),
                ]
            },
            200,
        ),
        (
            "duplicate items of keyed lists",
            12,
            |n| {
                vec![Sent::apply(
                    format!("{DEPLOYMENT}?fieldManager=m"),
                    &deployment(list(n, |_| json!({ "name": "c", "image": "i" })), json!([])),
                )]
            },
            500,
        ),
        (
            "duplicate items in the live list",
            25,
            |n| {
                let env = list(n, |_| json!({ "name": "V", "value": "" }));
                let made = deployment(json!([{ "name": "c", "image": "i", "env": env }]), json!([]));
                vec![
                    Sent::post("/apis/apps/v1/namespaces/default/deployments", &made),
                    Sent::apply(
                        format!("{DEPLOYMENT}?fieldManager=m&force=true"),
                        &deployment(
                            json!([{ "name": "c", "image": "i", "env": [{ "name": "V", "value": "w" }] }]),
                            json!([]),
                        ),
                    ),
                ]
            },
            200,
        ),
        (
            "sets",
            125,
            |n| {
                let with = |from: usize| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "default", "finalizers": list(n, |i| json!(format!("a.b/f{}", from + i))) } });
                vec![Sent::apply(by("m"), &with(0)), Sent::apply(by("o"), &with(n / 2))]
            },
            200,
        ),
        (
            "a set with duplicates",
            125,
            |n| {
                vec![Sent::apply(
                    by("m"),
                    &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "default", "finalizers": list(n, |_| json!("a.b/c")) } }),
                )]
            },
            500,
        ),
        (
            "unknown fields",
            125,
            |n| {
                vec![Sent::apply(by("m"), &{
                    let mut it = applied(1, "v");
                    it["metadata"]["x"] = entries(n, "v");
                    it["y"] = entries(n, "v");
                    it
                })]
            },
            500,
        ),
        (
            "from update to apply",
            125,
            |n| {
                let mut made = applied(n, "v");
                made["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": applied(n, "v").to_string() });
                vec![
                    Sent::post(format!("{CONFIG_MAPS}?fieldManager=kubectl-client-side-apply"), &made),
                    Sent::apply(by("kubectl"), &applied(n, "w")),
                ]
            },
            200,
        ),
    ]);
}
